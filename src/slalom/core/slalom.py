"""The SLALOM surrogate: words with a value and an importance that compete for attention, and what that formula leaves.

    F(c) = link(b + A(c)) + sum of the parts        A(c) = sum_i c_i u_i share_i(c)^kappa
    share_i(c) = w_i / sum_j c_j w_j                w_i = exp(s_i)
    link(z) = m + a tanh((z - m) / a)

c_i is how often unit i is present. With the competition kappa = 1 the values u are averaged by a softmax: equation 4 of the
paper. With kappa = 0 they add up: a linear model. In between, u_i is what the unit says alone: its share is then 1, and
F = link(b + u_i). The empty input has the score link(b). A constant added to every importance s cancels, so their sum is 0.

Parts are what the formula cannot say: see `neighbours`, `shifts` and `conjunctions`. With several classes values, bias and
parts have one column per class, all of which sum to zero over the classes, and there is no link: F_c are centred logits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from slalom.core.base import Link, Part, Surrogate
from slalom.core.checks import (
    Counts,
    Floats,
    beyond_rounding,
    centred,
    checked_groups,
    count_matrix,
    count_vector,
    plain,
    read_only,
    real_array,
)
from slalom.core.conjunctions import Conjunctions
from slalom.core.measures import Measure
from slalom.core.neighbours import Neighbours
from slalom.core.semivalues import semivalues
from slalom.core.shifts import Shifts
from slalom.errors import InputError

_ADDING = 0.02  # competition below which importances say nothing: a share of 1% then counts as much as 0.91 of one of 100%
_DIRECT_SPREAD = 600.0  # of importances: exp of it, times a count, neither overflows nor loses a unit
PARTS: dict[str, type[Part]] = {part.kind: part for part in (Neighbours, Shifts, Conjunctions)}


@final
@dataclass(frozen=True, eq=False)
class Slalom(Surrogate):
    """Values that are added, averaged, or anything in between.

    Args:
        values: u (n_units,) or (n_units, n_classes): what each unit says alone, before the link.
        importances: s (n_units,), the logarithms of the weights; moved to the sum 0.
        competition: kappa, from 0 (values add up) to 1 (values are averaged).
        bias: b, a number or (n_classes,).
        link: The pair (m, a), numbers; only where there is one score. Default: none.
        parts: What is added to the formula.

    Raises:
        InputError: A part is not finite or out of range, or the shapes do not fit.

    Example:
        >>> model = Slalom(values=[2.0, -1.0], importances=[0.0, 0.0])
        >>> model(np.array([[1.0, 0.0], [1.0, 1.0], [3.0, 1.0]])).tolist()
        [2.0, 0.5, 1.25]
        >>> Slalom([2.0, -1.0], [0.0, 0.0], competition=0.0, bias=0.5)(np.array([[0, 0], [1, 1]])).tolist()
        [0.5, 1.5]
    """

    kind: ClassVar[str] = "slalom"

    values: Floats
    importances: Floats
    competition: float = 1.0
    bias: float | Floats = 0.0
    link: Link | None = None
    parts: tuple[Part, ...] = ()

    def __init__(
        self,
        values: ArrayLike,
        importances: ArrayLike,
        competition: float = 1.0,
        bias: ArrayLike = 0.0,
        link: Link | Sequence[float] | None = None,
        parts: Sequence[Part] = (),
    ) -> None:
        u, s = real_array("values", values, (1, 2)).copy(), real_array("importances", importances, (1,)).copy()
        if len(u) != len(s) or len(s) == 0:
            raise InputError(f"values and importances must have one entry for each of n >= 1 units; got {u.shape}, {s.shape}")
        if u.ndim == 2 and u.shape[1] < 2:
            raise InputError(f"values of several classes need >= 2 columns; got shape {u.shape} (pass a vector)")
        kappa = float(real_array("competition", competition, (0,)))
        if not 0.0 <= kappa <= 1.0:
            raise InputError(f"competition must be from 0 to 1; got {competition!r}")
        b = real_array("bias", bias, (0, 1))
        if b.ndim and b.shape != u.shape[1:]:
            raise InputError(f"bias must be a number, or one for each class; got shape {b.shape} for values {u.shape}")
        if u.ndim == 2:
            u, b = centred(u), centred(np.broadcast_to(b, u.shape[1:]).copy())
        if link is not None:
            link = _checked_link(link, several=u.ndim == 2)
        for part in parts:
            if part.n_units != len(s) or part.class_shape != u.shape[1:]:
                raise InputError(f"parts must be of {len(s)} units and have the classes of the values; got {part!r}")
        for _ in range(2):  # of large ones the first mean leaves rounding; of centred ones no bit changes
            s -= beyond_rounding(s.mean(), s)
        fields = {"values": read_only(u), "importances": read_only(s), "competition": kappa, "link": link}
        fields |= {"bias": read_only(b) if b.ndim else float(b), "parts": tuple(parts)}
        for name, field in fields.items():
            object.__setattr__(self, name, field)

    @property
    def additive(self) -> bool:
        return self.competition < _ADDING

    def predict(self, counts: Counts) -> Floats:
        c = count_matrix(counts, self.n_units)
        scores = self.formula(c)
        for part in self.parts:
            scores = scores + part(c)
        return scores

    def formula(self, counts: Floats) -> Floats:
        """Return the score without the parts, (m,) or (m, n_classes), for counts (m, n_units)."""
        z = self.bias + self._evidence(counts)
        return z if self.link is None else self.link(z)

    def weights(self, counts: Counts) -> Floats:
        return self._shares(count_matrix(counts, self.n_units))

    def linear(self) -> Floats:
        """Return u exp(kappa s): the paper's linearised scores v exp(s); bias, link and parts play no role.

        Example:
            >>> Slalom(values=[2.0, -1.0], importances=[0.0, 0.0]).linear().tolist()
            [2.0, -1.0]
        """
        with np.errstate(over="ignore", invalid="ignore"):
            scores = (np.exp(self.competition * self.importances) * self.values.T).T
        if not np.isfinite(scores).all():
            raise InputError("linear scores must fit into floats, but importances differ by hundreds; use removal instead")
        return np.asarray(scores)

    def gradient(self, counts: ArrayLike | None = None) -> Floats:
        c = count_vector(counts, self.n_units)
        if not c.any() and self.competition > 0.0:
            raise InputError("gradient needs a unit present; all counts are 0")
        evidence = self._evidence(c[None])[0]
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            share = np.exp(self.importances - logsumexp(np.log(c) + self.importances)) if self.competition else np.ones(len(c))
            own = (share**self.competition * self.values.T).T - self.competition * np.multiply.outer(share, evidence)
        slope = 1.0 if self.link is None else self.link.slope(self.bias + evidence)
        slopes = np.asarray(slope * own)
        if not np.isfinite(slopes).all():
            raise InputError("gradients at these counts must fit into floats; use removal, which is bounded")
        for part in self.parts:
            slopes = slopes + part.gradient(c)
        return slopes

    def _semivalue(self, measure: Measure, counts: ArrayLike | None) -> Floats:
        c = count_vector(counts, self.n_units)
        phi = semivalues(self, measure, c)
        for part in self.parts:
            phi = phi + part.semivalue(measure, c)
        return phi

    def merged(self, groups: ArrayLike) -> "Slalom":
        """Return the model whose units are groups of these; F is unchanged wherever the units of a group go together.

            w_G = sum_i w_i,        u_G = sum_i u_i (w_i / w_G)^kappa

        Example:
            >>> merged = Slalom(values=[2.0, -1.0, 4.0], importances=[0.0, 0.0, 0.0]).merged([0, 0, 1])
            >>> merged.values.tolist(), merged(np.ones((1, 2))).round(6).tolist()
            ([0.5, 4.0], [1.666667])
        """
        g = checked_groups(groups, self.n_units)
        members = np.arange(int(g.max()) + 1)[:, None] == g
        importances = logsumexp(np.where(members, self.importances, -np.inf), axis=1)
        values = np.zeros((len(members), *self.values.shape[1:]))
        np.add.at(values, g, (np.exp(self.competition * (self.importances - importances[g])) * self.values.T).T)
        parts = [part.merged(g) for part in self.parts]
        return Slalom(values, importances, self.competition, self.bias, self.link, parts)

    def repeated(self, units: NDArray[np.int64]) -> "Slalom":
        return Slalom(self.values[units], self.importances[units], self.competition, self.bias, self.link)

    @classmethod
    def constant(cls, n_units: int, level: float | Floats) -> "Slalom":
        return Slalom(np.zeros((n_units, *np.shape(level))), np.zeros(n_units), bias=level)

    def to_dict(self) -> dict[str, Any]:
        numbers = {name: plain(getattr(self, name)) for name in ("values", "importances", "competition", "bias", "link")}
        return {"kind": self.kind, **numbers, "parts": [{"kind": part.kind, **part.to_dict()} for part in self.parts]}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "Slalom":
        numbers = {name: saved[name] for name in ("values", "importances", "competition", "bias", "link")}
        return Slalom(**numbers, parts=[_part(part, len(saved["values"])) for part in saved["parts"]])

    def _evidence(self, c: Floats) -> Floats:
        """Return A (m,) or (m, n_classes) for counts (m, n_units)."""
        if self.competition == 0.0:
            return np.asarray(c @ self.values)
        s, kappa = self.importances - self.importances.max(), self.competition
        if s.min() > -_DIRECT_SPREAD:
            weights = np.exp(s)
            total = np.maximum(c @ weights, 1e-300) ** kappa  # of the empty input: its sum is 0 as well
            return np.asarray(((c @ (weights**kappa * self.values.T).T).T / total).T)
        return np.asarray(self._shares(c, kappa) @ self.values)

    def _shares(self, c: Floats, kappa: float = 1.0) -> Floats:
        """Return c_i share_i(c)^kappa, (m, n_units); zeros for an empty input."""
        with np.errstate(divide="ignore"):
            log_c = np.log(c)
            total = np.maximum(logsumexp(log_c + self.importances, axis=1), np.finfo(float).min)
        return np.asarray(np.exp(log_c + kappa * (self.importances - total[:, None])))


def _part(saved: Mapping[str, Any], n_units: int) -> Part:
    if saved["kind"] not in PARTS:
        raise InputError(f"parts of a surrogate must be {' or '.join(map(repr, PARTS))}; got {saved['kind']!r}; update slalom")
    return PARTS[saved["kind"]].from_dict(saved, n_units)


def _checked_link(link: Link | Sequence[float], several: bool) -> Link:
    if several:
        raise InputError("a link needs one score per row; with several classes there is none")
    if not isinstance(link, (tuple, list)) or len(link) != 2:
        raise InputError(f"link must be a pair (middle, reach); got {type(link).__name__}")
    middle, reach = (float(real_array("the link's part", part, (0,))) for part in link)
    if reach <= 0.0:
        raise InputError(f"the link's reach must be positive; got {reach}")
    return Link(middle, reach)
