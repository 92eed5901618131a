"""The interface of surrogates: a function F(c) of the counts c of n units, and scores derived from it.

Each kind (`Slalom`, `Additive`, ...) is one file with one final class derived from `Surrogate`, and one entry of the table in
`kinds`. Scores are shaped as the values: (n_units,), or (n_units, n_classes) with several classes, and then values and F sum to
zero over the classes.

Standard errors belong to a fit, not to the function: a surrogate that was recovered or merged has none.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax

from slalom.core.checks import Counts, Floats, count_vector, freeze
from slalom.core.measures import Beta, Measure
from slalom.errors import InputError

_ROWS = 512  # that are predicted together


class Link(NamedTuple):
    """The saturating link m + a tanh((z - m) / a).

    Attributes:
        middle: m.
        reach: a > 0.
    """

    middle: float
    reach: float

    def __call__(self, evidence: Floats) -> Floats:
        """Return the score of z = bias + evidence."""
        return np.asarray(self.middle + self.reach * np.tanh((evidence - self.middle) / self.reach))

    def slope(self, evidence: Floats) -> Floats:
        """Return the derivative of the link at z."""
        return np.asarray(1.0 - np.tanh((evidence - self.middle) / self.reach) ** 2)


class Part(ABC):
    """What is added to the formula of a surrogate: a function of the counts c, with the same few methods for each kind.

    Attributes:
        kind: Name of the kind in saved files.
        n_units: Number of units.
    """

    kind: ClassVar[str]
    n_units: int

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        freeze(self)

    @property
    @abstractmethod
    def class_shape(self) -> tuple[int, ...]:
        """() for one score, (n_classes,) for several."""

    @abstractmethod
    def __call__(self, counts: Floats) -> Floats:
        """Return what is added to the scores of counts (m, n_units): (m,) or (m, n_classes)."""

    @abstractmethod
    def gradient(self, c: Floats) -> Floats:
        """Return the derivatives by the counts at an input (n_units,), from the side of fewer units."""

    @abstractmethod
    def semivalue(self, measure: Measure, c: Floats) -> Floats:
        """Return the semivalues at an input (n_units,), exactly."""

    @abstractmethod
    def merged(self, groups: NDArray[np.intp]) -> Self:
        """Return the part for groups (n_units,) of units that are present together."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return its numbers as lists and numbers."""

    @classmethod
    @abstractmethod
    def from_dict(cls, saved: Mapping[str, Any], n_units: int) -> Self:
        """Return the part of a dictionary made by `to_dict`."""


class Surrogate(ABC):
    """A function of unit counts that explains a model: the interface of `Slalom`, `Additive` and further kinds.

    Attributes:
        kind: Name of the kind in saved files.
        values: What each unit contributes, (n_units,) or (n_units, n_classes).
        importances: How much attention each unit takes, as logarithms (n_units,); zeros where a kind has none.
    """

    kind: ClassVar[str]
    values: Floats
    importances: Floats

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        freeze(self)

    @property
    def n_units(self) -> int:
        """Number of units."""
        return len(self.values)

    @property
    def n_classes(self) -> int | None:
        """Number of classes; None where F is a single log odds."""
        return self.values.shape[1] if self.values.ndim == 2 else None

    @property
    @abstractmethod
    def additive(self) -> bool:
        """Whether units act (nearly) independently, so that importances mean nothing."""

    @property
    def empty_score(self) -> float | Floats:
        """F of the input without any unit, where Shapley values start; a number or one per class (n_classes,)."""
        score = self.predict(np.zeros((1, self.n_units)))[0]
        return float(score) if np.ndim(score) == 0 else np.asarray(score)

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
        """Predict class probabilities (m, n_classes) for counts (m, n_units); two columns where F is a single log odds."""
        scores = self.predict(counts)
        if scores.ndim == 2:
            return np.asarray(softmax(scores, axis=1))
        return np.stack([expit(-scores), expit(scores)], axis=1)

    @abstractmethod
    def weights(self, counts: Counts) -> Floats:
        """Return the share of attention of each unit (m, n_units) for counts (m, n_units); zeros where a kind has none."""

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

    def removal(self, counts: ArrayLike | None = None) -> Floats:
        """Return F(c) - F(c without unit i); 0 for units that are not present.

        Args:
            counts: The input (n_units,). Default: every unit once.

        Example:
            >>> from slalom.core import Slalom
            >>> model = Slalom(values=[2.0, -1.0], importances=[0.0, 0.0])
            >>> model.removal().tolist(), model.removal(counts=[3, 0]).tolist()
            ([1.5, -1.5], [2.0, 0.0])
        """
        c = count_vector(counts, self.n_units)
        return self.predict(c[None]) - self._each(c - np.diag(c))

    def alone(self) -> Floats:
        """Return F of each unit alone, once, less F of the empty input: (n_units,) or (n_units, n_classes)."""
        return self._each(np.eye(self.n_units)) - self.empty_score

    def _each(self, rows: Floats) -> Floats:
        return np.concatenate([self.predict(rows[k : k + _ROWS]) for k in range(0, len(rows), _ROWS)])

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
        """Return the surrogate of m units with the parameters of these (m,): occurrences share those of their type."""

    @classmethod
    @abstractmethod
    def constant(cls, n_units: int, level: float | Floats) -> Self:
        """Return the surrogate with one score for every input: a number, or one per class (n_classes,)."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the parameters as lists and numbers, and the kind; `slalom.core.kinds.from_dict` restores them exactly."""

    @classmethod
    @abstractmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        """Return the surrogate of a dictionary made by `to_dict` of this kind; further keys are ignored."""
