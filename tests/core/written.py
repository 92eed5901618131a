"""Surrogates and parts beside their formulas, written out unit by unit: what the tests of this folder compare with."""

import numpy as np
from scipy.special import poch

from slalom.core import Additive, Beta, Conjunctions, Neighbours, Shifts, Slalom

N = 6
COMPETITIONS = (0.0, 0.02, 0.3, 1.0)
MEASURES = (Beta(1, 1), Beta(2, 1), Beta(0.5, 3))


def centred(scores):
    """Scores less their mean over the classes; one score as it is."""
    return scores - np.mean(scores) if np.ndim(scores) else scores


def slalom_formula(values, importances, kappa, bias, link=None, parts=()):
    """b + sum_i c_i u_i share_i^kappa, then the link, then the parts."""

    def formula(counts):
        total = sum(c * np.exp(s) for c, s in zip(counts, importances, strict=True))
        z = bias
        for c, u, s in zip(counts, values, importances, strict=True):
            if c != 0:
                z = z + c * u * (np.exp(s) / total) ** kappa
        score = z if link is None else link[0] + link[1] * np.tanh((z - link[0]) / link[1])
        return centred(score + sum(part(counts) for part in parts))

    return formula


def neighbours_formula(rows, rates, pulls, units):
    """sum_k a_k exp(-distance to x_k); from 0 to 1 the distance is that of the counts."""

    def formula(counts):
        total = 0.0
        for row, pull in zip(rows, pulls, strict=True):
            distance = sum(
                r * ((1.0 - counts[unit]) if x else counts[unit]) for x, r, unit in zip(row, rates, units, strict=True)
            )
            total = total + pull * np.exp(-distance)
        return centred(total)

    return formula


def shifts_formula(units, knots, sizes, offsets):
    """h of each knot, looked up for the atoms that are missing before it, and linear between two numbers of them."""

    def formula(counts):
        total = 0.0
        for g, table in enumerate(offsets):
            gone = sum(size * (1.0 - counts[unit]) for unit, knot, size in zip(units, knots, sizes, strict=True) if knot <= g)
            padded = np.concatenate([table, 0.0 * table[:1]])
            gone = min(max(gone, 0.0), len(padded) - 1.0)
            low = min(int(gone), len(padded) - 2)
            total = total + padded[low] + (gone - low) * (padded[low + 1] - padded[low])
        return centred(total)

    return formula


def conjunctions_formula(literals, effects):
    """sum_k a_k times the counts of units that are present and one minus the counts of those that are absent."""

    def formula(counts):
        terms = (
            effect * np.prod([counts[i - 1] if i > 0 else 1.0 - counts[-i - 1] for i in term if i])
            for term, effect in zip(literals, effects, strict=True)
        )
        return centred(sum(terms))

    return formula


def parts(rng, shape):
    """Neighbours of seven atoms; shifts of units of one to three atoms, one around a knot, one after the last; conjunctions."""
    rows, rates, pulls = rng.random((5, N + 1)) < 0.6, rng.uniform(0.0, 0.8, N + 1), rng.normal(size=(5, *shape))
    units = [0, 1, 2, 2, 3, 4, 5]
    yield Neighbours(rows, rates, pulls, units), neighbours_formula(rows, rates, pulls, units)
    offsets = rng.normal(size=(3, 6, *shape))
    offsets[:, 0] = 0.0
    entries = [0, 1, 2, 2, 3, 4], [0, 0, 0, 1, 1, 2], [1, 2, 1, 1, 3, 1]
    yield Shifts(N, *entries, offsets), shifts_formula(*entries, offsets)
    literals, effects = [[1, -2, 3], [-4, 6, 0], [5, 0, 0], [2, 4, -6], [0, 0, 0]], rng.normal(size=(5, *shape))
    yield Conjunctions(N, literals, effects), conjunctions_formula(literals, effects)


def surrogates(rng, shape):
    """One surrogate of each kind for each competition, with and without link and parts, each with its formula."""
    for kappa in COMPETITIONS:
        for link in (None,) if shape else (None, (0.3, 1.5)):
            for added in ([], [*parts(rng, shape)]):
                values, importances, bias = rng.normal(size=(N, *shape)), rng.normal(size=N), rng.normal(size=shape)
                formula = slalom_formula(values, importances, kappa, bias, link, [f for _, f in added])
                yield Slalom(values, importances, kappa, bias, link, [part for part, _ in added]), formula
    effects, base = rng.normal(size=(N, *shape)), rng.normal(size=shape)
    yield Additive(effects, base), lambda counts: centred(base + sum(c * e for c, e in zip(counts, effects, strict=True)))


def chance(measure, others):
    """The probability of one set of each size 0..others: int q^k (1 - q)^(others - k) dmu(q)."""
    k = np.arange(others + 1.0)
    if isinstance(measure, Beta):
        a, b = float(measure.a), float(measure.b)
        return poch(a, k) * poch(b, others - k) / poch(a + b, others)
    return measure.q**k * (1.0 - measure.q) ** (others - k)


def enumerated(score, measure, counts):
    """Semivalues by all sets of units; `score` is a function of rows (m, n) to scores (m, ...)."""
    players = np.flatnonzero(counts)
    sets = (np.arange(2 ** len(players))[:, None] >> np.arange(len(players)) & 1).astype(bool)
    rows = np.zeros((len(sets), len(counts)))
    rows[:, players] = sets * np.asarray(counts)[players]
    scores, sizes = np.asarray(score(rows)), sets.sum(axis=1)
    result = np.zeros((len(counts), *scores.shape[1:]))
    weights = chance(measure, len(players) - 1) if len(players) else None
    for k, unit in enumerate(players):
        without = np.flatnonzero(~sets[:, k])
        result[unit] = weights[sizes[without]] @ (scores[without + 2**k] - scores[without])
    return result
