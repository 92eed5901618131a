"""The effect of the input length on the score, independent of the units.

    F(c) = S(c) + b(l),    l = number of atoms present,    b ~ GP(0, tau^2 exp(-|l - l'| / reach))

A transformer has positions: when a text loses three tokens, its last special token moves by three places, which can change
the score by as much as a strong word. No unit causes that, so it should be part of no value. b is fitted to the residual of a
surrogate, y - S(c), as a Gaussian process over the lengths. tau and the reach maximise the evidence; where that is not clearly
higher than without b, there is no b.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats, freeze, read_only
from slalom.core.measures import Beta, Measure

_REACHES = (1.0, 3.0, 10.0, 30.0)
_VARIANCES = np.logspace(-4, 1, 16)  # tau^2, in units of the noise
_MARGIN = 3.0  # nats of evidence that b must add


@dataclass(frozen=True, eq=False)
class Lengths:
    """Offsets of the score by the length of the input.

    Args:
        offsets: b (L + 1,) or (L + 1, n_classes), for inputs of 0, 1, ..., L atoms; L is the length of the whole text. Between
            two lengths the offset is linear.
        slope_se: Standard error of b(L - 1), and so of `slope`: the whole text is always the same query, what differs from
            one set of queries to the next is the rest. The same for all classes; None: unknown. Files do not keep it.

    Example:
        >>> Lengths(np.array([0.0, 1.0, 4.0]))(np.array([2, 0])).tolist()
        [4.0, 0.0]
    """

    offsets: Floats
    slope_se: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "offsets", read_only(np.asarray(self.offsets)))

    def __setstate__(self, state: dict[str, Floats]) -> None:
        vars(self).update(state)
        freeze(self)

    def __call__(self, lengths: NDArray[np.int64]) -> Floats:
        """Return the offsets of inputs."""
        return self.offsets[lengths]

    @property
    def slope(self) -> Floats:
        """The left derivative of the offset at the whole text: b(L) - b(L - 1), () or (n_classes,)."""
        return np.asarray(self.offsets[-1] - self.offsets[-2])

    def plus(self, other: "Lengths | None") -> "Lengths":
        """Return the sum of these offsets and others."""
        return self if other is None else Lengths(self.offsets + other.offsets)

    def removal(self, sizes: NDArray[np.int64]) -> Floats:
        """Return b(L) - b(L - size), the effect of removing one unit.

        Args:
            sizes: Number of atoms in each unit (n,).

        Returns:
            (n,) or (n, n_classes).
        """
        return np.asarray(self.offsets[-1] - self.offsets[len(self.offsets) - 1 - sizes])

    def shapley(self, sizes: NDArray[np.int64]) -> Floats:
        """Return the Shapley values of b(length), which sum to b(L) - b(0).

        Example:
            >>> Lengths(np.array([0.0, 1.0, 4.0, 9.0])).shapley(np.array([1, 2])).round(12).tolist()
            [3.0, 6.0]
        """
        return self.semivalue(Beta(1.0, 1.0), sizes)

    def semivalue(self, measure: Measure, sizes: NDArray[np.int64]) -> Floats:
        """Return the semivalues of b(length) for a measure that is not all at q = 1.

            phi_i = int dmu(q) E[b(T + size_i) - b(T)],    T = atoms of the other units, each present with probability q

        The distribution of T comes from its characteristic function, one factor per unit, so the values are exact to rounding.

        Args:
            measure: The distribution of q.
            sizes: Number of atoms in each unit (n,); they sum to L.

        Returns:
            (n,) or (n, n_classes).
        """
        b = self.offsets.reshape(len(self.offsets), -1)
        distinct, index, times = np.unique(sizes, return_inverse=True, return_counts=True)
        q, mass = measure.rule(len(sizes))
        phase = np.exp(-2j * np.pi * np.outer(distinct, np.arange(len(b) // 2 + 1)) / len(b))
        factors = 1.0 - q[:, None, None] + q[:, None, None] * phase  # (q, distinct size, frequency)
        phi = np.empty((len(distinct), b.shape[1]))
        for k, size in enumerate(distinct):
            others = times - (np.arange(len(distinct)) == k)
            chances = np.fft.irfft((factors ** others[:, None]).prod(axis=1), n=len(b), axis=1)
            phi[k] = (mass @ chances)[: len(b) - size] @ (b[size:] - b[: len(b) - size])
        return phi[index].reshape(len(sizes), *self.offsets.shape[1:])


def fit_lengths(lengths: NDArray[np.int64], residual: Floats, longest: int, weights: Floats | None = None) -> Lengths | None:
    """Fit length offsets to the residual of a surrogate.

    Args:
        lengths: Number of atoms in each input (m,).
        residual: What the surrogate leaves unexplained, (m,) or (m, n_classes).
        longest: Length L of the whole text.
        weights: Weights (m,) of the rows, above 0, in inverse proportion to their noise. Default: all alike.

    Returns:
        The offsets; None where the data do not support any, or are too few to tell.

    Example:
        >>> l = np.repeat(np.arange(10, 20), 8)
        >>> offsets = fit_lengths(l, np.sin(l) + 0.01 * np.cos(40 * np.arange(80)), 20)
        >>> bool(np.abs(offsets(l) - np.sin(l)).max() < 0.02)
        True
    """
    rows = residual.reshape(len(residual), -1)
    levels, index, times = np.unique(lengths, return_inverse=True, return_counts=True)
    spare, outputs = len(rows) - len(levels), rows.shape[1]
    if len(levels) < 3 or spare < len(levels):
        return None
    if weights is None:
        means = np.stack([np.bincount(index, column) / times for column in rows.T], axis=1)
        noise = float(((rows - means[index]) ** 2).sum() / (spare * outputs))
    else:
        share = weights / weights.mean()
        times = np.bincount(index, share)
        means = np.stack([np.bincount(index, share * column) / times for column in rows.T], axis=1)
        noise = float((share[:, None] * (rows - means[index]) ** 2).sum() / (spare * outputs))
    if noise <= 1e-12 * float((rows**2).mean() + 1e-300):
        return None
    without = -0.5 * float((times[:, None] * means**2).sum()) / noise + 0.5 * outputs * float(np.log(times).sum())
    best, offsets, slope_se, root = without + _MARGIN, None, 0.0, np.sqrt(times)
    all_lengths = np.arange(longest + 1)
    for reach in _REACHES:
        # One eigendecomposition of the kernel, weighted by sqrt(times), serves all variances.
        values, basis = np.linalg.eigh(np.exp(-np.abs(levels[:, None] - levels) / reach) * root[:, None] * root)
        along = basis.T @ (root[:, None] * means)
        scale = np.maximum(values, 0.0) * _VARIANCES[:, None] + 1.0
        misfit = (along**2).sum(axis=1) / scale
        evidence = 0.5 * (outputs * (np.log(times).sum() - np.log(scale).sum(axis=1)) - misfit.sum(axis=1) / noise)
        if evidence.max() > best:
            k = int(evidence.argmax())
            cross = np.exp(-np.abs(all_lengths[:, None] - levels) / reach) * root
            best, offsets = float(evidence[k]), _VARIANCES[k] * cross @ (basis @ (along / scale[k][:, None]))
            known = _VARIANCES[k] * float((cross[max(longest - 1, 0)] @ basis) ** 2 @ (1.0 / scale[k]))
            slope_se = float(np.sqrt(noise * _VARIANCES[k] * max(1.0 - known, 0.0)))
    return None if offsets is None else Lengths(offsets[:, 0] if residual.ndim == 1 else offsets, slope_se)
