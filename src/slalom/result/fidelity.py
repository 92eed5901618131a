"""Fidelity: how well an explanation predicts queries that it was not fitted to.

R2 = 1 - (mean squared error) / (variance of the model's answers)
"""

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats, read_only

_LOWEST = -10  # R2 below this is shown as "below -10"
NEGLIGIBLE = 0.05  # an error of the log odds that does not matter


class Quality(NamedTuple):
    """How well an explanation predicts a set of queries.

    Attributes:
        r2: Share of the variance of the answers that is explained; None where the answers do not vary.
        mse: Mean squared error of the log odds, summed over the classes.
        queries: Number of queries.
    """

    r2: float | None
    mse: float
    queries: int

    @property
    def shown(self) -> str:
        """R2 as text. Where the answers hardly vary it may be minus a million, which is shown as "below -10"."""
        return "undefined" if self.r2 is None else f"{self.r2:.3f}" if self.r2 > _LOWEST else f"below {_LOWEST}"

    @property
    def below_zero(self) -> bool:
        """Whether the mean answer predicts better."""
        return self.r2 is not None and self.r2 < 0.0

    @property
    def useless(self) -> bool:
        """Whether the mean answer predicts better and the error is not negligible."""
        return self.below_zero and self.mse > NEGLIGIBLE**2


class Fidelity(NamedTuple):
    """Quality of the predictions on held-out queries.

    Both are None where there is no such query: all of them were used in the fit (very short texts), or check=0.

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

    def __str__(self) -> str:
        """Return both on one line."""
        if not self.known:
            return "not tested"
        return ", ".join(f"{name} {_one_line(q)}" for name, q in (("near the text", self.near), ("all sizes", self.far)))


@final
@dataclass(frozen=True, eq=False)
class HeldOut:
    """The queries that test an explanation, and the model's answers.

    Attributes:
        keep: Which units are present (m, n). The first `near` rows have 1 to 10 units removed, the others are subsets of all
            sizes.
        scores: The model's scores, (m,) or (m, n_classes).
        near: Number of rows near the text.
    """

    keep: NDArray[np.bool_]
    scores: Floats
    near: int

    def __post_init__(self) -> None:
        """Make the arrays read-only."""
        object.__setattr__(self, "keep", read_only(self.keep))
        object.__setattr__(self, "scores", read_only(self.scores))


def _one_line(quality: Quality | None) -> str:
    if quality is None:
        return "not tested (no query was left)"
    return f"R2 = {quality.shown} (MSE {quality.mse:.3g}, {quality.queries} queries)"


def quality(predicted: Floats, answers: Floats) -> Quality | None:
    """Compare predictions with the answers of the model.

    Args:
        predicted: (m,) or (m, n_classes).
        answers: Of the same shape.

    Returns:
        The quality; None where m is 0.

    Example:
        >>> quality(np.array([1.0, 2.0, 3.5]), np.array([1.0, 2.0, 3.0])).r2
        0.875
    """
    if not len(answers):
        return None
    mse = float(((predicted - answers) ** 2).sum() / len(answers))
    variance = float(((answers - answers.mean(axis=0)) ** 2).sum() / len(answers))
    varies = variance > 1e-20 * float((answers**2).sum() + 1e-300)
    return Quality(1.0 - mse / variance if varies else None, mse, len(answers))
