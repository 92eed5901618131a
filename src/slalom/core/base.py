"""The interface of surrogates: a function F(c) of the counts c of n units, and scores derived from it.

Each kind (`Slalom`, `Additive`, ...) is one file with one final class derived from `Surrogate`, and one entry of the table in
`kinds`. Scores are shaped as the values: (n_units,), or (n_units, n_classes) with several classes, and then values and F sum to
zero over the classes.

Standard errors belong to a fit (`Fit.values_se`), not to the function: a surrogate that was recovered or merged has none.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax

from slalom.core.checks import Counts, Floats, freeze
from slalom.core.measures import Beta, Measure
from slalom.errors import InputError


class Background(NamedTuple):
    """What every query contains besides the units ([CLS], [SEP], a prompt).

    Attributes:
        value: v_0, a number or one per class.
        importance: s_0.
    """

    value: float | Floats
    importance: float


class Link(NamedTuple):
    """The saturating link m + a tanh((S - m) / a).

    Attributes:
        middle: m, a number or one per class.
        reach: a > 0, a number or one per class.
    """

    middle: float | Floats
    reach: float | Floats

    def __call__(self, evidence: Floats) -> Floats:
        """Return the log odds of the evidence S."""
        return np.asarray(self.middle + self.reach * np.tanh(self._inner(evidence)))

    def slope(self, evidence: Floats) -> Floats:
        """Return the derivative of the link at the evidence S.

        Args:
            evidence: S, (m,) or (m, n_classes).
        """
        return np.asarray(1.0 - np.tanh(self._inner(evidence)) ** 2)

    def _inner(self, evidence: Floats) -> Floats:
        with np.errstate(over="ignore"):  # tanh of infinity is 1
            return np.asarray((evidence - self.middle) / self.reach)


def weighted_average(
    counts: Floats, values: Floats, importances: Floats, background: tuple[Any, Any] | None
) -> tuple[Floats, Floats]:
    """Return S, the softmax-weighted average of values, and the sum of weights relative to the largest: (..., m) each.

    The formula of SLALOM, for one surrogate or a batch of parameters.

    Args:
        counts: (m, n).
        values: v (..., n), for example of several classes or draws.
        importances: s (n,), or (..., n) where they differ within the batch.
        background: v_0 (...) and s_0, a number or (...).
    """
    value, s0 = (np.zeros(values.shape[:-1]), np.full(importances.shape[:-1], -np.inf)) if background is None else background
    top = np.maximum(importances.max(axis=-1), s0)
    weights, rest = np.exp(importances - top[..., None]), np.exp(s0 - top)
    total = weights @ counts.T + rest[..., None]
    return np.asarray(((weights * values) @ counts.T + (rest * value)[..., None]) / total), total


class Surrogate(ABC):
    """A function of unit counts that explains a model: the interface of `Slalom`, `Additive` and further kinds.

    Attributes:
        kind: Name of the kind in saved files.
        values: What each unit contributes, (n_units,) or (n_units, n_classes).
        importances: How much attention each unit takes, as logarithms (n_units,); zeros where a kind has none.
        background: What every input contains besides the units; None where there is nothing.
        link: The saturating link; None where there is none.
    """

    kind: ClassVar[str]
    values: Floats
    importances: Floats
    background: Background | None = None
    link: Link | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        freeze(self)

    @property
    def n_units(self) -> int:
        """Number of units, the background not counted."""
        return len(self.values)

    @property
    def n_classes(self) -> int | None:
        """Number of classes; None where F is a single log odds."""
        return self.values.shape[1] if self.values.ndim == 2 else None

    @property
    @abstractmethod
    def additive(self) -> bool:
        """Whether units act (nearly) independently, so that value and importance are not determined separately."""

    @property
    @abstractmethod
    def empty_score(self) -> float | Floats:
        """F of the input without any unit, where Shapley values start; a number or one per class (n_classes,)."""

    @abstractmethod
    def predict(self, counts: Counts) -> Floats:
        """Predict scores.

        Args:
            counts: How often each unit is present, (m, n_units): an array or a sparse array of scipy.

        Returns:
            Log odds (m,), or centred logits (m, n_classes).

        Raises:
            InputError: Counts are negative, not finite or of another shape, or F has no value there.
        """

    def __call__(self, counts: Counts) -> Floats:
        """Return `predict(counts)`."""
        return self.predict(counts)

    def probabilities(self, counts: Counts) -> Floats:
        """Predict class probabilities.

        Args:
            counts: As in `predict`.

        Returns:
            Probabilities (m, n_classes); two columns where F is a single log odds.
        """
        scores = self.predict(counts)
        if scores.ndim == 2:
            return np.asarray(softmax(scores, axis=1))
        return np.stack([expit(-scores), expit(scores)], axis=1)

    @abstractmethod
    def weights(self, counts: Counts) -> Floats:
        """Return the share of attention of each unit (m, n_units) for counts (m, n_units); zeros where a kind has none.

        Args:
            counts: As in `predict`.
        """

    @abstractmethod
    def linear(self) -> Floats:
        """Return the linearised scores v exp(s) of the paper; the effects where units are additive.

        Raises:
            InputError: They leave the range of floats.
        """

    @abstractmethod
    def gradient(self, counts: ArrayLike | None = None) -> Floats:
        """Return dF/dc_i of every unit, present or not.

        Args:
            counts: The input (n_units,). Default: every unit once.

        Raises:
            InputError: F has no value at the input.
        """

    @abstractmethod
    def removal(self, counts: ArrayLike | None = None) -> Floats:
        """Return F(c) - F(c without unit i); 0 for units that are not present.

        Args:
            counts: The input (n_units,). Default: every unit once.
        """

    def semivalue(self, measure: Measure, counts: ArrayLike | None = None) -> Floats:
        """Return int dmu(q) E[F(C + i) - F(C)], where each other unit is in C with probability q.

        A unit joins C with all its copies; one with count 0 gets 0.

        Args:
            measure: The distribution of q, `Beta(a, b)` or `Point(q)`.
            counts: The input (n_units,). Default: every unit once.

        Raises:
            InputError: `measure` is not a Measure, or F has no value at the input.
        """
        if not isinstance(measure, Measure):
            raise InputError(f"measure must be Beta(a, b) or Point(q); got {measure!r}")
        return self.removal(counts) if measure.all_present else self._semivalue(measure, counts)

    @abstractmethod
    def _semivalue(self, measure: Measure, counts: ArrayLike | None) -> Floats:
        """Return the semivalues of a measure that is not all at q = 1."""

    def shapley(self, counts: ArrayLike | None = None) -> Floats:
        """Return the Shapley values of F; they sum to F(c) - `empty_score`.

        Args:
            counts: The input (n_units,). Default: every unit once.
        """
        return self.semivalue(Beta(1.0, 1.0), counts)

    @abstractmethod
    def merged(self, groups: ArrayLike) -> Self:
        """Return the surrogate whose units are groups of these; F is unchanged wherever the units of a group go together.

        Args:
            groups: The group 0, 1, ... of each unit (n_units,); no group is empty.

        Raises:
            InputError: `groups` is something else.
        """

    @abstractmethod
    def repeated(self, units: NDArray[np.int64]) -> Self:
        """Return the surrogate of m units with the parameters of the given units: occurrences share those of their type.

        Args:
            units: Indices of units (m,).
        """

    @classmethod
    @abstractmethod
    def constant(cls, n_units: int, level: float | Floats, empty: bool) -> Self:
        """Return the surrogate with one score for every input; for the empty one too where `empty`.

        Args:
            n_units: Number of units.
            level: The score, a number or one per class (n_classes,).
            empty: Whether the empty input must have a value.
        """

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the parameters as lists and numbers, and the kind; `slalom.core.kinds.from_dict` restores them exactly."""

    @classmethod
    @abstractmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        """Return the surrogate of a dictionary made by `to_dict` of this kind; further keys are ignored.

        Args:
            saved: The dictionary.
        """
