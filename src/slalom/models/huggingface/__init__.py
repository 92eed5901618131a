"""Hugging Face classifiers and torch modules. Light to import: torch and transformers are loaded when a name is first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from slalom.errors import require

if TYPE_CHECKING:
    from slalom.models.huggingface.model import HuggingFace, torch_classifier
    from slalom.models.huggingface.reading import TokenReading

__all__ = ["HuggingFace", "TokenReading", "torch_classifier"]


def __getattr__(name: str) -> Any:
    """Load a public name with the module that defines it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with require(name, "hf"):
        return getattr(import_module(f"{__name__}.model"), name)
