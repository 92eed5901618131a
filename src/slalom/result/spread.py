"""Errors of predictions, by how much of the text is removed, and the intervals that follow from them.

The profile comes from the queries of the fit, in bins of neighbouring sizes; from the whole text to the first of them the
variance is in proportion to what is removed. The smallest removals have a bin of their own where they are many: of a short text
all of them are fitted, and say little of others. Fitted rows are predicted too well, so that all of it is scaled to the
held-out queries: by the root mean square of their errors in units of the profile.

That is the error of a typical query. `prediction_variance` widens it in two cases: where the predicted change is larger than
typical, because half of the squared error is taken to be in proportion to the square of the change; and where the removals of
the single units are less certain than that. benchmarks/interval_coverage.py removals measures what it covers.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom.core.checks import Floats
from slalom.result.plain import normal_quantile, presence

if TYPE_CHECKING:
    from slalom.result.explanation import Explanation

_BIN = 30  # rows of a bin
_BINS = 12
_LEAST_HELD_OUT = 10
_LEAST_OWN = 10  # of the smallest removals


class Spread(NamedTuple):
    """Errors of predictions.

    Attributes:
        removed: Number of removed atoms (k,), ascending from 0.
        errors: Root mean square error there, (k,) or (k, n_classes); between two numbers it is linear.
    """

    removed: Floats
    errors: Floats

    def __call__(self, removed: NDArray[Any]) -> Floats:
        """Return the errors of inputs with so many atoms removed (m,): (m,) or (m, n_classes)."""
        if self.errors.ndim == 1:
            return np.asarray(np.interp(removed, self.removed, self.errors))
        return np.stack([np.interp(removed, self.removed, column) for column in self.errors.T], axis=1)


def predict_interval(e: "Explanation", keep: ArrayLike, level: float) -> Floats | None:
    """Return the intervals of `Explanation.predict_interval`."""
    reach, mask = normal_quantile(level), presence(keep, len(e))
    if e.spread is None:
        return None
    rows = np.atleast_2d(mask)
    scores = e.predict(rows)
    change = e.predict(np.ones(len(e))) - scores
    half = reach * np.sqrt(prediction_variance(e.spread, ~rows, e.sizes, change, e.removal, e.errors.get("removal")))
    ends = np.stack([scores - half, scores + half], axis=-1)
    return ends if mask.ndim == 2 else ends[0]


def prediction_variance(
    spread: Spread,
    gone: NDArray[np.bool_],
    sizes: NDArray[np.int64],
    change: Floats,
    removal: Floats,
    removal_se: Floats | None,
) -> Floats:
    """Return the variances of predictions, (m,) or (m, n_classes)."""
    typical = np.multiply.outer(gone.sum(axis=1), (removal**2).mean(axis=0))
    relative = np.divide(change**2, typical, out=np.ones_like(typical), where=typical > 0.0)
    variance = spread(gone @ sizes) ** 2 * np.maximum(1.0, 0.5 + 0.5 * relative)
    if removal_se is None:
        return np.asarray(variance)
    known = np.isfinite(removal_se)
    single = gone @ np.where(known, removal_se, 0.0) ** 2
    return np.asarray(np.maximum(variance, np.where(gone @ ~known, np.inf, single)))


def spread_of(removed: NDArray[np.int64], residual: Floats, held_out: NDArray[np.bool_]) -> Spread | None:
    """Return the errors of predictions from the number of removed atoms and the residual of each query (m,).

    None where fewer than ten queries were held out.
    """
    held = held_out & (removed > 0)
    fitted = ~held_out & (removed > 0)
    if held.sum() < _LEAST_HELD_OUT or fitted.sum() < 2:
        return None
    with np.errstate(over="ignore"):
        square = residual.reshape(len(residual), -1) ** 2
    if not np.isfinite(square).all():
        return None
    rows = np.flatnonzero(fitted)[np.argsort(removed[fitted], kind="stable")]
    least = int(removed[rows[0]])
    own = int((removed[rows] == least).sum())
    own = own if _LEAST_OWN <= own < len(rows) else 0
    others = rows[own:]
    bins = np.array_split(others, min(_BINS, max(len(others) // _BIN, 1)))
    whole = removed == 0
    parts = [whole if whole.any() else bins[0], *bins]
    level = np.array([square[part].mean(axis=0) for part in parts])
    at, first = np.unique([0.0, *(removed[part].mean() for part in bins)], return_index=True)
    level = level[first]
    few = least * 2.0 ** np.arange(max(np.ceil(np.log2(at[1] / least)), 0.0))  # removed atoms, fewer than in the first bin
    few = few[few < at[1]]
    between = level[0] + np.multiply.outer(few / at[1], level[1] - level[0])
    if own:
        between[0] = square[rows[:own]].mean(axis=0)
    floor = 1e-12 * float(square[rows].mean()) + 1e-300
    at, level = np.insert(at, 1, few), np.sqrt(np.insert(level, 1, between, axis=0) + floor)
    profile = Spread(at, level)
    ratio = square[held] / profile(removed[held]).reshape(int(held.sum()), -1) ** 2
    errors = level * np.sqrt(np.maximum(ratio.mean(axis=0), 1.0))
    return Spread(at, errors[:, 0] if residual.ndim == 1 else errors)
