"""Triangular factors."""

import numpy as np
from scipy.linalg import lapack

from slalom.core.checks import Floats

_SMALL = 256  # rows of a matrix that LAPACK inverts faster than products of blocks do


def cholesky(matrix: Floats) -> Floats | None:
    """Return the lower Cholesky factor of a symmetric matrix (n, n); None where there is none."""
    factor, failed = lapack.dpotrf(matrix, lower=True)
    return None if failed else np.asarray(factor)


def inverse_lower(lower: Floats) -> Floats:
    """Return the inverse of a lower triangular matrix, which must not be singular."""
    return np.asarray(lapack.dtrtri(lower, lower=True)[0])


def solve_lower(lower: Floats, right: Floats, transposed: bool = False) -> Floats:
    """Return L^-1 right, or L'^-1 right, of a lower triangular matrix, which must not be singular, and columns (n, k)."""
    return np.asarray(lapack.dtrtrs(lower, right, lower=True, trans=int(transposed))[0])


def inverse_cholesky(matrix: Floats) -> tuple[Floats, float]:
    """Return L^-1 for the Cholesky factor L of a matrix, and 1 where it is not positive definite, else 0."""
    if len(matrix) <= _SMALL:
        lower = cholesky(matrix.T)
        return (np.full_like(matrix, np.nan), 1.0) if lower is None else (inverse_lower(lower), 0.0)
    try:
        return _inverse_by_blocks(np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)), 0.0
    except np.linalg.LinAlgError:
        return np.full_like(matrix, np.nan), 1.0


def _inverse_by_blocks(lower: Floats) -> Floats:
    """Invert a lower triangular matrix: [[A, 0], [B, C]]^-1 = [[A^-1, 0], [-C^-1 B A^-1, C^-1]]."""
    n, h = len(lower), len(lower) // 2
    if n <= 64:
        return np.asarray(np.linalg.inv(lower), dtype=np.float64)
    out = np.zeros_like(lower)
    out[:h, :h], out[h:, h:] = _inverse_by_blocks(lower[:h, :h]), _inverse_by_blocks(lower[h:, h:])
    out[h:, :h] = -out[h:, h:] @ (lower[h:, :h] @ out[:h, :h])
    return out


def diagonal(matrix: Floats) -> Floats:
    """Return the diagonal of a contiguous square matrix as a writable view."""
    return matrix.reshape(-1)[:: len(matrix) + 1]
