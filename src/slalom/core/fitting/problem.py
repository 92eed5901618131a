"""What a fitter is given and what it gives back.

    minimise  sum_k weight_k |F(counts_k) - scores_k|^2  over the parameters of a Slalom

`Problem` holds the checked data of one such fit, `Fitter` is the strategy that solves it, `Fit` the result.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from slalom.core.additive import Surrogate
from slalom.core.checks import Counts, Floats, count_matrix, real_array
from slalom.core.surrogate import centred
from slalom.errors import InputError


@dataclass(frozen=True, eq=False)
class Problem:
    """Checked data: counts (m, n), scores (m,) or (m, n_classes) centred over classes, weights (m,) with mean one.

    table: the counts as they were given, an array of floats or a sparse one (CSR) of positive numbers.
    """

    table: Floats | csr_array
    scores: Floats
    weights: Floats

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
        return cls(c, centred(y) if y.ndim == 2 else y, w / w.mean())

    @cached_property
    def counts(self) -> Floats:
        """The counts as an array."""
        return self.table if isinstance(self.table, np.ndarray) else np.asarray(self.table.toarray(), dtype=np.float64)

    @property
    def empty_rows(self) -> bool:
        """Whether a row has no unit present, which only a model with a background can explain."""
        table = self.table
        return not bool((table.sum(axis=1) if isinstance(table, np.ndarray) else np.diff(table.indptr)).all())

    def refuse_empty_rows(self, fitter: str) -> None:
        """Raise where a row has no unit present: for fitters without a background."""
        if self.empty_rows:
            raise InputError(
                f"every row of counts must have a unit present, as {fitter} has no background;"
                " drop the empty rows or use Joint()"
            )

    @property
    def level(self) -> Floats:
        """The weighted mean score (a number, or one a class)."""
        return np.asarray(np.average(self.scores, axis=0, weights=self.weights))

    @property
    def spread(self) -> float:
        """The weighted variance of the scores (summed over classes)."""
        return self.mean_square(self.scores - self.level)

    @property
    def steady(self) -> bool:
        """Whether the scores do not vary, but for rounding."""
        return self.spread <= 1e-28 * self.mean_square(self.scores)

    @cached_property
    def alike(self) -> NDArray[np.bool_]:
        """Which units (n,) have the same count in every row with a weight."""
        seen = self.table if self.weights.all() else self.table[self.weights > 0]
        m, n = seen.shape
        if isinstance(seen, np.ndarray):
            some = seen[:: max(m // 16, 1)]  # most units differ already in a few rows
            alike, maybe = np.zeros(n, dtype=bool), np.flatnonzero((some == some[0]).all(axis=0))
            block = seen[:, maybe]
        else:
            times = np.bincount(seen.indices, minlength=n)
            alike, maybe = times == 0, np.flatnonzero(times == m)
            block = seen[:, maybe].toarray() if len(maybe) else np.zeros((1, 0))
        alike[maybe] = (block == block[0]).all(axis=0)
        return alike

    @property
    def rows_alike(self) -> bool:
        """Whether all rows with a weight show the same counts."""
        return bool(self.alike.all())

    def loss(self, model: Surrogate) -> float:
        """Return the weighted mean squared error of a model (summed over classes)."""
        return self.mean_square(model(self.counts) - self.scores)

    def r2(self, loss: float) -> float:
        """Return the share of the spread that a loss explains; where the scores do not vary, 1 or minus infinity."""
        if self.steady:
            return 1.0 if loss <= 1e-20 * self.mean_square(self.scores) else -np.inf
        return 1.0 - loss / self.spread

    def fitted(
        self,
        model: Surrogate,
        *,
        converged: bool,
        iterations: int,
        loss: float | None = None,
        limit: str = "max_iterations",
        note: str = "",
        judged: bool = True,
        values_se: Floats | None = None,
        importances_se: Floats | None = None,
        background_se: tuple[float | Floats, float] | None = None,
    ) -> "Fit":
        """Return the Fit of a model: its loss and r2 here, and what is wrong with the data or the convergence in words.

        loss is known to some fitters; None works it out. limit names the option that allows more iterations, note is what the
        fitter itself has to say. judged: whether the data are what the parameters come from; where they are not, nothing is
        said about them.
        """
        loss = self.loss(model) if loss is None else loss
        late = "" if converged else f"Not converged after {iterations} iterations; raise {limit}."
        diagnosis = " ".join(part for part in (self.undetermined() if judged else "", late, note) if part)
        return Fit(model, loss, self.r2(loss), converged, iterations, diagnosis, values_se, importances_se, background_se)

    def mean_square(self, residual: Floats) -> float:
        """Return the weighted mean over rows of the squared residual (summed over classes)."""
        square = residual**2 if residual.ndim == 1 else (residual**2).sum(axis=1)
        return float(np.average(square, weights=self.weights))

    def undetermined(self) -> str:
        """Say in plain words why no fitter could determine the parameters from these data; empty where one might."""
        if self.rows_alike:
            return "All rows of counts are alike, so nothing can be said about single units; vary the queries."
        if self.steady:
            return "The scores are the same for every row: the model is constant on these queries, importances are arbitrary."
        if not self.alike.any():
            return ""
        row = int(np.argmax(self.weights > 0))
        there = count_matrix(self.table[row : row + 1])[0] > 0
        never, always = np.flatnonzero(self.alike & ~there), np.flatnonzero(self.alike & there)
        found = []
        if len(never):
            found.append(f"{_named(never)} never present")
        if len(always):
            found.append(f"{_named(always)} present alike in every row")
        return f"{' and '.join(found)}: their parameters are set by the prior alone; vary the queries."


def _table(given: Counts) -> Floats | csr_array:
    """Return counts (m, n) that were checked; those of a sparse array without zeros and repetitions."""
    if not issparse(given) or given.ndim != 2 or given.dtype.kind not in "biuf":
        return count_matrix(given)
    table = csr_array(given, dtype=np.float64, copy=True)
    table.sum_duplicates()
    table.eliminate_zeros()
    if not (np.isfinite(table.data).all() and table.data.min(initial=1.0) > 0.0):
        return count_matrix(given)  # which says where
    return table


def _named(units: NDArray[np.intp]) -> str:
    shown = ", ".join(str(u) for u in units[:5]) + (", ..." if len(units) > 5 else "")
    return f"Unit {shown} is" if len(units) == 1 else f"{len(units)} units ({shown}) are"


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted model and how far to trust it.

    loss: weighted mean squared error on the data. r2: share of the scores' variance explained on the data.
    values_se, importances_se: standard errors, shaped as the model's values and importances; None where the fitter has none.
    background_se: the same for the pair (value, importance); on real classifiers they are far too small (docs/results/core.md
    has the figures), so no explanation shows them.
    diagnosis: plain words where the data cannot determine the parameters or the fit did not converge; empty otherwise.
    """

    model: Surrogate
    loss: float
    r2: float
    converged: bool
    iterations: int
    diagnosis: str = ""
    values_se: Floats | None = None
    importances_se: Floats | None = None
    background_se: tuple[float | Floats, float] | None = None


def explained_share(guess: Floats, scores: Floats, weights: Floats) -> float:
    """Return R2 of predictions (m,) or (m, n_classes), rows weighted, by the rule of `Problem.r2`."""
    problem = Problem.of(np.ones((len(scores), 1)), scores, weights)
    return problem.r2(problem.mean_square(guess - problem.scores))


class Fitter(ABC):
    """A strategy: hyper-parameters in the constructor, data in `solve`. Concrete fitters are final frozen dataclasses."""

    def seeded(self, seed: int) -> "Fitter":
        """Return the fitter with this seed; itself where nothing is drawn at random."""
        return self

    @abstractmethod
    def solve(self, problem: Problem) -> Fit:
        """Return the best model of this strategy for checked data."""
