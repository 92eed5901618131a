"""The two-loop recursion is the product with the matrix of the BFGS update."""

import numpy as np

from slalom.core.fitting._lbfgs import two_loop
from tests.cases import cases


@cases("n_pairs", [0, 1, 4])
def test_it_multiplies_by_the_updated_inverse(n_pairs):
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 6))
    inverse = first = root @ root.T
    moves = rng.normal(size=(n_pairs, 6))
    changes = moves @ np.linalg.inv(first) + 0.1 * moves
    for move, change in zip(moves, changes, strict=True):
        away = np.eye(6) - np.outer(move, change) / (move @ change)
        inverse = away @ inverse @ away.T + np.outer(move, move) / (move @ change)
    gradient = rng.normal(size=6)
    pairs = [(move, change, move @ change) for move, change in zip(moves, changes, strict=True)]
    step = two_loop(
        pairs, gradient, first.__matmul__, lambda a, b, product: a @ b / product, lambda a, b, factor: a + factor * b
    )
    np.testing.assert_allclose(step, inverse @ gradient)
    if n_pairs:
        assert not np.allclose(step, first @ gradient)
