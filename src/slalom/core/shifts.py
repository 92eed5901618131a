"""The effect of the places of units: how many atoms are missing before them.

    F(c) = ... + sum_g h_g(r_g),        r_g = sum of size_i (1 - c_i) over the units i before knot g

A transformer with positions reads a word at another place when something before it is removed, and scores it differently: not
because of what was removed, but because of how much. A knot is a place in the text, and h_g(r) is what it does to the score
that r atoms before it are missing; h_g(0) = 0, and h_g(r) = 0 beyond the last r of the table.

Semivalues are exact: h_g depends on the atoms missing before the knot alone, so the sets of other units are counted by how many
units and how many atoms they remove.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom.core.base import Part
from slalom.core.checks import Floats, centred, read_only, real_array, whole_array
from slalom.core.measures import Measure
from slalom.errors import InputError

Index = NDArray[np.int64]


@final
@dataclass(frozen=True, eq=False)
class Shifts(Part):
    """Offsets of the score by the number of atoms that are missing before knots of the text.

    Args:
        n_units: Number of units.
        units: Unit of each entry (a,); a unit may have several.
        knots: The first knot after the entry (a,); it is before all later ones, too.
        sizes: Number of atoms of the entry (a,), at least 1.
        offsets: h (n_knots, R + 1) or (n_knots, R + 1, n_classes), for 0, 1, ..., R missing atoms; the first is 0. With
            several classes they are centred. Between two numbers of atoms the offset is linear.

    Raises:
        InputError: A part is not finite, out of range, or its shape does not fit.

    Example:
        >>> shifts = Shifts(3, [0, 1], [0, 1], [1, 2], [[0.0, 1.0, 0.0], [0.0, 0.0, 0.5]])
        >>> shifts(np.array([[1.0, 1.0, 1.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0]])).tolist()
        [0.0, 1.0, 0.5]
    """

    kind: ClassVar[str] = "shifts"

    n_units: int
    units: Index
    knots: Index
    sizes: Index
    offsets: Floats

    def __init__(self, n_units: int, units: ArrayLike, knots: ArrayLike, sizes: ArrayLike, offsets: ArrayLike) -> None:
        u, k, s = (whole_array("parts of shifts", part) for part in (units, knots, sizes))
        h = real_array("offsets", offsets, (2, 3))
        if not len(u) == len(k) == len(s) or ((u < 0) | (u >= n_units) | (k < 0) | (k >= len(h)) | (s < 1)).any():
            raise InputError(
                f"shifts need one unit below {n_units}, one knot below {len(h)} and a size of at least 1 for each entry"
            )
        if h.shape[1] < 2 or np.any(h[:, 0]):
            raise InputError("offsets of shifts must begin with 0, for no missing atom, and have one for each further number")
        h = centred(h) if h.ndim == 3 else h.copy()
        object.__setattr__(self, "n_units", int(n_units))
        for name, part in (("units", u), ("knots", k), ("sizes", s), ("offsets", h)):
            object.__setattr__(self, name, read_only(part))

    @property
    def class_shape(self) -> tuple[int, ...]:
        return self.offsets.shape[2:]

    @cached_property
    def _before(self) -> Floats:
        """Atoms of each unit before each knot (n_knots, n_units)."""
        before = np.zeros((len(self.offsets), self.n_units))
        np.add.at(before, (self.knots, self.units), self.sizes)
        return before.cumsum(axis=0)

    @cached_property
    def _table(self) -> Floats:
        """h with a last column of zeros, for more missing atoms than it has numbers."""
        return np.concatenate([self.offsets, np.zeros_like(self.offsets[:, :1])], axis=1)

    def _looked_up(self, missing: Floats) -> Floats:
        """Return h (..., n_knots) or (..., n_knots, n_classes) of missing atoms (..., n_knots)."""
        table = self._table
        missing = np.clip(missing, 0.0, table.shape[1] - 1)
        low = np.minimum(missing.astype(np.int64), table.shape[1] - 2)
        part, knot = missing - low, np.arange(len(table))
        step = table[knot, low + 1] - table[knot, low]
        return np.asarray(table[knot, low] + (step.T * part.T).T)

    def __call__(self, counts: Floats) -> Floats:
        return np.asarray(self._looked_up((1.0 - counts) @ self._before.T).sum(axis=1))

    def gradient(self, c: Floats) -> Floats:
        missing = self._before @ (1.0 - c)
        steps = self._looked_up(np.floor(missing) + 1.0) - self._looked_up(np.floor(missing))
        return np.asarray(-np.tensordot(self._before.T, steps, axes=1))

    def semivalue(self, measure: Measure, c: Floats) -> Floats:
        result = np.zeros((self.n_units, *self.offsets.shape[2:]))
        for knot in self._knots(c):
            q, mass = measure.rule(knot.n)
            chances = np.array([(mass * q ** max(knot.n - 1 - k, 0) * (1.0 - q) ** k).sum() for k in range(knot.reach + 1)])
            for size in knot.number:
                weight = chances @ knot.others(size)
                result[knot.units[knot.sizes == size]] += weight @ (knot.score(0) - knot.score(size))
        return result

    def _knots(self, c: Floats) -> "list[_Knot]":
        """Return the knots as games of the units that are in an input (n_units,)."""
        if (c != np.rint(c)).any():
            raise InputError("semivalues of a surrogate with shifts need whole counts of the units; got fractions")
        knots = []
        for before, table in zip(np.rint(self._before).astype(np.int64), self._table, strict=True):
            weights = before * c.astype(np.int64)
            units = np.flatnonzero(weights)
            first = int(before.sum() - weights.sum())
            if len(units) and first < len(table):
                knots.append(_Knot(units, weights[units], table, first))
        return knots

    def merged(self, groups: Index) -> Self:
        n = int(groups.max()) + 1
        places, entry = np.unique(groups[self.units] * len(self.offsets) + self.knots, return_inverse=True)
        sizes = np.bincount(entry, self.sizes, minlength=len(places)).astype(np.int64)
        units, knots = np.divmod(places, len(self.offsets))
        return type(self)(n, units, knots, sizes, self.offsets)

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name).tolist() for name in ("units", "knots", "sizes", "offsets")}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any], n_units: int) -> Self:
        return cls(n_units, saved["units"], saved["knots"], saved["sizes"], saved["offsets"])


@final
class _Knot:
    """A knot as a game: the score h(first + atoms of the units that are removed).

    Args:
        units: The units before the knot that are in the input.
        sizes: Their atoms, times how often they are there.
        table: h, with a last 0.
        first: Atoms that the input itself lacks; negative where it has more than the text.
    """

    def __init__(self, units: Index, sizes: Index, table: Floats, first: int) -> None:
        self.units, self.sizes, self.table, self.first, self.n = units, sizes, table, first, len(units)
        self.reach = len(table) - 2 - first  # more removed atoms than this have no effect
        distinct, number = np.unique(sizes, return_counts=True)
        self.number = dict(zip(distinct.tolist(), number.tolist(), strict=True))

    def score(self, more: int) -> Floats:
        """Return h without `more` atoms and 0, 1, ..., reach further ones."""
        return self.table[np.clip(self.first + more + np.arange(self.reach + 1), 0, len(self.table) - 1)]

    def others(self, *without: int) -> Floats:
        """Return how many sets of the other units have k units and r atoms, (k, r) up to the reach."""
        sets = np.zeros((self.reach + 1, self.reach + 1))
        sets[0, 0] = 1.0
        for size, number in self.number.items():
            most = number - without.count(size)
            longer = sets.copy()
            for j in range(1, min(most, self.reach // size) + 1):
                longer[j:, j * size :] += comb(most, j) * sets[: self.reach + 1 - j, : self.reach + 1 - j * size]
            sets = longer
        return sets
