"""A model that is asked with tokens replaced in place, instead of taken away.

    keep = 1 0 1:    [CLS] good [UNK] film

Nothing moves: every input has the length of the text, and the words that stay keep their positions. What stands in for a word
is the tokenizer's unknown token unless told otherwise.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from slalom.errors import InputError
from slalom.models.huggingface import HuggingFace, TokenReading, digests
from slalom.models.model import Group, Model, Reading


@final
class InPlaceReading(Reading):
    """A text of which tokens are replaced. tokens: the same text as the model itself reads it."""

    def __init__(self, tokens: TokenReading, instead: int) -> None:
        self.tokens, self.instead = tokens, instead
        self.text, self.names, self.spans, self.types, self.cut = (
            tokens.text, tokens.names, tokens.spans, tokens.types, tokens.cut,
        )  # fmt: skip
        self.empty = True

    def parts(self, keep: NDArray[np.bool_]) -> list[list[Group]]:
        """Return the inputs for presence of tokens (m, n_atoms), one group a window."""
        ends = self.tokens.before.shape[1] + self.tokens.after.shape[1]
        return [
            [Group(np.arange(len(keep)), ends + b - a, partial(self._inputs, keep[:, a:b], a))] for a, b in self.tokens.windows
        ]

    def _inputs(self, keep: NDArray[np.bool_], start: int) -> tuple[NDArray[np.int32], list[bytes]]:
        """Return the token ids (m, planes, length) of one window and their digests."""
        own = self.tokens.planes[:, start : start + keep.shape[1]]
        body = np.repeat(own[None], len(keep), axis=0)
        body[:, 0] = np.where(keep, own[0], self.instead)
        ahead, behind = (np.repeat(part[None], len(keep), axis=0) for part in (self.tokens.before, self.tokens.after))
        inputs = np.ascontiguousarray(np.concatenate([ahead, body, behind], axis=2), dtype=np.int32)
        return inputs, digests(inputs)


@final
class InPlace(Model):
    """A Hugging Face classifier whose tokens are replaced. instead: the id of what stands in; None: the unknown token."""

    tokenized = True

    def __init__(self, model: HuggingFace, instead: int | None = None) -> None:
        if not isinstance(model, HuggingFace):
            raise InputError(f"replacing in place needs a model that reads tokens (HuggingFace); got {type(model).__name__}")
        chosen = model.tokenizer.unk_token_id if instead is None else instead
        if chosen is None:
            raise InputError(
                f"the tokenizer of {model.name} must have an unknown token; name the token that stands in, instead="
            )
        if not 0 <= int(chosen) < len(model.tokenizer):
            raise InputError(f"instead must be a token id below {len(model.tokenizer)}; got {instead!r}")
        self.inner, self.instead = model, int(chosen)
        self.head, self.name, self.form = model.head, model.name, f"token {chosen} in place"

    def read(self, text: str, long: str, spans: NDArray[np.int64] | None) -> InPlaceReading:
        """Tokenize a text."""
        return InPlaceReading(self.inner.read(text, long, spans), self.instead)

    def identity(self) -> str:
        """Return the name of the model itself: an input with a token replaced is an input like any other."""
        return self.inner.identity()

    @contextmanager
    def session(self) -> Iterator[None]:
        """Bring the model itself into its state, and back."""
        with self.inner.session():
            yield

    @property
    def ahead(self) -> int:
        """How many batches are begun before the first must be finished."""
        return self.inner.ahead

    def rows(self, length: int) -> int:
        """Return how many inputs of one length go into a batch."""
        return self.inner.rows(length)

    def shrink(self) -> None:
        """Halve the batches."""
        self.inner.shrink()

    def start(self, inputs: Any) -> Any:
        """Begin to answer a batch."""
        return self.inner.start(inputs)

    def finish(self, started: Any) -> NDArray[Any]:
        """Return the answers."""
        return self.inner.finish(started)
