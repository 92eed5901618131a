"""A function of which units are there, written out: a part of the surrogate.

    G(c) = sum_k a_k prod_(i present in k) c_i prod_(j absent in k) (1 - c_j)

A conjunction k says which units are there and which are not. Leaves of trees are such terms, and so are the monomials of a
polynomial; for counts between 0 and 1 the function is linear in each unit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom.core.base import Part
from slalom.core.checks import Floats, centred, read_only, real_array, whole_array
from slalom.core.measures import Measure
from slalom.errors import InputError

_BLOCK = 2**22  # numbers in one block


@final
@dataclass(frozen=True, eq=False)
class Conjunctions(Part):
    """Effects of units that are present or absent together.

    Args:
        n_units: Number of units.
        literals: The units of each conjunction (k, length): i + 1 where unit i is present, -(i + 1) where it is absent, 0 to
            fill up.
        effects: a (k,) or (k, n_classes).

    Raises:
        InputError: A part is not finite, out of range, or its shape does not fit.

    Example:
        >>> part = Conjunctions(2, [[1, -2], [2, 0]], [3.0, 1.0])
        >>> part(np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])).tolist()
        [3.0, 1.0, 0.0]
    """

    kind: ClassVar[str] = "conjunctions"

    n_units: int
    literals: NDArray[np.int64]
    effects: Floats

    def __init__(self, n_units: int, literals: ArrayLike, effects: ArrayLike) -> None:
        a = real_array("effects", effects, (1, 2)).copy()
        terms = np.asarray(literals)
        terms = (
            whole_array("literals", terms, terms.shape[-1], least=-n_units)
            if terms.size
            else np.zeros((len(a), 0), dtype=np.int64)
        )
        if len(terms) != len(a) or terms.max(initial=0) > n_units:
            raise InputError(f"literals must be from -{n_units} to {n_units}, a row for each of {len(a)} effects")
        for name, field in (("literals", terms), ("effects", centred(a) if a.ndim == 2 else a)):
            object.__setattr__(self, name, read_only(field))
        object.__setattr__(self, "n_units", int(n_units))

    @property
    def class_shape(self) -> tuple[int, ...]:
        return self.effects.shape[1:]

    def __call__(self, counts: Floats) -> Floats:
        size = max(1, _BLOCK // max(len(self.effects), 1))
        blocks = [self._terms(counts[k : k + size]) @ self.effects for k in range(0, len(counts), size)]
        return np.concatenate(blocks) if blocks else np.zeros((0, *self.class_shape))

    def gradient(self, c: Floats) -> Floats:
        return self._summed(np.sign(self.literals) * _others(self._factors(c)))

    def semivalue(self, measure: Measure, c: Floats) -> Floats:
        without, joined = self._factors(np.zeros(self.n_units)), self._factors(c)
        length = self.literals.shape[1]
        for later in range(length):  # a merged unit may be in a term more than once: it joins as a whole
            for first in range(later):
                same = np.abs(self.literals[:, first]) == np.abs(self.literals[:, later])
                for factors in (without, joined):
                    factors[same, first] *= factors[same, later]
                    factors[same, later] = 1.0
        result = np.zeros((self.n_units, *self.class_shape))
        for q, mass in zip(*measure.rule(max(length, 2)), strict=True):
            result += mass * self._summed((joined - without) * _others((1.0 - q) * without + q * joined))
        return result

    def merged(self, groups: NDArray[np.intp]) -> "Conjunctions":
        units = np.append(groups, -1)[np.abs(self.literals) - 1]
        return Conjunctions(int(groups.max()) + 1, np.sign(self.literals) * (units + 1), self.effects)

    def to_dict(self) -> dict[str, Any]:
        return {"literals": self.literals.tolist(), "effects": self.effects.tolist()}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any], n_units: int) -> "Conjunctions":
        return Conjunctions(n_units, saved["literals"], saved["effects"])

    def _terms(self, counts: Floats) -> Floats:
        """Return the product of each term (m, k) for counts (m, n_units)."""
        terms, factors = np.ones((len(counts), len(self.effects))), _table(counts)
        for column in self.literals.T:
            terms *= factors[:, column]
        return terms

    def _factors(self, c: Floats) -> Floats:
        """Return the factors (k, length) of the terms at an input (n_units,)."""
        return np.asarray(_table(c[None])[0][self.literals])

    def _summed(self, slopes: Floats) -> Floats:
        """Return sums by unit of slopes (k, length), times the effects."""
        result = np.zeros((self.n_units + 1, *self.class_shape))
        for column, slope in zip(self.literals.T, slopes.T, strict=True):
            np.add.at(result, np.abs(column), (slope * self.effects.T).T)
        return result[1:]


def _table(counts: Floats) -> Floats:
    """Return the factors (m, 2 n + 1) of the literals 0, 1 .. n, -n .. -1, in this order."""
    return np.hstack([np.ones((len(counts), 1)), counts, 1.0 - counts[:, ::-1]])


def _others(factors: Floats) -> Floats:
    """Return the product of all factors but one in each place (k, length)."""
    ones = np.ones((len(factors), 1))
    before = np.cumprod(np.hstack([ones, factors[:, :-1]]), axis=1)
    after = np.cumprod(np.hstack([ones, factors[:, :0:-1]]), axis=1)[:, ::-1]
    return np.asarray(before * after) if factors.shape[1] else factors
