"""Fidelity: how well an explanation predicts queries that it was not fitted to.

R2 = 1 - (mean squared error) / (variance of the model's answers)

Where the answers are noisy no explanation can predict the noise, and R2 is at most about

ceiling = 1 - (mean variance of the noise) / (variance of the model's answers)

R2 of a few answers says nothing (it may be -7000), so that fewer than `LEAST_QUERIES` get none.
"""

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats, freeze
from slalom.errors import count, plural

LEAST_QUERIES = 8  # for an R2
_CHANCE = 3.0  # standard errors of a variance
_LOWEST = -10  # R2 below this is shown as "below -10"
_MANY = 100  # queries that tell R2 to three digits; fewer tell two
EXACT = 1.0 - 1e-9  # an R2 that differs from 1 by rounding
NEGLIGIBLE = 0.05  # an error of the log odds that does not matter


class Quality(NamedTuple):
    """How well an explanation predicts a set of queries.

    Attributes:
        r2: Share of the variance of the answers that is explained; None where the answers do not vary or are too few.
        mse: Mean squared error of the log odds, summed over the classes.
        queries: Number of queries.
        ceiling: R2 that the noise of the answers allows, at least 0; None where they have no noise or r2 is None.
    """

    r2: float | None
    mse: float
    queries: int
    ceiling: float | None = None

    @property
    def few(self) -> bool:
        """Whether there are too few queries for an R2."""
        return self.r2 is None and self.queries < LEAST_QUERIES

    @property
    def shown(self) -> str:
        """R2 with as many digits as its queries tell: "0.99", "above 0.99", "below -10"."""
        if self.r2 is None:
            return f"unknown, as it needs {LEAST_QUERIES} queries" if self.few else "undefined"
        digits = 3 if self.queries >= _MANY else 2
        top = 1.0 - 10.0**-digits
        share = f"{self.r2:.{digits}f}" if self.r2 > _LOWEST else f"below {_LOWEST}"
        if share == f"{1.0:.{digits}f}" and self.r2 < EXACT:
            share = f"above {top:.{digits}f}"
        if self.ceiling is None:
            return share
        if self.ceiling < 0.5 * (1.0 - top):
            return f"{share} (the answers vary no more than their noise)"
        return f"{share} of about {self.ceiling:.{digits}f} at best"

    @property
    def below_zero(self) -> bool:
        """Whether the mean answer predicts better."""
        return self.r2 is not None and self.r2 < 0.0

    @property
    def beyond_noise(self) -> bool:
        """Whether the error is larger than that of the answers themselves, by more than so few queries make it."""
        if self.r2 is None or not self.ceiling:
            return self.ceiling is None
        chance = _CHANCE * float(np.sqrt(2.0 / self.queries))
        return 1.0 - self.r2 > (1.0 - self.ceiling) * (1.0 + chance)

    @property
    def useless(self) -> bool:
        """Whether the mean answer predicts better and the error is not negligible."""
        return self.below_zero and self.mse > NEGLIGIBLE**2


class Fidelity(NamedTuple):
    """Quality of the predictions on held-out queries.

    Both are None where all queries were used in the fit (very short texts), or check=0.

    Attributes:
        near: Of the change of the score when 1 to 10 units are removed.
        far: Of the score of subsets of all sizes.
    """

    near: Quality | None
    far: Quality | None

    @property
    def known(self) -> list[tuple[Quality, str]]:
        """The qualities that are not None, each with words for its queries."""
        places = zip(self, ("near the text", "on parts of all sizes"), strict=True)
        return [(quality, where) for quality, where in places if quality is not None]

    @property
    def statement(self) -> str:
        """Each R2 that is known, and the number of its queries; empty where there is none."""
        known = [(quality, where) for quality, where in self.known if quality.r2 is not None]
        if not known:
            return ""
        numbers = [quality.queries for quality, _ in known]
        shown = " and ".join(f"{quality.shown} {where}" for quality, where in known)
        return f"R2 {shown} ({' + '.join(map(str, numbers))} held-out {plural(sum(numbers), 'query')})"

    def __str__(self) -> str:
        if not self.known:
            return "not tested"
        return ", ".join(f"{name} {_one_line(q)}" for name, q in (("near the text", self.near), ("all sizes", self.far)))


@final
@dataclass(frozen=True, eq=False)
class HeldOut:
    """The queries that test an explanation, and the model's answers.

    Attributes:
        keep: Which units are present (m, n); the first `near` rows have 1 to 10 units removed, the others are of all sizes.
        scores: The model's scores, (m,) or (m, n_classes).
    """

    keep: NDArray[np.bool_]
    scores: Floats
    near: int

    def __post_init__(self) -> None:
        freeze(self)


def _one_line(quality: Quality | None) -> str:
    if quality is None:
        return "not tested (no query was left)"
    return f"R2 {quality.shown} (MSE {quality.mse:.3g}, {count(quality.queries, 'query')})"


def quality(predicted: Floats, answers: Floats, noise: Floats | None = None) -> Quality | None:
    """Return the quality of predictions of answers, both (m,) or (m, n_classes); None where m is 0.

    Args:
        predicted: The predictions.
        answers: The answers of the model.
        noise: Variances (m,) of the answers, each that of one class. Default: they are exact.

    Example:
        >>> answers = np.arange(9.0)
        >>> quality(answers + 1.0, answers).r2, quality(answers + 1.0, answers, np.full(9, 2.0)).ceiling
        (0.85, 0.7)
    """
    if not len(answers):
        return None
    mse = float(((predicted - answers) ** 2).sum() / len(answers))
    variance = float(((answers - answers.mean(axis=0)) ** 2).sum() / len(answers))
    varies = variance > 1e-20 * float((answers**2).sum() + 1e-300)
    if not varies or len(answers) < LEAST_QUERIES:
        return Quality(None, mse, len(answers))
    ceiling = None
    if noise is not None:
        outputs = 1 if answers.ndim == 1 else answers.shape[1]
        ceiling = max(1.0 - outputs * float(noise.mean()) / variance, 0.0)
    return Quality(1.0 - mse / variance, mse, len(answers), ceiling)
