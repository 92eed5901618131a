"""The competition and its interval: planted models of all kinds between a sum and a mean."""

import numpy as np

from slalom.core import Slalom
from slalom.core.fitting.joint import COMPETITION_PRIOR, fitted
from slalom.core.fitting.noise import Observed
from tests.cases import cases


def posterior(kappa, seed, rows=200, n=15, noise=0.1):
    rng = np.random.default_rng(seed)
    truth = Slalom(rng.normal(size=n), rng.normal(size=n), kappa)
    sizes = rng.integers(1, n + 1, rows)
    counts = (rng.random((rows, n)).argsort(axis=1) < sizes[:, None]).astype(float)
    scores = truth(counts)
    return fitted(counts, Observed(scores + noise * scores.std() * rng.normal(size=rows)), np.ones(rows))


def logit(kappa):
    return np.log(kappa / (1 - kappa))


def test_95_percent_intervals_hold_the_planted_competition():
    """Thirty fits tell coverage to 0.04; standard errors a third too small (0.81) would be found."""
    inside = []
    for seed in range(30):
        kappa = (0.2, 0.5, 0.8)[seed % 3]
        found = posterior(kappa, seed)
        inside.append(abs(logit(found.model.competition) - logit(kappa)) < 1.96 * found.competition_se)
    assert 0.9 <= np.mean(inside) <= 1.0


@cases(("kappa", "least", "most"), [(0.0, 0.0, 0.1), (1.0, 0.9, 1.0)])
def test_the_ends_are_found(kappa, least, most):
    assert least <= posterior(kappa, 0).model.competition <= most


def test_scores_that_do_not_tell_leave_the_prior():
    """Single units alone: their share is 1, whatever the competition."""
    values = np.random.default_rng(0).normal(size=12)
    found = fitted(np.eye(12), Observed(values), np.ones(12))
    mean, deviation = COMPETITION_PRIOR
    assert abs(logit(found.model.competition) - mean) < 0.01
    assert abs(found.competition_se - deviation) < 0.01
