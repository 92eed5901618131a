"""The objective of a fit at given precisions, and its gradient.

    cost = precision sum_k weight_k |F(c_k) - y_k|^2 + strength (|psi|^2 + |rho|^2) + tightness |t|^2
           + sum_i precision_i (scalar_i - mean_i)^2 + tilt

Evidence is maximised over the three precisions, `Hyper`; the cost is minimised over the parameters in between (`solver`).
"""

from typing import Any, NamedTuple

import numpy as np

from slalom.core.fitting._evidence.coordinates import SHARE, Centred, Step

MIN_JITTER = 1e-13  # relative, on H's diagonal: keeps a Cholesky factor where data and prior leave a direction open


class Hyper(NamedTuple):
    """The precisions of psi, of t and of the noise."""

    strength: float
    tightness: float
    precision: float


class StepScalars(NamedTuple):
    """The precisions of psi, of t and of the noise, and two multiples of H's diagonal.

    jitter is added so that H has Cholesky factors, damping to make a step shorter.
    """

    strength: Any
    tightness: Any
    precision: Any
    jitter: Any = MIN_JITTER
    damping: Any = 0.0


class Priors(NamedTuple):
    """Precisions and means of the scalars (extras,)."""

    precision: Any
    mean: Any


class Tilt(NamedTuple):
    """A linear term of the cost: the shape side (t and scalars) where it is 0, and half its slope (n + extras,)."""

    t: Any
    scalars: Any
    force: Any


class Terms(NamedTuple):
    """The terms of the cost: weighted squared residuals, |psi|^2 + |rho|^2, |t|^2, the scalars' penalty and the tilt.

    Also two numbers that are needed at a point: the log of the normalisation of psi's prior with the observation rho = 0,
    and the background's share; both 0 without a background.
    """

    misfit: float
    psi: float
    t: float
    scalars: float
    tilt: float
    background: float
    share: float

    def cost(self, hyper: Hyper) -> float:
        """Return the cost at given precisions."""
        return hyper.precision * self.misfit + hyper.strength * self.psi + hyper.tightness * self.t + self.scalars + self.tilt


def terms(point: Centred, priors: Priors, tilt: Tilt | None) -> Any:
    """Return the numbers of `Terms` as one array."""
    m = len(point.design.scores)
    square = point.residual**2
    psi, zero = (point.psi**2).sum(), 0.0 * point.t[0]
    background = share = tilted = zero
    if point.background:
        psi, share = psi + square[m:].sum(), point.share
        background = 0.5 * np.log1p(point.odds**2 * (point.weight**2).sum())
    scalars = (priors.precision * (point.scalars - priors.mean) ** 2).sum()
    if tilt is not None:
        n = len(point.t)
        tilted = 2.0 * (tilt.force[:n] @ (point.t - tilt.t) + tilt.force[n:] @ (point.scalars - tilt.scalars))
    return np.stack(
        ((point.design.weights[:, None] * square[:m]).sum(), psi, (point.t**2).sum(), scalars, tilted, background, share)
    )


def row_precisions(point: Centred, scalars: StepScalars) -> Any:
    """Return the precisions of the residuals (r, 1): those of the rows, and with a background that of rho."""
    data = scalars.precision * point.design.weights[:, None]
    return np.concatenate((data, 0.0 * data[:1] + scalars.strength), 0) if point.background else data


def descent(point: Centred, scalars: StepScalars, priors: Priors, tilt: Tilt | None) -> tuple[Step, Any]:
    """Return minus half the gradient of the cost, and 0 where the share rests on a bound with a lower cost beyond, else 1."""
    n, (linear, shape) = len(point.t), point.pull(row_precisions(point, scalars) * point.residual)
    linear[1:] -= scalars.strength * point.psi
    shape[:n] -= scalars.tightness * point.t
    shape[n:] -= priors.precision * (point.scalars - priors.mean)
    if tilt is not None:
        shape -= tilt.force
    if not point.background:
        return Step(linear, shape), 1.0
    outward = float(point.share >= SHARE[1]) - float(point.share <= SHARE[0])
    free = 1.0 - float(shape[n] * outward > 0)
    shape[n] *= free
    return Step(linear, shape), free
