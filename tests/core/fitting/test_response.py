"""What a fit takes over of a change of its scores: against a dense matrix of finite differences, and against fits."""

import numpy as np
from scipy.linalg import helmert
from scipy.sparse import csr_array

from slalom.core import Joint, Linear, Slalom, fit
from slalom.core.fitting.response import response
from tests.cases import cases


def planted(classes=None, link=None, seed=0, m=240, n=8):
    """A fit, its counts, scores and weights."""
    rng = np.random.default_rng(seed)
    shape = () if classes is None else (classes,)
    truth = Slalom(rng.normal(size=(n, *shape)), rng.normal(size=n), (np.zeros(shape), 0.5), link)
    counts = (rng.random((m, n)) < rng.uniform(0.2, 0.9, (m, 1))).astype(float)
    scores, weights = truth(counts), rng.uniform(0.5, 2.0, m)
    scores = scores + 0.2 * rng.normal(size=scores.shape)
    return fit(counts, scores, Joint(link=link is not None), weights=weights), counts, scores, weights


def residual_maker(found, counts, weights):
    """R (m K, m K) by finite differences of the predictions by all parameters, rows of the outputs one after the other."""
    model, n = found.model, counts.shape[1]
    basis = np.ones((1, 1)) if model.values.ndim == 1 else helmert(model.values.shape[1]).T
    outputs = basis.shape[1]

    def predicted(x):
        values = x[: n * outputs].reshape(n, outputs) @ basis.T
        value, rest = x[n * outputs : (n + 1) * outputs] @ basis.T, x[(n + 1) * outputs :]
        single = model.values.ndim == 1
        link = None if model.link is None else (rest[n + 1], np.exp(rest[n + 2]))
        moved = Slalom(
            values[:, 0] if single else values, rest[:n], (value[0] if single else value, rest[n]), link, rest[:n].sum()
        )
        return (np.asarray(moved(counts)).reshape(len(counts), -1) @ basis).T.ravel()

    value, importance = model.background
    parts = [model.values.reshape(n, -1) @ basis, np.atleast_1d(value) @ basis, model.importances, [importance]]
    parts += [] if model.link is None else [[model.link.middle, np.log(model.link.reach)]]
    x = np.concatenate([np.ravel(part) for part in parts])
    j = np.stack([(predicted(x + step) - predicted(x - step)) / 2e-5 for step in 1e-5 * np.eye(len(x))], axis=1)
    level = model.evidence(counts.mean(axis=0)[None]).reshape(1, -1) @ basis
    deviations = model.values.reshape(n, -1) @ basis - level
    tau = (deviations**2).mean() + (found.values_se**2).sum() / deviations.size
    sigma = (model.importances**2).mean() + (found.importances_se**2).mean()
    wide = 900.0 * (model.evidence(counts).reshape(len(counts), -1) @ basis).var()
    prior = np.zeros((len(x), len(x)))
    size = (n + 1) * outputs
    prior[:size, :size] = np.kron(tau * np.eye(n + 1) + wide, np.eye(outputs))
    prior[size:, size:] = np.diag([*[sigma] * n, 900.0, *([] if model.link is None else [wide, 900.0])])
    weight = np.tile(weights / weights.mean(), outputs) * found.free * outputs / found.loss
    gain = np.linalg.solve((j.T * weight) @ j + np.linalg.inv(prior), j.T * weight)
    return np.eye(len(j)) - j @ gain, weight, basis


@cases(("classes", "link"), [(None, None), (3, None), (None, (0.0, 0.6))])
def test_the_response_is_that_of_all_derivatives(classes, link):
    found, counts, scores, weights = planted(classes, link)
    maker, weight, basis = residual_maker(found, counts, weights)
    answer = response(found, counts, weights)
    change = np.random.default_rng(1).normal(size=scores.shape)
    change = change if classes is None else change - change.mean(axis=1, keepdims=True)
    expected = (maker @ (change.reshape(len(change), -1) @ basis).T.ravel()).reshape(-1, len(change)).T @ basis.T
    np.testing.assert_allclose(answer.left(change).reshape(expected.shape), expected, atol=2e-5 * np.abs(expected).max())
    # The strength is (h'e)^2 over the variance R N R' + J H^-1 L H^-1 J', with the noise that the residuals show.
    h = np.random.default_rng(2).normal(size=(len(counts), 2))
    e = (scores - found.model(counts)).reshape(len(counts), -1) @ basis
    noise = e.T.ravel() ** 2 / found.free
    variance = (maker * noise) @ maker.T + maker / weight - (maker / weight) @ maker.T
    m = len(counts)
    total = sum(
        (h.T @ e[:, k]) ** 2 / np.diag(h.T @ variance[k * m : (k + 1) * m, k * m : (k + 1) * m] @ h) for k in range(e.shape[1])
    )
    np.testing.assert_allclose(answer.strengths(h, scores - found.model(counts)), total, rtol=1e-4)


@cases("classes", [None, 3])
def test_slopes_find_what_a_fit_has_taken_over(classes):
    _, counts, scores, weights = planted(classes)
    x = counts[:, :1] * counts[:, 1:2]
    h = (counts[:, :1] - counts.mean(axis=1, keepdims=True)) * (counts[:, 1:2] - counts.mean(axis=1, keepdims=True))
    effect = np.array([0.8]) if classes is None else np.array([[0.8, -0.3, -0.5]])
    again = fit(counts, scores + (x @ effect if classes else x[:, 0] * 0.8), Joint(), weights=weights)
    residual = scores + (x @ effect if classes else x[:, 0] * 0.8) - again.model(counts)
    change, errors = response(again, counts, weights).slopes(h, x, residual, 0.0 * effect, 100.0)
    assert change.shape == errors.shape == effect.shape
    assert (np.abs(change - effect) < 3.5 * errors).all()
    assert (errors < 0.25).all()


def test_other_fits_have_no_response():
    found, counts, scores, weights = planted()
    assert response(fit(counts, scores, Linear()), counts, weights) is None
    exact = fit(counts, found.model(counts), Joint())
    answer = response(exact, counts, weights)
    assert answer is None or np.isfinite(answer.left(scores)).all()


@cases("scale", [1.0, 1e-120, 1e120])
def test_only_ratios_of_weights_matter(scale):
    found, counts, scores, weights = planted()
    expected = response(found, counts, weights).left(scores)
    np.testing.assert_allclose(response(found, counts, scale * weights).left(scores), expected, rtol=1e-9, atol=1e-12)


def test_sparse_counts_give_the_same_response_and_factor():
    """Units count as a sparse array where few are present."""
    found, counts, scores, weights = planted()
    change, residual = counts[:, 0] * counts[:, 1], scores - found.model(counts)
    dense, sparse = (response(found, part, weights).left(change) for part in (counts, csr_array(counts)))
    np.testing.assert_array_equal(sparse, dense)
    factors = [found.posterior.misfit_factor(part, residual, weights, found.free) for part in (counts, csr_array(counts))]
    assert factors[0] == factors[1]
