"""One layer of attention, which can be explained exactly (Lopardo, Precioso & Garreau 2024), and what the paper says about it.

model = attention.load("folder")                       trained by attention.train or `slalom train --arch attention`
slalom.Explainer(model)(text)                          explained like any other model
slalom.Explainer(model)(text, method=attention.METHODS["exact-shapley"])
attention.form("lime-limit", attention.seen(model, text))      the same as an array
print(attention.compare(model, text))                  every closed form against what it stands for
"""

from typing import TYPE_CHECKING, Any

from slalom.attention.comparison import Comparison, Distance, compare, lime_package
from slalom.attention.forms import (
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
from slalom.attention.game import RatioGame
from slalom.attention.methods import FORMS, METHODS, ClosedForm, form
from slalom.attention.reference import Reference
from slalom.attention.relation import Relation, as_slalom, relate
from slalom.attention.saved import load, train
from slalom.attention.sight import Seen, seen
from slalom.errors import MissingExtra

if TYPE_CHECKING:
    from slalom.models.one_layer import AttentionClassifier, AttentionConfig

__all__ = [
    "FORMS",
    "METHODS",
    "AttentionClassifier",
    "AttentionConfig",
    "ClosedForm",
    "Comparison",
    "Distance",
    "RatioGame",
    "Reference",
    "Relation",
    "Seen",
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
    "seen",
    "shapley",
    "slopes",
    "train",
]


def __getattr__(name: str) -> Any:
    """Load what needs torch and transformers when it is first used."""
    if name not in ("AttentionClassifier", "AttentionConfig"):
        raise AttributeError(f"module 'slalom.attention' has no attribute {name!r}")
    try:
        from slalom.models import one_layer  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtra(f"{name} needs torch and transformers; install them with: pip install 'slalom-xai[hf]'") from error
    return getattr(one_layer, name)
