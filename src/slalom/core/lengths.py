"""What the mere length of an input does to the score, whatever the units are.

    F(c) = S(c) + b(l),    l = how many atoms are present,    b ~ GP(0, tau^2 exp(-|l - l'| / reach))

A transformer knows positions: when a text loses three tokens, its last special token moves by three places, and the score moves
with it, by as much as a strong word can do. No unit causes that, so it is no unit's value; left in the data it only blurs them.
b is fitted to what a surrogate leaves over, y - S(c), as a Gaussian process over the lengths. tau and the reach maximise the
evidence; where that is no higher than without b, there is none.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats, read_only
from slalom.core.measures import Beta

_REACHES = (1.0, 3.0, 10.0, 30.0)
_SIZES = np.logspace(-4, 1, 16)  # tau^2, in units of the noise
_MARGIN = 3.0  # nats by which b must beat none


@dataclass(frozen=True, eq=False)
class Lengths:
    """The offsets b (L + 1,) or (L + 1, n_classes) for inputs of 0..L atoms; L is the length of the whole text.

    Between two lengths the offset is the straight line from one to the other.
    """

    offsets: Floats

    def __post_init__(self) -> None:
        """Make the offsets read-only."""
        object.__setattr__(self, "offsets", read_only(np.asarray(self.offsets)))

    def __call__(self, lengths: NDArray[np.int64]) -> Floats:
        """Return the offsets of inputs with these numbers of atoms (m,)."""
        return self.offsets[lengths]

    @property
    def slope(self) -> Floats:
        """The derivative of the offset by the length at the whole text, from below: b(L) - b(L - 1)."""
        return np.asarray(self.offsets[-1] - self.offsets[-2])

    def removal(self, sizes: NDArray[np.int64]) -> Floats:
        """Return b(L) - b(L - size) for units of so many atoms (n,): what the length loses with each."""
        return np.asarray(self.offsets[-1] - self.offsets[len(self.offsets) - 1 - sizes])

    def shapley(self, sizes: NDArray[np.int64]) -> Floats:
        """Return the Shapley values of b(length) for units of so many atoms (n,), which make up the whole text.

            phi_i = int_0^1 dq E[b(T + size_i) - b(T)],    T = atoms of the other units, each present with probability q

        They sum to b(L) - b(0). The distribution of T comes from its characteristic function, one factor per unit, so the
        values are exact to rounding. Units of one size have one value.

        >>> Lengths(np.array([0.0, 1.0, 4.0, 9.0])).shapley(np.array([1, 2])).round(12).tolist()
        [3.0, 6.0]
        """
        b = self.offsets.reshape(len(self.offsets), -1)
        kinds, own, times = np.unique(sizes, return_inverse=True, return_counts=True)
        q, mass = Beta(1.0, 1.0).rule(len(sizes))
        turn = np.exp(-2j * np.pi * np.outer(kinds, np.arange(len(b) // 2 + 1)) / len(b))
        factors = 1.0 - q[:, None, None] + q[:, None, None] * turn  # (q, kind, frequency)
        found = np.empty((len(kinds), b.shape[1]))
        for kind, size in enumerate(kinds):
            others = times - (np.arange(len(kinds)) == kind)
            chances = np.fft.irfft((factors ** others[:, None]).prod(axis=1), n=len(b), axis=1)
            found[kind] = (mass @ chances)[: len(b) - size] @ (b[size:] - b[: len(b) - size])
        return found[own].reshape(len(sizes), *self.offsets.shape[1:])


def fit_lengths(lengths: NDArray[np.int64], residual: Floats, longest: int) -> Lengths | None:
    """Return the offsets that explain a residual (m,) or (m, n_classes) of inputs with `lengths` (m,) atoms, or None.

    >>> l = np.repeat(np.arange(10, 20), 8)
    >>> found = fit_lengths(l, np.sin(l) + 0.01 * np.cos(40 * np.arange(80)), 20)
    >>> bool(np.abs(found(l) - np.sin(l)).max() < 0.02)
    True
    """
    rows = residual.reshape(len(residual), -1)
    levels, own, times = np.unique(lengths, return_inverse=True, return_counts=True)
    spare, outputs = len(rows) - len(levels), rows.shape[1]
    if len(levels) < 3 or spare < len(levels):
        return None
    means = np.stack([np.bincount(own, column) / times for column in rows.T], axis=1)
    noise = float(((rows - means[own]) ** 2).sum() / (spare * outputs))
    if noise <= 1e-12 * float((rows**2).mean() + 1e-300):
        return None
    none = -0.5 * float((times[:, None] * means**2).sum()) / noise + 0.5 * outputs * float(np.log(times).sum())
    best, offsets, root = none + _MARGIN, None, np.sqrt(times)
    every = np.arange(longest + 1)
    for reach in _REACHES:
        # size near + 1 / times = (size values + 1) in the basis of root near root, so one decomposition serves all sizes.
        values, basis = np.linalg.eigh(np.exp(-np.abs(levels[:, None] - levels) / reach) * root[:, None] * root)
        along = basis.T @ (root[:, None] * means)
        grown = np.maximum(values, 0.0) * _SIZES[:, None] + 1.0
        fits = (along**2).sum(axis=1) / grown
        evidence = 0.5 * (outputs * (np.log(times).sum() - np.log(grown).sum(axis=1)) - fits.sum(axis=1) / noise)
        if evidence.max() > best:
            at = int(evidence.argmax())
            far = np.exp(-np.abs(every[:, None] - levels) / reach) * root
            best, offsets = float(evidence[at]), _SIZES[at] * far @ (basis @ (along / grown[at][:, None]))
    return None if offsets is None else Lengths(offsets[:, 0] if residual.ndim == 1 else offsets)
