"""The SLALOM surrogate: a softmax-weighted average of unit values.

    S(c) = (w_0 v_0 + sum_i c_i w_i v_i) / (w_0 + sum_j c_j w_j),        w_i = exp(s_i)
    F(c) = link(S(c)),        link(S) = m + a tanh((S - m) / a)

c_i is how often unit i is present; (v_0, s_0) is the background that every query contains ([CLS], [SEP], a prompt). Without a
background w_0 = 0, which is equation 4 of the paper; without a link F = S. A constant added to every s (and s_0) cancels, so
s is normalised to the sum gamma (default: 0).

With several classes v has one column per class and s is shared. Both v and F sum to zero over the classes: F_c are centred
logits, and softmax(F) are the probabilities.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom.core.base import Background, Link, Surrogate, weighted_average
from slalom.core.checks import (
    Counts,
    Floats,
    beyond_rounding,
    centred,
    count_matrix,
    plain,
    read_only,
    real_array,
)
from slalom.core.measures import Measure
from slalom.core.scores import slalom_gradient, slalom_linear, slalom_merge, slalom_removal
from slalom.core.shapley import slalom_semivalue
from slalom.errors import InputError

# Up to this spread of the importances, exp(s - max s) times a count neither overflows nor loses a unit to underflow.
_DIRECT_SPREAD = 600.0
# With a smaller share of the attention than this, all units together hardly compete for it.
_COMPETING = 0.05


@final
@dataclass(frozen=True, eq=False)
class Slalom(Surrogate):
    """A softmax-weighted average of unit values.

    Args:
        values: v (n_units,) or (n_units, n_classes); moved to the sum 0 over the classes.
        importances: s (n_units,), the logarithms of the weights; moved to the sum `gamma`.
        background: The pair (v_0, s_0). Default: none, and the empty input has no value.
        link: The pair (m, a). Default: none.
        gamma: Sum of the importances.

    Raises:
        InputError: A part is not finite, the shapes do not fit, or the reach of the link is not positive.

    Example:
        >>> model = Slalom(values=np.array([2.0, -1.0]), importances=np.zeros(2))
        >>> model(np.array([[1.0, 0.0], [1.0, 1.0], [3.0, 1.0]])).tolist()
        [2.0, 0.5, 1.25]

        A background gives the empty input a value, and its own weight to every other one:

        >>> Slalom([2.0, -1.0], [0.0, 0.0], background=(0.5, 0.0))(np.array([[0, 0], [1, 0]])).tolist()
        [0.5, 1.25]
    """

    kind: ClassVar[str] = "slalom"

    values: Floats
    importances: Floats
    background: Background | None = None
    link: Link | None = None
    gamma: float = 0.0

    def __init__(
        self,
        values: ArrayLike,
        importances: ArrayLike,
        background: Background | Sequence[ArrayLike] | None = None,
        link: Link | Sequence[ArrayLike] | None = None,
        gamma: float = 0.0,
    ) -> None:
        v = real_array("values", values, (1, 2)).copy()
        s = real_array("importances", importances, (1,))
        total = float(real_array("gamma", gamma, (0,)))
        if len(v) != len(s) or len(s) == 0:
            raise InputError(
                f"values and importances must have one entry for each of n >= 1 units; got {v.shape} and {s.shape}"
            )
        if v.ndim == 2 and v.shape[1] < 2:
            raise InputError(f"values of several classes need >= 2 columns; got shape {v.shape} (pass a vector)")
        shift, moved = _centring(s, total)
        parts: dict[str, object] = {
            "values": centred(v) if v.ndim == 2 else v,
            "importances": moved,
            "gamma": total,
            "background": None,
            "link": None,
        }
        if background is not None:
            value, importance = _pair("background", "(value, importance)", background)
            start = float(real_array("the background's importance", importance, (0,))) + shift
            level = _per_class("the background's value", value, v)
            parts["background"] = Background(level if isinstance(level, float) else read_only(centred(level)), start)
        if link is not None:
            middle, reach = (_per_class("the link's part", p, v) for p in _pair("link", "(middle, reach)", link))
            if np.any(np.asarray(reach) <= 0):
                raise InputError(f"the link's reach must be positive; got {np.min(reach)}")
            parts["link"] = Link(middle, reach)
        for name, part in parts.items():
            object.__setattr__(self, name, read_only(part) if isinstance(part, np.ndarray) else part)

    @property
    def additive(self) -> bool:
        return self.background is not None and float(self.weights(np.ones((1, self.n_units)))[0].sum()) < _COMPETING

    @property
    def empty_score(self) -> float | Floats:
        if self.background is None:
            return self.output(np.zeros(self.values.shape[1:]))
        return np.asarray(self.predict(np.zeros((1, self.n_units)))[0])

    def predict(self, counts: Counts) -> Floats:
        return self.output(self.evidence(counts))

    def output(self, evidence: Floats) -> Floats:
        """Return F of evidence S: the link, then centred over the classes.

        Args:
            evidence: S, of any shape (...) or (..., n_classes).
        """
        if self.link is None:
            return evidence
        return centred(self.link(evidence)) if self.values.ndim == 2 else self.link(evidence)

    def evidence(self, counts: Counts) -> Floats:
        """Return S(c), the softmax-weighted average before the link.

        Args:
            counts: How often each unit is present, (m, n_units).

        Returns:
            (m,) or (m, n_classes).

        Raises:
            InputError: A row is empty and there is no background.
        """
        c = count_matrix(counts, self.n_units)
        if np.abs(self.values).max() < 1e100:
            with np.errstate(all="ignore"):
                average, total = weighted_average(c, self.values.T, self.importances, self.background)
            if total.min(initial=1.0) > 1e-200 and total.max(initial=1.0) < 1e200:
                return np.asarray(average.T)
        # A sum of weights that leaves the range of floats, which is rare: row by row.
        units, rest = self._attention(c)
        with np.errstate(over="ignore"):
            average = units @ self.values
            if self.background is not None:
                average = average + np.multiply.outer(rest, self.background.value)
        values = self.values if self.background is None else np.concatenate([self.values, [self.background.value]])
        return np.asarray(np.clip(average, values.min(axis=0), values.max(axis=0)))  # rounding may leave the range

    def weights(self, counts: Counts) -> Floats:
        return self._attention(counts)[0]

    def linear(self) -> Floats:
        """Return v exp(s), the linearised scores of the paper; background and link play no part.

        Only ratios mean something: gamma scales all scores.

        Raises:
            InputError: They overflow (s beyond about 700). An underflow gives 0.

        Example:
            >>> Slalom(values=[2.0, -1.0], importances=[0.0, 0.0]).linear().tolist()
            [2.0, -1.0]
        """
        return slalom_linear(self)

    def gradient(self, counts: ArrayLike | None = None) -> Floats:
        """Return dF/dc_i of every unit, present or not.

        Args:
            counts: The input (n_units,). Default: every unit once.

        Raises:
            InputError: The input is empty and there is no background, or a derivative overflows.

        Example:
            >>> Slalom(values=[2.0, -1.0], importances=[0.0, 0.0]).gradient().tolist()
            [0.75, -0.75]
        """
        return slalom_gradient(self, counts)

    def removal(self, counts: ArrayLike | None = None) -> Floats:
        """Return F(c) - F(c without unit i); 0 for units that are not present.

        Without a background, removing the only unit leaves the empty input, whose evidence S is 0 by convention.

        Args:
            counts: The input (n_units,). Default: every unit once.

        Example:
            >>> model = Slalom(values=[2.0, -1.0], importances=[0.0, 0.0])
            >>> model.removal().tolist(), model.removal(counts=[3, 0]).tolist()
            ([1.5, -1.5], [2.0, 0.0])
        """
        return slalom_removal(self, counts)

    def _semivalue(self, measure: Measure, counts: ArrayLike | None) -> Floats:
        return slalom_semivalue(self, measure, counts)

    def merged(self, groups: ArrayLike) -> "Slalom":
        """Return the model whose units are groups of these, with background, link and gamma as they are.

        F is unchanged wherever all units of a group have the same count, so on the full input too.

        Args:
            groups: The group 0, 1, ... of each unit (n_units,); no group is empty.

        Raises:
            InputError: `groups` is something else.

        Example:
            >>> merged = Slalom(values=[2.0, -1.0, 4.0], importances=[0.0, 0.0, 0.0]).merged([0, 0, 1])
            >>> merged.values.tolist(), merged(np.ones((1, 2))).round(6).tolist()
            ([0.5, 4.0], [1.666667])
        """
        return Slalom(*slalom_merge(self, groups), self.background, self.link, self.gamma)

    def repeated(self, units: NDArray[np.int64]) -> "Slalom":
        return Slalom(self.values[units], self.importances[units], self.background, self.link)

    @classmethod
    def constant(cls, n_units: int, level: float | Floats, empty: bool) -> "Slalom":
        values = np.broadcast_to(level, (n_units, *np.shape(level)))
        return Slalom(values, np.zeros(n_units), (level, 0.0) if empty else None)

    def to_dict(self) -> dict[str, Any]:
        parts = {name: plain(getattr(self, name)) for name in ("values", "importances", "background", "link", "gamma")}
        return {"kind": self.kind, **parts, "base": None}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "Slalom":
        return Slalom(saved["values"], saved["importances"], saved["background"], saved["link"], saved["gamma"])

    def _attention(self, counts: Counts) -> tuple[Floats, Floats]:
        """Return the shares of attention of the units (m, n_units) and of the background (m,)."""
        c = count_matrix(counts, self.n_units)
        s0 = -np.inf if self.background is None else self.background.importance
        if self.background is None and not c.any(axis=1).all():
            row = int(np.flatnonzero(~c.any(axis=1))[0])
            raise InputError(f"every row of counts must have a unit present when there is no background; row {row} is empty")
        top = max(self.importances.max(), s0)
        bottom = self.importances.min() if self.background is None else min(self.importances.min(), s0)
        if top - bottom <= _DIRECT_SPREAD and 1e-30 < c[c > 0].min(initial=1.0) <= c.max(initial=1.0) < 1e30:
            units, rest = c * np.exp(self.importances - top), np.full(len(c), np.exp(s0 - top))
        else:
            with np.errstate(divide="ignore"):
                logits = np.log(c) + self.importances
            peak = np.maximum(logits.max(axis=1), s0)
            units, rest = np.exp(logits - peak[:, None]), np.exp(s0 - peak)
        total = units.sum(axis=1) + rest
        return units / total[:, None], rest / total


def _centring(s: Floats, total: float) -> tuple[float, Floats]:
    """Return the shift to the sum `total`, and s shifted; repeated, as the first sum may be rounded at a larger scale."""
    shift, moved = 0.0, s.copy()
    for _ in range(5):
        more = float(beyond_rounding(np.asarray((total - moved.sum()) / len(s)), moved))
        if more == 0.0:
            break
        shift, moved = shift + more, moved + more
    return shift, moved


def _pair(name: str, form: str, pair: Sequence[ArrayLike]) -> Sequence[ArrayLike]:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise InputError(f"{name} must be a pair {form}; got {_short(pair)}")
    return pair


def _per_class(name: str, parameter: ArrayLike, values: Floats) -> float | Floats:
    """Return a number where values is a vector, else one number per class."""
    part = real_array(name, parameter, (0, 1))
    if values.ndim == 1:
        if part.ndim:
            raise InputError(f"{name} must be a number, as the values are a vector; got shape {part.shape}")
        return float(part)
    if part.ndim == 0:
        part = np.full(values.shape[1], float(part))
    if part.shape != values.shape[1:]:
        raise InputError(f"{name} must have one entry for each of the {values.shape[1]} classes; got {part.shape}")
    return read_only(part.copy())


def _short(argument: object) -> str:
    """Return the start of its repr, on one line."""
    text = " ".join(repr(argument).split())
    return text if len(text) <= 60 else text[:57] + "..."
