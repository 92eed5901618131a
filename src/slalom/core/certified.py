"""Shapley values of any function v of n units, from some of its values and a surrogate f as control variate.

    phi_i(v) = phi_i(f) + sum over pairs {S, not S} of d(S) [p_(s-1) 1(i in S) - p_s 1(i not in S)]
    d = r(S) - r(not S),  r = v - f,  p_k = 1 / (n C(n-1, k)),  s = |S| <= n / 2

The weights of a set and of its complement are opposite, so only differences within pairs matter: even parts of the residual
cancel. The pair of everything and nothing is always taken, so the values sum to v(all) - v(none) without a projection.

Pairs of each size are a stratum, without replacement: a size whose pairs are all taken adds no variance. Sizes share the pairs
in proportion to 1 / sqrt(s (n - s)), which is optimal where residuals of all sizes vary alike. Neighbouring sizes with too few
pairs are one stratum, with replacement.

Cross-fitting: f_k is fitted without the pairs of fold k. Given the others, those of fold k are a random sample of the pairs
that are left, so with the others counted for themselves and fold k for the rest the estimate is unbiased, whatever f_k is.

Errors come from the residual of each pair under the surrogate that has not seen it. In no stratum is their variance taken to
be smaller than in all: a few pairs of one size may miss what is rare. t quantiles have Satterthwaite's degrees of freedom.
"""

from collections.abc import Sequence
from itertools import combinations
from math import comb, inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from slalom.core.checks import Floats, row_keys

FOLDS = 5  # and so the least number of pairs in a stratum
_LISTED = 64  # pairs of one size that are listed, where not more than four times the pairs to draw


class Pairs(NamedTuple):
    """A sample of pairs of a set and its complement.

    Attributes:
        keep: The smaller set of each pair (m, n).
        stratum: Stratum of each pair (m,).
        population: Number of pairs in each stratum (b,); infinite where they are drawn with replacement.
        weights: Weight of a pair for each unit (m, n): the mean over a stratum of these times d is what it adds.
    """

    keep: NDArray[np.bool_]
    stratum: NDArray[np.int64]
    population: Floats
    weights: Floats

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of pairs in each stratum (b,)."""
        return np.bincount(self.stratum, minlength=len(self.population))

    def folds(self, number: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the fold of each pair (m,); each of up to FOLDS has pairs of every stratum that is not taken whole."""
        order = np.lexsort((rng.random(len(self.stratum)), self.stratum))
        fold = np.empty(len(order), dtype=np.int64)
        fold[order] = np.arange(len(order)) % number
        return fold


class Control(NamedTuple):
    """A surrogate as control variate, for one fold.

    Attributes:
        shapley: Its Shapley values (n, c).
        differences: Its F(S) - F(not S) of the pairs (m, c).
        whole: Its F(all) - F(none) (c,).
    """

    shapley: Floats
    differences: Floats
    whole: Floats


class Estimate(NamedTuple):
    """Shapley values (n, c), their standard errors, and half the widths of their 95% intervals."""

    values: Floats
    errors: Floats
    half_widths: Floats


def draw_pairs(n: int, number: int, rng: np.random.Generator) -> Pairs:
    """Return a sample of so many pairs of sets of n units, at least `FOLDS`; all pairs where there are no more."""
    sizes, shares, left = np.arange(1, n // 2 + 1), np.zeros(n // 2), number
    limits = [comb(n, s) // (2 if 2 * s == n else 1) for s in sizes.tolist()]
    chances = np.where(2 * sizes == n, 0.5, 1.0) / np.sqrt(sizes * (n - sizes))
    whole = np.zeros(len(sizes), dtype=bool)
    while not whole.all():  # a size with too few pairs leaves its share
        left = number - sum(limit for limit, taken in zip(limits, whole, strict=True) if taken)
        shares = left * chances / chances[~whole].sum()
        full = ~whole & np.array([share >= limit for share, limit in zip(shares, limits, strict=True)])
        if not full.any():
            break
        whole |= full
    strata = [([i], limits[i]) for i in np.flatnonzero(whole).tolist()]
    sampled = np.flatnonzero(~whole)
    if len(sampled) and left < FOLDS:
        strata = [(list(range(len(sizes))), number)]
    elif len(sampled):
        strata += _grouped(sampled.tolist(), shares[~whole].tolist(), left)
    keeps, weights = [np.zeros((0, n), dtype=bool)], [np.zeros((0, n))]
    for members, count in strata:
        if len(members) == 1:
            keep = _distinct(n, int(sizes[members[0]]), count, limits[members[0]], rng)
            scale = np.ones(count)
        else:
            chance = chances[members] / chances[members].sum()
            drawn = rng.choice(len(members), count, p=chance)
            keep, scale = _sets(n, sizes[members][drawn], rng), 1.0 / chance[drawn]
        size = keep.sum(axis=1)
        scale = scale * np.where(2 * size == n, 0.5, 1.0)
        keeps.append(keep)
        weights.append(np.where(keep, (scale / size)[:, None], (-scale / (n - size))[:, None]))
    return Pairs(
        np.concatenate(keeps),
        np.repeat(np.arange(len(strata)), np.array([count for _, count in strata], dtype=np.int64)),
        np.array([float(limits[members[0]]) if len(members) == 1 else inf for members, _ in strata]),
        np.concatenate(weights),
    )


def _grouped(sizes: list[int], shares: list[float], number: int) -> list[tuple[list[int], int]]:
    """Return strata of neighbouring sizes with at least FOLDS pairs each, and their numbers of pairs."""
    groups, totals = list[list[int]](), list[float]()
    for size, share in zip(sizes, shares, strict=True):
        if not groups or totals[-1] >= FOLDS:
            groups.append([])
            totals.append(0.0)
        groups[-1].append(size)
        totals[-1] += share
    if totals[-1] < FOLDS and len(groups) > 1:
        groups[-2:], totals[-2:] = [groups[-2] + groups[-1]], [totals[-2] + totals[-1]]
    ends = np.round(np.cumsum(totals) * (number / sum(totals)))
    counts = np.diff(ends, prepend=0.0).astype(np.int64)
    for b in np.flatnonzero(counts < FOLDS):  # rounding
        counts[np.argmax(counts)] -= FOLDS - counts[b]
        counts[b] = FOLDS
    return list(zip(groups, counts.tolist(), strict=True))


def _sets(n: int, sizes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return a uniform random set of each size (m, n); of half the units one that has the first."""
    order = rng.random((len(sizes), n)).argsort(axis=1).argsort(axis=1)
    keep = order < sizes[:, None]
    return np.asarray(np.where((2 * sizes == n)[:, None], keep == keep[:, :1], keep))


def _distinct(n: int, size: int, number: int, limit: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return a random sample of the pairs of one size, without replacement."""
    if limit <= max(4 * number, _LISTED):
        listed = np.array([s for s in combinations(range(n), size) if 2 * size < n or s[0] == 0])
        chosen = listed[rng.permutation(limit)[:number]]
        return np.asarray((chosen[:, :, None] == np.arange(n)).any(axis=1))
    keep = np.zeros((0, n), dtype=bool)
    while len(keep) < number:
        keep = np.concatenate([keep, _sets(n, np.full(number - len(keep), size), rng)])
        first = {key: i for i, key in reversed(list(enumerate(row_keys(keep))))}
        keep = keep[sorted(first.values())]
    return keep


def corrected(
    pairs: Pairs,
    differences: Floats,
    whole: Floats,
    controls: Sequence[Control],
    fold: NDArray[np.int64],
    noise: Floats | None = None,
) -> Estimate:
    """Return the Shapley values of v, corrected by its differences.

    Args:
        pairs: The pairs.
        differences: v(S) - v(not S) of each (m, c).
        whole: v(all) - v(none) (c,).
        controls: A surrogate per fold, fitted without its pairs; one where it was fitted on other rows.
        fold: Fold of each pair (m,), zeros for one surrogate.
        noise: Variances of the differences, then of `whole` (m + 1,); None where v is exact.
    """
    n, counts = pairs.keep.shape[1], pairs.counts
    values, residuals = np.zeros((n, len(whole))), np.zeros(differences.shape)
    for k, control in enumerate(controls):
        left, tested = differences - control.differences, fold == k
        residuals[tested] = left[tested]  # by the surrogate that has not seen the pair
        numbers = np.bincount(pairs.stratum[tested], minlength=len(counts))
        rest = (1.0 - (counts - numbers) / pairs.population) / np.maximum(numbers, 1)
        share = np.where(tested, rest[pairs.stratum], 1.0 / pairs.population[pairs.stratum])
        values += (control.shapley + (whole - control.whole) / n + (pairs.weights * share[:, None]).T @ left) / len(controls)
    variance, freedom = _variance(pairs, residuals)
    if noise is not None:  # of pairs that stand for others it is in the variance of the residuals
        known = counts / pairs.population
        scale = (pairs.weights / counts[pairs.stratum, None]) ** 2 * known[pairs.stratum, None]
        variance = variance + (scale.T @ noise[:-1] + noise[-1] / n**2)[:, None]
    errors = np.sqrt(variance)
    return Estimate(values, errors, errors * stdtrit(freedom, 0.975))


def _variance(pairs: Pairs, residuals: Floats) -> tuple[Floats, Floats]:
    """Return the variances of the values (n, c) from the residuals (m, c), and their degrees of freedom."""
    counts, left = pairs.counts, 1.0 - pairs.counts / pairs.population
    sampled = (left > 0.0)[pairs.stratum]
    number = max(int(sampled.sum()), 2)
    usual = (residuals[sampled] ** 2).sum(axis=0) / number
    parts = np.zeros((len(counts), pairs.keep.shape[1], residuals.shape[1]))
    inverse = np.ones(parts.shape)  # of degrees of freedom
    for b in np.flatnonzero(left > 0.0):
        weights = pairs.weights[pairs.stratum == b]
        own = (weights[:, :, None] * residuals[pairs.stratum == b][:, None, :]).var(axis=0, ddof=1)
        pooled = (weights**2).mean(axis=0)[:, None] * usual
        parts[b] = np.maximum(own, pooled) * left[b] / counts[b]
        inverse[b] = np.where(own > pooled, 1.0 / (counts[b] - 1), 1.0 / (number - 1))
    variance, smallest = parts.sum(axis=0), np.finfo(float).tiny
    return variance, np.maximum(variance**2 / np.maximum((parts**2 * inverse).sum(axis=0), smallest), 1.0)
