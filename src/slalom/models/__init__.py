"""What is explained, and the engine that asks it. `model_of` finds the adapter for whatever the user has."""

from slalom.models.adapt import EMBEDDED, EMBEDDED_NAME, model_of
from slalom.models.engine import Answer, Engine, Question, Spent
from slalom.models.function import Function, Output, scikit_learn
from slalom.models.inside import Attribution, Querying, Questions
from slalom.models.model import Group, Head, Model, Reading, Target

__all__ = [
    "EMBEDDED",
    "EMBEDDED_NAME",
    "Answer",
    "Attribution",
    "Engine",
    "Function",
    "Group",
    "Head",
    "Model",
    "Output",
    "Querying",
    "Question",
    "Questions",
    "Reading",
    "Spent",
    "Target",
    "model_of",
    "scikit_learn",
]
