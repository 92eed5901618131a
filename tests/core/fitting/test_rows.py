"""Steps in the space of the rows are those in the space of the units."""

import numpy as np
import pytest

from slalom.core import Joint, Slalom, fit
from slalom.core.fitting import joint
from slalom.core.fitting._arrays.backend import NumpyBackend, TorchBackend
from slalom.core.fitting._evidence.coordinates import Step
from slalom.core.fitting.problem import Problem


def planted(rows, units, seed, noise=0.1, saturated=False):
    """Return random subsets of every size, their scores under a random SLALOM, and weights."""
    rng = np.random.default_rng(seed)
    truth = Slalom(2.0 * rng.normal(size=units), rng.normal(size=units), (float(rng.normal()), 1.0))
    order = rng.random((rows, units)).argsort(axis=1)
    counts = (order < rng.integers(1, units + 1, rows)[:, None]).astype(float)
    scores = truth(counts) + noise * rng.normal(size=rows)
    return counts, 6.0 * np.tanh(scores / 2.0) if saturated else scores, rng.uniform(0.5, 2.0, rows)


def searched(backend, background, linked):
    """Return the search of a problem, and a point of it with its precisions after a few steps in the space of the rows."""
    search = joint._Search(Joint(link=linked), Problem.of(*planted(40, 90, 3, saturated=True)), backend)
    start = search.linked_start(background) if linked else search.start(search.line, background)
    found = search.solver.maximise_evidence(*start, limit=3)
    return search, found.point, found.hyper


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("backend", [NumpyBackend(), TorchBackend("cpu")], ids=["numpy", "torch"])
def test_the_inverse_by_rows_is_that_by_units(backend, background, linked):
    with backend.session():
        search, point, hyper = searched(backend, background, linked)
        solver, n = search.solver, 90
        assert solver.by_rows
        rows = solver.linearised(point, hyper, exact=True, traces=True)
        units = solver.linearised(point, hyper, exact=True, traces=True, whole=True)
        assert rows.by_rows
        assert not units.by_rows
        np.testing.assert_allclose(rows.traces, units.traces, rtol=1e-9)

        def same(left, right):
            for one, other in zip(map(backend.numpy, left), map(backend.numpy, right), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9 * np.abs(other).max(initial=1.0))

        gradient = units.system.gradient
        same(rows.system.gradient, gradient)
        same(rows.factors.solve(gradient), units.factors.solve(gradient))
        odd = Step(gradient.linear * 0.0 + 1.0, gradient.shape * 0.0 - 2.0)
        same(rows.factors.solve(odd), units.factors.solve(odd))
        same([rows.system.weigh(odd)], [units.system.weigh(odd)])
        if background:
            same(rows.factors.column(n), units.factors.column(n))
        damping = backend.scalars(0.7)[0]
        for whole in (False, True):
            (left, failed), (right, _) = (at.system.damped(backend, at.factors, damping, whole) for at in (rows, units))
            assert not failed
            same(left.solve(gradient), right.solve(gradient))
        force, expected = (solver.marginal_force(point, hyper, at.factors) for at in (rows, units))
        same([force], [expected])
        by_rows = solver.solve_linear_block(point, hyper)
        solver.by_rows = False
        by_units = solver.solve_linear_block(point, hyper)
        same([by_rows[0].psi, by_rows[0].level], [by_units[0].psi, by_units[0].level])
        np.testing.assert_allclose([*by_rows[1], by_rows[2]], [*by_units[1], by_units[2]], rtol=1e-8)


@pytest.mark.parametrize(
    ("rows", "units", "noise", "saturated"),
    [(40, 90, 0.1, False), (30, 70, 0.3, True), (60, 120, 0.0, False), (25, 200, 0.05, True), (64, 65, 0.2, False)],
)
def test_fits_are_those_of_the_units_space(monkeypatch, rows, units, noise, saturated):
    for seed in range(3):
        counts, scores, weights = planted(rows, units, seed, noise, saturated)
        found = fit(counts, scores, Joint(), weights)
        with monkeypatch.context() as patch:
            patch.setattr(joint, "_MANY", 10**9)
            expected = fit(counts, scores, Joint(), weights)
        assert found.iterations == expected.iterations
        assert found.diagnosis == expected.diagnosis
        scale = np.abs(expected.model.values).max()
        np.testing.assert_allclose(found.model.values, expected.model.values, rtol=1e-6, atol=1e-6 * scale)
        np.testing.assert_allclose(found.model.importances, expected.model.importances, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(found.values_se, expected.values_se, rtol=1e-5)
        np.testing.assert_allclose(found.importances_se, expected.importances_se, rtol=1e-5)


def test_where_the_data_hide_the_prior_steps_return_to_the_units():
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 2, (60, 80)).astype(float)
    scores = counts[:, :4] @ [3.0, -2.0, 1.0, 0.5]  # four units decide, without noise
    search = joint._Search(Joint(), Problem.of(counts, scores, None), NumpyBackend())
    assert search.solver.by_rows
    with search.backend.session():
        point, hyper = search.start(search.line, with_background=True)
        search.solver.linearised(point, hyper._replace(precision=1e12 * hyper.precision))
    assert not search.solver.by_rows
