"""One layer of attention, which can be explained exactly (Lopardo, Precioso & Garreau 2024), and what the paper says about it.

model = attention.load("folder")                       trained by `python -m experiments train --recipe attention`
slalom.Explainer(model)(text)                          explained like any other model
slalom.Explainer(model)(text, method=attention.METHODS["exact-shapley"])
attention.form("lime-limit", attention.trace(model, text))     the same as an array
print(attention.compare(model, text))                  every closed form against a reference
"""

from typing import TYPE_CHECKING, Any

from slalom.errors import require
from slalom.theory.attention.comparison import Comparison, Distance, compare, lime_package
from slalom.theory.attention.forms import (
    attention_weights,
    banzhaf,
    by_word,
    gradient,
    lime_bernoulli,
    lime_limit,
    lime_printed,
    shapley,
    slopes,
)
from slalom.theory.attention.game import RatioGame
from slalom.theory.attention.methods import FORMS, METHODS, ClosedForm, form
from slalom.theory.attention.reference import Reference
from slalom.theory.attention.relation import Relation, as_slalom, relate
from slalom.theory.attention.traces import ForwardTrace, load, trace

if TYPE_CHECKING:
    from slalom.models.huggingface.one_layer import AttentionClassifier, AttentionConfig

__all__ = [
    "FORMS",
    "METHODS",
    "AttentionClassifier",
    "AttentionConfig",
    "ClosedForm",
    "Comparison",
    "Distance",
    "ForwardTrace",
    "RatioGame",
    "Reference",
    "Relation",
    "as_slalom",
    "attention_weights",
    "banzhaf",
    "by_word",
    "compare",
    "form",
    "gradient",
    "lime_bernoulli",
    "lime_limit",
    "lime_package",
    "lime_printed",
    "load",
    "relate",
    "shapley",
    "slopes",
    "trace",
]


def __getattr__(name: str) -> Any:
    """Load what needs torch and transformers when it is first used."""
    if name not in ("AttentionClassifier", "AttentionConfig"):
        raise AttributeError(f"module 'slalom.theory.attention' has no attribute {name!r}")
    with require(name, "hf"):
        from slalom.models.huggingface import one_layer  # noqa: PLC0415
    return getattr(one_layer, name)
