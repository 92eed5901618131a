"""A SLALOM fitted to one layer of attention, compared with the parameters of the network.

A head whose words are replaced by [UNK] is a SLALOM with a background, exactly, wherever every word is louder than [UNK]:

    w_j = g_j - h_j,   v_j = (g_j r_j - h_j rho_j) / w_j,   w_0 = g_0 + sum_j h_j,   w_0 v_0 = g_0 r_0 + sum_j h_j rho_j

with g = exp(q . k / sqrt(d)) and r = W v of the word, h and rho those of [UNK] at its place. Where [UNK] is quiet (h -> 0),
importance is q . k / sqrt(d) and value is W v. Several heads are the mean of several SLALOMs, of which one is fitted.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from slalom.core import Slalom
from slalom.core.checks import Floats
from slalom.core.measures import Point
from slalom.errors import InputError
from slalom.models import Model
from slalom.result import Explanation
from slalom.theory.attention.traces import ForwardTrace, check_output, read, trace_reading


class Relation(NamedTuple):
    """A fitted explanation, and what the network has at the same words, pooled over the heads by their attention.

    Attributes:
        explanation: Its values and importances are the fitted v and s.
        rewards: W v_t, (n,).
        shares: The attention, (n,), whose logarithm is q . k / sqrt(d) up to a constant.
        removal: What f loses with each word, (n,).
        value: Correlation of fitted and true values; NaN where one does not vary.
        importance: Correlation of fitted importance and log share.
        effect: Correlation of fitted and true removal.
        louder: Share of the words, over all heads, with a larger weight than [UNK] at their place. The others have a negative
            weight, which a SLALOM cannot represent.
    """

    explanation: Explanation
    rewards: Floats
    shares: Floats
    removal: Floats
    value: float
    importance: float
    effect: float
    louder: float

    def __str__(self) -> str:
        e = self.explanation
        return (
            f"SLALOM of {len(e)} words by {e.queries} queries: {e.fidelity}\n"
            f"correlation of removal with f(text) - f(without the word) {self.effect:.3f}, of v with W v {self.value:.3f},"
            f" of s with log attention {self.importance:.3f}; {self.louder:.0%} of the words are louder than [UNK]"
        )


def relate(model: Model, explanation: Explanation) -> Relation:
    """Return the values and importances of an explanation beside those of the network.

    Args:
        model: As `slalom.theory.attention.load` returns it.
        explanation: An explanation of a text by this model, one unit per word, as `slalom.Explainer(model)(text)`.

    Raises:
        InputError: The model is not one layer of attention with two classes, or a unit is not one word.
    """
    e = explanation
    reading, _ = read(model, e.text, 0)
    check_output(model.head, "log_odds")
    if len(e) != len(reading.names):
        raise InputError(f"the explanation must have one unit for each of {len(reading.names)} words; it has {len(e)}")
    traced = trace_reading(model, reading, e.labels.index(e.target))
    attention, rewards = traced.attention[:, traced.word_positions], traced.rewards[:, traced.word_positions]
    shares = attention.mean(axis=0)
    pooled = (attention * rewards).mean(axis=0) / shares
    removal = traced.game().semivalue(Point(1.0))
    pairs = (e.values, pooled), (e.importances, np.log(shares)), (e.removal, removal)
    value, importance, effect = (correlation(*pair) for pair in pairs)
    louder = (traced.logits > traced.blank_logits)[:, traced.word_positions].mean()
    return Relation(e, pooled, shares, removal, value, importance, effect, float(louder))


def as_slalom(trace: ForwardTrace, head: int = 0) -> Slalom:
    """Return the SLALOM that a head, by its index, is exactly.

    Raises:
        InputError: A word is not louder than [UNK] at its place, or there is no such head.
    """
    game = trace.game()
    if head not in range(len(game.base)):
        raise InputError(f"head must be from 0 to {len(game.base) - 1}; got {head!r}")
    log_present, log_replaced = game.log_present[head], game.log_replaced[head]
    if not (log_present > log_replaced).all():
        j = int(np.flatnonzero(log_present <= log_replaced)[0])
        raise InputError(
            f"every word must be louder than [UNK] for a head to be a SLALOM; {trace.words[j]!r} is not (head {head})"
        )
    gap = np.exp(log_replaced - log_present)
    values = (game.present[head] - gap * game.replaced[head]) / (1.0 - gap)
    rest = np.append(log_replaced, game.log_base[head])
    total = logsumexp(rest)
    level = float(np.exp(rest - total) @ np.append(game.replaced[head], game.base[head]))
    return Slalom(np.append(values, level), np.append(log_present + np.log1p(-gap), total))


def correlation(a: Floats, b: Floats) -> float:
    """Return Pearson's correlation; NaN where one of them does not vary."""
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    return float(np.corrcoef(a, b)[0, 1])
