"""A text as tokens, and the inputs that removing some of them makes.

    keep = 1 0 1:    [CLS] good film [SEP]            later tokens move forward
                     [CLS] good [UNK] film [SEP]      with a replacement they stay in their places

Special tokens are in every input; the tokens between them are the atoms.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
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
        runs: Where the tokens of the text begin and end in the table; of a record, those of each field.
        spans: Where they are in the text, (n, 2).
        room: How many of them fit; None: all.
        token_name: Names a token, by its id and what it covers, that covers nothing but white space.
        cut_left: Whether a text is cut at its beginning.
        empty: Whether the model can read the special tokens alone.
        unknown: Id of the token for what the tokenizer does not know; None where there is none.
        replacement: Id of the token in place of removed ones; None removes them.

    Attributes:
        table: What is read of the whole text, without what is cut.
        places: Where the atoms are in it (n_atoms,).
        planes: Token ids and types of the atoms, (planes, n_atoms).
        before, after: Those of the special tokens around them.
        windows: Start and end of each part of the text that fits into the model.
        cut_of: How many tokens are cut of each run.
    """

    def __init__(
        self,
        text: str,
        table: NDArray[np.int32],
        runs: Sequence[tuple[int, int]],
        spans: NDArray[np.int64],
        room: int | None,
        long: str,
        token_name: Callable[[int, str], str],
        cut_left: bool = False,
        empty: bool = True,
        unknown: int | None = None,
        replacement: int | None = None,
    ) -> None:
        self.text, self.replacement, self.table, self.spans = text, replacement, table, spans
        sizes = [end - start for start, end in runs]
        n, self.cut_of = sum(sizes), [0] * len(runs)
        self.windows = [(0, n)]
        if room is not None and n > room and long == "window":
            if len(runs) > 1:
                raise InputError(f"windows are for one text; the fields have {n} tokens, and {room} fit: use long='cut'")
            self.windows = [(a, a + room) for a in (*range(0, n - room, max(room // 2, 1)), n - room)]
        elif room is not None and n > room:
            left = _longest_first(sizes, room)
            self.cut_of, self.windows = [size - most for size, most in zip(sizes, left, strict=True)], [(0, room)]
            kept = [slice(b - most, b) if cut_left else slice(a, a + most) for (a, b), most in zip(runs, left, strict=True)]
            read, fits = np.ones(table.shape[1], dtype=bool), np.zeros(table.shape[1], dtype=bool)
            for (a, b), part in zip(runs, kept, strict=True):
                read[a:b], read[part], fits[part] = False, True, True
            of_text = np.concatenate([np.arange(a, b) for a, b in runs])  # runs need not be in the order of the table
            after, inside = np.cumsum(read) - 1, fits[of_text]
            self.table, self.spans, self.places = table[:, read], spans[inside], after[of_text[inside]]
        if not self.cut:
            self.places = np.concatenate([np.arange(a, b) for a, b in runs])
        self.planes = self.table[:, self.places]
        first, end = (self.places.min(), self.places.max() + 1) if len(self.places) else (runs[0][0], runs[-1][1])
        self.before, self.after = self.table[:, :first], self.table[:, end:]
        ids = self.planes[0].astype(np.int64)
        run_of_atom = np.repeat(np.arange(len(runs)), np.subtract(sizes, self.cut_of))
        self.types = ids + (run_of_atom << 32)  # in another field it is another token
        self.names = tuple(
            text[a:b].strip() or token_name(token, text[a:b])
            for (a, b), token in zip(self.spans.tolist(), ids.tolist(), strict=True)
        )
        self.empty = replacement is not None or (empty and table.shape[1] > n)
        n_unknown = int((ids == unknown).sum())
        if 2 * n_unknown > len(ids):
            self.notes = (
                f"The tokenizer does not know {n_unknown} of the {count(len(ids), 'token')} of this text: the model reads the"
                " same unknown token for each of them.",
            )

    @property
    def cut(self) -> int:  # type: ignore[override]
        return sum(self.cut_of)

    def groups(self, keep: NDArray[np.bool_]) -> list[InputGroup]:
        special, groups = self.table.shape[1] - len(self.places), []
        needed = np.stack([keep[:, a:b].any(axis=1) for a, b in self.windows])
        needed[0] |= ~needed.any(axis=0)  # a row without any atom is in one window
        for (a, b), asked in zip(self.windows, needed, strict=True):
            if self.replacement is not None:
                groups.append(InputGroup(np.arange(len(keep)), special + b - a, partial(self._replaced, keep[:, a:b], a, b)))
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
        length = self.table.shape[1]
        present = np.ones((len(rows), length), dtype=bool)
        present[:, self.places] = False
        present[:, self.places[a:b]] = keep[rows, a:b]
        places = np.flatnonzero(present).reshape(len(rows), -1) - length * np.arange(len(rows))[:, None]
        return _keyed(self.table.take(places, axis=1))

    def _replaced(self, keep: NDArray[np.bool_], a: int, b: int) -> tuple[NDArray[np.int32], list[bytes]]:
        assert self.replacement is not None
        shown = np.ones(self.table.shape[1], dtype=bool)
        shown[self.places] = False
        shown[self.places[a:b]] = True
        body = np.repeat(self.table[:, None], len(keep), axis=1)
        body[0][:, self.places[a:b]] = np.where(keep, self.planes[0, a:b], self.replacement)
        return _keyed(body[:, :, shown])


def _keyed(inputs: NDArray[np.int32]) -> tuple[NDArray[np.int32], list[bytes]]:
    """Return inputs (planes, k, length) as (k, planes, length), and their digests."""
    inputs = np.ascontiguousarray(inputs.swapaxes(0, 1))
    salt = bytes([inputs.shape[1]])
    return inputs, [blake2b(row, digest_size=16, salt=salt).digest() for row in row_keys(inputs)]


def _longest_first(sizes: Sequence[int], room: int) -> list[int]:
    """Return how much is left of runs of these sizes where only so much fits: the longest are cut to one length.

    Example:
        >>> _longest_first([3, 10, 8], 12)
        [3, 5, 4]
    """
    most = bisect_right(range(max(sizes) + 1), room, key=lambda most: sum(min(size, most) for size in sizes)) - 1
    left = [min(size, most) for size in sizes]
    for i, size in enumerate(sizes):
        left[i] += min(int(size > left[i]), room - sum(left))
    return left


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
