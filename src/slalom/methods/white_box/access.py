"""The way into a model, for methods that look inside it; torch is imported when it is opened, not before."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from slalom.errors import InputError, require
from slalom.models import Model, Reading

if TYPE_CHECKING:
    from slalom.methods.white_box.passes import Pass


@contextmanager
def open_for_gradients(model: Model, reading: Reading, method: str) -> Iterator["Pass"]:
    """Bring a model into its state for questions, with gradients, and back.

    InputError where it is no torch module with a tokenizer, or the text is read in several windows.
    """
    if not model.tokenized:
        raise InputError(f"{method} looks inside a torch model; {model.name} only answers, so ask it (method 'joint')")
    with require(method, "hf"):
        from slalom.methods.white_box.passes import passing  # noqa: PLC0415
    with passing(model, reading, method) as run:
        yield run
