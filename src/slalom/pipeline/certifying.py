"""Shapley values of a model: answers about pairs of parts of a text correct surrogates that were fitted to other answers."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from slalom.core import Observed, Slalom, Surrogate
from slalom.core.certified import FOLDS, Control, Estimate, Pairs, corrected, draw_pairs
from slalom.core.checks import row_keys, whole_number
from slalom.errors import InputError
from slalom.methods.joint import OURS
from slalom.models import Engine, Reading
from slalom.models.queries import Queries
from slalom.result import CertifiedShapley, Explanation
from slalom.text import Units, query_keys
from slalom.threads import one_blas_thread

_LEAST = 2 * FOLDS + 2  # queries, where these are not all
_FITTED = 1000  # rows of one fit
_AVERAGED, _ROUGH = 16, 0.0025  # units up to which Shapley values of a link are exact; beyond, their error by the largest

Keep = NDArray[np.bool_]


def certify(
    engine: Engine, reading: Reading, units: Units, e: Explanation, target: int | Literal["all"], budget: int, seed: int
) -> CertifiedShapley:
    """Return the Shapley values of a model for one text, as `Explainer.shapley` does."""
    n, rng = len(units), np.random.default_rng([seed, 2])
    pairs = draw_pairs(n, whole_number("queries", budget, min(_LEAST, 2 ** min(n, 10))) // 2 - 1, rng)
    m = len(pairs.keep)
    keep = np.concatenate([pairs.keep, ~pairs.keep, np.ones((1, n), dtype=bool), np.zeros((1, n), dtype=bool)])
    (answer,) = engine([Queries(reading, units.atoms(keep))])
    observed = engine.model.observe(answer.outputs, target)
    if not observed.known.all():
        raise InputError("Shapley values with intervals need exact or noisy scores; this model gives bounds for some of them")
    scores = observed.scores.reshape(len(keep), -1)
    noise = None
    if observed.variance is not None:
        variance = observed.variance
        noise = np.append(variance[:m] + variance[m : 2 * m], variance[-2:].sum())

    def estimate(controls: list[Control], fold: NDArray[np.int64]) -> Estimate:
        return corrected(pairs, scores[:m] - scores[m : 2 * m], scores[-2] - scores[-1], controls, fold, noise)

    once = np.zeros(m, dtype=np.int64)
    if (pairs.counts == pairs.population).all():
        best = estimate([Control(np.zeros((n, scores.shape[1])), 0.0 * scores[:m], 0.0 * scores[-1])], once)
    else:
        with one_blas_thread():
            fold = pairs.folds(FOLDS, rng)
            fits = [_fitted(k, fold, keep, observed, units, e, rng) for k in range(FOLDS)]
            best = estimate([_control(f, pairs, keep) for f in fits], fold)
            if e.signed:
                fits.append(e.surrogate)
                own = estimate([_control(e.surrogate, pairs, keep)], once)
                best = min(best, own, key=lambda found: float((found.errors**2).sum()))
            best = _widened(best, fits)
    shape = e.surrogate.values.shape
    values, errors, half = (part.reshape(shape) for part in best)
    return CertifiedShapley(
        e.units, values, errors, np.stack([values - half, values + half], axis=1), len(set(query_keys(keep, units.names))),
        e.target, e.labels, seed,
    )  # fmt: skip


def _fitted(
    k: int, fold: NDArray[np.int64], keep: Keep, observed: Observed, units: Units, e: Explanation, rng: np.random.Generator
) -> Surrogate:
    """Return the surrogate that has not seen a fold of the pairs; what the explanation holds of the model's answers helps."""
    m = len(fold)
    seen = rng.permutation(np.flatnonzero(fold != k))[: _FITTED // 2]
    rows = np.concatenate([np.sort(seen), m + np.sort(seen), [2 * m, 2 * m + 1]])
    scores = observed.rows(rows)
    asked = keep[rows]
    if observed.exact and e.held_out is not None:
        fresh = np.array([key not in set(row_keys(asked)) for key in row_keys(e.held_out.keep)], dtype=bool)
        asked = np.concatenate([asked, e.held_out.keep[fresh]])
        scores = Observed(np.concatenate([scores.scores, e.held_out.scores[fresh]]))
    return OURS[0].surrogate(units, asked, scores)


def _control(surrogate: Surrogate, pairs: Pairs, keep: Keep) -> Control:
    m, n = pairs.keep.shape
    predicted = surrogate(keep.astype(float)).reshape(len(keep), -1)
    return Control(surrogate.shapley().reshape(n, -1), predicted[:m] - predicted[m : 2 * m], predicted[-2] - predicted[-1])


def _widened(found: Estimate, fits: list[Surrogate]) -> Estimate:
    """Return an estimate with the error of Shapley values of surrogates where these are averages over orders."""
    if len(found.values) <= _AVERAGED or not any(isinstance(f, Slalom) and f.link is not None for f in fits):
        return found
    errors = np.hypot(found.errors, _ROUGH * np.abs(found.values).max(axis=0))
    return Estimate(found.values, errors, found.half_widths * errors / np.maximum(found.errors, np.finfo(float).tiny))
