"""Scores of the units of a SLALOM: linear, gradient, removal; and merging units into larger ones.

    linear_i   = v_i exp(s_i)                                the paper's "lin"
    gradient_i = dF/dc_i = link'(S) (a_i / c_i) (v_i - S)    its equation 64 with counts, background and link
    removal_i  = F(c) - F(c without unit i),    S - S_(-i) = a_i (v_i - S_(-i))
    merging:     s_G = log sum_{i in G} exp(s_i),    v_G = sum_{i in G} exp(s_i - s_G) v_i

a_i is the attention of unit i at the counts c, S_(-i) the evidence without it. v_i - S equals (1 - a_i) (v_i - S_(-i)), so both
scores are computed from S_(-i), and from 1 - a_i as the sum of the attention of the others: no digits are lost where one unit
takes nearly all of it. Scores are shaped as the values, (n_units,) or (n_units, n_classes).

These functions work on the parameters of a Slalom, which calls them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, softmax

from slalom.core.base import Link, Surrogate
from slalom.core.checks import Floats, centred, checked_groups, count_vector
from slalom.errors import InputError


def slalom_linear(model: Surrogate) -> Floats:
    """Return v exp(s); see `Slalom.linear`."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        scores = _column(np.exp(model.importances), model) * model.values
    return _finite("linear scores v exp(s)", np.where(model.values == 0.0, 0.0, scores))


def slalom_gradient(model: Surrogate, counts: ArrayLike | None) -> Floats:
    """Return dF/dc_i; see `Slalom.gradient`."""
    c = count_vector(counts, model.n_units)
    if model.background is None and not c.any():
        raise InputError("gradient needs a unit present when the model has no background; all counts are 0")
    split = _split(model, c)
    apart = model.values - split.others
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        rate = np.where(split.rest > 0.0, np.exp(model.importances - split.total) * split.rest, 0.0)
        slopes = _column(rate, model) * apart
    slopes = _finite("gradients at these counts", np.where(apart == 0.0, 0.0, slopes))
    if model.link is None:
        return slopes
    slopes = model.link.slope(split.evidence) * slopes
    return centred(slopes) if model.values.ndim == 2 else slopes


def slalom_removal(model: Surrogate, counts: ArrayLike | None) -> Floats:
    """Return F(c) - F(c without unit i); see `Slalom.removal`."""
    c = count_vector(counts, model.n_units)
    if not c.any():
        return np.zeros_like(model.values)
    split = _split(model, c)
    change = _column(split.attention, model) * (model.values - split.others) + 0.0  # no -0.0
    if model.link is None:
        return change
    change = _link_change(model.link, split.evidence, change)
    return centred(change) if model.values.ndim == 2 else change


def slalom_merge(model: Surrogate, groups: ArrayLike) -> tuple[Floats, Floats]:
    """Return values and importances of groups of units; see `Slalom.merged`."""
    g = checked_groups(groups, model.n_units)
    peak = np.full(g.max() + 1, -np.inf)
    np.maximum.at(peak, g, model.importances)
    shares = np.exp(model.importances - peak[g])
    total = np.bincount(g, shares)
    values = np.zeros((len(peak), *model.values.shape[1:]))
    np.add.at(values, g, _column(shares / total[g], model) * model.values)
    return values, peak + np.log(total)


class _Split(NamedTuple):
    """One input split at each of its units: the unit itself, and everything else."""

    total: float  # log of the sum of all weights
    evidence: Floats  # S, () or (n_classes,)
    attention: Floats  # a_i (n_units,)
    rest: Floats  # 1 - a_i (n_units,), the attention of all the others
    others: Floats  # S_(-i), shaped as the values; 0 where nothing is left


def _split(model: Surrogate, counts: Floats) -> _Split:
    """Split the input with counts (n_units,), not all 0 unless there is a background."""
    with np.errstate(divide="ignore"):
        logits = np.log(counts) + model.importances
    values = model.values
    if model.background is not None:
        logits = np.append(logits, model.background.importance)
        values = np.concatenate([values, np.asarray(model.background.value)[None]])
    total = float(logsumexp(logits))
    attention = np.exp(logits - total)
    evidence = np.asarray(attention @ values)
    # All units but the heaviest have a_i <= 1/2, so 1 - a_i is safe; the heaviest needs the others' sum.
    top = int(attention.argmax())
    rest = 1.0 - attention
    rest[top] = 1.0
    others = ((evidence - (attention * values.T).T).T / rest).T
    rest[top], others[top] = _without(logits, values, top, total)
    n = model.n_units
    return _Split(total, evidence, attention[:n], rest[:n], others[:n])


def _without(logits: Floats, values: Floats, unit: int, total: float) -> tuple[float, Floats]:
    """Return the attention of all but one unit and the evidence of them alone; 0 and 0 where none is left."""
    other_logits, other_values = np.delete(logits, unit), np.delete(values, unit, axis=0)
    if not np.isfinite(other_logits).any():
        return 0.0, np.zeros(values.shape[1:])
    return float(np.exp(logsumexp(other_logits) - total)), np.asarray(softmax(other_logits) @ other_values)


def _link_change(link: Link, evidence: Floats, change: Floats) -> Floats:
    """Return link(S) - link(S - change), by tanh x - tanh y = tanh(x - y)(1 - tanh x tanh y)."""
    with np.errstate(over="ignore"):  # tanh of infinity is 1
        full = np.tanh((evidence - link.middle) / link.reach)
        reduced = np.tanh((evidence - change - link.middle) / link.reach)
        return np.asarray(link.reach * np.tanh(change / link.reach) * (1.0 - full * reduced))


def _column(per_unit: Floats, model: Surrogate) -> Floats:
    """Shape a vector (n_units,) so that it multiplies the model's values unit by unit."""
    return per_unit if model.values.ndim == 1 else per_unit[:, None]


def _finite(name: str, scores: Floats) -> Floats:
    if not np.isfinite(scores).all():
        unit = int(np.argwhere(~np.isfinite(scores))[0][0])
        raise InputError(f"{name} must fit into floats, but overflow at unit {unit}; use removal, which is bounded")
    return scores
