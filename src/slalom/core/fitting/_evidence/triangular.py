"""Triangular factors."""

import numpy as np
from scipy.linalg import lapack

from slalom.core.checks import Floats


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
    lower = cholesky(matrix.T)
    return (np.full_like(matrix, np.nan), 1.0) if lower is None else (inverse_lower(lower), 0.0)


def diagonal(matrix: Floats) -> Floats:
    """Return the diagonal of a contiguous square matrix as a writable view."""
    return matrix.reshape(-1)[:: len(matrix) + 1]
