"""What is explained, and the engine that asks it. `model_of` finds the adapter for whatever the user has."""

from slalom.models.adapt import EMBEDDED, EMBEDDED_NAME, model_of
from slalom.models.engine import Answer, Engine, Question, Spent
from slalom.models.function import Function, Output
from slalom.models.model import Decision, Group, Head, Model, Reading, Target, class_index
from slalom.models.sklearn import scikit_learn

__all__ = [
    "EMBEDDED",
    "EMBEDDED_NAME",
    "Answer",
    "Decision",
    "Engine",
    "Function",
    "Group",
    "Head",
    "Model",
    "Output",
    "Question",
    "Reading",
    "Spent",
    "Target",
    "class_index",
    "model_of",
    "scikit_learn",
]
