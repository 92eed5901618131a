"""The input and the output of a fitter.

    minimise  sum_k weight_k |F(counts_k) - scores_k|^2  over the parameters of a Slalom

`Problem` holds the checked data of one such fit, `Fitter` is the strategy that solves it, `Fit` the result.

A fallback that a fitter takes is named in `Fit.diagnosis`, in a sentence that begins with `FALLBACK`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from slalom.core.base import Surrogate
from slalom.core.checks import LARGEST, Counts, Floats, centred, count_matrix, real_array
from slalom.core.slalom import Slalom
from slalom.errors import InputError

FALLBACK = "Fallback:"
_NO_ERRORS = f"{FALLBACK} the standard errors are beyond the range of floats and are left out."
_WORSE = -0.1  # an R2 below this on the fit's own rows is a numerical failure
_MOST = float(np.finfo(np.float64).max)  # of floats


@dataclass(frozen=True, eq=False)
class Problem:
    """The checked data of one fit; `Problem.of` makes one from raw arrays.

    Example:
        >>> problem = Problem.of([[1, 0], [0, 1], [1, 1]], [1.0, 3.0, 2.0], None)
        >>> problem.counts.shape, float(problem.level), round(problem.spread, 3)
        ((3, 2), 2.0, 0.667)
    """

    table: Floats | csr_array  # counts (m, n); those of a sparse array are positive
    scores: Floats  # (m,) or (m, n_classes), these centred over the classes
    weights: Floats  # (m,) of the rows, with mean one
    largest: float = 0.0  # absolute score before centring, which tells the rounding of the scores; 0: they were not centred

    @classmethod
    def of(cls, counts: Counts, scores: ArrayLike, weights: ArrayLike | None) -> "Problem":
        """Check counts, scores and weights against each other."""
        c, y = _table(counts), real_array("scores", scores, (1, 2))
        if c.shape[0] == 0 or c.shape[1] == 0:
            raise InputError(f"counts must have at least one row and one column; got shape {c.shape}")
        if len(y) != (m := c.shape[0]):
            raise InputError(f"scores must have one row for each of the {m} rows of counts; got shape {y.shape}")
        if y.ndim == 2 and y.shape[1] < 2:
            raise InputError(f"scores of several classes need >= 2 columns; got shape {y.shape} (pass a vector)")
        w = np.ones(m) if weights is None else real_array("weights", weights, (1,))
        if len(w) != m or (w < 0).any() or not w.any():
            raise InputError(
                f"weights must hold {m} numbers >= 0, not all of them 0; got shape {w.shape}, minimum {w.min(initial=0)}"
            )
        y = np.where((w > 0).reshape(-1, *[1] * (y.ndim - 1)), y, 0.0)
        if np.abs(y).max() > LARGEST:
            raise InputError(f"scores must be at most {LARGEST:g}; got {np.abs(y).max():.3g}; divide them by a constant")
        w = w / w.max()
        w = w / w.mean()
        if y.ndim == 1:
            return cls(c, y, w)
        relative = real_array("scores less their mean over the classes", centred(y, apart=True), (2,))
        return cls(c, relative, w, float(np.abs(y[w > 0]).max()))

    @cached_property
    def counts(self) -> Floats:
        """The counts (m, n) as an array of numpy."""
        return self.table if isinstance(self.table, np.ndarray) else np.asarray(self.table.toarray(), dtype=np.float64)

    @property
    def empty_rows(self) -> bool:
        """Whether a row has no unit present, which the paper's SLALOM has no score for."""
        table = self.table
        return not bool((table.sum(axis=1) if isinstance(table, np.ndarray) else np.diff(table.indptr)).all())

    def refuse_empty_rows(self, fitter: str) -> None:
        """Raise an InputError if a row has no unit present; for fitters without a background."""
        if self.empty_rows:
            raise InputError(
                f"every row of counts must have a unit present, as {fitter} fits the paper's SLALOM;"
                " drop the empty rows or use Joint()"
            )

    @cached_property
    def level(self) -> Floats:
        """The weighted mean score: a number, or one per class."""
        return np.asarray(np.average(self.scores, axis=0, weights=self.weights))

    @cached_property
    def spread(self) -> float:
        """The weighted variance of the scores (summed over classes)."""
        return self.mean_square(self.scores - self.level)

    @cached_property
    def steady(self) -> bool:
        """Whether the scores are constant up to rounding."""
        return self.spread <= 1e-28 * self.size

    @cached_property
    def size(self) -> float:
        """The weighted mean square of the scores (summed over classes), or `largest` squared where that is more."""
        return max(self.mean_square(self.scores), self.largest * self.largest)

    @cached_property
    def alike(self) -> NDArray[np.bool_]:
        """Which units (n,) have the same count in every row with a positive weight."""
        weighted = self.table if self.weights.all() else self.table[self.weights > 0]
        m, n = weighted.shape
        if isinstance(weighted, np.ndarray):
            sample = weighted[:: max(m // 16, 1)]  # most units differ already in a few rows
            alike, maybe = np.zeros(n, dtype=bool), np.flatnonzero((sample == sample[0]).all(axis=0))
            block = weighted[:, maybe]
        else:
            times = np.bincount(weighted.indices, minlength=n)
            alike, maybe = times == 0, np.flatnonzero(times == m)
            block = weighted[:, maybe].toarray() if len(maybe) else np.zeros((1, 0))
        alike[maybe] = (block == block[0]).all(axis=0)
        return alike

    @property
    def rows_alike(self) -> bool:
        """Whether all rows with a positive weight have the same counts."""
        return bool(self.alike.all())

    def loss(self, model: Surrogate) -> float:
        """Return the weighted mean squared error of a model (summed over classes)."""
        return self.mean_square(model(self.counts) - self.scores)

    def r2(self, loss: float) -> float:
        """Return the share of the variance that a model of this loss explains: a finite number, at most 1.

        For constant scores it is 1 for a model that predicts them and 0 for any other, as in scikit-learn's r2_score.
        """
        if self.steady:
            return 1.0 if loss <= 1e-20 * self.size else 0.0
        left = loss / self.spread
        return 1.0 - left if left <= _MOST else -_MOST

    def fitted(
        self,
        model: Surrogate,
        *,
        converged: bool,
        iterations: int,
        loss: float | None = None,
        limit: str = "",
        note: str = "",
        values_se: Floats | None = None,
        importances_se: Floats | None = None,
    ) -> "Fit":
        """Return the `Fit` of a model, with its loss and R2 on these data and a diagnosis."""
        loss = self.loss(model) if loss is None else loss
        late = "" if converged else f"Not converged after {iterations} iterations{limit and f'; raise {limit}'}."
        diagnosis = " ".join(part for part in (self.undetermined(), late, note) if part)
        return _with_finite_errors(Fit(model, loss, self.r2(loss), converged, iterations, diagnosis, values_se, importances_se))

    def constant(self, note: str = "", kind: type[Surrogate] = Slalom) -> "Fit":
        """Return the fit of a surrogate that has the mean score for every input."""
        model = kind.constant(self.table.shape[1], self.level if self.level.ndim else float(self.level))
        return self.fitted(model, converged=True, iterations=0, note=note)

    def mean_square(self, residual: Floats) -> float:
        """Return the weighted mean over rows of the squared residual (summed over classes); infinite where it overflows."""
        with np.errstate(over="ignore"):
            square = residual**2 if residual.ndim == 1 else (residual**2).sum(axis=1)
            return float(np.average(square, weights=self.weights))

    def undetermined(self) -> str:
        """Return the reason why no fitter can determine all parameters from these data; empty where there is none."""
        if self.rows_alike:
            return "All rows of counts are alike, so single units cannot be determined; vary the queries."
        if self.steady:
            return "The scores are the same for every row: the model is constant on these queries, importances are arbitrary."
        if not self.alike.any():
            return ""
        row = int(np.argmax(self.weights > 0))
        present = count_matrix(self.table[row : row + 1])[0] > 0
        never, always = np.flatnonzero(self.alike & ~present), np.flatnonzero(self.alike & present)
        reasons = []
        if len(never):
            reasons.append(f"{_named(never)} never present")
        if len(always):
            reasons.append(f"{_named(always)} present alike in every row")
        return f"{' and '.join(reasons)}: their parameters are set by the prior alone; vary the queries."


def _table(counts: Counts) -> Floats | csr_array:
    """Return checked counts (m, n); a sparse array stays sparse, without zeros and duplicates."""
    if not issparse(counts) or counts.ndim != 2 or counts.dtype.kind not in "biuf":
        return count_matrix(counts)
    table = csr_array(counts, dtype=np.float64, copy=True)
    table.sum_duplicates()
    table.eliminate_zeros()
    if not (np.isfinite(table.data).all() and table.data.min(initial=1.0) > 0.0):
        return count_matrix(counts)  # which raises, naming the entry
    return table


def _named(units: NDArray[np.intp]) -> str:
    shown = ", ".join(str(u) for u in units[:5]) + (", ..." if len(units) > 5 else "")
    return f"Unit {shown} is" if len(units) == 1 else f"{len(units)} units ({shown}) are"


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted model and how far to trust it.

    Attributes:
        model: The fitted surrogate.
        loss: Weighted mean squared error on the data, summed over classes; infinite where it is beyond the range of floats.
        r2: Share of the scores' variance explained on the data. For constant scores, 1 for a model that predicts them and 0
            for any other.
        converged: Whether the fitter converged.
        iterations: Iterations of the fitter.
        diagnosis: A message where the data do not determine the parameters, the fit did not converge, or it fell back on a
            simpler model; empty otherwise.
        values_se: Standard errors of the values, (n,) or (n, n_classes); None where the fitter has none.
        importances_se: Standard errors of the importances (n,); None where the fitter has none.
    """

    model: Surrogate
    loss: float
    r2: float
    converged: bool
    iterations: int
    diagnosis: str = ""
    values_se: Floats | None = None
    importances_se: Floats | None = None


def explained_share(guess: Floats, scores: Floats, weights: Floats) -> float:
    """Return the weighted R2 of predictions (m,) or (m, n_classes), by the rule of `Problem.r2`."""
    problem = Problem.of(np.ones((len(scores), 1)), scores, weights)
    return problem.r2(problem.mean_square(guess - problem.scores))


def sound(fit: Fit) -> Fit:
    """Return a fit unchanged; ArithmeticError where it is worse than the mean score by more than rounding."""
    if not (np.isfinite(fit.loss) and fit.r2 > _WORSE):
        raise ArithmeticError(f"the predictions are worse than a constant: R2 is {fit.r2:.3g}")
    return fit


def _with_finite_errors(fit: Fit) -> Fit:
    """Return a fit, without its standard errors if one of them is not finite."""
    if all_finite(fit.values_se, fit.importances_se):
        return fit
    diagnosis = f"{fit.diagnosis} {_NO_ERRORS}".lstrip()
    return replace(fit, diagnosis=diagnosis, values_se=None, importances_se=None)


def all_finite(*arrays: Any) -> bool:
    """Return whether all numbers are finite; None counts as finite."""
    return all(array is None or bool(np.isfinite(array).all()) for array in arrays)


class Fitter(ABC):
    """A fitting algorithm: options in the constructor, data in `solve`. Concrete fitters are final frozen dataclasses."""

    surrogate: ClassVar[type[Surrogate]] = Slalom  # the kind that it fits

    def seeded(self, seed: int) -> "Fitter":
        """Return the fitter with this seed; a fitter without randomness returns itself."""
        return self

    def seconds(self, n: int, rows: int) -> float:
        """Return about how long a fit takes on one core, for n units with parameters of their own; 0: too short to matter."""
        return 0.0

    @abstractmethod
    def solve(self, problem: Problem) -> Fit:
        """Return the best model for checked data.

        Where this raises an ArithmeticError, as the fit leaves the range of floats, or returns a loss that is not finite,
        `slalom.core.fit` falls back on the mean score.
        """
