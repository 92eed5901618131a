"""The two-scale surrogate: a SLALOM for inputs of every size, a correction next to the whole text, pairs of units, and shifts.

    F(c) = S(c) + x^p (A - sum_i d_i c_i) + sum_(i, j) g_ij c_i c_j + sum_g h_g(r_g),        x = sum_i t_i c_i

S is a Slalom. The shares t of the units sum to 1 at the whole text, where c_i = 1 and x = 1. With r_0 = A - sum d the
correction reads x^p (r_0 + sum of d_i over the units removed): r_0 is what S misses at the whole text, d_i what it misses of
the change by the removal of unit i. The power p says how fast that fades as units are removed. g_ij is what the units i and j
do together beyond what each does alone. h_g is what it does that r_g atoms before a place of the text are missing (`shifts`).

With A, t and d as parameters F is a function of the counts alone, so that units can be merged and repeated.

Semivalues are exact. Those of S are in `shapley`; a pair gives each of its units g_ij times the probability that the other is
present. The correction needs E[T^p] of random sums T of shares, which is the p-th Taylor coefficient of E[exp(z T)], a product
over the units, and comes from its values on a circle (Cauchy's formula; a trapezoidal rule, exact to rounding).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import lgamma
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom.core.base import Background, Link, Surrogate
from slalom.core.checks import (
    Counts,
    Floats,
    centred,
    checked_groups,
    count_matrix,
    count_vector,
    freeze,
    plain,
    read_only,
    real_array,
    whole_array,
    whole_number,
)
from slalom.core.measures import Measure
from slalom.core.shifts import Shifts
from slalom.core.slalom import Slalom
from slalom.errors import InputError

MAX_POWER = 64
_TERMS = 2**21  # of all nodes, units and classes at once: complex numbers of 32 MB
_MORE_NODES = 40  # on the circle, beyond the power: the error of the trapezoidal rule is then below rounding


@final
@dataclass(frozen=True, eq=False)
class Near:
    """The correction x^p (A - sum_i d_i c_i) next to the whole text.

    Attributes:
        level: A, a number or one per class.
        changes: d (n_units,) or (n_units, n_classes).
        shares: t (n_units,), not negative.
        power: p, a whole number from 1 to 64.
    """

    level: float | Floats
    changes: Floats
    shares: Floats
    power: int

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        freeze(self)

    @property
    def offset(self) -> Floats:
        """r_0, the correction of the input with every unit once, where its shares sum to 1."""
        return np.asarray(self.level - self.changes.sum(axis=0))

    def __call__(self, counts: Floats) -> Floats:
        """Return the correction of counts (m, n_units): (m,) or (m, n_classes)."""
        fade = (counts @ self.shares) ** self.power
        return ((self.level - counts @ self.changes).T * fade).T

    def gradient(self, c: Floats) -> Floats:
        """Return the derivatives by the counts at an input (n_units,)."""
        kept, p = float(c @ self.shares), self.power
        left = np.asarray(self.level - c @ self.changes)
        return p * kept ** (p - 1) * np.multiply.outer(self.shares, left) - kept**p * self.changes

    def removal(self, c: Floats) -> Floats:
        """Return the decrease without each unit, of an input (n_units,)."""
        kept, left = float(c @ self.shares), np.asarray(self.level - c @ self.changes)
        without = np.clip(kept - c * self.shares, 0.0, None) ** self.power
        return kept**self.power * left - (without * (left + (c * self.changes.T).T).T).T

    def semivalue(self, measure: Measure, c: Floats) -> Floats:
        """Return the semivalues at an input (n_units,)."""
        if len(parts := self._by_classes(c)) > 1:
            return np.concatenate([part.semivalue(measure, c) for part in parts], axis=-1)
        players = np.flatnonzero(c)
        result = np.zeros_like(self.changes)
        if len(players):
            terms = self._terms(measure, c, players)
            own = terms.left[..., None, :] + terms.pull
            phi = np.einsum("qz,qzi,qzik->ik", terms.weight, terms.push, own) - np.einsum(
                "qz,qzik->ik", terms.weight, terms.pull_alone
            )
            result[players] = phi.real.reshape(len(players), *self.changes.shape[1:])
        return result

    def _by_classes(self, c: Floats) -> "list[Near]":
        """Return corrections of some classes each, whose terms fit into memory; the correction itself where they do so."""
        if self.changes.ndim == 1:
            return [self]
        nodes = (min(len(c), self.power + 2) // 2 + 1) * (self.power + _MORE_NODES) // 2
        most, level = max(1, _TERMS // (nodes * max(len(c), 1))), np.asarray(self.level)
        if most >= len(level):
            return [self]
        chosen = [slice(k, k + most) for k in range(0, len(level), most)]
        return [Near(level[part], self.changes[:, part], self.shares, self.power) for part in chosen]

    def _terms(self, measure: Measure, c: Floats, players: NDArray[np.intp]) -> "_Terms":
        """Return what semivalues are made of, at nodes q of the measure and z of the circle.

        With e_i = exp(z t_i c_i), a_i = d_i c_i and f_i = 1 - q + q e_i the expectation over the other units of
        exp(z T) (A - sum a) is P (A - sum_j q a_j e_j / f_j), P the product of all f.
        """
        p, shares = self.power, (self.shares * c)[players]
        total = float(shares.sum())
        changes = (self.changes.T * c).T.reshape(len(c), -1)[players]
        q, mass = measure.rule(min(len(players), p + 2))
        if total <= 0.0:  # x = 0 whatever is present
            nothing = np.zeros((1, 1, *changes.shape))
            return _Terms(nothing[..., 0, 0], nothing[..., 0], nothing, nothing, nothing[..., 0, :])
        radius, n_nodes = p / total, 2 * ((p + _MORE_NODES) // 2)
        # Conjugate nodes have conjugate terms: half of the circle, without its ends, counts twice.
        angle = (np.arange(n_nodes // 2) + 0.5) * (2.0 * np.pi / n_nodes)
        grown = np.exp(radius * np.exp(1j * angle)[:, None] * shares)  # (z, i)
        factor = 1.0 + q[:, None, None] * (grown - 1.0)  # (q, z, i)
        log_scale = lgamma(p + 1.0) - p * np.log(radius)
        product = np.exp(np.log(factor).sum(axis=2) + log_scale - 1j * p * angle)
        weight = 2.0 / n_nodes * mass[:, None] * product
        alone = (grown / factor)[..., None] * changes  # a_i e_i / f_i
        pull = q[:, None, None, None] * alone
        level = np.asarray(self.level).reshape(1, 1, -1)
        return _Terms(weight, (grown - 1.0) / factor, pull, alone, level - pull.sum(axis=2))


class _Terms(NamedTuple):
    """weight (q, z); push (e - 1) / f, (q, z, i); pull q a e / f and pull_alone a e / f, (q, z, i, k); left A - sum pull."""

    weight: NDArray[Any]
    push: NDArray[Any]
    pull: NDArray[Any]
    pull_alone: NDArray[Any]
    left: NDArray[Any]


@final
@dataclass(frozen=True, eq=False)
class TwoScale(Surrogate):
    """A Slalom with a correction next to the whole text, pairs of units that act together, and the effect of their places.

    Args:
        far: The Slalom for inputs of every size.
        level: A, a number or one per class; centred over the classes.
        changes: d (n_units,) or (n_units, n_classes), as the values of `far`.
        shares: t (n_units,), not negative.
        power: p, from 1 to 64.
        pairs: Indices of the units of each pair (n_pairs, 2). A pair of a unit with itself stands for g c_i^2.
        effects: g (n_pairs,) or (n_pairs, n_classes).
        shifts: h; None: places have no effect.

    Raises:
        InputError: A part is not finite, out of range, or its shape does not fit.

    Example:
        >>> model = TwoScale(Slalom([2.0, -1.0], [0.0, 0.0]), 0.5, [0.25, 0.0], [0.5, 0.5], 2)
        >>> model(np.array([[1.0, 1.0], [0.0, 1.0]])).tolist()  # 0.5 + 0.25 and -1 + 0.5^2 * 0.5
        [0.75, -0.875]
        >>> model.removal().tolist()
        [1.625, -1.3125]
    """

    kind: ClassVar[str] = "two-scale"

    far: Slalom
    near: Near
    pairs: NDArray[np.int64]
    effects: Floats
    shifts: Shifts | None

    def __init__(
        self,
        far: Slalom,
        level: ArrayLike,
        changes: ArrayLike,
        shares: ArrayLike,
        power: int,
        pairs: ArrayLike | Sequence[tuple[int, int]] = (),
        effects: ArrayLike = (),
        shifts: Shifts | None = None,
    ) -> None:
        shape = far.values.shape
        a, d = real_array("level", level, (0, 1)), real_array("changes", changes, (1, 2))
        t = real_array("shares", shares, (1,))
        if d.shape != shape or a.shape != shape[1:] or t.shape != shape[:1]:
            raise InputError(
                f"level, changes and shares must have the shapes {shape[1:]}, {shape} and {shape[:1]}, as the values have;"
                f" got {a.shape}, {d.shape} and {t.shape}"
            )
        if (t < 0.0).any():
            raise InputError(f"shares must not be negative; got {t.min()}")
        p = whole_number("power", power, 1)
        if p > MAX_POWER:
            raise InputError(f"power must be at most {MAX_POWER}; got {p}")
        ij = whole_array("pairs", pairs, 2)
        g = real_array("effects", np.zeros((0, *shape[1:])) if len(ij) == 0 else effects, (1, 2))
        if g.shape != (len(ij), *shape[1:]) or ((ij < 0) | (ij >= len(t))).any():
            raise InputError(f"pairs must be indices of {len(t)} units, with one effect each; got {ij.tolist()} and {g.shape}")
        if shifts is not None and (shifts.n_units, shifts.offsets.shape[2:]) != (len(t), shape[1:]):
            raise InputError(
                f"shifts must be those of {len(t)} units and have the classes of the values, {shape[1:]}; got"
                f" {shifts.n_units} units and {shifts.offsets.shape[2:]}"
            )
        if a.ndim:
            a, d, g = centred(a), centred(d), centred(g) if len(g) else g
        near = Near(read_only(a.copy()) if a.ndim else float(a), read_only(d.copy()), read_only(t.copy()), p)
        parts = {"far": far, "near": near, "pairs": read_only(ij), "effects": read_only(g.copy()), "shifts": shifts}
        for name, part in parts.items():
            object.__setattr__(self, name, part)

    @property
    def values(self) -> Floats:  # type: ignore[override]
        """The values of the Slalom."""
        return self.far.values

    @property
    def importances(self) -> Floats:  # type: ignore[override]
        """The importances of the Slalom."""
        return self.far.importances

    @property
    def background(self) -> Background | None:  # type: ignore[override]
        return self.far.background

    @property
    def link(self) -> Link | None:  # type: ignore[override]
        return self.far.link

    @property
    def additive(self) -> bool:
        return self.far.additive

    @property
    def empty_score(self) -> float | Floats:
        if self.shifts is None:
            return self.far.empty_score
        return _number(self.far.empty_score + self.shifts(np.zeros((1, self.n_units)))[0])

    def predict(self, counts: Counts) -> Floats:
        c = count_matrix(counts, self.n_units)
        first, second = self.pairs.T
        scores = self.far.predict(c) + self.near(c) + (c[:, first] * c[:, second]) @ self.effects
        return np.asarray(scores if self.shifts is None else scores + self.shifts(c))

    def weights(self, counts: Counts) -> Floats:
        return self.far.weights(counts)

    def linear(self) -> Floats:
        return self.far.linear()

    def gradient(self, counts: ArrayLike | None = None) -> Floats:
        c = count_vector(counts, self.n_units)
        slopes = self.far.gradient(c) + self.near.gradient(c) + self._by_pair(c, 1.0, own=2.0, scaled=False)
        return np.asarray(slopes if self.shifts is None else slopes + self.shifts.gradient(c))

    def removal(self, counts: ArrayLike | None = None) -> Floats:
        c = count_vector(counts, self.n_units)
        changes = self.far.removal(c) + self.near.removal(c) + self._by_pair(c, 1.0, own=1.0)
        return np.asarray(changes if self.shifts is None else changes + self.shifts.removal(c))

    def _semivalue(self, measure: Measure, counts: ArrayLike | None) -> Floats:
        c = count_vector(counts, self.n_units)
        q, mass = measure.rule(2)
        pairs = self._by_pair(c, float(q @ mass), own=1.0)
        shares = self.far.semivalue(measure, c) + self.near.semivalue(measure, c) + pairs
        return np.asarray(shares if self.shifts is None else shares + self.shifts.semivalue(measure, c))

    def _by_pair(self, c: Floats, other: float, own: float, scaled: bool = True) -> Floats:
        """Return g c_j for unit i of each pair, times `other`, or `own` where i = j; with `scaled` also times c_i."""
        result = np.zeros_like(self.near.changes)
        first, second = self.pairs.T
        alike = first == second
        for i, j in ((first, second), (second[~alike], first[~alike])):
            effects = self.effects if len(i) == len(first) else self.effects[~alike]
            factor = np.where(i == j, own, other) * c[j] * (c[i] if scaled else 1.0)
            np.add.at(result, i, (factor * effects.T).T)
        return result

    def merged(self, groups: ArrayLike) -> "TwoScale":
        g = checked_groups(groups, self.n_units)
        near = self.near
        pairs, which = np.unique(np.sort(g[self.pairs], axis=1), axis=0, return_inverse=True)
        effects = np.zeros((len(pairs), *self.effects.shape[1:]))
        np.add.at(effects, which.ravel(), self.effects)
        changes, shares = np.zeros((int(g.max()) + 1, *near.changes.shape[1:])), np.zeros(int(g.max()) + 1)
        np.add.at(changes, g, near.changes)
        np.add.at(shares, g, near.shares)
        shifts = None if self.shifts is None else self.shifts.merged(g)
        return TwoScale(self.far.merged(g), near.level, changes, shares, near.power, pairs, effects, shifts)

    def repeated(self, units: NDArray[np.int64]) -> "TwoScale":
        near, chosen = self.near, [np.flatnonzero(units == unit) for unit in range(self.n_units)]
        pairs, effects = list[tuple[int, int]](), list[Any]()
        for (i, j), effect in zip(self.pairs.tolist(), self.effects, strict=True):
            grid = [(int(a), int(b)) for a in chosen[i] for b in chosen[j]]
            pairs, effects = pairs + grid, effects + [effect] * len(grid)
        changes, shares, shifts = near.changes[units], near.shares[units], self.shifts
        shifts = None if shifts is None else shifts.repeated(units)
        return TwoScale(self.far.repeated(units), near.level, changes, shares, near.power, pairs, effects, shifts)

    @classmethod
    def constant(cls, n_units: int, level: float | Floats, empty: bool) -> "TwoScale":
        nothing, shares = np.zeros((n_units, *np.shape(level))), np.full(n_units, 1.0 / n_units)
        return TwoScale(Slalom.constant(n_units, level, empty), nothing[0], nothing, shares, 1)

    def to_dict(self) -> dict[str, Any]:
        near = {name: plain(getattr(self.near, name)) for name in ("level", "changes", "shares", "power")}
        more = {"near": near, "pair_units": self.pairs.tolist(), "pair_effects": self.effects.tolist()}
        if self.shifts is not None:
            more["shifts"] = self.shifts.to_dict()
        return {**self.far.to_dict(), "kind": self.kind, **more}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "TwoScale":
        near = saved["near"]
        parts = (near["level"], near["changes"], near["shares"], near["power"], saved["pair_units"], saved["pair_effects"])
        far, shifts = Slalom.from_dict(saved), saved.get("shifts")
        return TwoScale(far, *parts, shifts=None if shifts is None else Shifts.from_dict(shifts, far.n_units))


def _number(score: Any) -> float | Floats:
    """Return a score as a number, or as an array of one per class."""
    return float(score) if np.ndim(score) == 0 else np.asarray(score)
