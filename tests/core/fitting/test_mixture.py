"""Errors that integrate over the tightness and the background's share: against all shapes enumerated, and in their limit."""

import numpy as np

from slalom.core import Joint, Slalom, fit
from slalom.core.fitting import joint
from slalom.core.fitting._evidence.errors import standard_errors
from slalom.core.fitting._evidence.mixture import mixed_errors, mixture
from tests.cases import cases


def searched(monkeypatch, counts, scores, background):
    """The solver and the polished candidate of a fit."""
    seen = []

    def kept(solver, best, basis, nodes):
        seen.append((solver, best))
        return mixed_errors(solver, best, basis, nodes)

    with monkeypatch.context() as patch:
        patch.setattr(joint, "mixed_errors", kept)
        fit(counts, scores, Joint(background=background, link=False))
    return seen[0]


def enumerated(counts, scores, best):
    """Root mean squares of v and t - mean t around a candidate, n = 2, on a grid of t_1 - t_2, log tightness and log odds of a.

    Strength and noise are the candidate's; given the shape, F and psi are integrated out in closed form, as is t_1 + t_2.
    """
    share, (strength, tightness, precision) = best.point.share, best.hyper
    mean = counts.mean(axis=0)
    gap = best.point.t[0] - best.point.t[1]
    axes = [gap + np.linspace(-6, 6, 801 if share is None else 121), np.log(tightness) + np.linspace(-5, 3, 17)]
    axes.append(np.array([-np.inf]) if share is None else np.log(share / (1.0 - share)) + np.linspace(-4, 6, 41))
    u, log_tight, log_odds = (x.ravel() for x in np.meshgrid(*axes, indexing="ij"))
    a = 1.0 / (1.0 + np.exp(-log_odds))
    e = np.exp(np.stack([u / 2, -u / 2], axis=1))
    p = e / (e @ mean)[:, None]
    rest = 1.0 - a
    d = 1.0 + rest[:, None] * (p @ (counts - mean).T)
    x = counts if share is None else counts - mean
    design = np.concatenate([np.ones((len(u), len(x), 1)), x * p[:, None] / d[:, :, None]], axis=2)
    m = precision * np.einsum("gki,gkj->gij", design, design)
    r = np.zeros_like(p) if share is None else (rest / a)[:, None] * mean * p
    m[:, 1:, 1:] += strength * (np.eye(2) + r[:, :, None] * r[:, None])
    covariance = np.linalg.inv(m)
    right = precision * np.einsum("gki,k->gi", design, scores)
    centre = np.einsum("gij,gj->gi", covariance, right)
    log_p = 0.5 * (right * centre).sum(1) - 0.5 * np.linalg.slogdet(m)[1] + 0.5 * np.log1p((r**2).sum(1))
    log_p += 0.5 * log_tight - np.exp(log_tight) * u**2 / 4  # of t_1 - t_2, their sum integrated out
    log_p += 0.5 * log_tight - 0.5 * np.exp(log_tight)  # the tightness's own prior
    if share is not None:
        log_p += np.log(a * rest) - 6.0 * (a - 0.5) ** 2
    weight = np.exp(log_p - log_p.max())
    weight /= weight.sum()
    way = np.zeros((len(u), 2, 3))
    way[:, :, 0] = 1.0
    way[:, [0, 1], [1, 2]] = (1.0 / rest)[:, None]
    values = np.einsum("gvi,gi->gv", way, centre)
    spread = np.einsum("gvi,gij,gvj->gv", way, covariance, way)
    point = best.point
    found = point.level[0] + point.psi[:, 0] / point.rest
    return np.sqrt(weight @ (spread + (values - found) ** 2)), np.sqrt(weight @ ((u - gap) ** 2 / 4))


@cases("background", [None, (0.5, 0.7)])
@cases("noise", [0.03, 0.06, 0.1])
def test_errors_are_those_of_all_shapes(monkeypatch, background, noise):
    rng = np.random.default_rng(3)
    counts = rng.integers(0, 4, (60, 2)) + 0.0
    counts[~counts.any(axis=1)] = 1.0
    scores = Slalom([1.0, -1.0], [0.6, -0.6], background)(counts)
    scores = scores + noise * rng.normal(size=60)
    solver, best = searched(monkeypatch, counts, scores - scores.mean(), background is not None)
    found = mixed_errors(solver, best, None, mixture(solver, best))
    plain, doubted = (standard_errors(best, None, about) for about in ((), ("strength",)))
    values, importance = enumerated(counts, scores - scores.mean(), best)
    for ours, gaussian, strong, truth in (
        (found.values, plain.values, doubted.values, values),
        (found.importances, plain.importances, doubted.importances, importance),
    ):
        np.testing.assert_allclose(np.sqrt(ours**2 - strong**2 + gaussian**2), truth, rtol=0.07)
    if background is not None and noise == 0.1:
        assert (plain.values < 0.85 * values).all()  # what one Gaussian says


def test_with_many_rows_nothing_is_in_doubt(monkeypatch):
    rng = np.random.default_rng(4)
    counts = (rng.random((4000, 8)) < 0.5) + 0.0
    counts[~counts.any(axis=1), 0] = 1.0
    scores = Slalom(rng.normal(size=8), 0.5 * rng.normal(size=8), (0.5, 1.0))(counts) + 0.01 * rng.normal(size=4000)
    solver, best = searched(monkeypatch, counts, scores, None)
    mixed, plain = mixed_errors(solver, best, None, mixture(solver, best)), standard_errors(best, None)
    for ours, gaussian in zip(mixed, plain, strict=True):
        np.testing.assert_allclose(ours, gaussian, rtol=0.03)
