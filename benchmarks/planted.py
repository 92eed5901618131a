"""Planted data for the benchmarks: designs of queries and models with known parameters."""

import numpy as np

from slalom.core import Slalom

DESIGNS = ("half", "sizes", "deletions", "pairs")


def design(kind, n, m, rng):
    """Counts (m, n): each unit with probability 1/2, all sizes, 1 to 5 deletions, or pairs."""
    if kind == "half":
        counts = (rng.random((m, n)) < 0.5).astype(float)
        counts[~counts.any(axis=1), 0] = 1.0
        return counts
    sizes = {
        "sizes": rng.integers(1, n + 1, m),
        "deletions": n - rng.integers(1, 6, m),
        "pairs": np.full(m, 2),
    }[kind]
    ranks = rng.random((m, n)).argsort(axis=1).argsort(axis=1)
    return (ranks < sizes[:, None]).astype(float)


class Backed:
    """The paper's SLALOM with a background: a last unit, of this value and importance, that every input has."""

    def __init__(self, values, importances, background):
        value, importance = background
        self.model = Slalom([*values, value], [*importances, importance])

    def __call__(self, counts):
        return self.model(np.column_stack([counts, np.ones(len(counts))]))

    def removal(self):
        return self.model.removal()[:-1]

    def alone(self):
        n = self.model.n_units - 1
        return self(np.eye(n)) - self(np.zeros((1, n)))


def truth(kind, n, rng):
    """A callable counts -> scores: the paper's SLALOM, one with a background, or a linear model."""
    values, importances = rng.normal(size=n), rng.normal(size=n)
    if kind == "linear":
        return Slalom(values, importances, competition=0.0)
    return Backed(values, importances, (0.3, np.log(n / 4))) if kind == "background" else Slalom(values, importances)


def noisy(kind, shape, n, m, noise, seed):
    """Counts and scores of one data set; noise in units of the scores' standard deviation."""
    rng = np.random.default_rng(seed)
    model = truth(kind, n, rng)
    counts = design(shape, n, m, rng)
    scores = model(counts)
    return counts, scores + noise * scores.std() * rng.normal(size=m)
