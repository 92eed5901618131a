"""Alternating least squares, the paper's Algorithm 2 (SLALOM-fidel), changed to be exact on noise-free data.

    v step    v = argmin_v  sum_k weight_k |sum_j a_kj v_j - y_k|^2,    a_kj = c_kj w_j / D_k,    w = exp(s)
    s step    w = argmin_w  sum_k weight_k |sum_j c_kj w_j (v_j - y_k)|^2 / D_k^2,    w_j >= floor, mean w = 1

y are the scores and D_k = sum_j c_kj w_j with the w before the step. Departures from the paper, and why:

- Its s step, equation 76, has no D_k, so that long rows dominate. With D_k the linearised residual is the true one at the
  current s.
- Its s step keeps v fixed; v and s then hold each other back, and hundreds of rounds are not enough. Here v follows: what a
  change of v would repair is projected out of the residual first. Noise-free data then need one round, and a second one for
  the last digits.
- With noise, the minimum of equation 76 is not that of the true loss. When its step no longer helps, Gauss-Newton steps on the
  true residual follow: the same bounded least squares, with the fitted F_k in place of y_k.
- A step is accepted only if the true loss after the v step falls; otherwise Gauss-Newton steps are shortened, and finally
  abandoned. So the model returned is the best one seen.
- Both steps are solved from products of columns, A'A (n, n), which are fast to compute: where most rows differ from the usual
  one in a few units (deletions, pairs), only these are visited. Where the products are nearly singular, or where the residual
  is so small that its last digits matter, the columns are orthogonalised instead, which is exact and slow.
- Its constraint 79, |w|_1 >= n, excludes w = 0. A factor on w cancels, so the mean of w is held at one.
- The scores are centred first: a constant added to them moves all values alike. Where the data leave values open, those
  nearest to the mean score are returned (minimum norm); where they leave s open, it moves as little as possible.

There is no background and no link, so an empty row has no prediction, and a linear model cannot be represented, as a unit has
the same score alone and repeated (`Joint` has both).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from slalom.core.checks import Floats
from slalom.core.fitting.problem import Fit, Fitter, Problem, all_finite, sound
from slalom.core.slalom import Slalom
from slalom.errors import InputError

_INERTIA = 1e-7  # regularisation of an s step towards no move, relative to the size of its matrix
_INDEPENDENT = 1e-9  # products of columns need more than this squared remainder of a column of norm one beside the others,
_CLEAN = 1e-6  # and more than this share of the scores' variance as residual
_REST = 1e-6  # a row with less than this share of the usual row would be lost in the rounding of a difference
_SPARSE = 0.05  # the largest share of entries unlike the usual row for which storing only these is faster


@final
@dataclass(frozen=True)
class Alternating(Fitter):
    """Fits values and importances by alternating least squares until the loss stops falling.

    Args:
        max_iterations: Limit for the number of s steps.
        tolerance: The fit has converged when a step lowers the loss by less than this fraction.
        floor: The least exp(s) of a unit, relative to the mean of exp(s).
        once: Take a single s step between two v steps, as the authors' package does. On scores that do not come from a SLALOM,
            further steps drive weights to the floor, and the values there far away.

    Raises:
        InputError: If an option is out of range.

    Example:
        >>> truth = Slalom(values=[1.0, -2.0, 0.5], importances=[0.3, 0.7, -1.0])
        >>> counts = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 1, 1]]
        >>> fit = Alternating().solve(Problem.of(counts, truth(counts), None))
        >>> fit.model.values.round(6).tolist(), fit.model.importances.round(6).tolist()
        ([1.0, -2.0, 0.5], [0.3, 0.7, -1.0])
    """

    max_iterations: int = 100
    tolerance: float = 1e-5
    floor: float = 1e-4
    once: bool = False

    def __post_init__(self) -> None:
        if not self.max_iterations >= 1:
            raise InputError(f"max_iterations must be at least 1; got {self.max_iterations!r}")
        if not 0 <= self.tolerance < 1:
            raise InputError(f"tolerance must lie in [0, 1); got {self.tolerance!r}")
        if not 0 < self.floor < 1:
            raise InputError(f"floor must lie in (0, 1), the mean of exp(s) being 1; got {self.floor!r}")

    def solve(self, problem: Problem) -> Fit:
        data = _Data.of(problem)
        state, iterations, converged = _value_step(data, np.ones(data.counts.shape[1])), 0, False
        limit = 1 if self.once else self.max_iterations
        for linearised, cuts in ((True, 1), (False, 6)):  # the residual of equation 76, then the true one to first order
            converged = state.loss <= data.rounding
            while not converged and iterations < limit:
                before, about = state.loss, (state.fitted, state.residual)
                target, offset = (data.scores, np.zeros_like(state.residual)) if linearised else about
                state = _improved(data, state, _bounded_step(data, state, target, offset, self.floor), cuts)
                converged = state.loss >= (1.0 - self.tolerance) * before or state.loss <= data.rounding
                iterations += 1
        values = state.values + data.mean
        if not all_finite(values):
            raise ArithmeticError("the least squares of the values have left the range of floats")
        model = Slalom(values if problem.scores.ndim == 2 else values[:, 0], np.log(state.w))
        low, note, done = int((state.w <= 2 * self.floor).sum()), "", converged or self.once
        if low:
            note = (
                f"{low} of {len(state.w)} importances are at the floor, where values are hardly determined;"
                " a fit with a background (Joint) may suit these data better."
            )
        return sound(problem.fitted(model, converged=done, iterations=iterations, limit="max_iterations", note=note))


class _Counts(NamedTuple):
    """A matrix c (m, n) as 1 usual^T + other."""

    usual: Floats  # (n,)
    other: Any  # (m, n), sparse where few entries are unlike the usual ones
    pairs: Any  # (m, n n), sparse: the outer product of each row of `other` with itself; None where it is not sparse

    @classmethod
    def of(cls, counts: Floats) -> "_Counts":
        """Choose the usual row, all units or none, if few entries differ from it."""
        m, n = counts.shape
        for usual in (counts.max(axis=0), np.zeros(n)):
            lengths = np.count_nonzero(counts != usual, axis=1)
            if (lengths**2).sum() <= _SPARSE**2 * m * n * n:
                other = csr_array(counts - usual)
                times = np.repeat(lengths, lengths)  # an entry is paired with every entry of its row
                left = np.repeat(np.arange(other.nnz), times)
                right = np.arange(len(left)) + np.repeat(
                    np.repeat(other.indptr[:-1], lengths) - np.cumsum(times) + times, times
                )
                where = other.indices[left].astype(np.int64) * n + other.indices[right]
                starts = np.concatenate([[0], np.cumsum(lengths**2)])
                return cls(usual, other, csr_array((other.data[left] * other.data[right], where, starts), shape=(m, n * n)))
        return cls(usual, counts, None)

    def forth(self, table: Floats) -> Floats:
        """Return c @ table."""
        return np.asarray(self.usual @ table + self.other @ table)

    def back(self, table: Floats) -> Floats:
        """Return c^T @ table."""
        return np.asarray(np.outer(self.usual, table.sum(axis=0)) + self.other.T @ table)

    def products(self, weights: Floats) -> Floats:
        """Return c^T diag(weights) c."""
        if self.pairs is None:
            return np.asarray((weights[:, None] * self.other).T @ self.other)
        sums = np.outer(self.usual, self.other.T @ weights + weights.sum() / 2 * self.usual)
        return np.asarray(sums + sums.T + (self.pairs.T @ weights).reshape(sums.shape))


class _Data(NamedTuple):
    """Counts (m, n), centred scores (m, n_classes), roots of the weights (m, 1), mean of the scores."""

    counts: Floats
    parts: _Counts
    scores: Floats
    root: Floats
    mean: Floats
    spread: float
    rounding: float

    @classmethod
    def of(cls, problem: Problem) -> "_Data":
        """Centre the scores; a loss below `rounding` is zero up to the rounding of the scores."""
        problem.refuse_empty_rows("Alternating")
        y, weights = problem.scores.reshape(len(problem.scores), -1), problem.weights[:, None]
        mean = np.average(y, axis=0, weights=problem.weights)
        spread = float((weights * (y - mean) ** 2).sum())
        rounding = float((64 * np.finfo(float).eps) ** 2 * (weights * y**2).sum())
        return cls(problem.counts, _Counts.of(problem.counts), y - mean, np.sqrt(weights), mean, spread, rounding)


class _Orthogonal(NamedTuple):
    """The columns of a v step, orthogonalised."""

    attention: Floats  # (m, n), each row times the root of its weight
    basis: Floats  # orthonormal columns that span those of `attention`


class _Products(NamedTuple):
    """The columns of a v step, by their products."""

    pull: Floats  # (m, 1), the root of the weight over the sum D of each row
    size: Floats  # (n,), the norms of the columns pull c
    triangle: Floats  # (n, n), lower, times its transpose: the products of the columns at norm one
    inverse: Floats  # of the triangle; by numpy, because the threads of a second BLAS slow it down

    def solve(self, table: Floats) -> Floats:
        """Solve with the products of the columns pull c."""
        return np.asarray(self.inverse.T @ (self.inverse @ (table / self.size[:, None])) / self.size[:, None])


class _State(NamedTuple):
    """exp(s) with mean one, the best values for it, and what the next s step reuses of the v step."""

    w: Floats  # (n,)
    values: Floats  # (n, n_classes)
    columns: _Orthogonal | _Products
    fitted: Floats  # (m, n_classes)
    residual: Floats  # (m, n_classes), each row times the root of its weight
    loss: float


def _improved(data: _Data, state: _State, goal: Floats, cuts: int) -> _State:
    """Return the first state between the goal and the old state that lowers the true loss; else the old one."""
    for k in range(cuts):
        w = state.w + 0.25**k * (goal - state.w)
        trial = _value_step(data, w / w.mean())
        if trial.loss < state.loss:
            return trial
    return state


def _value_step(data: _Data, w: Floats) -> _State:
    """Fix s and fit v by least squares."""
    state = _value_step_by_products(data, w)
    return state if state and state.loss > _CLEAN * data.spread else _value_step_by_svd(data, w)


def _value_step_by_products(data: _Data, w: Floats) -> _State | None:
    """Solve the normal equations for w v, with one refinement; None where they are nearly singular."""
    totals = data.parts.forth(w)[:, None]
    if len(totals) < len(w) or totals.min() <= _REST * (data.parts.usual @ w):
        return None
    pull = data.root / totals
    products = data.parts.products(pull[:, 0] ** 2)
    size = np.sqrt(products.diagonal().clip(0.0))
    if not size.all():
        return None
    try:
        triangle = np.linalg.cholesky(products / size / size[:, None])
    except np.linalg.LinAlgError:
        return None
    if triangle.diagonal().min() ** 2 < _INDEPENDENT:
        return None
    columns = _Products(pull, size, triangle, np.linalg.inv(triangle))
    table = columns.solve(data.parts.back(pull * data.root * data.scores))
    residual = data.root * data.scores - pull * data.parts.forth(table)
    table += columns.solve(data.parts.back(pull * residual))
    fitted = data.parts.forth(table) / totals
    residual = data.root * (fitted - data.scores)
    return _State(w, table / w[:, None], columns, fitted, residual, float((residual**2).sum()))


def _value_step_by_svd(data: _Data, w: Floats) -> _State:
    """Return the values of minimum norm."""
    shares = data.counts * w
    shares /= shares.sum(axis=1, keepdims=True)
    attention = data.root * shares
    left, size, right = np.linalg.svd(attention, full_matrices=False)
    rank = int((size > size[0] * max(attention.shape) * np.finfo(float).eps).sum())
    basis = left[:, :rank]
    values = right[:rank].T @ (basis.T @ (data.root * data.scores) / size[:rank, None])
    fitted = shares @ values
    residual = data.root * (fitted - data.scores)
    return _State(w, values, _Orthogonal(attention, basis), fitted, residual, float((residual**2).sum()))


def _bounded_step(data: _Data, state: _State, target: Floats, offset: Floats, floor: float) -> Floats:
    """Minimise |P diag(target) attention u - offset|^2 over w u >= floor; P projects out what v can repair."""
    least = floor / state.w
    if isinstance(state.columns, _Orthogonal):
        return state.w * _factors_by_qr(state.columns, state.w, target, offset, least)
    factors = _factors_by_products(data.parts, state.columns, state.w, target, offset, least)
    if factors is None:
        return _bounded_step(data, _value_step_by_svd(data, state.w), target, offset, floor)
    return state.w * factors


def _factors_by_qr(columns: _Orthogonal, w: Floats, target: Floats, offset: Floats, least: Floats) -> Floats:
    """Solve by QR, which reduces the rows to n + 1."""
    n, rows = len(w), []
    for aim, rest in zip(target.T, offset.T, strict=True):
        matrix = aim[:, None] * columns.attention
        matrix -= columns.basis @ (columns.basis.T @ matrix)
        rows.append(np.column_stack([matrix, rest]))
    triangle = np.asarray(np.linalg.qr(np.concatenate(rows), mode="r"))
    size = np.linalg.norm(triangle[:, :n])
    if size == 0.0:
        return np.ones(n)
    matrix = np.concatenate([triangle[:, :n] / size, [w / n], _INERTIA * np.eye(n)])
    return _bounded(matrix, np.concatenate([triangle[:, n] / size, [1.0], np.full(n, _INERTIA)]), least)


def _factors_by_products(
    counts: _Counts, columns: _Products, w: Floats, target: Floats, offset: Floats, least: Floats
) -> Floats | None:
    """Solve the same least squares by normal equations, gram u = aim; None where rounding dominates them."""
    n = len(w)
    gram, aim, whole = np.zeros((n, n)), np.zeros(n), np.zeros(n)
    for t, rest in zip(target.T, offset.T, strict=True):
        mixed = counts.products(columns.pull[:, 0] ** 2 * t) / columns.size[:, None]
        mixed = columns.inverse @ mixed
        squares = counts.products((columns.pull[:, 0] * t) ** 2)
        gram += squares - mixed.T @ mixed
        whole += squares.diagonal()
        aim += counts.back(columns.pull * (t * rest)[:, None])[:, 0]
    rounding = 1000 * np.finfo(float).eps / columns.triangle.diagonal().min() ** 2
    if (gram.diagonal() <= rounding * whole).any():
        return None
    gram *= w * w[:, None]
    size = gram.trace()
    gram = gram / size + np.outer(w, w) / n**2
    gram[np.diag_indices(n)] += _INERTIA**2
    aim = w * aim / size + w / n + _INERTIA**2
    above = _pivoted(gram, aim - gram @ least, least < 1.0)
    if above is not None:
        return least + above
    sizes, vectors = np.linalg.eigh(gram)
    roots = np.sqrt(sizes.clip(n * np.finfo(float).eps * sizes[-1]))
    return _bounded(roots[:, None] * vectors.T, vectors.T @ aim / roots, least)


def _pivoted(gram: Floats, aim: Floats, free: NDArray[np.bool_]) -> Floats | None:
    """Minimise x^T gram x / 2 - aim^T x over x >= 0 by block principal pivoting; None where it does not terminate.

    All units that violate x >= 0 (free ones) or gram x >= aim (those at 0) change sides at once; after three exchanges without
    progress only the last of them does. `free` is the first guess.
    """
    size = np.sqrt(gram.diagonal())
    gram, aim, fewest, lives = gram / size / size[:, None], aim / size, len(aim) + 1, 3
    slack = 1e-12 * np.abs(aim).max()
    for _ in range(100):
        x = np.zeros_like(aim)
        try:
            block = gram[np.ix_(free, free)]
            np.linalg.cholesky(block)  # only to reject a matrix that is not positive definite
            x[free] = np.linalg.solve(block, aim[free])
        except np.linalg.LinAlgError:
            return None
        wrong = np.where(free, x, gram @ x - aim) < -slack
        n_wrong = int(wrong.sum())
        if not n_wrong:
            return np.asarray(x.clip(0.0) / size)
        fewest, lives = (n_wrong, 3) if n_wrong < fewest else (fewest, lives - 1)
        if lives < 0:
            wrong[: np.flatnonzero(wrong)[-1]] = False
        free = free ^ wrong
    return None


def _bounded(matrix: Floats, aim: Floats, least: Floats) -> Floats:
    """Minimise |matrix x - aim|^2 over x >= least."""
    try:
        from scipy.optimize import nnls  # noqa: PLC0415  it takes longer to import than the rest of slalom

        return np.asarray(least + nnls(matrix, aim - matrix @ least, maxiter=10 * len(least))[0])
    except RuntimeError:  # too many iterations: the clipped free solution is still a useful direction
        return np.asarray(np.linalg.lstsq(matrix, aim)[0].clip(least))
