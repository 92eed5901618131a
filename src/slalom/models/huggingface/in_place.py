"""A model whose tokens are replaced in place instead of removed.

    keep = 1 0 1:    [CLS] good [UNK] film

Nothing moves: every input has the length of the text, and the remaining tokens keep their positions.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from slalom.errors import InputError
from slalom.models.base import InputGroup, Model, Reading
from slalom.models.huggingface.model import HuggingFace
from slalom.models.huggingface.reading import TokenReading, digests


@final
class InPlaceReading(Reading):
    """A text of which tokens are replaced.

    Args:
        tokens: The text as the model itself reads it.
        replacement: The token id that replaces others.
    """

    def __init__(self, tokens: TokenReading, replacement: int) -> None:
        self.tokens, self.replacement = tokens, replacement
        self.text, self.names, self.spans, self.types, self.cut = (
            tokens.text, tokens.names, tokens.spans, tokens.types, tokens.cut,
        )  # fmt: skip
        self.empty = True

    def groups(self, keep: NDArray[np.bool_]) -> list[InputGroup]:
        special = self.tokens.before.shape[1] + self.tokens.after.shape[1]
        return [
            InputGroup(np.arange(len(keep)), special + b - a, partial(self._inputs, keep[:, a:b], a))
            for a, b in self.tokens.windows
        ]

    def _inputs(self, keep: NDArray[np.bool_], start: int) -> tuple[NDArray[np.int32], list[bytes]]:
        """Return the token ids (m, planes, length) of one window and their digests."""
        window = self.tokens.planes[:, start : start + keep.shape[1]]
        body = np.repeat(window[None], len(keep), axis=0)
        body[:, 0] = np.where(keep, window[0], self.replacement)
        before, after = (np.repeat(part[None], len(keep), axis=0) for part in (self.tokens.before, self.tokens.after))
        inputs = np.ascontiguousarray(np.concatenate([before, body, after], axis=2), dtype=np.int32)
        return inputs, digests(inputs)


@final
class InPlace(Model):
    """A Hugging Face classifier whose tokens are replaced instead of removed.

    Args:
        model: The classifier.
        replacement: The id of the token that replaces others. Default: the tokenizer's unknown token.

    Raises:
        InputError: The model does not read tokens, or there is no such token.
    """

    tokenized = True

    def __init__(self, model: HuggingFace, replacement: int | None = None) -> None:
        if not isinstance(model, HuggingFace):
            raise InputError(f"replacing in place needs a model that reads tokens (HuggingFace); got {type(model).__name__}")
        chosen = model.tokenizer.unk_token_id if replacement is None else replacement
        if chosen is None:
            raise InputError(f"the tokenizer of {model.name} must have an unknown token; name another one, replacement=")
        if not 0 <= int(chosen) < len(model.tokenizer):
            raise InputError(f"replacement must be a token id below {len(model.tokenizer)}; got {replacement!r}")
        self.inner, self.replacement = model, int(chosen)
        self.head, self.name, self.variant = model.head, model.name, f"token {chosen} in place"

    def read(self, text: str, long: str, spans: NDArray[np.int64] | None) -> InPlaceReading:
        return InPlaceReading(self.inner.read(text, long, spans), self.replacement)

    def unwrap(self, reading: Reading) -> tuple[Model, Reading]:
        return self.inner, reading.tokens if isinstance(reading, InPlaceReading) else reading

    def identity(self) -> str:
        return self.inner.identity()

    @contextmanager
    def session(self) -> Iterator[None]:
        with self.inner.session():
            yield

    @property
    def max_in_flight(self) -> int:
        return self.inner.max_in_flight

    def batch_rows(self, length: int) -> int:
        return self.inner.batch_rows(length)

    def shrink(self) -> None:
        self.inner.shrink()

    def submit(self, inputs: Any) -> Any:
        return self.inner.submit(inputs)

    def collect(self, handle: Any) -> NDArray[Any]:
        return self.inner.collect(handle)
