"""Triangular factors by LAPACK, without Python's lock.

scipy's wrappers hold the lock while LAPACK computes, so that threads that factorise wait for each other. Functions that ctypes
calls do not. Their addresses are those that scipy offers to Cython; where they take other integers than expected, its wrappers
are used.
"""

import ctypes
from typing import Any

import numpy as np
from scipy.linalg import cython_lapack, lapack

from slalom.core.checks import Floats


def _function(name: str, flags: int, integers: str) -> Any:
    """Return a function of LAPACK for ctypes; None where scipy's has another signature.

    It takes flags, then the numbers that "i" stands for, and arrays for "a", all by reference.
    """
    capsule, api = cython_lapack.__pyx_capi__[name], ctypes.pythonapi
    signature = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))(capsule)
    if [part.count(b"int *") for part in signature.split(b",")] != [0] * flags + [int(kind == "i") for kind in integers]:
        return None
    address = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
    kinds: dict[str, Any] = {"i": ctypes.POINTER(ctypes.c_int), "a": ctypes.c_void_p}
    arguments = [ctypes.c_char_p] * flags + [kinds[kind] for kind in integers]
    return ctypes.CFUNCTYPE(None, *arguments)(address(capsule, signature))


_POTRF, _TRTRI, _TRTRS = _function("dpotrf", 1, "iaii"), _function("dtrtri", 2, "iaii"), _function("dtrtrs", 3, "iiaiaii")


def cholesky(matrix: Floats) -> Floats | None:
    """Return the lower Cholesky factor of a symmetric matrix (n, n); None where there is none."""
    if _POTRF is None:
        factor, failed = lapack.dpotrf(matrix, lower=True)
        return None if failed else np.asarray(factor)
    lower, size, info = np.array(np.tril(matrix), order="F"), _size(matrix), ctypes.c_int()
    _POTRF(b"L", size, lower.ctypes.data, size, info)
    return None if info.value else lower


def inverse_lower(lower: Floats) -> Floats:
    """Return the inverse of a lower triangular matrix, which must not be singular."""
    if _TRTRI is None:
        return np.asarray(lapack.dtrtri(lower, lower=True)[0])
    inverse, size, info = np.array(lower, order="F"), _size(lower), ctypes.c_int()
    _TRTRI(b"L", b"N", size, inverse.ctypes.data, size, info)
    return inverse


def solve_lower(lower: Floats, right: Floats, transposed: bool = False) -> Floats:
    """Return L^-1 right, or L'^-1 right, of a lower triangular matrix, which must not be singular, and columns (n, k)."""
    if _TRTRS is None:
        return np.asarray(lapack.dtrtrs(lower, right, lower=True, trans=int(transposed))[0])
    solved, factor, info = np.array(right, order="F"), np.asfortranarray(lower), ctypes.c_int()
    size, columns = _size(lower), ctypes.c_int(right.shape[1])
    _TRTRS(b"L", b"T" if transposed else b"N", b"N", size, columns, factor.ctypes.data, size, solved.ctypes.data, size, info)
    return solved


def _size(matrix: Floats) -> ctypes.c_int:
    return ctypes.c_int(len(matrix))
