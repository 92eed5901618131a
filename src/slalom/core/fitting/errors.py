"""Standard errors of values, importances and background: what a Gaussian at the mode says, and two things that it does not.

    var g = g' H^-1 g  +  sum_h (2 / gamma_h) (dg / dlog h)^2  +  b^2 (e^(2 u) - 2 e^(u / 2) + 1 - u)

The second term is the doubt about the priors' precisions h (strength, tightness): the evidence knows log h to 2 / gamma_h, with
gamma_h the number of parameters that it rests on (Kass and Steffey, 1989). It matters where units are few.

The third, for values, is the bend. What the data know of a quiet unit is its effect, the product of its weight and its
deviation v - F; so along the log of its weight, x = log((1 - a) p_i) with posterior variance u, the value goes not as a line of
slope b but as -b e^(-x). The term is the mean square of that curve around the mode, less the line's.
"""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from slalom.core.checks import Floats
from slalom.core.fitting.ascent import Candidate
from slalom.core.fitting.centred import Step

_WIDEST = 1.0  # variance of a log weight up to which the bend is followed: beyond it the mean square is all tail
_PRECISIONS = ("strength", "tightness")


class Errors(NamedTuple):
    """Errors of the values (n,) or (n, C), the importances (n,), and the background's value and importance, if there."""

    values: Floats
    importances: Floats
    background: tuple[float | Floats, float] | None


def standard_errors(best: Candidate, basis: Floats | None, about: Collection[str] = _PRECISIONS) -> Errors:
    """Return the errors of a candidate on the host; basis (C, K) takes outputs to classes, None is one log odds.

    about: the precisions that are in doubt.
    """
    point, n = best.point, len(best.point.t)
    share, rest = point.share, point.rest
    spread = _Spread(best, basis, about)
    psi, weight, shape = point.psi, point.weight, spread.shape
    tail = np.zeros(point.extras - (share is not None))
    by_share = np.zeros((psi.shape[1], n, n + point.extras))
    if share is not None:
        by_share[:, :, n] = psi.T / rest**2
    log_weight = (shape[:, :n] - (shape[:, :n] @ weight)[:, None]).T
    if share is not None:
        log_weight = log_weight - shape[:, n] / rest
    values = spread(spread.lower.T[:1] + spread.lower.T[1:] / rest, by_share, along=log_weight)
    importances = spread.of_shape((shape[:, :n] - shape[:, :n].mean(axis=1, keepdims=True)).T)
    if share is None:
        return Errors(values, importances, None)
    z = weight @ psi
    to_value = np.concatenate([[1.0], -weight / share])[None] @ spread.lower.T
    by_all = [np.concatenate([-weight * (psi[:, k] - z[k]) / share, [z[k] / share**2], tail])[None] for k in range(len(z))]
    value = spread(to_value, np.stack(by_all))[0]
    to_importance = np.concatenate([weight - 1.0 / n, [1.0 / (share * rest)], tail])
    importance = float(spread.of_shape((shape @ to_importance)[None])[0])
    return Errors(values, importances, (float(value) if np.ndim(value) == 0 else value, importance))


class _Spread:
    """Errors of quantities from their derivatives l by the linear side of their output and h by the shape side.

    With own = L_M^-1 l and through = L_S^-1 (h - B' M^-1 l) the Gaussian's variance is |own|^2 + |through|^2.
    """

    def __init__(self, best: Candidate, basis: Floats | None, about: Collection[str]) -> None:
        self.basis = basis
        self.lower, self.half, self.shape, _ = best.factors
        self.doubts = _doubts(best, about) if about else []

    def __call__(self, own: Floats, by_shape: Floats, along: Floats | None = None) -> Floats:
        """Return errors (j,) or (j, C): own (j, 1 + n) is L_M^-1 l, by_shape (K, j, q) is h, along (j, q) the log weights."""
        through = np.stack([(h - own @ half) @ self.shape.T for h, half in zip(by_shape, self.half, strict=True)], axis=-1)
        mix = np.ones((1, 1)) if self.basis is None else self.basis
        variance = np.outer((own**2).sum(axis=1), (mix**2).sum(axis=1)) + ((through @ mix.T) ** 2).sum(axis=1)
        for inner, outer, doubt in self.doubts:
            variance += doubt * ((own @ inner + np.einsum("jqk,q->jk", through, outer)) @ mix.T) ** 2
        if along is not None:
            square = np.maximum((along**2).sum(axis=1), 1e-300)
            slope = (np.einsum("jqk,jq->jk", through, along) / square[:, None]) @ mix.T
            u = np.minimum(square, _WIDEST)
            variance += slope**2 * (np.exp(2.0 * u) - 2.0 * np.exp(u / 2.0) + 1.0 - u)[:, None]
        return np.asarray(np.sqrt(variance[:, 0] if self.basis is None else variance))

    def of_shape(self, through: Floats) -> Floats:
        """Return errors (j,) of quantities that depend on the shape alone: through (j, q) is L_S^-1 h."""
        variance = (through**2).sum(axis=1)
        for _, outer, doubt in self.doubts:
            variance += doubt * (through @ outer) ** 2
        return np.asarray(np.sqrt(variance))


def _doubts(best: Candidate, about: Collection[str]) -> list[tuple[Floats, Floats, float]]:
    """Return for each precision how it pulls, through the factors (1 + n, K) and (q,), and its log's variance."""
    fixed_psi, fixed_t = best.fixed
    found = []
    for name, right, count in zip(_PRECISIONS, pulls(best), (fixed_psi, fixed_t + 1.0), strict=True):
        if name in about:
            found.append((*best.factors.whitened(right), 2.0 / max(count, 1.0)))
    return found


def pulls(best: Candidate) -> tuple[Step, Step]:
    """Return half the derivatives of the cost's gradient by the logs of strength and tightness."""
    point, hyper, n = best.point, best.hyper, len(best.point.t)
    zero = 0.0 * best.factors.schur[0]
    strong = Step(np.concatenate((0.0 * point.psi[:1], hyper.strength * point.psi)), zero)
    if point.background:
        across, along = point.rho_rows()
        back = hyper.strength * point.rho
        strong = Step(strong.linear + across[:, None] * back, along.T @ back)
    return strong, Step(0.0 * strong.linear, np.concatenate((hyper.tightness * point.t, zero[n:])))
