"""Shapley values of a model: answers about pairs of parts of a text correct surrogates that were fitted to other answers."""

from typing import Literal

import numpy as np

from slalom.core import Observed, Slalom, Surrogate
from slalom.core.certified import FOLDS, Control, corrected, draw_pairs
from slalom.core.checks import row_keys, whole_number
from slalom.errors import InputError
from slalom.methods.joint import OURS
from slalom.models import Engine, Queries, Reading
from slalom.result import CertifiedShapley, Explanation
from slalom.text import Units, query_keys
from slalom.threads import one_blas_thread

LEAST_PAIRED = 2 * FOLDS + 2  # queries, where these are not all
_FITTED = 500  # pairs of one fit
_EXACT, _ROUGH = 16, 0.0025  # units up to which Shapley values of a link are exact; beyond, their error by the largest


def certify(
    engine: Engine, reading: Reading, units: Units, e: Explanation, target: int | Literal["all"], budget: int, seed: int
) -> CertifiedShapley:
    """Return the Shapley values of a model for one text, as `Explainer.shapley` does."""
    n, rng = len(units), np.random.default_rng([whole_number("seed", seed, 0), 2])
    least = min(LEAST_PAIRED, 2 ** min(n, 10))
    if whole_number("queries", budget, 1) < least:
        raise InputError(f"Shapley values of {n} {'unit' if n == 1 else 'units'} need at least {least} queries; got {budget}")
    pairs = draw_pairs(n, budget // 2 - 1, rng)
    m, fold = len(pairs.keep), pairs.folds(FOLDS, rng)
    keep = np.concatenate([pairs.keep, ~pairs.keep, np.ones((1, n), dtype=bool), np.zeros((1, n), dtype=bool)])
    (answer,) = engine([Queries(reading, units.atoms(keep))])
    observed = engine.model.observe(answer.outputs, target)
    if not observed.exact:
        raise InputError(f"Shapley values with intervals need exact scores; those of {engine.model.name} are noisy or bounds")
    shape, scale = observed.scores.shape[1:], float(np.abs(observed.scores).max()) or 1.0
    scores = observed.scores / scale  # squares of tiny scores would be 0
    columns = scores.reshape(len(keep), -1)
    differences, whole = columns[:m] - columns[m : 2 * m], columns[-2] - columns[-1]

    def fitted(k: int) -> Surrogate:
        """Return the surrogate that has not seen a fold; answers that the explanation holds help."""
        seen = rng.permutation(np.flatnonzero(fold != k))[:_FITTED]
        rows = np.concatenate([seen, m + seen, [2 * m, 2 * m + 1]])
        asked, known = keep[rows], scores[rows]
        if e.held_out is not None:
            used = set(row_keys(asked))
            fresh = np.array([key not in used for key in row_keys(e.held_out.keep)], dtype=bool)
            asked = np.concatenate([asked, e.held_out.keep[fresh]])
            known = np.concatenate([known, e.held_out.scores[fresh] / scale])
        return OURS[0].surrogate(units, asked, Observed(known))

    def control(f: Surrogate) -> Control:
        predicted = f(keep.astype(float)).reshape(len(keep), -1)
        return Control(f.shapley().reshape(n, -1), predicted[:m] - predicted[m : 2 * m], predicted[-2] - predicted[-1])

    if (pairs.counts == pairs.population).all():  # all parts of the text were asked
        nothing = Control(np.zeros((n, len(whole))), np.zeros(differences.shape), np.zeros(len(whole)))
        values, errors, half = corrected(pairs, differences, whole, [nothing], np.zeros(m, dtype=np.int64))
    else:
        with one_blas_thread():
            fits = [fitted(k) for k in range(FOLDS)]
            values, errors, half = corrected(pairs, differences, whole, [control(f) for f in fits], fold)
        if n > _EXACT and any(isinstance(f, Slalom) and f.link is not None for f in fits):
            rough = _ROUGH * np.abs(values).max(axis=0)
            errors, half = np.hypot(errors, rough), np.hypot(half, 2.0 * rough)
    values, errors, half = (scale * part.reshape(n, *shape) for part in (values, errors, half))
    interval = np.stack([values - half, values + half], axis=1)
    queries = len(set(query_keys(keep, units.words)))
    return CertifiedShapley(e.units, values, errors, interval, queries, e.target, e.labels, seed)
