"""Triangular factors against numpy."""

import numpy as np

from slalom.core.fitting._evidence import triangular


def test_factors_inverses_and_solutions_are_those_of_numpy():
    for n in (1, 2, 7, 130):
        for order in ("C", "F"):
            x, right = np.random.default_rng(0).normal(size=(n, 2 * n)), np.random.default_rng(1).normal(size=(n, 3))
            matrix = np.array(x @ x.T + np.eye(n), order=order)
            kept, lower = matrix.copy(), triangular.cholesky(matrix)
            close = {"rtol": 1e-9, "atol": 1e-12}
            np.testing.assert_allclose(lower, np.linalg.cholesky(matrix), **close)
            np.testing.assert_array_equal(lower, np.tril(lower))
            np.testing.assert_allclose(triangular.inverse_lower(lower), np.linalg.inv(lower), **close)
            np.testing.assert_allclose(triangular.solve_lower(lower, right), np.linalg.solve(lower, right), **close)
            np.testing.assert_allclose(triangular.solve_lower(lower, right, True), np.linalg.solve(lower.T, right), **close)
            np.testing.assert_array_equal(matrix, kept)


def test_a_matrix_without_factors_has_none():
    assert triangular.cholesky(np.array([[1.0, 2.0], [2.0, 1.0]])) is None
    assert triangular.cholesky(np.full((3, 3), -1.0)) is None
