"""Samplers: which parts of a text to query.

    Pairs       two units alone: the paper's SLALOM-eff
    Deletions   the text without 1..k units; with repeats=True and k = 5 the paper's SLALOM-fidel
    Scales      subsets of every size (ours): k units are kept, k spread evenly over 1..n-1
    Mixed       both, and units alone (ours)
    Halves      every unit with probability one half: ContextCite, ProxySPEX

A sampler needs neither text nor model: it turns a number of units into presence (m, n) and row weights (m,). Rows are distinct,
so there are fewer than the budget allows where there are not enough. The same generator state gives the same rows.

A plan can grow: `extended` adds rows to it.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations
from math import comb
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import row_keys
from slalom.errors import InputError

Keep = NDArray[np.bool_]
_SENTENCE = 32  # units of a text whose single removals are worth most of its deletions
_REACH = 10  # removed units that are still next to a text
_SIZES = 48  # different sizes of subsets: inputs of equal length share a batch, and more do not improve the fit
_SIZES_BESIDE = 36  # the same beside deletions
_TRIES = 20  # draws of halves per row until all rows of a plan are different
_ALONE = 4  # one row in so many, at most, has one unit alone
_NEAR = 0.35, 0.1, 0.7  # share of deletions among the others: with a row per unit, more for each doubling of them, at most
_ANCHOR = 0.1  # weight of the whole text, relative to all subsets together
_ANCHOR_NEAR = 1.0  # relative to all deletions: predictions are changes from the whole text, so an error there affects all


class QueryPlan(NamedTuple):
    """The queries of a method.

    Attributes:
        keep: Presence of units (m, n).
        weights: Weight of each row in the fit (m,).
    """

    keep: Keep
    weights: NDArray[np.float64]


class Sampler(ABC):
    """Chooses queries: hyper-parameters go into the constructor, data into `draw`.

    Concrete samplers are final frozen dataclasses.
    """

    @abstractmethod
    def draw(self, types: NDArray[np.int64], budget: int, rng: np.random.Generator, empty: bool) -> QueryPlan:
        """Return distinct queries.

        Args:
            types: Parameter of each unit (n,), n >= 1; units with equal numbers are the same to the model.
            budget: Largest number of rows.
            rng: Random generator.
            empty: Whether the model accepts an empty input.

        Returns:
            At most `budget` distinct rows.
        """


@final
@dataclass(frozen=True)
class Pairs(Sampler):
    """Sequences of two units, in the order of the text; all of them if the budget allows.

    Units of one type are the same token, so one occurrence stands for all. A text of one unit is queried whole.

    Example:
        >>> Pairs().draw(np.arange(3), 10, np.random.default_rng(0), empty=True).keep.sum(axis=1).tolist()
        [2, 2, 2]
    """

    def draw(self, types: NDArray[np.int64], budget: int, rng: np.random.Generator, empty: bool) -> QueryPlan:
        first_of_type = np.unique(types, return_index=True)[1]
        n, full = len(first_of_type), comb(len(first_of_type), 2)
        if n == 1:
            return _uniform(np.arange(len(types))[None] == first_of_type[0])
        chosen = np.arange(full) if full <= budget else rng.choice(full, budget, replace=False)
        # Pair p is in row i of the upper triangle, whose first pair has the number i (2n - i - 1) / 2.
        starts = np.arange(n) * (2 * n - np.arange(n) - 1) // 2
        first = np.searchsorted(starts, chosen, side="right") - 1
        second = chosen - starts[first] + first + 1
        keep = np.zeros((len(chosen), len(types)), dtype=bool)
        rows = np.arange(len(chosen))
        keep[rows, first_of_type[first]] = keep[rows, first_of_type[second]] = True
        return _uniform(keep)


@final
@dataclass(frozen=True)
class Deletions(Sampler):
    """The text without 1..most units (each number equally often), and the text itself.

    Args:
        most: Largest number of units to remove.
        repeats: Draw 0..most deletions with replacement, as the paper does. A row that is drawn r times is queried once and
            has the weight r, as the whole text has.

    Raises:
        InputError: If an argument is out of range.
    """

    most: int = _REACH
    repeats: bool = False

    def __post_init__(self) -> None:
        if not self.most >= 1:
            raise InputError(f"Deletions needs most >= 1; got {self.most!r}")

    def draw(self, types: NDArray[np.int64], budget: int, rng: np.random.Generator, empty: bool) -> QueryPlan:
        n = len(types)
        most = min(self.most, max(n // 2, 1), n if empty and not self.repeats else n - 1)
        if self.repeats:
            keep = removed(n, rng.integers(0, most + 1, budget), rng)
            keep, times = distinct(keep)
            return QueryPlan(keep, times.astype(np.float64))
        if most == 0:
            return _uniform(np.ones((1, n), dtype=bool))
        keep = spread(n, n - np.arange(1, most + 1), budget - 1, rng)
        return _with_ends(keep, empty=False, anchor=_ANCHOR_NEAR)


@final
@dataclass(frozen=True)
class Scales(Sampler):
    """Subsets of every size, the whole text, and the empty text where the model accepts it."""

    def draw(self, types: NDArray[np.int64], budget: int, rng: np.random.Generator, empty: bool) -> QueryPlan:
        n = len(types)
        keep = spread(n, _sizes(n, _SIZES, budget), budget - 1 - int(empty), rng)
        return _with_ends(keep, empty, _ANCHOR)


@final
@dataclass(frozen=True)
class Mixed(Sampler):
    """The whole text, none of it, units alone, deletions near the text, and subsets of every size.

    Every distinct unit is alone in a row, for up to a quarter of the rows. A third of the others, and up to 0.7 where there are
    many rows per unit, remove 1 to 10 units: k units in proportion to k, as such rows tell most; but every unit is removed
    alone where that takes at most two fifths of the deletions, or four fifths for a sentence. The rest are subsets, drawn in
    proportion to (1.05 - kept share)^2, as the scores of small ones vary most. Where the budget allows all subsets of a short
    text, it has them all.

    Args:
        known: Distinct units whose scores alone are known, as is that of the empty text: these rows are left out.
        least_near: Least share of deletions among the others.

    Example:
        >>> keep = Mixed().draw(np.arange(40), 200, np.random.default_rng(0), empty=True).keep
        >>> len(keep), int((keep.sum(axis=1) == 1).sum()), int((keep.sum(axis=1) >= 30).sum())
        (200, 40, 90)
    """

    known: tuple[int, ...] = field(default=(), repr=False)
    least_near: float = field(default=0.0, repr=False)

    def draw(self, types: NDArray[np.int64], budget: int, rng: np.random.Generator, empty: bool) -> QueryPlan:
        n = len(types)
        if 2**n - int(not empty) <= budget:
            keep = Scales().draw(types, budget, rng, empty).keep
            kept = keep.sum(axis=1)
            alone = (kept == 1) & np.isin(types[keep.argmax(axis=1)], self.known) & ~keep.all(axis=1)
            return _uniform(keep[~alone & ((kept > 0) | (not self.known))])
        empty = empty and not self.known
        distinct_units = rng.permutation(np.delete(np.unique(types, return_index=True)[1], list(self.known)))
        alone = np.eye(n, dtype=bool)[distinct_units[: budget // _ALONE]]
        left = max(budget - 1 - int(empty) - len(alone), 0)
        share = max(_near_share(left / n), self.least_near)
        n_near, numbers, single = round(share * left), np.arange(1, min(_REACH, max(n // 2, 1)) + 1), alone[:0]
        if len(numbers) > 1 and n <= (0.8 if n <= _SENTENCE else 0.4) * n_near:
            # Every unit removed alone: the effect that people quote.
            single, numbers = ~np.eye(n, dtype=bool), numbers[1:]
        near = spread(n, n - numbers, n_near - len(single), rng, numbers.astype(np.float64))
        sizes = _sizes(n, _SIZES_BESIDE, left - n_near)
        sizes = sizes[sizes > int(bool(self.known))]
        chances = (1.05 - sizes / n) ** 2
        far = spread(n, sizes, left - len(single) - len(near), rng, chances)
        keep = distinct(np.concatenate([_with_ends(alone, empty, _ANCHOR).keep, single, near, far]))[0]
        for more in (sizes, np.arange(n - 1, int(bool(self.known)), -1)):
            if len(keep) < budget:  # rows that were drawn twice; of few units these sizes may have no others
                others = spread(n, more, 2 * budget, rng, (1.05 - more / n) ** 2)
                keep = distinct(np.concatenate([keep, rng.permutation(others)]))[0]
        return _uniform(keep[:budget])


@final
@dataclass(frozen=True)
class Halves(Sampler):
    """Every unit with probability one half, independently of the others.

    Example:
        >>> len(Halves().draw(np.arange(3), 100, np.random.default_rng(0), empty=True).keep)
        8
    """

    def draw(self, types: NDArray[np.int64], budget: int, rng: np.random.Generator, empty: bool) -> QueryPlan:
        n = len(types)
        most = min(budget, 2**n - int(not empty)) if n < 40 else budget
        rows = dict[bytes, Keep]()
        for _ in range(_TRIES):
            for row in rng.random((max(budget, 16), n)) < 0.5:
                if len(rows) < most and (empty or row.any()):
                    rows.setdefault(row.tobytes(), row)
            if len(rows) == most:
                break
        return _uniform(np.array(list(rows.values()), dtype=bool).reshape(-1, n))


def _near_share(rows_per_unit: float) -> float:
    """Return the share of deletions: few rows must first tell what the units say, and that subsets tell best."""
    least, more, most = _NEAR
    return float(np.clip(least + more * np.log2(max(rows_per_unit, 1.0)), least, most))


def _sizes(n: int, most: int, budget: int) -> NDArray[np.int64]:
    """Return sizes from n - 1 down to 1, evenly spread; fewer of them where the budget is small."""
    return np.unique(np.linspace(n - 1, 1, min(most, n - 1, max(budget // 4, 2))).round().astype(np.int64))[::-1]


def spread(
    n: int, sizes: NDArray[np.int64], budget: int, rng: np.random.Generator, chances: NDArray[np.float64] | None = None
) -> Keep:
    """Return distinct subsets of n units, with the budget shared between sizes; a size with too few leaves its share.

    Sizes share it evenly, or in proportion to their chances. Within a size, units are dealt from shuffled decks, so that each
    is kept about equally often.
    """
    limit = np.array([min(comb(n, int(k)), max(budget, 0)) for k in sizes], dtype=np.int64)
    share = np.zeros(len(sizes), dtype=np.int64)
    chances = np.ones(len(sizes)) if chances is None else chances
    left = max(budget, 0)
    while left and (open_ := np.flatnonzero(share < limit)).size:
        wish = left * chances[open_] / chances[open_].sum()
        more = np.zeros(len(sizes), dtype=np.int64)
        more[open_] = wish.astype(np.int64)
        rest = np.argsort(-np.round(wish - more[open_], 9), kind="stable")[: left - int(more.sum())]
        more[open_[rest]] += 1
        more = np.minimum(more, limit - share)
        share, left = share + more, left - int(more.sum())
    return np.concatenate(
        [np.zeros((0, n), dtype=bool), *(_subsets(n, int(k), int(m), rng) for k, m in zip(sizes, share, strict=True) if m)]
    )


def extended(
    plan: QueryPlan, draw: Callable[[int], QueryPlan], budget: int, is_new: Callable[[Keep], NDArray[np.bool_]]
) -> QueryPlan:
    """Return a plan with further rows of its design, up to a larger budget; fewer where no new ones are left.

    A whole text that weighs more than any other row keeps its share of the weight.

    Args:
        plan: The plan so far; its rows come first.
        draw: Function from a number to a plan of at most so many rows, other ones in each call.
        budget: Largest number of rows, those of the plan included.
        is_new: Function from rows (k, n) to which of them are new queries (k,), neither asked nor held out.
    """
    needed, number = budget - len(plan.keep), budget - len(plan.keep)
    if needed <= 0:
        return plan
    while True:
        drawn = draw(number + 2)  # most designs begin with the whole text and end with the empty one
        new = np.flatnonzero(is_new(drawn.keep))
        if len(new) >= needed or len(drawn.keep) < number + 2 or number > 8 * budget:
            break
        number *= 2  # rows of some sizes are used up
    new = new[np.unique(np.linspace(0, len(new) - 1, min(needed, len(new))).round().astype(np.int64))]  # rows come by size
    weights = np.concatenate([plan.weights, drawn.weights[new]])
    whole = np.flatnonzero(plan.keep.all(axis=1))
    others = np.delete(plan.weights, whole)
    if len(whole) and others.any() and plan.weights[whole[0]] > others.max():
        weights[whole] *= np.delete(weights, whole).sum() / others.sum()
    return QueryPlan(np.concatenate([plan.keep, drawn.keep[new]]), weights)


def removed(n: int, numbers: NDArray[np.int64], rng: np.random.Generator) -> Keep:
    """Return one random row (n,) for each number of removed units, sorted by number."""
    return np.concatenate([_without(n, _blocks(n, int(k), int(m), rng)) for k, m in enumerate(np.bincount(numbers)) if m])


def distinct(keep: Keep) -> tuple[Keep, NDArray[np.int64]]:
    """Return the distinct rows in the order of their first occurrence, and their multiplicities."""
    keys = row_keys(np.packbits(keep, axis=1))
    times = Counter(keys)  # np.unique takes ten times as long for few rows
    if len(times) == len(keys):
        return keep, np.ones(len(keys), dtype=np.int64)
    first = {key: i for i, key in zip(range(len(keys) - 1, -1, -1), reversed(keys), strict=True)}
    return keep[[first[key] for key in times]], np.array(list(times.values()), dtype=np.int64)


def _subsets(n: int, k: int, m: int, rng: np.random.Generator) -> Keep:
    """Return m distinct subsets of k of n units, m <= comb(n, k)."""
    smaller = min(k, n - k)
    if (total := comb(n, smaller)) <= max(4 * m, 64):
        subsets = np.array(list(combinations(range(n), smaller)), dtype=np.int64).reshape(total, smaller)
        chosen = _without(n, subsets[rng.permutation(total)[:m]])
    else:
        chosen = np.zeros((0, n), dtype=bool)
        while len(chosen) < m:
            more = _without(n, _blocks(n, smaller, m - len(chosen) + 4, rng))
            chosen = distinct(np.concatenate([chosen, more]))[0][:m]
    return chosen if smaller == n - k else ~chosen


def _blocks(n: int, k: int, m: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return m rows of k distinct units each, dealt from shuffled decks of all n units."""
    if k == 0:
        return np.zeros((m, 0), dtype=np.int64)
    hands = n // k
    decks = np.empty((-(-m // hands), n), dtype=np.int64)
    decks[:] = np.arange(n)
    rng.permuted(decks, axis=1, out=decks)
    return np.asarray(decks[:, : hands * k].reshape(-1, k)[:m])


def _without(n: int, removed: NDArray[np.int64]) -> Keep:
    """Return presence (m, n) without the units listed in each row (m, k)."""
    keep = np.ones((len(removed), n), dtype=bool)
    keep.reshape(-1)[removed + n * np.arange(len(removed))[:, None]] = False
    return keep


def _uniform(keep: Keep) -> QueryPlan:
    """Return the rows with equal weights."""
    return QueryPlan(keep, np.ones(len(keep)))


def _with_ends(keep: Keep, empty: bool, anchor: float) -> QueryPlan:
    """Return the rows with the whole text before them and, where the model accepts it, the empty text after them."""
    n = keep.shape[1]
    ends = [np.ones((1, n), dtype=bool), keep] + ([np.zeros((1, n), dtype=bool)] if empty else [])
    weights = np.ones(1 + len(keep) + int(empty))
    weights[0] = max(anchor * len(keep), 1.0)
    return QueryPlan(np.concatenate(ends), weights)
