"""What SLALOM finds in one layer of attention, beside what is there.

A head whose words are replaced by [UNK] is a SLALOM with a background, exactly, wherever every word is louder than [UNK]:

    w_j = g_j - h_j,   v_j = (g_j r_j - h_j rho_j) / w_j,   w_0 = g_0 + sum_j h_j,   w_0 v_0 = g_0 r_0 + sum_j h_j rho_j

with g = exp(q . k / sqrt(d)) and r = W v of the word, h and rho of [UNK] at its place. Where [UNK] is quiet (h -> 0),
importance is q . k / sqrt(d) and value is W v. Several heads are the mean of several SLALOMs, of which one is fitted.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from slalom.core import Slalom
from slalom.core.checks import Floats
from slalom.core.measures import Point
from slalom.errors import InputError
from slalom.explainer import Explainer
from slalom.methods import Method
from slalom.models import Model, Target
from slalom.result import Explanation
from slalom.theory.attention.sight import Seen, check_output, read, seen_reading


class Relation(NamedTuple):
    """A fitted explanation, and what the network has at the same words, pooled over the heads by their attention.

    explanation: its values and importances are the fitted v and s. rewards (n,): W v_t. shares (n,): the attention, whose
    logarithm is q . k / sqrt(d) but for a constant. removal (n,): what f loses with each word. value, importance, effect: the
    correlations of fitted and true value, importance (log share) and removal; NaN where one does not vary. louder: how many of
    the words, over all heads, are louder than [UNK] at their place; the others take away from the weights of a SLALOM, which it
    has no numbers for.
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
        """Say it in a few lines."""
        e = self.explanation
        return (
            f"SLALOM of {len(e)} words by {e.queries} queries: {e.fidelity}\n"
            f"correlation of removal with f(text) - f(without the word) {self.effect:.3f}, of v with W v {self.value:.3f},"
            f" of s with log attention {self.importance:.3f}; {self.louder:.0%} of the words are louder than [UNK]"
        )


def relate(
    model: Model,
    text: str,
    *,
    target: Target = None,
    method: str | Method = "joint",
    queries: int | None = None,
    check: int = 200,
    seed: int = 0,
) -> Relation:
    """Explain a text by SLALOM and set its values and importances beside those of the network.

    model: as `slalom.theory.attention.load` gives it. method, queries, check, seed: as for the Explainer.
    """
    reading, _ = read(model, text, 0)
    check_output(model.head, "log_odds")
    explainer = Explainer(
        model, target=target, unit="token", method=method, queries=queries, check=check, seed=seed, progress=False
    )
    e = explainer(text)
    look = seen_reading(model, reading, e.labels.index(e.target))
    attention, rewards = look.attention[:, look.own], look.rewards[:, look.own]
    shares = attention.mean(axis=0)
    pooled = (attention * rewards).mean(axis=0) / shares
    removal = look.game().semivalue(Point(1.0))
    return Relation(
        e,
        pooled,
        shares,
        removal,
        correlation(e.values, pooled),
        correlation(e.importances, np.log(shares)),
        correlation(e.removal, removal),
        float((look.logits[:, look.own] > look.blank_logits[:, look.own]).mean()),
    )


def as_slalom(seen: Seen, head: int = 0) -> Slalom:
    """Return the SLALOM that a head is, exactly. InputError where a word is not louder than [UNK] at its place."""
    game = seen.game()
    if head not in range(len(game.base)):
        raise InputError(f"head must be from 0 to {len(game.base) - 1}; got {head!r}")
    on, off = game.log_on[head], game.log_off[head]
    if not (on > off).all():
        j = int(np.flatnonzero(on <= off)[0])
        raise InputError(
            f"every word must be louder than [UNK] for a head to be a SLALOM; {seen.words[j]!r} is not (head {head})"
        )
    gap = np.exp(off - on)
    values = (game.on[head] - gap * game.off[head]) / (1.0 - gap)
    rest = np.append(off, game.log_base[head])
    total = logsumexp(rest)
    level = float(np.exp(rest - total) @ np.append(game.off[head], game.base[head]))
    return Slalom(values, on + np.log1p(-gap), background=(level, float(total)))


def correlation(a: Floats, b: Floats) -> float:
    """Return Pearson's correlation; NaN where one of them does not vary."""
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    return float(np.corrcoef(a, b)[0, 1])
