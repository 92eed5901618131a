"""Models, the adapters that create them from user objects, and the query engine.

`adapters()` lists the adapters, plugins included; `model_of` applies the one that matches.
"""

from slalom.models.adapter import Adapter, ModelOptions, Output, instance_of
from slalom.models.api import Api
from slalom.models.base import InputGroup, Model, Observed, Reading, Report
from slalom.models.callable import Function, StringReading
from slalom.models.costs import Estimate, Prices, Usage, prices_of
from slalom.models.engine import Answers, Engine, Queries, QueryCost
from slalom.models.head import Decision, Head, Target, class_index, label_names
from slalom.models.huggingface.adapters import EMBEDDED, EMBEDDED_NAME
from slalom.models.registry import AdapterTable, adapters, model_of
from slalom.models.sklearn import scikit_learn

__all__ = [
    "EMBEDDED",
    "EMBEDDED_NAME",
    "Adapter",
    "AdapterTable",
    "Answers",
    "Api",
    "Decision",
    "Engine",
    "Estimate",
    "Function",
    "Head",
    "InputGroup",
    "Model",
    "ModelOptions",
    "Observed",
    "Output",
    "Prices",
    "Queries",
    "QueryCost",
    "Reading",
    "Report",
    "StringReading",
    "Target",
    "Usage",
    "adapters",
    "class_index",
    "instance_of",
    "label_names",
    "model_of",
    "prices_of",
    "scikit_learn",
]
