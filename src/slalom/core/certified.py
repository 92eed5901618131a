"""Shapley values of any function v of n units, from some of its values and a surrogate f as control variate.

    phi_i(v) = phi_i(f) + sum over pairs {S, not S} of d(S) [p_(s-1) 1(i in S) - p_s 1(i not in S)]
    d = r(S) - r(not S),  r = v - f,  p_k = 1 / (n C(n-1, k)),  s = |S| <= n / 2

Weights of a set and its complement are opposite, so even parts of the residual cancel within a pair. The pair of all and none
is always taken, so the values sum to v(all) - v(none). Pairs of each size are a stratum, without replacement; sizes share
them in proportion to 1 / sqrt(s (n - s)), optimal where residuals vary alike. Sizes with too few are one, with replacement.

Cross-fitting: f_k is fitted without fold k. Given the others, fold k is a random sample of the pairs that are left: with the
others counted for themselves and fold k for the rest there is no bias, whatever f_k is. Errors come from residuals that f_k has
not seen. Their variance in a stratum is at least that in all, as a few pairs may miss what is rare.
"""

from collections.abc import Sequence
from math import comb, inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from slalom.core.checks import Floats

FOLDS = 5  # and so the least number of pairs in a stratum


class Pairs(NamedTuple):
    """A sample of pairs of a set and its complement.

    Attributes:
        keep: The smaller set of each pair (m, n).
        stratum: Stratum of each pair (m,).
        population: Number of pairs in each stratum (b,); infinite with replacement.
        weights: Of the difference of a pair for each unit (m, n); a stratum adds the mean of the products.
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
        fold = np.empty(len(self.stratum), dtype=np.int64)
        fold[np.lexsort((rng.random(len(fold)), self.stratum))] = np.arange(len(fold)) % number
        return fold


class Control(NamedTuple):
    """A surrogate: its Shapley values (n, c), its F(S) - F(not S) of the pairs (m, c), and its F(all) - F(none) (c,)."""

    shapley: Floats
    differences: Floats
    whole: Floats


def draw_pairs(n: int, number: int, rng: np.random.Generator) -> Pairs:
    """Return a sample of so many pairs of sets of n units, at least `FOLDS`; all pairs where there are no more."""
    sizes = np.arange(1, n // 2 + 1)
    limits = np.array([min(comb(n, s) // (2 if 2 * s == n else 1), 2**62) for s in sizes.tolist()], dtype=np.int64)
    chances = np.where(2 * sizes == n, 0.5, 1.0) / np.sqrt(sizes * (n - sizes))
    whole, full, left, shares = np.zeros(len(sizes), dtype=bool), sizes > 0, number, chances
    while full.any() and not whole.all():  # a size with few pairs leaves its share
        left = number - int(limits[whole].sum())
        shares = left * chances / chances[~whole].sum()
        full = ~whole & (shares >= limits)
        whole |= full
    if left < FOLDS and not whole.all():
        whole, shares, left = np.zeros(len(sizes), dtype=bool), np.full(len(sizes), number / len(sizes)), number
        alone, mixed = list[int](), list(range(len(sizes)))
    else:
        alone, mixed = (np.flatnonzero(~whole & (few == (shares < FOLDS))).tolist() for few in (False, True))
    while mixed and alone and shares[mixed].sum() < FOLDS:
        mixed.append(alone.pop())
    strata = [[i] for i in alone] + [mixed] * bool(mixed)
    ends = np.ceil(np.cumsum([shares[members].sum() for members in strata]) - 1e-9)
    counts = np.diff(ends, prepend=0.0).astype(np.int64).tolist() + limits[whole].tolist()
    strata += [[i] for i in np.flatnonzero(whole).tolist()]
    keeps, weights = [np.zeros((0, n), dtype=bool)], [np.zeros((0, n))]
    for members, count in zip(strata, counts, strict=True):
        chance = chances[members] / chances[members].sum()
        drawn = rng.choice(len(members), count, p=chance)
        keep = _sets(n, sizes[members][drawn], rng)
        while len(members) == 1 and len(first := np.unique(keep, axis=0, return_index=True)[1]) < count:
            keep = np.concatenate([keep[np.sort(first)], _sets(n, sizes[members][drawn], rng)])  # without replacement
        keep = keep[np.sort(first)][:count] if len(members) == 1 else keep
        size = keep.sum(axis=1)
        scale = np.where(2 * size == n, 0.5, 1.0) / chance[drawn]
        keeps.append(keep)
        weights.append(np.where(keep, (scale / size)[:, None], (-scale / (n - size))[:, None]))
    population = [float(limits[members[0]]) if len(members) == 1 else inf for members in strata]
    stratum = np.repeat(np.arange(len(strata)), np.array(counts, dtype=np.int64))
    return Pairs(np.concatenate(keeps), stratum, np.array(population), np.concatenate(weights))


def _sets(n: int, sizes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return a uniform random set of each size (m, n); of half the units one that has the first."""
    keep = rng.random((len(sizes), n)).argsort(axis=1).argsort(axis=1) < sizes[:, None]
    return np.asarray(np.where((2 * sizes == n)[:, None], keep == keep[:, :1], keep))


def corrected(
    pairs: Pairs, differences: Floats, whole: Floats, controls: Sequence[Control], fold: NDArray[np.int64]
) -> tuple[Floats, Floats, Floats]:
    """Return the Shapley values of v (n, c), their standard errors, and half the widths of their 95% intervals.

    Args:
        pairs: The pairs.
        differences: v(S) - v(not S) of the pairs (m, c).
        whole: v(all) - v(none) (c,).
        controls: A surrogate per fold, fitted without its pairs; one where it was fitted to other answers.
        fold: Fold of each pair (m,); zeros for one surrogate.
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
    unseen = 1.0 - counts / pairs.population
    sampled = (unseen > 0.0)[pairs.stratum]
    number = max(int(sampled.sum()), 2)
    usual = (residuals[sampled] ** 2).sum(axis=0) / number
    parts = np.zeros((len(counts), *values.shape))
    inverse = np.ones(parts.shape)  # of degrees of freedom
    for b in np.flatnonzero(unseen > 0.0):
        weights = pairs.weights[pairs.stratum == b]
        own = (weights[:, :, None] * residuals[pairs.stratum == b][:, None, :]).var(axis=0, ddof=1)
        pooled = (weights**2).mean(axis=0)[:, None] * usual
        parts[b] = np.maximum(own, pooled) * unseen[b] / counts[b]
        inverse[b] = np.where(own > pooled, 1.0 / (counts[b] - 1), 1.0 / (number - 1))
    variance, smallest = parts.sum(axis=0), np.finfo(float).tiny
    freedom = np.maximum(variance**2 / np.maximum((parts**2 * inverse).sum(axis=0), smallest), 1.0)
    errors = np.sqrt(variance)
    return values, errors, errors * stdtrit(freedom, 0.975)  # Satterthwaite's degrees of freedom
