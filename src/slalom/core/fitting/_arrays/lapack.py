"""Triangular factors on the host."""

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
