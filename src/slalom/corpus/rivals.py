"""Effects of parts of phrases and words within the texts that have the whole: who owes its effect to whom.

"view" moves the score where it stands in "in my view", and nowhere else: the phrase is the cue. "great xyzzy" moves it because
"xyzzy" does, with or without "great": the word is the cue. Means over all texts of a part do not tell these apart.
"""

from collections.abc import Mapping, Sequence
from typing import final

import numpy as np

from slalom.corpus.words import Chosen, Chunk, observations


@final
class Rivals:
    """Sums of the effects of parts over the texts that have the whole.

    Args:
        parts: For each whole the keys of its parts.
    """

    def __init__(self, parts: Mapping[int, Sequence[int]]) -> None:
        pairs = [(whole, part) for whole, several in parts.items() for part in dict.fromkeys(several)]
        self._pairs = pairs
        self._keys = np.array(sorted({key for pair in pairs for key in pair}), dtype=np.uint64)
        self._chosen = Chosen(self._keys)
        whole = np.searchsorted(self._keys, np.array([pair[0] for pair in pairs], dtype=np.uint64))
        part = np.searchsorted(self._keys, np.array([pair[1] for pair in pairs], dtype=np.uint64))
        order = np.argsort(whole, kind="stable")
        self._order, self._part = order, part[order]
        self._first = np.searchsorted(whole[order], np.arange(len(self._keys) + 1))
        self._sums = np.zeros((2, len(pairs)))

    def add(self, chunk: Chunk) -> None:
        """Add the rows of a chunk."""
        every, k = chunk.occurrences, len(self._keys)
        seen = observations(every[self._chosen.find(every.key)[0]])
        if not len(seen):
            return
        code = np.searchsorted(self._keys, seen.key)
        place = seen.row * k + code
        sort = np.argsort(place)
        place, effect = place[sort], seen.effect[sort]
        times = (self._first[1:] - self._first[:-1])[code]  # parts of what each observation is of
        row = np.repeat(seen.row, times)
        start = np.repeat(self._first[code] - (np.cumsum(times) - times), times)
        pair = start + np.arange(len(row))
        wanted = row * k + self._part[pair]
        where = np.minimum(np.searchsorted(place, wanted), len(place) - 1)
        there = place[where] == wanted
        self._sums[0] += np.bincount(pair[there], minlength=self._sums.shape[1])
        self._sums[1] += np.bincount(pair[there], effect[where[there]], self._sums.shape[1])

    def inside(self) -> dict[tuple[int, int], tuple[float, float]]:
        """Return for each (whole, part) the number of texts that have both, and the sum of the part's effects there."""
        return {self._pairs[i]: (n, total) for i, n, total in zip(self._order.tolist(), *self._sums.tolist(), strict=True)}
