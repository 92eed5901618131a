"""LAPACK without Python's lock: against numpy, bit by bit against scipy's wrappers, and threads that do not wait."""

import threading
from time import perf_counter

import numpy as np
import pytest

from slalom.core.fitting._arrays import lapack

FUNCTIONS = ("_POTRF", "_TRTRI", "_TRTRS")


@pytest.fixture(params=["ctypes", "scipy"])
def way(request, monkeypatch):
    """Both ways to call LAPACK."""
    if request.param == "scipy":
        for name in FUNCTIONS:
            monkeypatch.setattr(lapack, name, None)
    elif lapack._POTRF is None:
        pytest.skip("scipy has other integers here")
    return request.param


def definite(n, order, seed=0):
    x = np.random.default_rng(seed).normal(size=(n, 2 * n))
    return np.array(x @ x.T + np.eye(n), order=order)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("n", [1, 2, 7, 130])
def test_factors_inverses_and_solutions_are_those_of_numpy(way, n, order):
    matrix, right = definite(n, order), np.random.default_rng(1).normal(size=(n, 3))
    kept = matrix.copy()
    lower = lapack.cholesky(matrix)
    np.testing.assert_allclose(lower, np.linalg.cholesky(matrix), rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(lower, np.tril(lower))
    np.testing.assert_allclose(lapack.inverse_lower(lower), np.linalg.inv(lower), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(lapack.solve_lower(lower, right), np.linalg.solve(lower, right), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(lapack.solve_lower(lower, right, True), np.linalg.solve(lower.T, right), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(matrix, kept)


def test_a_matrix_without_factors_has_none(way):
    assert lapack.cholesky(np.array([[1.0, 2.0], [2.0, 1.0]])) is None
    assert lapack.cholesky(np.full((3, 3), -1.0)) is None


def test_both_ways_give_the_same_bits(monkeypatch):
    matrix, right = definite(60, "C"), np.random.default_rng(1).normal(size=(60, 4))

    def all_three():
        lower = lapack.cholesky(matrix)
        return lower, lapack.inverse_lower(lower), lapack.solve_lower(lower, right), lapack.solve_lower(lower, right, True)

    ours = all_three()
    for name in FUNCTIONS:
        monkeypatch.setattr(lapack, name, None)
    for mine, scipys in zip(ours, all_three(), strict=True):
        np.testing.assert_array_equal(mine, scipys)


@pytest.mark.skipif(lapack._TRTRI is None, reason="scipy has other integers here")
def test_other_threads_run_while_lapack_computes():
    """With scipy's wrappers another thread stands still for nearly all of a factorisation."""
    matrix, times, done = definite(2500, "F"), [perf_counter()], threading.Event()

    def watch():
        while not done.wait(0.001):
            times.append(perf_counter())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        began = perf_counter()
        lapack.cholesky(matrix)
        took = perf_counter() - began
    finally:
        done.set()
        thread.join()
    assert np.diff([*times, perf_counter()]).max() < 0.5 * took


def test_a_function_with_another_signature_is_not_called():
    assert lapack._function("dpotrf", 1, "iiai") is None
    assert lapack._function("dpotrf", 2, "iaii") is None
