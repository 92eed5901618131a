"""Hugging Face classifiers and torch modules. Light to import: torch and transformers are loaded when a name is first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from slalom.errors import require

if TYPE_CHECKING:
    from slalom.models.huggingface.in_place import InPlace
    from slalom.models.huggingface.model import HuggingFace
    from slalom.models.huggingface.reading import TokenReading

__all__ = ["HuggingFace", "InPlace", "TokenReading"]
_MODULES = {"HuggingFace": "model", "InPlace": "in_place", "TokenReading": "reading"}


def __getattr__(name: str) -> Any:
    """Load a public name with the module that defines it."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with require(name, "hf"):
        module = import_module(f"{__name__}.{_MODULES[name]}")
    return getattr(module, name)
