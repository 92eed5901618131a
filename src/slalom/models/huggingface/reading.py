"""A text as tokens, and the inputs that removing some of them makes.

keep = 1 0 1:    [CLS] good film [SEP]

Special tokens are in every input; the tokens between them are the atoms. Removing one moves the later ones forward.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from slalom.errors import count
from slalom.models.base import InputGroup, Reading

if TYPE_CHECKING:  # the bundled classifier reads tokens without transformers
    from transformers import PreTrainedTokenizerBase

_MOST_PARTS = 8  # tokens that are tried together as one character, which has four bytes at most


@final
class TokenReading(Reading):
    """A text as a tokenizer reads it.

    Args:
        text: The text.
        names: The tokens as they are shown, (n_atoms,).
        spans: Where they are in the text, (n_atoms, 2).
        planes: Token ids, and token types where the tokenizer has them, (planes, n_atoms).
        before: The special tokens before the text, (planes, k).
        after: Those after it.
        windows: Start and end of each part of the text that fits into the model.
        cut: Number of tokens that were cut.
        empty: Whether the model can read the special tokens alone.
        unknown: Id of the token for what the tokenizer does not know; None where there is none.
    """

    def __init__(
        self,
        text: str,
        names: tuple[str, ...],
        spans: NDArray[np.int64],
        planes: NDArray[np.int32],
        before: NDArray[np.int32],
        after: NDArray[np.int32],
        windows: list[tuple[int, int]],
        cut: int,
        empty: bool,
        unknown: int | None = None,
    ) -> None:
        self.text, self.names, self.spans, self.cut = text, names, spans, cut
        self.planes, self.before, self.after, self.windows = planes, before, after, windows
        self.types = planes[0].astype(np.int64)
        self.empty = empty and before.shape[1] + after.shape[1] > 0
        n_unknown, n = int((self.types == unknown).sum()), len(names)
        if 2 * n_unknown > n:
            self.notes = (
                f"The tokenizer does not know {n_unknown} of the {count(n, 'token')} of this text: the model reads the same"
                " unknown token for each of them.",
            )

    def groups(self, keep: NDArray[np.bool_]) -> list[InputGroup]:
        if len(self.windows) == 1:
            return self._window_groups(keep, 0, np.arange(len(keep)))
        needed = np.stack([keep[:, a:b].any(axis=1) for a, b in self.windows])
        needed[0] |= ~needed.any(axis=0)  # a row without any atom is in one window
        windows = zip(self.windows, (np.flatnonzero(rows) for rows in needed), strict=True)
        return [group for (a, b), rows in windows for group in self._window_groups(keep[rows, a:b], a, rows)]

    def _window_groups(self, keep: NDArray[np.bool_], start: int, rows: NDArray[np.int64]) -> list[InputGroup]:
        lengths = keep.sum(axis=1, dtype=np.int32)
        groups = []
        for length in np.unique(lengths):
            chosen = np.flatnonzero(lengths == length)
            total = self.before.shape[1] + int(length) + self.after.shape[1]
            groups.append(InputGroup(rows[chosen], total, partial(self._inputs, keep, chosen, start, total)))
        return groups

    def _inputs(
        self, keep: NDArray[np.bool_], chosen: NDArray[np.int64], start: int, total: int
    ) -> tuple[NDArray[np.int32], list[bytes]]:
        """Return the token ids (k, planes, total) of the chosen rows of `keep`, all of that length, and their digests."""
        window, k, n = self.planes[:, start : start + keep.shape[1]], len(chosen), keep.shape[1]
        before, after = self.before.shape[1], self.after.shape[1]
        adjacent = chosen[-1] - chosen[0] == k - 1  # needs no copy
        rows = keep[chosen[0] : chosen[-1] + 1] if adjacent else keep[chosen]
        places = np.flatnonzero(rows).reshape(k, total - before - after) - n * np.arange(k)[:, None]
        inputs = np.empty((k, len(window), total), dtype=np.int32)
        inputs[:, :, :before], inputs[:, :, total - after :] = self.before, self.after
        for plane, ids in enumerate(window):
            inputs[:, plane, before : total - after] = ids.take(places)
        return inputs, digests(inputs)


def fitted_reading(
    text: str,
    table: NDArray[np.int32],
    before: int,
    end: int,
    spans: NDArray[np.int64],
    room: int | None,
    long: str,
    token_name: Callable[[int, str], str],
    cut_left: bool = False,
    empty: bool = True,
    unknown: int | None = None,
) -> TokenReading:
    """Return the tokens of a text, cut or in windows where they do not fit."""
    n, cut, windows = end - before, 0, [(0, end - before)]
    if room is not None and n > room:
        if long == "window":
            starts = [*range(0, n - room, max(room // 2, 1)), n - room]
            windows = [(a, a + room) for a in starts]
        else:
            cut, n, windows = n - room, room, [(0, room)]
            if cut_left:
                spans, table = spans[cut:], np.delete(table, np.s_[before : before + cut], axis=1)
                end -= cut
    body = table[:, before : before + n]
    names = tuple(
        text[a:b].strip() or token_name(token, text[a:b])
        for (a, b), token in zip(spans[:n].tolist(), body[0].tolist(), strict=True)
    )
    return TokenReading(text, names, spans[:n], body, table[:, :before], table[:, end:], windows, cut, empty, unknown)


def digests(inputs: NDArray[np.int32]) -> list[bytes]:
    """Return a key of 16 bytes for each input (k, planes, length): two sums of its ids + 1, each times a multiplier per place.

    The multipliers are random 64-bit numbers, different for every shape, so two inputs collide with a probability of 2^-128 (at
    most 2^-66, where all their differences are multiples of 2^31). Two to five times as fast as a cryptographic digest, and
    good enough as long as collisions are not constructed on purpose.
    """
    ids = inputs.reshape(len(inputs), -1).astype(np.uint64)
    ids += np.uint64(1)  # else inputs of zeros would have one key, whatever their length
    sums = ids @ _multipliers(*inputs.shape[1:])
    keys: list[bytes] = sums.astype("<u8").view("V16")[:, 0].tolist()
    return keys


@lru_cache(maxsize=4096)
def _multipliers(planes: int, length: int) -> NDArray[np.uint64]:
    """Return the multipliers (planes * length, 2) of a shape, the same on every machine."""
    return np.random.PCG64([planes, length]).random_raw(2 * planes * length).reshape(-1, 2)


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
