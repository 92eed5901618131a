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
from functools import cached_property
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
    """Residuals and the Jacobian, each row times the root of its precision, split in linear side (F, psi) and shape side.

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
    """A point of the parameter space, and the data that it is to explain.

    level (K,), psi (n, K), t (n,), the share a (None: no background), the link (m, log k) or None, where
    F = m + tanh(k (S - m)) / k.
    """

    level: Any
    psi: Any
    t: Any
    share: float | None
    link: tuple[float, float] | None
    design: Design
    on: Backend

    @property
    def extras(self) -> int:
        """How many scalars the shape side has after t: the share, and the two of the link, if there."""
        return (self.share is not None) + 2 * (self.link is not None)

    @property
    def rest(self) -> float:
        """The units' share of the attention at the mean input, 1 - a."""
        return 1.0 - (self.share or 0.0)

    @cached_property
    def attention(self) -> tuple[Any, Any, Any]:
        """Return p (n,), q = (c - m) p (m,) and D (m,)."""
        e = self.on.xp.exp(self.t - self.t.max())
        p = e / (self.design.mean @ e)
        q = self.design.offsets @ p
        return p, q, 1.0 + self.rest * q

    @cached_property
    def weight(self) -> Any:
        """m p (n,): the units' parts in the background's opposite number z; they sum to one."""
        return self.design.mean * self.attention[0]

    @property
    def x(self) -> Any:
        """What multiplies p psi: offsets from the mean with a background, the counts without."""
        return self.design.counts if self.share is None else self.design.offsets

    @cached_property
    def evidence(self) -> Any:
        """S (m, K)."""
        p, _, d = self.attention
        return self.level + (self.x @ (p[:, None] * self.psi)) / d[:, None]

    @cached_property
    def residual(self) -> Any:
        """Scores - F (m, K), and with a background the row -rho under it."""
        f = self.evidence
        if self.link is not None:
            middle, k = self.link[0], float(np.exp(self.link[1]))
            f = middle + self.on.xp.tanh(k * (f - middle)) / k
        if self.share is None:
            return self.design.scores - f
        rho = self.rest / self.share * (self.weight @ self.psi)
        return self.on.xp.concatenate((self.design.scores - f, -rho[None, :]), 0)

    def moved(self, step: Step) -> "Centred":
        """Return the point after a step; share and link move a bounded way at a time."""
        n = len(self.t)
        share, link = self.share, self.link
        if self.extras:
            scalars = [float(x) for x in self.on.numpy(step.shape[n:])]
            if share is not None:
                low, high = max(SHARE[0], 0.3 * share), min(SHARE[1], 1.0 - 0.3 * (1.0 - share))
                share = float(np.clip(share + scalars[0], low, high))
            if link is not None:
                link = (link[0] + scalars[-2], link[1] + float(np.clip(scalars[-1], -2.0, 2.0)))
        level, psi = self.level + step.linear[0], self.psi + step.linear[1:]
        return replace(self, level=level, psi=psi, t=self.t + step.shape[:n], share=share, link=link)

    def blocks(self, root: Any) -> Blocks:
        """Return residuals and Jacobian at this point; root (r,) are the roots of the rows' precisions."""
        xp, a = self.on.xp, self.share
        m, n = self.x.shape
        p, q, d = self.attention
        effect = self.evidence - self.level
        lead = root[:m]
        if self.link is not None:  # one output only: F = m + tanh(k (S - m)) / k
            middle, curve = self.link[0], float(np.exp(self.link[1]))
            off = self.evidence[:, 0] - middle
            bent = xp.tanh(curve * off)
            slope = 1.0 - bent**2
            bends = (root[:m] * bent**2, root[:m] * (off * slope - bent / curve))
            lead = lead * slope
        scale = lead / d
        linear = self.on.empty(len(root), 1 + n)
        linear[:m, 0] = lead
        units = linear[:m, 1:]
        xp.multiply(self.x, p, out=units)
        units *= scale[:, None]
        shape = self.on.empty(self.psi.shape[1], len(root), n + self.extras)
        for k, block in enumerate(shape):
            drawn = effect[:, k]
            xp.multiply(units, self.psi[:, k] - self.rest * drawn[:, None], out=block[:m, :n])
            if a is not None:
                block[:m, :n] -= xp.outer(drawn * scale, self.weight)
                block[:m, n] = drawn * q * scale
            if self.link is not None:
                block[:m, -2], block[:m, -1] = bends
        if a is not None:
            z, odds = self.weight @ self.psi, self.rest / a
            linear[m, 0] = 0.0
            linear[m, 1:] = odds * root[m] * self.weight
            for k, block in enumerate(shape):
                block[m, :n] = linear[m, 1:] * (self.psi[:, k] - z[k])
                block[m, n] = -z[k] * root[m] / a**2
                block[m, n + 1 :] = 0.0
        return Blocks(self.residual * root[:, None], linear, shape)
