"""How much of a change of the scores a fitted Slalom takes over when it is fitted again.

    e = R y,    R = 1 - J H^-1 J' W,    H = J' W J + L

e are the residuals of a fit, J the derivatives of its predictions by its parameters, W the weights of the rows over the noise,
L the precisions of the priors. A change x of the scores changes the residuals not by x but by R x: the rest goes into values
and importances. So what is estimated from residuals, such as the effects of pairs, is too small, and looks too certain, without
R. With Var(y) = N, and parameters that are as far from the prior's mean as the prior says,

    Var(e) = R N R' + J H^-1 L H^-1 J'

Parameters are the level, values (v ~ N(level, tau^2), the background's too), importances (s ~ N(0, sigma^2)), the background's
importance and the link. tau and sigma are those of the estimates and their errors together, the fixed point of the evidence.

Rows are multiplied by the roots of W. Then R = 1 - A (A'A + L)^-1 A' is symmetric, and the second part of Var(e) is R - R R.
The columns of values are the same for all outputs, those of the others are not, so values are eliminated first:
R = R_v - R_v B (1 + B'R_v B)^-1 B'R_v, with B the other columns. R_v = 1 - V'V, with V = U^-1 A' and U U' = A'A + 1.
"""

from contextlib import suppress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import helmert

from slalom.core.checks import Counts, Floats, count_matrix
from slalom.core.fitting._evidence.triangular import inverse_cholesky
from slalom.core.fitting.problem import Fit, all_finite
from slalom.core.slalom import Slalom

_WIDE = 30.0  # prior standard deviations of level and link, in units of that of the predictions, and of log weight and reach


class Response(NamedTuple):
    """The response of a fit to a change of its scores; `response` makes one.

    Attributes:
        rows: Which rows of the data have a weight; the others are left out.
        roots: Roots of the weights over the noise, (m,).
        values: V, of level and values, (q, m).
        shape: B, of the other parameters, (m, K, r).
        inverse: (1 + B'R_v B)^-1, (r, r).
        basis: (C, K), which maps outputs to classes; None: a single score.
        free: Share of the rows that the parameters leave free.
    """

    rows: NDArray[np.bool_]
    roots: Floats
    values: Floats
    shape: Floats
    inverse: Floats
    basis: Floats | None
    free: float

    def left(self, change: Floats) -> Floats:
        """Return R x, what a change of the scores (m,) or (m, C) does to the residuals; 0 in rows without a weight."""
        result, root = np.zeros_like(change), self.roots[:, None]
        with np.errstate(all="ignore"):
            part = self._left((self._outputs(change)[self.rows] * root)[..., None])[..., 0] / root
            result[self.rows] = part[:, 0] if self.basis is None else part @ self.basis.T
        return result

    def strengths(self, h: Floats, residual: Floats) -> Floats:
        """Return the evidence (h'e)^2 / Var(h'e) of each column of h (m, p), summed over the outputs: (p,)."""
        e, total = self._outputs(residual)[self.rows], np.zeros(h.shape[1])
        with np.errstate(all="ignore"):
            noise = self._noise(e)
            for k, column in enumerate(e.T):
                raw, made = self._made(h, k)
                variance = (raw * made[:, k]).sum(axis=0) + np.einsum("mkp,mk->p", made**2, noise**2 - 1.0)
                total += (h[self.rows].T @ column) ** 2 / np.where(variance > 0.0, variance, np.inf)
        return np.nan_to_num(total, nan=0.0, posinf=0.0)

    def slopes(self, h: Floats, x: Floats, residual: Floats, before: Floats, width: float) -> tuple[Floats, Floats] | None:
        """Return how far residuals still go along changes x of the scores, as instruments h tell, with standard errors.

        h'e = h'R x change + N(0, Var(h'e)),    before + change ~ N(0, width^2)
        """
        with suppress(ArithmeticError, np.linalg.LinAlgError), np.errstate(all="ignore"):
            e, start = self._outputs(residual)[self.rows], self._outputs(before)
            p, outputs = start.shape
            parts = [self._made(h, k) for k in range(outputs)]
            made = np.concatenate([part for _, part in parts], axis=2)  # columns are (output, instrument)
            own, passed = (
                np.einsum("mkq,mp->qkp", made, part).reshape(outputs * p, outputs * p)
                for part in (parts[0][0], x[self.rows] * self.roots[:, None])
            )
            spread = own + np.einsum("mkq,mk,mkr->qr", made, self._noise(e) ** 2 - 1.0, made)
            through = np.linalg.solve(spread, passed).T
            prior = width**-2.0
            covariance = np.linalg.inv(through @ passed + prior * np.eye(outputs * p))
            along = (e.T @ h[self.rows]).reshape(-1)
            change = (covariance @ (through @ along - prior * start.T.reshape(-1))).reshape(outputs, p).T
            blocks = covariance.reshape(outputs, p, outputs, p)
            mix = np.ones((1, 1)) if self.basis is None else self.basis
            errors = np.sqrt(np.einsum("kplp,ck,cl->pc", blocks, mix, mix))
            found = tuple(part.reshape(before.shape) for part in (change @ mix.T, errors))
            if all_finite(*found):
                return found[0], found[1]
        return None

    def _made(self, h: Floats, k: int) -> tuple[Floats, Floats]:
        """Return h (m, p) over the roots, and R times these at output k: (m, K, p)."""
        raw = h[self.rows] / self.roots[:, None]
        alone = np.zeros((len(raw), self.shape.shape[1], raw.shape[1]))
        alone[:, k] = raw
        return raw, self._left(alone)

    def _left(self, x: Floats) -> Floats:
        """Return R x of columns (m, K, p)."""
        x = self._beside_values(x)
        through = self.inverse @ np.tensordot(self.shape, x, axes=((0, 1), (0, 1)))
        return x - self._beside_values(self.shape @ through)

    def _beside_values(self, x: Floats) -> Floats:
        """Return R_v x of columns (m, K, p)."""
        return x - (self.values.T @ (self.values @ x.reshape(len(x), -1))).reshape(x.shape)

    def _noise(self, e: Floats) -> Floats:
        """Return residuals (m, K) in units of the noise, as large as without a fit."""
        return np.asarray(e * self.roots[:, None] / np.sqrt(self.free))

    def _outputs(self, scores: Floats) -> Floats:
        """Return scores (..., C) as outputs (..., K)."""
        return scores[..., None] if self.basis is None else scores @ self.basis


def response(fit: Fit, counts: Counts, weights: Floats) -> Response | None:
    """Return the response of a fit to a change of its scores.

    Example:
        >>> from slalom.core import Joint, fit
        >>> rng = np.random.default_rng(0)
        >>> counts = (rng.random((300, 8)) < 0.5).astype(float)
        >>> scores, change = counts @ np.arange(8) + rng.normal(size=300), 1e-2 * counts[:, 0] * counts[:, 1]
        >>> before, after = (fit(counts, part, Joint()) for part in (scores, scores + change))
        >>> actual = change - (after.model(counts) - before.model(counts))
        >>> expected = response(before, counts, np.ones(300)).left(change)
        >>> bool(np.abs(actual - expected).max() < 0.1 * np.abs(expected).max())
        True
    """
    if not isinstance(fit.model, Slalom) or (fit.model.link is not None and fit.model.values.ndim == 2):
        return None
    with suppress(ArithmeticError, np.linalg.LinAlgError), np.errstate(all="ignore"):
        found = _response(fit, fit.model, count_matrix(counts), weights)
        if found is not None and all_finite(found.roots, found.values, found.shape, found.inverse):
            return found
    return None


def _response(fit: Fit, model: Slalom, counts: Floats, weights: Floats) -> Response | None:
    basis = helmert(model.values.shape[1]).T if model.values.ndim == 2 else None
    rows = weights > 0
    counts, weights = counts[rows], weights[rows] / weights.max()
    weights = weights / weights.mean()
    if not (weights.min() > 0.0 and np.isfinite(weights).all()):
        return None

    def outputs(part: Floats) -> Floats:
        return part[..., None] if basis is None else part @ basis

    share, evidence, values = model.weights(counts), outputs(model.evidence(counts)), outputs(model.values)
    noise = fit.loss / (values.shape[1] * (fit.free or 1.0))
    if not noise > 0.0:
        return None
    centre = outputs(model.evidence(counts.mean(axis=0)[None]))
    tau = _width(values - centre, fit.values_se)
    sigma = _width(model.importances[:, None], fit.importances_se)
    wide = _WIDE * float(evidence.std())
    linear = [np.full((len(counts), 1), wide), tau * share]
    shape = [sigma * share[:, None] * (values.T - evidence[..., None])]  # (m, K, r)
    if model.background is not None:
        rest = np.clip(1.0 - share.sum(axis=1), 0.0, 1.0)[:, None]
        linear.append(tau * rest)
        shape.append((_WIDE * rest * (outputs(np.asarray(model.background.value)) - evidence))[..., None])
    lead, link = np.ones((len(counts), 1)), []
    if model.link is not None:  # of a single score
        middle, reach = (outputs(np.asarray(part)) for part in model.link)
        inner = (evidence - middle) / reach
        curve = np.tanh(inner)
        lead = 1.0 - curve[:, :1] ** 2
        link = [(wide * curve**2)[..., None], (_WIDE * reach * (curve - inner * (1.0 - curve**2)))[..., None]]
    roots = np.sqrt(weights / noise)
    a = roots[:, None] * lead * np.concatenate(linear, axis=1)
    b = roots[:, None, None] * np.concatenate([lead[..., None] * np.concatenate(shape, axis=2), *link], axis=2)
    lower, failed = inverse_cholesky(a.T @ a + np.eye(a.shape[1]))
    if failed:
        return None
    through, tall = lower @ a.T, b.reshape(-1, b.shape[2])
    taken = (through @ b.reshape(len(b), -1)).reshape(-1, b.shape[2])
    inverse = np.linalg.inv(np.eye(b.shape[2]) + tall.T @ tall - taken.T @ taken)
    return Response(rows, roots, through, b, inverse, basis, fit.free or 1.0)


def _width(deviations: Floats, errors: Floats | None) -> float:
    """Return the prior standard deviation that estimates (n, K) with these errors make most probable."""
    square = float((deviations**2).mean())
    return float(np.sqrt(square if errors is None else square + (errors**2).sum() / deviations.size))
