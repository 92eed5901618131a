"""Models whose explanation is known in closed form.

attention            one layer of attention and its closed forms (second paper)
slalom_transformer   a transformer whose log odds are a chosen SLALOM (Proposition 5.1 of the first paper)
"""

from typing import TYPE_CHECKING, Any

from slalom.errors import require

if TYPE_CHECKING:
    from slalom.theory.transformer import slalom_transformer

__all__ = ["slalom_transformer"]


def __getattr__(name: str) -> Any:
    """Load what needs torch and transformers when it is first used."""
    if name != "slalom_transformer":
        raise AttributeError(f"module 'slalom.theory' has no attribute {name!r}")
    with require(name, "hf"):
        from slalom.theory import transformer  # noqa: PLC0415
    return transformer.slalom_transformer
