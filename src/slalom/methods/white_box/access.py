"""Access to the inside of a model, for white-box methods; torch is imported on first use, not before."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from slalom.errors import InputError, require
from slalom.models import Model, Reading

if TYPE_CHECKING:
    from slalom.methods.white_box.passes import ForwardPass


@contextmanager
def open_for_gradients(model: Model, reading: Reading, method: str) -> Iterator["ForwardPass"]:
    """Prepare a model for gradients, and restore it."""
    if not model.tokenized:
        raise InputError(f"{method} looks inside a torch model; {model.name} only answers, so ask it (method 'joint')")
    with require(method, "hf"):
        from slalom.methods.white_box.passes import forward_pass  # noqa: PLC0415
    with forward_pass(model, reading, method) as opened:
        yield opened
