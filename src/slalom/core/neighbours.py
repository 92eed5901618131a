"""What the model's own answers say of nearly the same text: a part of the surrogate.

    H(c) = sum_k a_k exp(-sum_i r_i |c_i - x_ki|)

x_k are parts of the text (n,) that were asked, r_i is how much it matters whether unit i is there, and a_k is how far the
answer to x_k pulls the score of parts that are nearly the same: the mean of a Gaussian process on what the formula leaves. It
holds what words do together, and fades within a few words that matter.

For counts from 0 to 1 the distance is linear in c, so that units can be merged: |c - x| = x + (1 - 2 x) c.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom.core.base import Part
from slalom.core.checks import Floats, centred, read_only, real_array, whole_array
from slalom.core.measures import Measure
from slalom.errors import InputError

_BLOCK = 2**20  # numbers in one block


@final
@dataclass(frozen=True, eq=False)
class Neighbours(Part):
    """Pulls of the answers to parts of the text.

    Args:
        rows: Which atoms each part keeps (k, n_atoms).
        rates: r (n_atoms,), not negative.
        pulls: a (k,) or (k, n_classes).
        unit_of_atom: The unit 0, 1, ... of each atom (n_atoms,): atoms are the units at the time of the fit. Default: the same.

    Raises:
        InputError: A part is not finite, out of range, or its shape does not fit.

    Example:
        >>> part = Neighbours([[True, False]], [1.0, 2.0], [3.0])
        >>> part(np.array([[1.0, 0.0], [1.0, 1.0]])).round(6).tolist()  # 3 and 3 exp(-2)
        [3.0, 0.406006]
    """

    kind: ClassVar[str] = "neighbours"

    rows: NDArray[np.bool_]
    rates: Floats
    pulls: Floats
    unit_of_atom: NDArray[np.int64]

    def __init__(self, rows: ArrayLike, rates: ArrayLike, pulls: ArrayLike, unit_of_atom: ArrayLike | None = None) -> None:
        x, r, a = np.array(rows, dtype=bool), real_array("rates", rates, (1,)).copy(), real_array("pulls", pulls, (1, 2)).copy()
        units = np.arange(len(r)) if unit_of_atom is None else whole_array("unit_of_atom", unit_of_atom)
        if x.shape != (len(a), len(r)) or units.shape != r.shape or (r < 0.0).any():
            raise InputError(f"rows must be one part for each of {len(a)} pulls and have {len(r)} atoms; got shape {x.shape}")
        a = centred(a) if a.ndim == 2 else a
        for name, field in (("rows", x), ("rates", r), ("pulls", a), ("unit_of_atom", units)):
            object.__setattr__(self, name, read_only(field))

    @property
    def n_units(self) -> int:  # type: ignore[override]
        return int(self.unit_of_atom.max()) + 1

    @property
    def class_shape(self) -> tuple[int, ...]:
        return self.pulls.shape[1:]

    @cached_property
    def _starts(self) -> Floats:
        """Distances (k,) of the parts from the empty text."""
        return np.asarray(self.rows @ self.rates)

    @cached_property
    def _slopes(self) -> Floats:
        """How the distances grow with the count of each unit (n_units, k)."""
        slopes = np.zeros((self.n_units, len(self.pulls)))
        np.add.at(slopes, self.unit_of_atom, (np.where(self.rows, -1.0, 1.0) * self.rates).T)
        return slopes

    def __call__(self, counts: Floats) -> Floats:
        starts, slopes, size = self._starts, self._slopes, max(1, _BLOCK // len(self.pulls))
        blocks = [np.exp(-starts - counts[k : k + size] @ slopes) @ self.pulls for k in range(0, len(counts), size)]
        return np.concatenate(blocks) if blocks else np.zeros((0, *self.class_shape))

    def gradient(self, c: Floats) -> Floats:
        near = np.exp(-self._starts - c @ self._slopes)
        return np.asarray(-(self._slopes * near) @ self.pulls)

    def semivalue(self, measure: Measure, c: Floats) -> Floats:
        starts = np.zeros((self.n_units, len(self.pulls)))
        np.add.at(starts, self.unit_of_atom, (self.rows * self.rates).T)
        without = np.exp(-starts.T)  # (k, n): factors of a unit that is absent, and of one that is there
        joined = np.exp(-(starts + (self._slopes.T * c).T).T)
        result = np.zeros((self.n_units, *self.class_shape))
        nodes = [(0.0, 1.0)] if self.n_units == 1 else zip(*measure.rule(self.n_units), strict=True)
        for q, mass in nodes:
            logs = np.log(np.maximum((1.0 - q) * without + q * joined, 1e-300))
            others = np.exp(logs.sum(axis=1, keepdims=True) - logs)
            result += mass * ((others * (joined - without)).T @ self.pulls)
        return result

    def merged(self, groups: NDArray[np.intp]) -> "Neighbours":
        return Neighbours(self.rows, self.rates, self.pulls, groups[self.unit_of_atom])

    def to_dict(self) -> dict[str, Any]:
        packed = base64.b64encode(np.packbits(self.rows, axis=1).tobytes()).decode("ascii")
        numbers = {name: getattr(self, name).tolist() for name in ("rates", "pulls", "unit_of_atom")}
        return {"rows": packed, **numbers}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any], n_units: int) -> "Neighbours":
        n = len(saved["rates"])
        bits = np.frombuffer(base64.b64decode(saved["rows"]), dtype=np.uint8).reshape(len(saved["pulls"]), -1)
        return Neighbours(
            np.unpackbits(bits, axis=1)[:, :n].astype(bool), saved["rates"], saved["pulls"], saved["unit_of_atom"]
        )
