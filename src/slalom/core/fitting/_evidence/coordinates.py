"""The surrogate in coordinates that are easy to fit: centred on the mean input.

    S(c) = F + sum_i x_i p_i psi_i / D,    D = 1 + (1 - a) sum_i (c_i - m_i) p_i,    p_i = exp(t_i) / sum_j m_j exp(t_j)

m are the mean counts. With a background x = c - m and a is the background's share of the attention at the mean input;
without one a = 0 and x = c. Then

    s_i = t_i,    v_i = F + psi_i / (1 - a),    z = sum_i m_i p_i psi_i
    s_0 = log(a / (1 - a)) + log sum_j m_j exp(t_j),    v_0 = F - z / a

p_i psi_i is the effect of unit i at the mean input. The linear model is a = 1 with psi finite, the paper's SLALOM a = 0: both
ends of one family, and no coordinate diverges between them. Given t, a and the link, S is linear in (F, psi).

The prior, v_i ~ N(F, tau^2) for the units and the background alike, reads psi_i ~ N(0, 1 / strength) and one more
"observation", rho = (1 - a) z / a = 0 with the same variance. In the linear limit that is ridge regression; without a
background it shrinks the values to a common mean.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

SHARE = (1e-4, 1.0 - 1e-4)  # the background's share stays in here; its ends are the two limits


class Design(NamedTuple):
    """The rows of a fit: counts (m, n), counts - mean, mean (n,), scores (m, K), weights (m,), roots (m,)."""

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

    def times(self, factor: Any) -> "Step":
        """Return a multiple of the step."""
        return Step(factor * self.linear, factor * self.shape)

    def plus(self, other: "Step", factor: Any = 1.0) -> "Step":
        """Return self + factor other."""
        return Step(self.linear + factor * other.linear, self.shape + factor * other.shape)

    def inner(self, other: "Step") -> Any:
        """Return the inner product."""
        return (self.linear * other.linear).sum() + (self.shape * other.shape).sum()


@dataclass(frozen=True, eq=False)
class Centred:
    """A point of the parameter space, and the data to fit.

    level (K,), psi (n, K), t (n,), and the scalars: the share a where there is a background, then the link's (m, log k) where
    there is one, F = m + tanh(k (S - m)) / k.
    """

    level: Any
    psi: Any
    t: Any
    scalars: Any
    background: bool
    linked: bool
    design: Design

    @property
    def extras(self) -> int:
        """The number of scalars on the shape side, after t."""
        return self.background + 2 * self.linked

    @property
    def share(self) -> Any:
        """The background's share of the attention at the mean input, a; None where there is no background."""
        return self.scalars[0] if self.background else None

    @cached_property
    def rest(self) -> Any:
        """The units' share of the attention at the mean input, 1 - a."""
        return 1.0 - self.scalars[0] if self.background else 1.0

    @cached_property
    def odds(self) -> Any:
        """With a background: (1 - a) / a."""
        return self.rest / self.share

    @cached_property
    def p(self) -> Any:
        """exp(t) (n,), divided by its sum at the mean input."""
        e = np.exp(self.t - self.t.max())
        return e / (self.design.mean @ e)

    @cached_property
    def attention(self) -> tuple[Any, Any, Any]:
        """Return p (n,), q = (c - m) p (m,) and D (m,)."""
        q = self.design.offsets @ self.p
        return self.p, q, 1.0 + self.rest * q

    @cached_property
    def weight(self) -> Any:
        """m p (n,): the units' weights in z; they sum to one."""
        return self.design.mean * self.p

    @cached_property
    def z(self) -> Any:
        """The mean of psi with these weights (K,); the background's value is F - z / a."""
        return (self.weight[:, None] * self.psi).sum(0)

    @property
    def values(self) -> Any:
        """The units' values v (n, K); their importances are t."""
        return self.level + self.psi / self.rest

    @property
    def outside(self) -> tuple[Any, Any]:
        """With a background: its value (K,) and its importance."""
        highest = self.t.max()
        total = highest + np.log(self.design.mean @ np.exp(self.t - highest))
        return self.level - self.z / self.share, np.log(self.share / self.rest) + total

    @property
    def x(self) -> Any:
        """The factor of p psi (m, n): offsets from the mean with a background, the counts without."""
        return self.design.offsets if self.background else self.design.counts

    @cached_property
    def unlinked(self) -> Any:
        """S (m, K), the predictions before the link."""
        p, _, d = self.attention
        return self.level + (self.x @ (p[:, None] * self.psi)) / d[:, None]

    @cached_property
    def effect(self) -> Any:
        """S less its level (m, K)."""
        return self.unlinked - self.level

    @cached_property
    def link_terms(self) -> tuple[Any, Any, Any, Any]:
        """With a link: F (m, 1) and its derivatives by S, by the link's m and by log k (m,)."""
        middle, k = self.scalars[-2], np.exp(self.scalars[-1])
        offset = self.unlinked - middle
        curve = np.tanh(k * offset)
        slope = 1.0 - curve[:, 0] ** 2
        return middle + curve / k, slope, 1.0 - slope, offset[:, 0] * slope - curve[:, 0] / k

    @cached_property
    def residual(self) -> Any:
        """Scores - F (m, K), and with a background one more row, -rho."""
        f = self.link_terms[0] if self.linked else self.unlinked
        if not self.background:
            return self.design.scores - f
        return np.concatenate((self.design.scores - f, -self.rho[None, :]), 0)

    @property
    def rho(self) -> Any:
        """With a background: the quantity that the prior of its value shrinks to 0 (K,)."""
        return self.odds * self.z

    @cached_property
    def reach(self) -> tuple[Any, Any]:
        """The lowest and the highest share after one step."""
        clip = np.clip
        return clip(0.3 * self.share, SHARE[0], None), clip(1.0 - 0.3 * self.rest, None, SHARE[1])

    def moved(self, step: Step) -> "Centred":
        """Return the point after a step; the moves of share and link are bounded."""
        n, clip, scalars = len(self.t), np.clip, []
        if self.background:
            scalars.append(clip(self.scalars[:1] + step.shape[n : n + 1], *self.reach))
        if self.linked:
            scalars += [self.scalars[-2:-1] + step.shape[-2:-1], self.scalars[-1:] + clip(step.shape[-1:], -2.0, 2.0)]
        new = np.concatenate(scalars) if scalars else self.scalars
        level, psi = self.level + step.linear[0], self.psi + step.linear[1:]
        return replace(self, level=level, psi=psi, t=self.t + step.shape[:n], scalars=new)

    def since(self, start: "Centred") -> Step:
        """Return the step that led here from a start."""
        join = np.concatenate
        linear = join(((self.level - start.level)[None], self.psi - start.psi), 0)
        return Step(linear, join((self.t - start.t, self.scalars - start.scalars)))

    # -- derivatives ----------------------------------------------------------------------------------------------------

    def push(self, step: Step) -> Any:
        """Return J step (r, K), the changes of predictions and rho, without forming J."""
        n, (p, q, d) = len(self.t), self.attention
        by_t = (p * step.shape[:n])[:, None]
        along = self.x @ np.concatenate((p[:, None] * step.linear[1:] + by_t * self.psi, by_t), 1)
        fall = self.rest * along[:, -1]
        if self.background:
            fall = fall + self.weight @ step.shape[:n] - q * step.shape[n]
        moved = step.linear[0] + (along[:, :-1] - self.effect * fall[:, None]) / d[:, None]
        if self.linked:
            _, slope, by_middle, by_curve = self.link_terms
            moved = moved * slope[:, None] + (by_middle * step.shape[-2] + by_curve * step.shape[-1])[:, None]
        if not self.background:
            return moved
        rho = (self.weight[:, None] * (step.linear[1:] + step.shape[:n, None] * (self.psi - self.z))).sum(0)
        rho = self.odds * rho - step.shape[n] / self.share**2 * self.z
        return np.concatenate((moved, rho[None]), 0)

    def pull(self, force: Any) -> Step:
        """Return J' force, force (r, K), without forming J: a hundredth of the work of the normal equations."""
        a, m = self.share, len(self.x)
        p, q, d = self.attention
        data, scalars = force[:m], []
        if self.linked:
            _, slope, by_middle, by_curve = self.link_terms
            scalars = [(by_middle[:, None] * data).sum(0), (by_curve[:, None] * data).sum(0)]
            data = data * slope[:, None]
        scaled = data / d[:, None]
        drawn = (scaled * self.effect).sum(1)
        along = self.x.T @ np.concatenate((scaled, drawn[:, None]), 1)
        linear = p[:, None] * along[:, :-1]
        shape = (linear * self.psi).sum(1) - self.rest * p * along[:, -1]
        if self.background:
            pulled = self.odds * force[m]
            linear = linear + self.weight[:, None] * pulled
            shape = shape + self.weight * (((self.psi - self.z) * pulled).sum(1) - drawn.sum())
            scalars = [(q @ drawn - (self.z * force[m]).sum() / a**2)[None], *scalars]
        return Step(np.concatenate((data.sum(0)[None], linear), 0), np.concatenate((shape, *scalars)))

    def jacobian(self, linear_only: bool = False) -> Step:
        """Return J of the data, rows times the roots of their weights, split in linear side (F, psi) and shape side.

        linear (m, 1 + n) is shared by the K outputs; shape (K, m, n + extras) is not.
        """
        x, psi, effect, root = self.x, self.psi, self.effect, self.design.roots
        p, q, d = self.attention
        m, n = x.shape
        lead = root * self.link_terms[1] if self.linked else root
        scale = lead / d
        linear = np.empty((m, 1 + n))
        linear[:, 0] = lead
        units = linear[:, 1:]
        np.multiply(x, p, out=units)
        units *= scale[:, None]
        if linear_only:
            return Step(linear, None)
        shape = np.empty((psi.shape[1], m, n + self.extras))
        for k, block in enumerate(shape):
            drawn = effect[:, k]
            np.multiply(units, psi[:, k] - self.rest * drawn[:, None], out=block[:, :n])
            if self.background:
                block[:, :n] -= np.outer(drawn * scale, self.weight)
                block[:, n] = drawn * q * scale
            if self.linked:
                block[:, -2], block[:, -1] = (root * by for by in self.link_terms[2:])
        return Step(linear, shape)

    def rho_rows(self) -> Step:
        """Return the derivatives of rho = (1 - a) z / a: by the linear side (1 + n,), and by the shape side (K, n + extras)."""
        a = self.share
        z, row = self.z, self.odds * self.weight
        shape = [(row[:, None] * (self.psi - z)).T, -z[:, None] / a**2, *[0.0 * z[:, None]] * (self.extras - 1)]
        return Step(np.concatenate((0.0 * row[:1], row)), np.concatenate(shape, 1))
