"""A text as tokens, and the inputs that removing some of them makes.

    keep = 1 0 1:    [CLS] good film [SEP]            later tokens move forward
                     [CLS] good [UNK] film [SEP]      with a replacement they stay in their places

Special tokens are in every input; the tokens between them are the atoms.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import row_keys
from slalom.errors import InputError, count
from slalom.models.base import InputGroup, Reading

if TYPE_CHECKING:  # the bundled classifier reads tokens without transformers
    from transformers import PreTrainedTokenizerBase

_MOST_PARTS = 8  # tokens that are tried together as one character, which has four bytes at most


@final
class TokenReading(Reading):
    """A text as a tokenizer reads it, cut or in windows where it does not fit into the model.

    Args:
        table: The token ids with special tokens, and token types where the tokenizer has them, (planes, length).
        body: Where the tokens of the text begin and end in the table.
        room: How many of them fit; None: all.
        token_name: Names a token, by its id and what it covers, that covers nothing but white space.
        cut_left: Whether a text is cut at its beginning.
        empty: Whether the model can read the special tokens alone.
        unknown: Id of the token for what the tokenizer does not know; None where there is none.
        replacement: Id of the token in place of removed ones; None removes them.

    Attributes:
        planes: Token ids and types of the atoms, (planes, n_atoms).
        before, after: Those of the special tokens around them.
        windows: Start and end of each part of the text that fits into the model.
    """

    def __init__(
        self,
        text: str,
        table: NDArray[np.int32],
        body: tuple[int, int],
        spans: NDArray[np.int64],
        room: int | None,
        long: str,
        token_name: Callable[[int, str], str],
        cut_left: bool = False,
        empty: bool = True,
        unknown: int | None = None,
        replacement: int | None = None,
    ) -> None:
        (start, end), self.text, self.cut, self.replacement = body, text, 0, replacement
        self.before, self.after, self.planes, self.spans = table[:, :start], table[:, end:], table[:, start:end], spans
        n = end - start
        self.windows = [(0, n)]
        if room is not None and n > room and long == "window":
            self.windows = [(a, a + room) for a in (*range(0, n - room, max(room // 2, 1)), n - room)]
        elif room is not None and n > room:
            kept = slice(n - room, n) if cut_left else slice(0, room)
            self.cut, n, self.windows = n - room, room, [(0, room)]
            self.planes, self.spans = self.planes[:, kept], spans[kept]
        self.types = self.planes[0].astype(np.int64)
        self.names = tuple(
            text[a:b].strip() or token_name(token, text[a:b])
            for (a, b), token in zip(self.spans.tolist(), self.types.tolist(), strict=True)
        )
        self.empty = replacement is not None or (empty and table.shape[1] > end - start)
        n_unknown = int((self.types == unknown).sum())
        if 2 * n_unknown > n:
            self.notes = (
                f"The tokenizer does not know {n_unknown} of the {count(n, 'token')} of this text: the model reads the same"
                " unknown token for each of them.",
            )

    def groups(self, keep: NDArray[np.bool_]) -> list[InputGroup]:
        special, groups = self.before.shape[1] + self.after.shape[1], []
        needed = np.stack([keep[:, a:b].any(axis=1) for a, b in self.windows])
        needed[0] |= ~needed.any(axis=0)  # a row without any atom is in one window
        for (a, b), asked in zip(self.windows, needed, strict=True):
            if self.replacement is not None:
                groups.append(InputGroup(np.arange(len(keep)), special + b - a, partial(self._replaced, keep[:, a:b], a)))
                continue
            lengths = np.where(asked, keep[:, a:b].sum(axis=1), -1)
            for length in np.unique(lengths[asked]).tolist():
                rows = np.flatnonzero(lengths == length)
                groups.append(InputGroup(rows, special + length, partial(self._removed, keep, rows, a, b)))
        return groups

    def _removed(
        self, keep: NDArray[np.bool_], rows: NDArray[np.int64], a: int, b: int
    ) -> tuple[NDArray[np.int32], list[bytes]]:
        """Return the inputs of some rows of equal length, of one window, and their digests."""
        kept = keep[rows, a:b]
        places = np.flatnonzero(kept).reshape(len(rows), -1) - (b - a) * np.arange(len(rows))[:, None]
        return self._inputs(self.planes[:, a:b].take(places, axis=1))

    def _replaced(self, keep: NDArray[np.bool_], start: int) -> tuple[NDArray[np.int32], list[bytes]]:
        window = self.planes[:, start : start + keep.shape[1]]
        body = np.repeat(window[:, None], len(keep), axis=1)
        body[0] = np.where(keep, window[0], self.replacement)
        return self._inputs(body)

    def _inputs(self, body: NDArray[np.int32]) -> tuple[NDArray[np.int32], list[bytes]]:
        """Return the inputs (k, planes, length), atoms (planes, k, n) between the special tokens, and their digests."""
        (planes, k, n), before, after = body.shape, self.before.shape[1], self.after.shape[1]
        inputs = np.empty((k, planes, before + n + after), dtype=np.int32)
        inputs[:, :, :before], inputs[:, :, before : before + n], inputs[:, :, before + n :] = (
            self.before,
            body.swapaxes(0, 1),
            self.after,
        )
        salt = bytes([planes])
        return inputs, [blake2b(row, digest_size=16, salt=salt).digest() for row in row_keys(inputs)]


@contextmanager
def readable(text: str, what: str = "a text") -> Iterator[None]:
    """Say what is wrong where a tokenizer refuses a text: half of a surrogate pair is no character."""
    try:
        yield
    except (TypeError, UnicodeError) as error:
        raise InputError(f"the tokenizer cannot read {text[:40]!r}; {what} must be valid Unicode") from error


def aligned_spans(text: str, ids: list[int], tokenizer: "PreTrainedTokenizerBase") -> list[tuple[int, int]]:
    """Return spans for the tokens of a tokenizer without offsets: each is searched for after the one before it.

    Tokens that are parts of one character all have its span.
    """
    spans, at, lower = list[tuple[int, int]](), 0, text.lower() if len(text.lower()) == len(text) else text
    parts: list[str] = []  # of a character that is not complete yet
    for token in tokenizer.convert_ids_to_tokens(ids):
        parts.append(token)
        string = tokenizer.convert_tokens_to_string(parts)
        incomplete = not string or "\N{REPLACEMENT CHARACTER}" in string
        name = string.strip().removeprefix("##") or token
        start = -1 if not string and len(parts) < _MOST_PARTS else lower.find(name.lower(), at)
        if 0 <= start <= at + 50:
            spans[len(spans) - len(parts) + 1 :] = [(start, start + len(name))] * len(parts)
            at, incomplete = start + len(name), False
        else:
            spans.append((at, at))
        parts = parts if incomplete and len(parts) < _MOST_PARTS else []
    return spans
