"""Texts that a tokenizer refuses."""

from collections.abc import Iterator
from contextlib import contextmanager

from slalom.errors import InputError


@contextmanager
def readable(text: str, what: str = "a text") -> Iterator[None]:
    """Say what is wrong where a tokenizer refuses a text: half of a surrogate pair is no character.

    Example:
        >>> with readable("\\ud83d"):
        ...     "\\ud83d".encode()
        Traceback (most recent call last):
        slalom.errors.InputError: the tokenizer cannot read '\\ud83d'; a text must be valid Unicode
    """
    try:
        yield
    except (TypeError, UnicodeError) as error:
        raise InputError(f"the tokenizer cannot read {text[:40]!r}; {what} must be valid Unicode") from error
