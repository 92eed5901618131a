"""Errors of the closed forms against reference computations, and their correlations.

    gradient      against autograd through the same network, every position, [CLS] included
    game          against the network itself, with words replaced by [UNK] at random
    lime          the `lime` package with n samples, the Bernoulli shortcut and Theorem 5.1, against LIME's exact limit
    all           their correlations

Distances to the limit are relative: |b - beta| / |beta|, with the Euclidean norm.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from slalom.core.checks import Floats
from slalom.errors import InputError
from slalom.methods.black_box import lime_effects
from slalom.models import Model, Target
from slalom.theory.attention.forms import shared, slopes
from slalom.theory.attention.methods import FORMS, form
from slalom.theory.attention.reference import Reference
from slalom.theory.attention.relation import correlation
from slalom.theory.attention.traces import ForwardTrace, Output, Players, trace


class Distance(NamedTuple):
    """How far an approximation of LIME's coefficients is from their exact limit: relative error, Pearson's correlation."""

    name: str
    error: float
    correlation: float


@final
@dataclass(frozen=True, eq=False)
class Comparison:
    """Closed forms of one text and their errors against reference computations.

    Attributes:
        words: The words of the text, (n,).
        scores: Every closed form by its name, (n,) each.
        gradient: Largest absolute error of the gradient against autograd.
        gradient_cls: The same at [CLS] alone.
        game: Largest absolute error of the game against the network.
        lime: Distances to LIME's limit.
    """

    words: tuple[str, ...]
    scores: Mapping[str, Floats]
    gradient: float
    gradient_cls: float
    game: float
    lime: tuple[Distance, ...]

    def correlations(self) -> Floats:
        """Return the correlations of all scores with each other, (n_scores, n_scores); NaN where one does not vary."""
        scores = list(self.scores.values())
        return np.array([[correlation(a, b) for b in scores] for a in scores])

    def __str__(self) -> str:
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
    """Compare every closed form of a text with a reference computation.

    Args:
        model: As `slalom.theory.attention.load` returns it.
        samples: Numbers of samples of the `lime` package, one row each.
        target: A class, by index or label. Default: class 1 of two.
        output: "log_odds" or "logit", as for `trace`.
        players: "position" or "word", as for `ForwardTrace.groups`.
        seed: Of the random replacements and of `lime`.

    Raises:
        InputError: The text has no word, or the model is not one layer of attention.
    """
    traced = trace(model, text, target, output)
    if not traced.words:
        raise InputError(f"a text must have at least one word; got {text[:40]!r}")
    scores = {name: form(name, traced, players) for name in FORMS}
    truth = Reference(model, text, target, output)
    slope = np.abs(slopes(traced) - truth.gradient())
    rng = np.random.default_rng(seed)
    keep = rng.random((64, len(traced.words))) < rng.random((64, 1))
    exact = np.abs(traced.game()(keep) - truth(keep)).max()
    limit = scores["lime-limit"]
    ways = {f"lime, {n:,} samples": lime_package(traced, n, players, seed) for n in samples}
    ways |= {name: scores[name] for name in ("lime-bernoulli", "lime-printed", "exact-shapley", "exact-banzhaf")}
    length = max(float(np.linalg.norm(limit)), 1e-300)
    distances = tuple(
        Distance(name, float(np.linalg.norm(b - limit)) / length, correlation(b, limit)) for name, b in ways.items()
    )
    return Comparison(traced.words, scores, float(slope.max()), float(slope[0].max()), float(exact), distances)


def lime_package(traced: ForwardTrace, samples: int, players: Players = "position", seed: int = 0) -> Floats:
    """Return the coefficients (n,) of the `lime` package, with removed words replaced by [UNK] in place.

    It is called with bow=False and one name per player, since by default it deletes words instead of masking them.

    Raises:
        InputError: The text has no word, or `samples` is less than 2.
    """
    group, game = traced.groups(players), traced.game(players)
    if not game.n or samples < 2:
        raise InputError(f"lime needs at least one word and 2 samples; got {game.n} and {samples}")
    return shared(group, lime_effects(lambda keep: game(np.asarray(keep)), game.n, samples, seed).effects)
