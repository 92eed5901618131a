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
    """The rows of a fit on their device: counts (m, n), counts - mean, mean (n,), scores (m, K), weights (m,), roots (m,)."""

    counts: Any
    offsets: Any
    mean: Any
    scores: Any
    weights: Any
    roots: Any


class Step(NamedTuple):
    """A move in parameter space: (1 + n, K) of the linear side (F, psi), (n + extras,) of the shape side."""

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
    def linked(self) -> tuple[Any, Any, Any, Any]:
        """With a link: F (m, 1) and its derivatives by S, by the link's m and by log k (m,)."""
        middle, curve = self.link or (0.0, 0.0)
        k = float(np.exp(curve))
        off = self.evidence - middle
        bent = self.on.xp.tanh(k * off)
        slope = 1.0 - bent[:, 0] ** 2
        return middle + bent / k, slope, 1.0 - slope, off[:, 0] * slope - bent[:, 0] / k

    @cached_property
    def residual(self) -> Any:
        """Scores - F (m, K), and with a background the row -rho under it."""
        f = self.evidence if self.link is None else self.linked[0]
        if self.share is None:
            return self.design.scores - f
        rho = self.rest / self.share * (self.weight @ self.psi)
        return self.on.xp.concatenate((self.design.scores - f, -rho[None, :]), 0)

    @property
    def reach(self) -> tuple[float, float]:
        """Where the share may be after one step."""
        share = self.share or 0.0
        return max(SHARE[0], 0.3 * share), min(SHARE[1], 1.0 - 0.3 * (1.0 - share))

    def moved(self, step: Step) -> "Centred":
        """Return the point after a step; share and link move a bounded way at a time."""
        n = len(self.t)
        share, link = self.share, self.link
        if self.extras:
            scalars = [float(x) for x in self.on.numpy(step.shape[n:])]
            if share is not None:
                share = float(np.clip(share + scalars[0], *self.reach))
            if link is not None:
                link = (link[0] + scalars[-2], link[1] + float(np.clip(scalars[-1], -2.0, 2.0)))
        level, psi = self.level + step.linear[0], self.psi + step.linear[1:]
        return replace(self, level=level, psi=psi, t=self.t + step.shape[:n], share=share, link=link)

    def since(self, start: "Centred") -> Step:
        """Return the step that led here from a start."""
        scalars = []
        if self.share is not None and start.share is not None:
            scalars.append(self.share - start.share)
        if self.link is not None and start.link is not None:
            scalars += [here - there for here, there in zip(self.link, start.link, strict=True)]
        xp, t = self.on.xp, self.t - start.t
        linear = xp.concatenate(((self.level - start.level)[None], self.psi - start.psi), 0)
        return Step(linear, t if not scalars else xp.concatenate((t, self.on.asarray(np.array(scalars)))))

    # -- derivatives ----------------------------------------------------------------------------------------------------

    def push(self, step: Step) -> Any:
        """Return J step (r, K), how the predictions and rho move, without forming J."""
        xp, n, (p, q, d) = self.on.xp, len(self.t), self.attention
        effect, by_t = self.evidence - self.level, (p * step.shape[:n])[:, None]
        along = self.x @ xp.concatenate((p[:, None] * step.linear[1:] + by_t * self.psi, by_t), 1)
        fall = self.rest * along[:, -1]
        if self.share is not None:
            fall = fall + self.weight @ step.shape[:n] - q * step.shape[n]
        moved = step.linear[0] + (along[:, :-1] - effect * fall[:, None]) / d[:, None]
        if self.link is not None:
            _, slope, by_middle, by_curve = self.linked
            moved = moved * slope[:, None] + (by_middle * step.shape[-2] + by_curve * step.shape[-1])[:, None]
        if self.share is None:
            return moved
        z = self.weight @ self.psi
        rho = self.weight @ step.linear[1:] + (self.weight * step.shape[:n]) @ (self.psi - z)
        rho = self.rest / self.share * rho - step.shape[n] / self.share**2 * z
        return xp.concatenate((moved, rho[None]), 0)

    def pull(self, force: Any) -> Step:
        """Return J' force, force (r, K), without forming J: a hundredth of the work of the normal equations."""
        xp, a, m = self.on.xp, self.share, len(self.x)
        p, q, d = self.attention
        data, scalars = force[:m], []
        if self.link is not None:
            _, slope, by_middle, by_curve = self.linked
            scalars = [by_middle @ data, by_curve @ data]
            data = data * slope[:, None]
        scaled = data / d[:, None]
        drawn = (scaled * (self.evidence - self.level)).sum(1)
        along = self.x.T @ xp.concatenate((scaled, drawn[:, None]), 1)
        linear = p[:, None] * along[:, :-1]
        shape = (linear * self.psi).sum(1) - self.rest * p * along[:, -1]
        if a is not None:
            z, pulled = self.weight @ self.psi, self.rest / a * force[m]
            linear = linear + self.weight[:, None] * pulled
            shape = shape + self.weight * ((self.psi - z) @ pulled - drawn.sum())
            scalars = [(q @ drawn - z @ force[m] / a**2)[None], *scalars]
        return Step(xp.concatenate((data.sum(0)[None], linear), 0), xp.concatenate((shape, *scalars)))

    def jacobian(self, coarse: bool, linear_only: bool = False) -> Step:
        """Return J of the data, rows times the roots of their weights, split in linear side (F, psi) and shape side.

        linear (m, 1 + n) is shared by the K outputs; shape (K, m, n + extras) is not. coarse: in single precision.
        """
        xp = self.on.xp
        x, p, q, d, psi, effect, root, weight = (
            self.on.cast(array, coarse)
            for array in (self.x, *self.attention, self.psi, self.evidence - self.level, self.design.roots, self.weight)
        )
        m, n = x.shape
        lead = root if self.link is None else root * self.on.cast(self.linked[1], coarse)
        scale = lead / d
        linear = self.on.empty(m, 1 + n, coarse=coarse)
        linear[:, 0] = lead
        units = linear[:, 1:]
        xp.multiply(x, p, out=units)
        units *= scale[:, None]
        if linear_only:
            return Step(linear, None)
        shape = self.on.empty(psi.shape[1], m, n + self.extras, coarse=coarse)
        for k, block in enumerate(shape):
            drawn = effect[:, k]
            xp.multiply(units, psi[:, k] - self.rest * drawn[:, None], out=block[:, :n])
            if self.share is not None:
                block[:, :n] -= xp.outer(drawn * scale, weight)
                block[:, n] = drawn * q * scale
            if self.link is not None:
                block[:, -2], block[:, -1] = (root * self.on.cast(by, coarse) for by in self.linked[2:])
        return Step(linear, shape)

    def rho_rows(self) -> Step:
        """Return the derivatives of rho = (1 - a) z / a: by the linear side (1 + n,), and by the shape side (K, n + extras)."""
        xp, a = self.on.xp, self.share or 1.0
        z, row = self.weight @ self.psi, self.rest / a * self.weight
        shape = [(row[:, None] * (self.psi - z)).T, -z[:, None] / a**2, *[0.0 * z[:, None]] * (self.extras - 1)]
        return Step(xp.concatenate((0.0 * row[:1], row)), xp.concatenate(shape, 1))
