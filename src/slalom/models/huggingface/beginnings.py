"""Rows that begin alike: what they share is computed once.

A trunk is a sequence of tokens whose keys and values are kept: the beginning of the prompt, or the prompt of a whole text. A
row continues the trunk that it shares most tokens with:

    trunk    Review: a good film
    row      Review: a film            2 tokens of the trunk, the rest new

A trunk is computed once the tokens that it would have saved so far are more than it costs. Rows of a batch are sorted by their
number of new tokens and cut into calls so that padding and the overhead of a call cost least.
"""

from collections import OrderedDict
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from slalom.models.huggingface.causal import Past
from slalom.models.packing import cheapest_ranges

_MOST = 64  # trunks
_WORTH = 0.9  # of the cost of plain passes, at most


@final
class Trunk:
    """A sequence of tokens that rows begin with.

    Args:
        ids: Its tokens.

    Attributes:
        past: Its keys and values, once they are computed.
        wanted: Number of tokens that it would have saved so far.
    """

    def __init__(self, ids: NDArray[np.int32]) -> None:
        self.ids, self.wanted = ids, 0.0
        self.past: Past | None = None


class Call(NamedTuple):
    """Rows of a batch that are computed together.

    Attributes:
        rows: Which rows, (k,), those of one trunk next to each other.
        starts: How many tokens each shares with its trunk, (k,).
        trunks: The trunks in the order of the rows, with their numbers of rows; none where nothing is shared.
    """

    rows: NDArray[np.int64]
    starts: NDArray[np.int64]
    trunks: list[tuple[Trunk, int]]


@final
class Beginnings:
    """The trunks of one model, and how batches are computed with them.

    Args:
        overhead: Cost of a call, in tokens.
        limit: Number of tokens whose keys and values may be kept.
    """

    def __init__(self, overhead: float, limit: int) -> None:
        self.overhead, self.limit = overhead, limit
        self.trunks: OrderedDict[bytes, Trunk] = OrderedDict()

    def expect(self, ids: NDArray[np.int32]) -> None:
        """Name tokens that rows may begin with; of many, the last ones are remembered."""
        if len(ids):
            self.trunks.setdefault(ids.tobytes(), Trunk(ids))
            self.trunks.move_to_end(ids.tobytes())
        while len(self.trunks) > _MOST:
            self.trunks.popitem(last=False)

    def forget(self) -> None:
        """Drop all keys and values."""
        for trunk in self.trunks.values():
            trunk.past, trunk.wanted = None, 0.0

    def shared(self, ids: NDArray[np.int32], lengths: NDArray[np.int64]) -> tuple[list[Trunk], NDArray[np.int64]]:
        """Return the trunks, shortest first, and how many tokens each row shares with each, (rows, trunks).

        The last token of a row is never shared: its logits are needed.
        """
        trunks = sorted(self.trunks.values(), key=lambda trunk: len(trunk.ids))
        found = np.zeros((len(ids), len(trunks)), dtype=np.int64)
        for column, trunk in enumerate(trunks):
            found[:, column] = common(ids, trunk.ids)
        return trunks, np.minimum(found, lengths[:, None] - 1)

    def due(self, trunks: list[Trunk], shared: NDArray[np.int64]) -> list[Trunk]:
        """Return the trunks to compute now, shortest first: those whose savings so far are more than their cost."""
        best = np.zeros(len(shared), dtype=np.int64)
        chosen: list[Trunk] = []
        kept = sum(len(trunk.ids) for trunk in trunks if trunk.past is not None)
        for trunk, tokens in zip(trunks, shared.T, strict=True):
            if trunk.past is None:
                gain = np.maximum(tokens - best, 0).sum()
                trunk.wanted += float(gain)
                known = [other for other in trunks if other.past is not None or other in chosen]
                cost = len(trunk.ids) - self.known(trunk.ids, known)[1] + self.overhead
                if not gain or trunk.wanted <= cost or kept + len(trunk.ids) > self.limit:
                    continue
                chosen.append(trunk)
                kept += len(trunk.ids)
            best = np.maximum(best, tokens)
        return chosen

    def known(self, ids: NDArray[np.int32], among: list[Trunk]) -> tuple[Trunk | None, int]:
        """Return the trunk that shares most tokens with a row, and their number, at most all but the last."""
        best: tuple[Trunk | None, int] = (None, 0)
        for trunk in among:
            n = min(int(common(ids[None], trunk.ids)[0]), len(ids) - 1)
            if n > best[1]:
                best = trunk, n
        return best

    def plain(self, lengths: NDArray[np.int64]) -> list[Call]:
        """Return how to compute rows from their first tokens on."""
        return [Call(rows, np.zeros(len(rows), dtype=np.int64), []) for rows in partition(lengths, self.overhead)[0]]

    def calls(self, lengths: NDArray[np.int64], trunks: list[Trunk], shared: NDArray[np.int64]) -> list[Call]:
        """Return how to compute the rows of a batch with the trunks that are computed."""
        ready = [i for i, trunk in enumerate(trunks) if trunk.past is not None]
        if not ready:
            return self.plain(lengths)
        which = shared[:, ready].argmax(axis=1)
        starts = shared[np.arange(len(lengths)), np.array(ready)[which]]
        groups, cost = partition(lengths - starts, self.overhead)
        if cost > _WORTH * partition(lengths, self.overhead)[1]:
            return self.plain(lengths)
        found = []
        for group in groups:
            rows = group[np.argsort(which[group], kind="stable")]
            numbers, counts = np.unique(which[rows], return_counts=True)
            sources = [(trunks[ready[i]], int(n)) for i, n in zip(numbers, counts, strict=True)]
            found.append(Call(rows, starts[rows], sources))
        return found


def common(ids: NDArray[np.int32], beginning: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return how many tokens each row (k, n) has in common with a beginning.

    Example:
        >>> common(np.array([[1, 2, 3], [1, 5, 3], [4, 2, 3]]), np.array([1, 2, 3, 4]))
        array([3, 1, 0])
    """
    n = min(ids.shape[1], len(beginning))
    differs = np.ones((len(ids), n + 1), dtype=bool)
    np.not_equal(ids[:, :n], beginning[:n], out=differs[:, :n])
    return np.asarray(differs.argmax(axis=1))


def partition(sizes: NDArray[np.int64], overhead: float) -> tuple[list[NDArray[np.int64]], float]:
    """Return groups of rows that cost least, where a group costs its overhead and its longest row times its rows.

    Example:
        >>> [group.tolist() for group in partition(np.array([9, 1, 1, 8]), 3.0)[0]]
        [[1, 2], [3, 0]]
    """
    order = np.argsort(sizes, kind="stable")
    values, counts = np.unique(sizes, return_counts=True)
    ranges, cost = cheapest_ranges(values, counts, overhead)
    ends = np.concatenate([[0], np.cumsum(counts)])
    return [order[ends[begin] : ends[end]] for begin, end in ranges], cost
