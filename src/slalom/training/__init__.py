"""Training of small classifiers, for `slalom train`; the bundled classifier was trained with it."""

from typing import TYPE_CHECKING, Any

from slalom.errors import require
from slalom.training.data import Labelled, read_labelled
from slalom.training.recipe import Recipe
from slalom.training.trained import Trained

if TYPE_CHECKING:
    from slalom.training.loop import Stopped, train

__all__ = ["Labelled", "Recipe", "Stopped", "Trained", "read_labelled", "train"]


def __getattr__(name: str) -> Any:
    """Load names that need torch and transformers on first use."""
    if name not in __all__:
        raise AttributeError(f"module 'slalom.training' has no attribute {name!r}")
    with require("training", "hf"):
        from slalom.training import loop  # noqa: PLC0415
    return getattr(loop, name)
