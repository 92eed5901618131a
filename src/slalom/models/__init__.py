"""Models, the adapters that create them from user objects, and the query engine.

`adapters()` lists the adapters, plugins included; `model_of` applies the one that matches. Models that need torch are loaded
on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from slalom.core import Observed
from slalom.errors import require
from slalom.models.adapter import Adapter, ModelOptions, Output, instance_of
from slalom.models.base import InputGroup, Model, Reading, Report
from slalom.models.callable import Function
from slalom.models.costs import Estimate, Prices, Usage, prices_of
from slalom.models.engine import Engine
from slalom.models.head import Decision, Head, Target, class_index, label_names
from slalom.models.huggingface.adapters import EMBEDDED, EMBEDDED_NAME
from slalom.models.prompts import LabelSet, Template, label_set
from slalom.models.queries import Answers, Queries, QueryCost
from slalom.models.registry import AdapterTable, adapters, model_of
from slalom.models.sklearn import scikit_learn
from slalom.models.strings import FilledReading, RecordReading, StringReading

if TYPE_CHECKING:
    from slalom.models.api import AnswerServer, Api
    from slalom.models.functions import Infill, MultipleChoice, Similarity
    from slalom.models.prompted import Prompted

__all__ = [
    "EMBEDDED",
    "EMBEDDED_NAME",
    "Adapter",
    "AdapterTable",
    "AnswerServer",
    "Answers",
    "Api",
    "Decision",
    "Engine",
    "Estimate",
    "FilledReading",
    "Function",
    "Head",
    "Infill",
    "InputGroup",
    "LabelSet",
    "Model",
    "ModelOptions",
    "MultipleChoice",
    "Observed",
    "Output",
    "Prices",
    "Prompted",
    "Queries",
    "QueryCost",
    "Reading",
    "RecordReading",
    "Report",
    "Similarity",
    "StringReading",
    "Target",
    "Template",
    "Usage",
    "adapters",
    "class_index",
    "instance_of",
    "label_names",
    "label_set",
    "model_of",
    "prices_of",
    "scikit_learn",
]

_LAZY = {
    "AnswerServer": "api",
    "Api": "api",
    "Infill": "functions",
    "MultipleChoice": "functions",
    "Prompted": "prompted",
    "Similarity": "functions",
}  # and their modules
_EXTRAS = {"api": "api", "functions": "hf", "prompted": "hf"}


def __getattr__(name: str) -> Any:
    """Load a model that needs an optional dependency with the module that defines it."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with require(name, _EXTRAS[_LAZY[name]]):
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
