"""The torch classifier inside any model, for gradients, attention and closed forms."""

from slalom.errors import InputError
from slalom.models.base import Model, Reading
from slalom.models.huggingface.model import HuggingFace
from slalom.models.huggingface.reading import TokenReading


def torch_classifier(model: Model, reading: Reading, feature: str) -> tuple[HuggingFace, TokenReading] | None:
    """Return the torch classifier that computes, and a text as it reads it in one pass."""
    inner, tokens = model.unwrap(reading)
    if not isinstance(inner, HuggingFace) or not isinstance(tokens, TokenReading):
        return None
    if len(tokens.windows) > 1:
        raise InputError(f'{feature} looks at one pass, this text is read in {len(tokens.windows)} windows; use long="cut"')
    return inner, tokens
