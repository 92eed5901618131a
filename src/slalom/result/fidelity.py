"""How well an explanation predicts queries that it was not fitted on: near the text, and on parts of all sizes.

R2 = 1 - (mean squared error) / (variance of the model's answers)
"""

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats, read_only

_ABSURD = -10  # values of R2 below that are not written out
TRIFLE = 0.05  # log odds that nobody minds


class Quality(NamedTuple):
    """How well the surrogate predicts queries that it was not fitted on.

    r2: share of their variance explained (None where the model's answers do not vary). mse: mean squared error of the log odds.
    """

    r2: float | None
    mse: float
    queries: int

    @property
    def shown(self) -> str:
        """R2 as it is written: minus a million, where the model's answers hardly vary, says no more than minus ten."""
        return "undefined" if self.r2 is None else f"{self.r2:.3f}" if self.r2 > _ABSURD else f"below {_ABSURD}"

    @property
    def below_zero(self) -> bool:
        """Whether a constant predicts better."""
        return self.r2 is not None and self.r2 < 0.0

    @property
    def useless(self) -> bool:
        """Whether a constant predicts better, and not only by a trifle."""
        return self.below_zero and self.mse > TRIFLE**2


class Fidelity(NamedTuple):
    """Held-out quality near the text (1 to 10 units removed; change of the score) and on subsets of all sizes (score itself).

    None where there was no such query: all of them were used in the fit (very short texts), or check=0.
    """

    near: Quality | None
    far: Quality | None

    @property
    def known(self) -> list[tuple[Quality, str]]:
        """Those that there are, each with the queries that it is of."""
        places = zip(self, ("near the text", "on parts of all sizes"), strict=True)
        return [(quality, where) for quality, where in places if quality is not None]

    def __str__(self) -> str:
        """Say it in one line."""
        if not self.known:
            return "not tested"
        return ", ".join(f"{name} {_said(q)}" for name, q in (("near the text", self.near), ("all sizes", self.far)))


@final
@dataclass(frozen=True, eq=False)
class HeldOut:
    """The queries that tested the fit, and what the model answered.

    keep (m, n): which units were present; the first `near` rows have 1 to 10 units removed, the others are subsets of all
    sizes. scores (m,) or (m, n_classes): the model's own.
    """

    keep: NDArray[np.bool_]
    scores: Floats
    near: int

    def __post_init__(self) -> None:
        """Make the arrays read-only."""
        object.__setattr__(self, "keep", read_only(self.keep))
        object.__setattr__(self, "scores", read_only(self.scores))


def _said(quality: Quality | None) -> str:
    if quality is None:
        return "not tested (no query was left)"
    return f"R2 = {quality.shown} (MSE {quality.mse:.3g}, {quality.queries} queries)"


def quality(guess: Floats, truth: Floats) -> Quality | None:
    """Return how well predictions (m,) or (m, n_classes) meet the truth; None where there is nothing to compare."""
    if not len(truth):
        return None
    mse = float(((guess - truth) ** 2).sum() / len(truth))
    spread = float(((truth - truth.mean(axis=0)) ** 2).sum() / len(truth))
    return Quality(1.0 - mse / spread if spread > 1e-20 * float((truth**2).sum() + 1e-300) else None, mse, len(truth))
