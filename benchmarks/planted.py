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


def truth(kind, n, rng):
    """A callable counts -> scores: the paper's SLALOM, one with a background, or a linear model."""
    values, importances = rng.normal(size=n), rng.normal(size=n)
    if kind == "linear":
        return lambda counts: counts @ values
    return Slalom(values, importances, (0.3, np.log(n / 4)) if kind == "background" else None)


def noisy(kind, shape, n, m, noise, seed):
    """Counts and scores of one data set; noise in units of the scores' standard deviation."""
    rng = np.random.default_rng(seed)
    model = truth(kind, n, rng)
    counts = design(shape, n, m, rng)
    scores = model(counts)
    return counts, scores + noise * scores.std() * rng.normal(size=m)
