"""The kernels of what the formula leaves against their formulas, and their parts against their covariances."""

import numpy as np

from slalom.core.fitting.kernels import NeighbourKernel, PlaceKernel
from tests.cases import cases


def rows(rng, m, n):
    return rng.random((m, n)) < rng.random((m, 1))


def test_neighbours_differ_by_the_share_of_their_units_that_matters():
    rng = np.random.default_rng(0)
    a, b, matter = rows(rng, 20, 9), rows(rng, 15, 9), rng.random(9)
    kernel = NeighbourKernel(a, np.ones(9, dtype=np.int64))
    np.testing.assert_allclose(kernel.matrix, np.exp(-(a[:, None] != a).mean(axis=2) / 0.3), atol=1e-12)
    kernel.weigh(matter)
    shares = (a[:, None] != b) @ (matter / matter.sum())
    np.testing.assert_allclose(kernel.between(a, b), np.exp(-shares / 0.3), atol=1e-12)
    np.testing.assert_allclose(kernel.matrix, kernel.between(a, a))


def test_places_are_processes_of_the_missing_atoms_before_them():
    rng = np.random.default_rng(1)
    n, matter = 12, rng.random(12)
    a, b, sizes = rows(rng, 20, n), rows(rng, 15, n), rng.integers(1, 4, n)
    kernel = PlaceKernel(a, sizes)
    assert kernel.knots.tolist() == list(range(1, n))
    kernel.weigh(matter)
    around = np.array([matter[max(knot - 2, 0) : knot + 3].mean() for knot in kernel.knots])
    expected = np.zeros((20, 15))
    for knot, share in zip(kernel.knots, around / around.sum(), strict=True):
        r, s = (((~keep) * sizes)[:, :knot].sum(axis=1)[:, None] / 1.5 for keep in (a, b))
        expected += share * (np.exp(-np.abs(r - s.T)) - np.exp(-(r + s.T)))  # 0 where nothing is missing
    np.testing.assert_allclose(kernel.between(a, b), expected, atol=0.03)  # small eigenvalues are left out
    np.testing.assert_allclose(kernel.matrix, kernel.between(a, a), atol=1e-12)
    whole = np.ones((1, n), dtype=bool)
    assert not kernel.between(whole, a).any()


@cases("kind", [NeighbourKernel, PlaceKernel])
@cases("classes", [None, 3])
@cases("n", [2, 11, 70])
def test_a_part_is_the_mean_of_the_process(kind, classes, n):
    rng = np.random.default_rng(n)
    asked, further = rows(rng, 40, n), rows(rng, 30, n)
    kernel = kind(asked, rng.integers(1, 4, n))
    kernel.weigh(rng.random(n) + 0.1)
    pulls = rng.normal(size=(40,) if classes is None else (40, classes))
    pulls = pulls if classes is None else pulls - pulls.mean(axis=1, keepdims=True)
    part = kernel.part(pulls)
    assert part.n_units == n
    np.testing.assert_allclose(part(further.astype(float)), kernel.between(further, asked) @ pulls, atol=1e-10)
    values = np.linalg.eigvalsh(kernel.matrix)
    assert values.min() > -1e-9 * values.max()
