"""The SLALOM surrogate: a softmax-weighted average of unit values.

    S(c) = (w_0 v_0 + sum_i c_i w_i v_i) / (w_0 + sum_j c_j w_j),        w_i = exp(s_i)
    F(c) = link(S(c)),        link(S) = m + a tanh((S - m) / a)

c_i says how often unit i is present, (v_0, s_0) is the background that every query sees ([CLS], [SEP], a prompt). Without a
background w_0 = 0, which is the paper's equation 4; without a link F = S. A constant added to every s (and s_0) cancels, so
s is kept with the sum gamma (0 unless asked otherwise).

With several classes v has one column a class, s is shared, and both v and F sum to zero over the classes: F_c are centred
logits and softmax(F) the probabilities.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax

from slalom.core.checks import Counts, Floats, count_matrix, exponent, real_array, times_power
from slalom.errors import InputError

# Up to this spread of the importances, exp(s - max s) times a count neither overflows nor loses a unit to underflow.
_DIRECT_SPREAD = 600.0


class Background(NamedTuple):
    """What every query sees besides the units: value v_0 (a number, or one a class) and importance s_0."""

    value: float | Floats
    importance: float


class Link(NamedTuple):
    """The saturating link m + a tanh((S - m) / a); middle m and reach a > 0 are numbers, or one a class."""

    middle: float | Floats
    reach: float | Floats

    def __call__(self, evidence: Floats) -> Floats:
        """Return the log odds of the evidence S."""
        return np.asarray(self.middle + self.reach * np.tanh((evidence - self.middle) / self.reach))

    def slope(self, evidence: Floats) -> Floats:
        """Return the derivative of the link at the evidence S."""
        return np.asarray(1.0 - np.tanh((evidence - self.middle) / self.reach) ** 2)


@dataclass(frozen=True, eq=False)
class Slalom:
    """Values (n_units,) or (n_units, n_classes), importances (n_units,), and optionally a background and a link.

    >>> model = Slalom(values=np.array([2.0, -1.0]), importances=np.zeros(2))
    >>> model(np.array([[1.0, 0.0], [1.0, 1.0], [3.0, 1.0]])).tolist()
    [2.0, 0.5, 1.25]

    A background gives the empty input a value, and its own weight to every other one:

    >>> Slalom([2.0, -1.0], [0.0, 0.0], background=(0.5, 0.0))(np.array([[0, 0], [1, 0]])).tolist()
    [0.5, 1.25]
    """

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
        """Check every part, move the importances to the sum gamma and the values to the sum 0 over classes."""
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
            parts["background"] = Background(level if isinstance(level, float) else _fixed(centred(level)), start)
        if link is not None:
            middle, reach = (_per_class("the link's part", p, v) for p in _pair("link", "(middle, reach)", link))
            if np.any(np.asarray(reach) <= 0):
                raise InputError(f"the link's reach must be positive; got {np.min(reach)}")
            parts["link"] = Link(middle, reach)
        for name, part in parts.items():
            object.__setattr__(self, name, _fixed(part) if isinstance(part, np.ndarray) else part)

    @property
    def n_units(self) -> int:
        """How many units there are (the background not counted)."""
        return len(self.importances)

    @property
    def n_classes(self) -> int | None:
        """How many classes the values have; None where the output is one log odds."""
        return self.values.shape[1] if self.values.ndim == 2 else None

    def __call__(self, counts: Counts) -> Floats:
        """Return the log odds (n_samples,) or centred logits (n_samples, n_classes) of counts (n_samples, n_units)."""
        return self.output(self.evidence(counts))

    def output(self, evidence: Floats) -> Floats:
        """Return F for given evidence S: the link, and for several classes the mean taken off."""
        if self.link is None:
            return evidence
        return centred(self.link(evidence)) if self.values.ndim == 2 else self.link(evidence)

    def evidence(self, counts: Counts) -> Floats:
        """Return S(c), the softmax-weighted mean before the link; the same shape as the call's result.

        Where no sum of weights leaves the numbers' range, as good as always, two products with the counts are all it takes.
        """
        c = count_matrix(counts, self.n_units)
        value, s0 = (0.0, -np.inf) if self.background is None else self.background
        top = max(self.importances.max(), s0)
        weights, rest = np.exp(self.importances - top), np.exp(s0 - top)
        total = c @ weights + rest
        if total.min(initial=1.0) > 1e-200 and total.max(initial=1.0) < 1e200 and not exponent(self.values):
            top_line = (weights * self.values.T) @ c.T + np.asarray(rest * value)[..., None]
            return np.asarray((top_line / total).T)
        units, rest = self._attention(c)
        with np.errstate(over="ignore"):
            found = units @ self.values
            if self.background is not None:
                found = found + np.multiply.outer(rest, self.background.value)
        ends = self.values if self.background is None else np.concatenate([self.values, [self.background.value]])
        return np.asarray(np.clip(found, ends.min(axis=0), ends.max(axis=0)))  # an average, but for rounding

    def weights(self, counts: Counts) -> Floats:
        """Return the attention a (n_samples, n_units); with a background the rows sum to less than one."""
        return self._attention(counts)[0]

    def probabilities(self, counts: Counts) -> Floats:
        """Return class probabilities (n_samples, n_classes); two columns where the output is one log odds."""
        scores = self(counts)
        if scores.ndim == 2:
            return np.asarray(softmax(scores, axis=1))
        return np.stack([expit(-scores), expit(scores)], axis=1)

    def repeated(self, own: NDArray[np.int64]) -> "Slalom":
        """Return the model of units that take the parameters of these units (m,)."""
        return Slalom(self.values[own], self.importances[own], self.background, self.link)

    def _attention(self, counts: Counts) -> tuple[Floats, Floats]:
        """Return the weights of the units (n_samples, n_units) and of the background (n_samples,)."""
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
    """Return the shift to the sum `total`, and s shifted: repeated, as the first sum may be rounded at a larger scale."""
    shift, moved = 0.0, s.copy()
    for _ in range(5):
        more = float(_beyond_rounding(np.asarray((total - moved.sum()) / len(s)), moved))
        if more == 0.0:
            break
        shift, moved = shift + more, moved + more
    return shift, moved


def centred(scores: Floats, apart: bool = False) -> Floats:
    """Take the mean over the classes (the last axis) off; apart: rows may differ in size by more than rounding shows."""
    power = exponent(scores)
    scaled = times_power(scores, -power)
    mean = scaled.mean(axis=-1, keepdims=True)
    kept = _beyond_rounding(mean, scaled)
    if apart:
        kept = np.where(np.abs(mean) > 1e-6 * np.abs(scaled).max(axis=-1, keepdims=True), mean, kept)
    return np.asarray(times_power(scaled - kept, power))


def _beyond_rounding(mean: Floats, of: Floats) -> Floats:
    """Return a mean, but 0 where it is the rounding of numbers that were centred before: centring twice changes no bit."""
    return np.where(np.abs(mean) <= 4 * np.finfo(float).eps * np.abs(of).max(initial=0.0), 0.0, mean)


def _pair(name: str, form: str, given: Sequence[ArrayLike]) -> Sequence[ArrayLike]:
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise InputError(f"{name} must be a pair {form}; got {_short(given)}")
    return given


def _per_class(name: str, given: ArrayLike, values: Floats) -> float | Floats:
    """Return a number where values is a vector, else one number a class."""
    part = real_array(name, given, (0, 1))
    if values.ndim == 1:
        if part.ndim:
            raise InputError(f"{name} must be a number, as the values are a vector; got shape {part.shape}")
        return float(part)
    if part.ndim == 0:
        part = np.full(values.shape[1], float(part))
    if part.shape != values.shape[1:]:
        raise InputError(f"{name} must have one entry for each of the {values.shape[1]} classes; got {part.shape}")
    return _fixed(part.copy())


def _fixed(array: Floats) -> Floats:
    """Return the array, no longer to be written to."""
    array.flags.writeable = False
    return array


def _short(given: object) -> str:
    """Return the start of what was given, on one line."""
    text = " ".join(repr(given).split())
    return text if len(text) <= 60 else text[:57] + "..."
