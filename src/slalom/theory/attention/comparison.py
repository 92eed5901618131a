"""How far the closed forms are from what they stand for, and from each other.

    gradient      against autograd through the same network, every position, [CLS] included
    game          against the network itself, on random replacements of words by [UNK]
    lime          the `lime` package with so many samples, the Bernoulli shortcut and Theorem 5.1, against LIME's exact limit
    all           their correlations

Distances to the limit are relative: |b - beta| / |beta|, with the Euclidean length.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from slalom.core.checks import Floats
from slalom.errors import InputError
from slalom.methods import Lime, QueryContext
from slalom.models import Model, Target
from slalom.theory.attention.forms import slopes
from slalom.theory.attention.methods import FORMS, form
from slalom.theory.attention.reference import Reference
from slalom.theory.attention.relation import correlation
from slalom.theory.attention.sight import Output, Players, Seen, seen


class Distance(NamedTuple):
    """How far a way to LIME's coefficients is from their exact limit: relative error and correlation."""

    name: str
    error: float
    correlation: float


@final
@dataclass(frozen=True, eq=False)
class Comparison:
    """scores: every closed form by its name, (n,) each. gradient, gradient_cls, game: the largest absolute errors.

    lime: the distances to LIME's limit.
    """

    words: tuple[str, ...]
    scores: Mapping[str, Floats]
    gradient: float
    gradient_cls: float
    game: float
    lime: tuple[Distance, ...]

    def correlations(self) -> Floats:
        """Return the correlations of all scores with each other, in their order; NaN where one does not vary."""
        every = list(self.scores.values())
        return np.array([[correlation(a, b) for b in every] for a in every])

    def __str__(self) -> str:
        """Lay it out as tables."""
        wide = max(len(name) for name in ("against the limit of LIME", *self.scores, *(d.name for d in self.lime))) + 1
        lines = [
            f"{len(self.words)} words; largest error of the gradient against autograd {self.gradient:.1e}, at [CLS]"
            f" {self.gradient_cls:.1e}; of the game against the network {self.game:.1e}",
            "",
            f"{'against the limit of LIME':<{wide + 2}}{'relative error':>16}{'correlation':>14}",
            *(f"{d.name:<{wide + 2}}{d.error:>16.4f}{d.correlation:>14.3f}" for d in self.lime),
            "",
            f"{'correlation':<{wide + 2}}" + "".join(f"{i:>7}" for i in range(len(self.scores))),
        ]
        for i, (name, row) in enumerate(zip(self.scores, self.correlations(), strict=True)):
            lines.append(f"{f'{i} {name}':<{wide + 2}}" + "".join(f"{number:>7.2f}" for number in row))
        return "\n".join(lines)


def compare(
    model: Model,
    text: str,
    *,
    samples: Sequence[int] = (1000, 5000),
    target: Target = None,
    output: Output = "log_odds",
    players: Players = "position",
    seed: int = 0,
) -> Comparison:
    """Hold every closed form of a text to what it stands for. samples: how many the `lime` package draws, one row each."""
    look = seen(model, text, target, output)
    if not look.words:
        raise InputError(f"a text must have at least one word; got {text[:40]!r}")
    scores = {name: form(name, look, players) for name in FORMS}
    truth = Reference(model, text, target, output)
    slope = np.abs(slopes(look) - truth.gradient())
    rng = np.random.default_rng(seed)
    keep = rng.random((64, len(look.words))) < rng.random((64, 1))
    exact = np.abs(look.game()(keep) - truth(keep)).max()
    limit = scores["lime-limit"]
    ways = {f"lime, {n:,} samples": lime_package(look, n, players, seed) for n in samples}
    ways |= {name: scores[name] for name in ("lime-bernoulli", "lime-printed", "exact-shapley", "exact-banzhaf")}
    length = max(float(np.linalg.norm(limit)), 1e-300)
    distances = tuple(
        Distance(name, float(np.linalg.norm(b - limit)) / length, correlation(b, limit)) for name, b in ways.items()
    )
    return Comparison(look.words, scores, float(slope.max()), float(slope[0].max()), float(exact), distances)


def lime_package(look: Seen, samples: int, players: Players = "position", seed: int = 0) -> Floats:
    """Return what the `lime` package finds with so many samples (n,), when a word that it takes away becomes [UNK] in place.

    It is asked with bow=False and one name a player: with its default a mask is not written, words are deleted.
    """
    group, game = look.groups(players), look.game(players)
    if not game.n or samples < 2:
        raise InputError(f"lime needs at least one word and 2 samples; got {game.n} and {samples}")
    names = tuple(f"u{i}" for i in range(game.n))
    spans = np.zeros((game.n, 2), dtype=np.int64)
    found = Lime().attribute(
        QueryContext(" ".join(names), names, spans, lambda keep: game(np.asarray(keep)), samples, True, seed)
    )
    return np.asarray(found.effects[group] / np.bincount(group)[group])
