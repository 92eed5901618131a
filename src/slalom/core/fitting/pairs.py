"""Pairs of units that act together, found in the residuals of a surrogate.

A pair adds g c_i c_j to the score. Given the size of an input, with a share q of its units, the surrogate of single units can
take over all of that but f_ij = (c_i - q) (c_j - q). So g is told by how the residuals e go along f_ij:

    z_ij = sum_k w_k e_k f_ij,k / sqrt(sum_k (w_k e_k f_ij,k)^2)

w is the inverse variance of the residuals of inputs of about that size. The sums for all pairs are three products of matrices.
z is robust: rows need not have equal noise. A pair is kept where its evidence z^2 / 2 exceeds the log of the number of pairs by
a margin, and pairs are taken one at a time, strongest first, each from the residuals that the others leave.

A surrogate with unequal weights takes over more than that, sometimes nearly all: one unit of a pair gets a large weight. How
much is known from its derivatives (`response`). The strongest candidates are judged, and effects and their errors are
estimated, with what a fit would do if the pair were there: these are errors of g with all parameters fitted again.
"""

from functools import cached_property
from typing import NamedTuple, TypeVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtri

from slalom.core.checks import Floats
from slalom.core.fitting._evidence.steps import total
from slalom.core.fitting.response import Response

_MARGIN = 4.0  # nats of evidence beyond the log of the number of pairs
_MOST = 10  # pairs of a text
_BINS = 10  # sizes of inputs with a variance of their own
_LEAST_ROWS = 4  # with both units present, and as many with one absent
_LEAST_UNITS = 4
_LOOKED_AT = 256  # pairs with the strongest evidence, of which pairs are chosen
_CANDIDATES = 32  # pairs that may be stronger than they look, because the surrogate has taken over a part of them


_Coarse = NDArray[np.float32]
_Float = TypeVar("_Float", np.float32, np.float64)


class FoundPairs(NamedTuple):
    """Pairs of units.

    Attributes:
        units: Indices (n_pairs, 2), the first smaller.
        effects: g (n_pairs,) or (n_pairs, n_classes).
        errors: Standard errors of g, of the same shape.
    """

    units: NDArray[np.int64]
    effects: Floats
    errors: Floats

    @property
    def named(self) -> list[tuple[int, int]]:
        """The units as pairs of numbers."""
        return [(int(i), int(j)) for i, j in self.units]

    def chosen(self, which: NDArray[np.bool_]) -> "FoundPairs":
        """Return some of the pairs, those that are true in `which` (n_pairs,)."""
        return FoundPairs(self.units[which], self.effects[which], self.errors[which])

    def predict(self, keep: NDArray[np.bool_]) -> Floats:
        """Return sum g c_i c_j of rows (m, n)."""
        first, second = self.units.T
        return np.asarray((keep[:, first] & keep[:, second]).astype(np.float64) @ self.effects)

    def updated(self, keep: NDArray[np.bool_], residual: Floats, reading: "Reading") -> "FoundPairs":
        """Return the pairs with effects changed by what they find in residuals that were fitted without them."""
        change, errors = reading.effects(keep, residual, self.named, self.effects)
        return FoundPairs(self.units, self.effects + change, errors)


class Reading(NamedTuple):
    """How pairs are read from the residuals of a surrogate.

    Attributes:
        width: Prior standard deviation of the effect of a pair.
        least: Smallest effect that counts: without noise, what the priors shrink looks like tiny pairs.
        weights: Weights (m,) of the rows, in inverse proportion to the noise that they have at one size. None: all alike.
        response: How the surrogate answers to a change of the scores; None: not at all.
    """

    width: float = 1e3
    least: float = 0.0
    weights: Floats | None = None
    response: Response | None = None

    def effects(
        self, keep: NDArray[np.bool_], residual: Floats, pairs: list[tuple[int, int]], before: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Return effects of pairs beyond those `before`, which the residuals do not have, and the errors of their sum."""
        shape = (len(pairs), *residual.shape[1:])
        if self.response is not None and pairs:
            before = np.zeros(shape) if before is None else before
            x = _features(keep.astype(np.float64), pairs)
            found = self.response.slopes(self._pulls(keep, residual, pairs), x, residual, before, self.width)
            if found is not None:
                return found
        change, errors = pair_effects(keep, residual, pairs, self.weights)
        return change.reshape(shape), errors.reshape(shape)

    def passed_on(self, keep: NDArray[np.bool_], pairs: list[tuple[int, int]], effects: Floats) -> Floats:
        """Return what pairs with these effects add to the residuals."""
        if self.response is not None:
            left = self.response.left(_features(keep.astype(np.float64), pairs) @ effects)
            if np.isfinite(left).all():
                return left
        return np.asarray(_features(keep - keep.mean(axis=1, keepdims=True), pairs) @ effects)

    def strength(self, keep: NDArray[np.bool_], residual: Floats, pairs: NDArray[np.int64], evidence: Floats) -> Floats:
        """Return the evidence (k,) for pairs (k, 2), given what it is for a surrogate that takes nothing over."""
        if self.response is None:
            return evidence
        best, raised = np.argsort(-evidence, kind="stable")[:_CANDIDATES], evidence.copy()
        found = self.response.strengths(self._pulls(keep, residual, pairs[best]), residual)
        raised[best] = np.maximum(raised[best], found)
        return raised

    def _pulls(self, keep: NDArray[np.bool_], residual: Floats, pairs: ArrayLike) -> Floats:
        """Return f of each pair, times the precisions of the rows: (m, n_pairs)."""
        share = keep.mean(axis=1)
        precisions = _precisions(share, residual.reshape(len(residual), -1), self.weights)
        return _features(keep - share[:, None], pairs) * precisions[:, None]


_PLAIN = Reading()


def find_pairs(keep: NDArray[np.bool_], residual: Floats, reading: Reading = _PLAIN, most: int = _MOST) -> FoundPairs:
    """Find pairs in the residuals of a surrogate.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> keep = rng.random((400, 12)) < rng.random((400, 1))
        >>> f = (keep - keep.mean(axis=1, keepdims=True)).T
        >>> find_pairs(keep, 2.0 * f[3] * f[7] + 0.1 * rng.normal(size=400)).units.tolist()
        [[3, 7]]
    """
    n, left = keep.shape[1], residual.astype(np.float64)
    chosen, outputs = list[tuple[int, int]](), residual.size // max(len(residual), 1)
    if n >= _LEAST_UNITS and left.any():
        # Every class is tested with its own column; centred scores have one column less than they have classes.
        threshold = chdtri(max(outputs - 1, 1), 2.0 * np.exp(-_MARGIN) / (n * (n - 1)))
        kept = keep.mean(axis=1)
        candidates, allowed = _Candidates(keep - kept[:, None]), None
        while len(chosen) < most and np.isfinite(left).all():
            columns = left.reshape(len(left), outputs)
            strength = candidates.evidence(_precisions(kept, columns, reading.weights), columns)
            if not strength.max() > threshold:  # mostly so at once
                strength = reading.strength(keep, left, candidates.pairs, strength)
            if not strength.max() > threshold:
                break
            allowed = _told_apart(keep, candidates.pairs) if allowed is None else allowed
            strength[~allowed] = 0.0
            best = int(strength.argmax())
            if not strength[best] > threshold:
                break
            allowed[best] = False
            i, j = candidates.pairs[best].tolist()
            trial = [*chosen, (i, j)]
            effects, _ = reading.effects(keep, residual, trial)
            if np.abs(effects[-1]).max() < reading.least:
                break
            chosen, left = trial, residual - reading.passed_on(keep, trial, effects)
    units = np.array(chosen, dtype=np.int64).reshape(-1, 2)
    return FoundPairs(units, *reading.effects(keep, residual, chosen))


def pair_effects(
    keep: NDArray[np.bool_], residual: Floats, pairs: list[tuple[int, int]], weights: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return effects of pairs, fitted together to residuals, and their robust standard errors: (n_pairs, K) each."""
    e = residual.reshape(len(residual), -1)
    if not pairs:
        return np.zeros((0, e.shape[1])), np.zeros((0, e.shape[1]))
    f, w = _features(keep - keep.mean(axis=1, keepdims=True), pairs), _precisions(keep.mean(axis=1), e, weights)
    inverse = np.linalg.pinv((f.T * w) @ f)
    effects = inverse @ (f.T * w) @ e
    left = e - f @ effects
    through = (inverse @ (f.T * w)) ** 2
    return effects, np.sqrt(through @ left**2)


@final
class _Candidates:
    """The pairs that may act together: at first all, then those with the strongest evidence of the first look.

    Args:
        deviation: Presence of units less their share in the row (m, n).

    Attributes:
        pairs: Their units (k, 2), the first smaller.
    """

    def __init__(self, deviation: Floats) -> None:
        self._deviation = deviation.astype(np.float32)  # half the time, and enough to compare with a threshold
        self.pairs = np.zeros((0, 2), dtype=np.int64)

    def evidence(self, w: Floats, e: Floats) -> Floats:
        """Return z^2 of the pairs (k,), summed over the outputs of e (m, K); w (m,) are the precisions."""
        pulls = w[:, None] * e
        pulls = (pulls / np.maximum(np.abs(pulls).max(axis=0), 1e-300)).astype(np.float32)
        if len(self.pairs):
            return np.asarray(total(_squared(pull @ self._features, (pull**2) @ self._squares) for pull in pulls.T))
        whole = np.asarray(total(_squared(*_of_all_pairs(self._deviation, pull)) for pull in pulls.T))
        first, second = np.triu_indices(len(whole), 1)
        strength = whole[first, second]
        best = np.sort(np.argpartition(-strength, min(_LOOKED_AT, len(strength)) - 1)[:_LOOKED_AT])
        self.pairs = np.stack([first[best], second[best]], axis=1)
        return np.asarray(strength[best])

    @cached_property
    def _features(self) -> _Coarse:
        """f of the pairs (m, k)."""
        return _features(self._deviation, self.pairs)

    @cached_property
    def _squares(self) -> _Coarse:
        return self._features**2


def _of_all_pairs(deviation: _Coarse, pull: _Coarse) -> tuple[_Coarse, _Coarse]:
    """Return the sums of pull f and of (pull f)^2 over the rows, of all pairs (n, n)."""
    part, sums = np.sqrt(np.abs(pull))[:, None] * deviation, []
    for rows in (pull > 0.0, pull < 0.0):
        some = part[rows]
        sums.append(some.T @ some)  # numpy computes half of such a product
    root = deviation**2 * np.abs(pull)[:, None]
    return np.asarray(sums[0] - sums[1]), np.asarray(root.T @ root)


def _squared(along: _Coarse, variance: _Coarse) -> Floats:
    """Return z^2 from sums and sums of squares; 0 where nothing varies."""
    return np.asarray(along.astype(np.float64) ** 2 / np.where(variance > 0.0, variance, np.inf))


def _precisions(kept: Floats, e: Floats, weights: Floats | None) -> Floats:
    """Return the inverse variances of residuals (m, K) by the size of the inputs, in bins of equally many rows."""
    order = np.argsort(kept, kind="stable")
    square = (e**2).sum(axis=1)
    if weights is not None:
        square = weights * square
    result = np.empty(len(e))
    floor = 1e-6 * float(square.mean()) + 1e-300
    for rows in np.array_split(order, min(_BINS, max(len(e) // 20, 1))):
        result[rows] = 1.0 / (float(square[rows].mean()) + floor)
    if weights is not None:
        result = weights * result
    return np.asarray(result / result.max())


def _features(deviation: NDArray[_Float], pairs: ArrayLike) -> NDArray[_Float]:
    """Return f of each pair (m, n_pairs)."""
    first, second = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return np.asarray(deviation[:, first] * deviation[:, second])


def _told_apart(keep: NDArray[np.bool_], pairs: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which pairs (k, 2) are in enough rows together, apart and not at all."""
    first, second = (keep[:, unit] for unit in pairs.T)
    both, one, other = ((a & b).sum(axis=0) for a, b in ((first, second), (first, ~second), (~first, second)))
    return np.asarray(np.minimum.reduce([both, one, other, len(keep) - both - one - other]) >= _LEAST_ROWS)
