"""The surrogate in the coordinates in which it is easy to fit: centred on the mean input.

    S(c) = F + sum_i x_i p_i psi_i / D,    D = 1 + (1 - a) sum_i (c_i - m_i) p_i,    p_i = exp(t_i) / sum_j m_j exp(t_j)

m are the mean counts. With a background x = c - m and a is the background's share of the attention at the mean input;
without one a = 0 and x = c. Then

    s_i = t_i,    v_i = F + psi_i / (1 - a),    z = sum_i m_i p_i psi_i
    s_0 = log(a / (1 - a)) + log sum_j m_j exp(t_j),    v_0 = F - z / a

p_i psi_i is the effect of unit i at the mean input. The linear model is a = 1 with psi finite, the paper's SLALOM a = 0: both
ends of one family, and no coordinate runs to infinity on the way. Given t, a and the link, S is linear in (F, psi).

The prior, v_i ~ N(F, tau^2) for the units and the background alike, reads psi_i ~ N(0, 1 / strength) and one more
"observation", rho = (1 - a) z / a = 0 with the same variance. In the linear limit that is ridge regression; without a
background it shrinks the values to a common mean.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from slalom.core.fitting.backend import Backend

SHARE = (1e-4, 1.0 - 1e-4)  # the background's share stays in here; its ends are the two limits


class Design(NamedTuple):
    """The rows of a fit on their device: counts (m, n), counts - mean, mean counts (n,), scores (m, K), weights (m,)."""

    counts: Any
    offsets: Any
    mean: Any
    scores: Any
    weights: Any


class Blocks(NamedTuple):
    """Residuals and the Jacobian, split in the linear side (F, psi) and the shape side (t, a, link).

    residual (r, K) is scores - prediction; linear (r, 1 + n) is shared by the K outputs; shape (K, r, n + extras) is not.
    r = m rows, and with a background one more for the observation rho = 0.
    """

    residual: Any
    linear: Any
    shape: Any


class Step(NamedTuple):
    """A move in parameter space: (1 + n, K) of the linear side, (n + extras,) of the shape side."""

    linear: Any
    shape: Any


@dataclass(frozen=True, eq=False)
class Centred:
    """A point of the parameter space.

    level (K,), psi (n, K), t (n,), the share a (None: no background), the link (m, log k) or None, where
    F = m + tanh(k (S - m)) / k.
    """

    level: Any
    psi: Any
    t: Any
    share: float | None
    link: tuple[float, float] | None
    on: Backend

    @property
    def extras(self) -> int:
        """How many scalars the shape side has after t: the share, and the two of the link, if there."""
        return (self.share is not None) + 2 * (self.link is not None)

    def attention(self, design: Design) -> tuple[Any, Any, Any]:
        """Return p (n,), q = (c - m) p (m,) and D (m,)."""
        e = self.on.xp.exp(self.t - self.t.max())
        p = e / (design.mean @ e)
        q = design.offsets @ p
        return p, q, 1.0 + (1.0 - (self.share or 0.0)) * q

    def evidence(self, design: Design) -> Any:
        """Return S (m, K)."""
        p, _, d = self.attention(design)
        x = design.counts if self.share is None else design.offsets
        return self.level + (x @ (p[:, None] * self.psi)) / d[:, None]

    def residual(self, design: Design) -> Any:
        """Return scores - F (m, K), and with a background the row -rho under it."""
        p, _, d = self.attention(design)
        x = design.counts if self.share is None else design.offsets
        effect = p[:, None] * self.psi
        f = self.level + (x @ effect) / d[:, None]
        if self.link is not None:
            middle, k = self.link[0], float(np.exp(self.link[1]))
            f = middle + self.on.xp.tanh(k * (f - middle)) / k
        if self.share is None:
            return design.scores - f
        rho = (1.0 - self.share) / self.share * (design.mean @ effect)
        return self.on.xp.concatenate((design.scores - f, -rho[None, :]), 0)

    def moved(self, step: Step) -> "Centred":
        """Return the point after a step; the share stays inside its bounds."""
        n = len(self.t)
        share, link = self.share, self.link
        if self.extras:
            scalars = [float(x) for x in self.on.numpy(step.shape[n:])]
            if share is not None:
                share = float(np.clip(share + scalars[0], *SHARE))
            if link is not None:
                link = (link[0] + scalars[-2], link[1] + scalars[-1])
        level, psi = self.level + step.linear[0], self.psi + step.linear[1:]
        return replace(self, level=level, psi=psi, t=self.t + step.shape[:n], share=share, link=link)

    def blocks(self, design: Design) -> Blocks:
        """Return residuals and Jacobian at this point."""
        xp, a = self.on.xp, self.share
        p, q, d = self.attention(design)
        rest = 1.0 - (a or 0.0)
        attention = (design.counts if a is None else design.offsets) * (p / d[:, None])
        effect = attention @ self.psi  # S - level, (m, K)
        linear = xp.concatenate((xp.ones_like(q)[:, None], attention), 1)
        shape = []
        for k in range(self.psi.shape[1]):
            drawn = effect[:, k : k + 1]
            columns = attention * (self.psi[:, k] - rest * drawn)
            if a is not None:
                weight = design.mean * p
                columns = xp.concatenate((columns - (drawn / d[:, None]) * weight, drawn * (q / d)[:, None]), 1)
            shape.append(columns)
        residual = design.scores - self.level - effect
        if self.link is not None:  # one output only: F = m + tanh(k (S - m)) / k
            middle, curve = self.link[0], float(np.exp(self.link[1]))
            x = self.level + effect - middle
            bent = xp.tanh(curve * x)
            slope = 1.0 - bent**2
            residual = design.scores - middle - bent / curve
            linear = linear * slope
            shape = [xp.concatenate((shape[0] * slope, bent**2, x * slope - bent / curve), 1)]
        if a is not None:
            z, odds = weight @ self.psi, rest / a
            zero = xp.zeros_like(z[:1])
            tail = [] if self.link is None else [zero, zero]
            residual = xp.concatenate((residual, -odds * z[None, :]), 0)
            linear = xp.concatenate((linear, xp.concatenate((zero, odds * weight))[None, :]), 0)
            for k, columns in enumerate(shape):
                row = (odds * weight * (self.psi[:, k] - z[k]), -z[k : k + 1] / a**2, *tail)
                shape[k] = xp.concatenate((columns, xp.concatenate(row)[None, :]), 0)
        return Blocks(residual, linear, xp.stack(shape) if len(shape) > 1 else shape[0][None])
