"""What is explained, and the engine that asks it. `model_of` finds the adapter for whatever the user has."""

from typing import TYPE_CHECKING, Any

from slalom.errors import MissingExtra
from slalom.models.adapt import EMBEDDED, EMBEDDED_NAME, model_of
from slalom.models.engine import Answer, Engine, Question, Spent
from slalom.models.function import Function, Output
from slalom.models.model import Decision, Group, Head, Model, Reading, Target, class_index
from slalom.models.sklearn import scikit_learn

if TYPE_CHECKING:
    from slalom.models.transformer import slalom_transformer

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
    "slalom_transformer",
]


def __getattr__(name: str) -> Any:
    """Load what needs torch and transformers when it is first used."""
    if name != "slalom_transformer":
        raise AttributeError(f"module 'slalom.models' has no attribute {name!r}")
    try:
        from slalom.models.transformer import slalom_transformer  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtra(f"{name} needs torch and transformers; install them with: pip install 'slalom-xai[hf]'") from error
    return slalom_transformer
