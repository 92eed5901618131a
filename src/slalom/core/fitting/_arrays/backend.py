"""Array backends of the fitters: numpy on the CPU, or torch on a CUDA device. The fitting code is the same for both.

numpy and torch spell most operations alike; a `Backend` holds the module and the few that they spell differently. Beside
these, algorithms use three services: `Backend.compiled` makes a function cheap to call many times, `Backend.scalars` and
`Backend.floats` exchange a few numbers with the device in one transfer, and `shapes.ProblemArrays` moves a problem's arrays.
"""

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import RLock
from typing import Any, ParamSpec, TypeVar, final

import numpy as np

from slalom.core.checks import Floats
from slalom.core.fitting._arrays.lapack import cholesky, inverse_lower
from slalom.errors import InputError, require
from slalom.forks import renew_after_fork

_SMALL = 256  # rows of a matrix that LAPACK inverts faster than blocks do
_BLOCKS = 16  # diagonal blocks of a triangular matrix that is inverted on a GPU; a power of two
_MIN_ROWS_FOR_BLOCKS = 64  # below, one piece is faster

P = ParamSpec("P")
R = TypeVar("R")


def diagonal(matrix: Any) -> Any:
    """Return the diagonal of a contiguous square matrix as a writable view."""
    return matrix.reshape(-1)[:: len(matrix) + 1]


class Backend(ABC):
    """An array library and a device. `xp` is the module whose functions take its arrays."""

    xp: Any
    failures: tuple[type[Exception], ...] = (ArithmeticError,)  # raised where a matrix has no decomposition
    on_host = False  # whether its arrays are numpy arrays

    @abstractmethod
    def asarray(self, array: Floats) -> Any:
        """Copy a numpy array to the device, as float64."""

    def scalars(self, *numbers: float) -> Any:
        """Copy a few numbers to the device, as one array; asynchronous on a GPU."""
        return self.asarray(np.array(numbers))

    @abstractmethod
    def numpy(self, array: Any) -> Floats:
        """Copy an array to the host."""

    def floats(self, array: Any) -> list[float]:
        """Copy a few numbers to the host, in one transfer."""
        return [float(number) for number in self.numpy(array)]

    @abstractmethod
    def empty(self, *shape: int) -> Any:
        """Allocate an array of float64."""

    @abstractmethod
    def as_number(self, condition: Any) -> Any:
        """Convert an array of truth values to 1 and 0."""

    @abstractmethod
    def inverse_cholesky(self, matrix: Any) -> tuple[Any, Any]:
        """Return L^-1 for the Cholesky factor L of a matrix, and a number other than 0 where it is not positive definite."""

    @abstractmethod
    def session(self) -> AbstractContextManager[Any]:
        """Return the context in which a fit runs."""

    @abstractmethod
    def pad(self, array: Any, *more: int) -> Any:
        """Append zeros to an array of the device, `more` of them along each axis."""

    def padding(self, rows: int, units: int) -> tuple[int, int]:
        """Return how many rows and units to append to a problem's arrays so that similar problems have equal shapes."""
        return 0, 0

    def compiled(self, function: Callable[P, R]) -> Callable[P, R]:
        """Return a function that computes the same, with less overhead per call where the device allows it.

        The function takes and returns nested tuples and dataclasses of arrays. It must not transfer to the host, branch on the
        values of arrays or modify its inputs; what is no array in its arguments is taken as constant.
        """
        return function

    def release_memory(self) -> None:
        """Free what compiled functions keep."""
        return


@final
class NumpyBackend(Backend):
    """numpy and LAPACK on the CPU."""

    xp = np
    failures = (ArithmeticError, np.linalg.LinAlgError)
    on_host = True

    def asarray(self, array: Floats) -> Floats:
        return array

    def numpy(self, array: Any) -> Floats:
        return np.asarray(array, dtype=np.float64)

    def session(self) -> AbstractContextManager[Any]:
        return np.errstate(over="ignore", invalid="ignore", divide="ignore")

    def empty(self, *shape: int) -> Any:
        return np.empty(shape)

    def as_number(self, condition: Any) -> Any:
        return condition.astype(np.float64)

    def pad(self, array: Any, *more: int) -> Any:
        return np.pad(array, [(0, number) for number in more]) if any(more) else array

    def inverse_cholesky(self, matrix: Floats) -> tuple[Floats, Any]:
        if len(matrix) <= _SMALL:
            lower = cholesky(matrix.T)
            return (np.full_like(matrix, np.nan), np.float64(1.0)) if lower is None else (inverse_lower(lower), np.float64(0.0))
        try:
            return _inverse_lower(np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)), np.float64(0.0)
        except np.linalg.LinAlgError:
            return np.full_like(matrix, np.nan), np.float64(1.0)


def _inverse_lower(lower: Floats) -> Floats:
    """Invert a lower triangular matrix: [[A, 0], [B, C]]^-1 = [[A^-1, 0], [-C^-1 B A^-1, C^-1]]."""
    n = len(lower)
    if n <= 64:
        return np.asarray(np.linalg.inv(lower), dtype=np.float64)
    h = n // 2
    out = np.zeros_like(lower)
    out[:h, :h] = _inverse_lower(lower[:h, :h])
    out[h:, h:] = _inverse_lower(lower[h:, h:])
    out[h:, :h] = -out[h:, h:] @ (lower[h:, :h] @ out[:h, :h])
    return out


@final
class TorchBackend(Backend):
    """Torch on any device, in float64."""

    def __init__(self, device: str) -> None:
        import torch  # noqa: PLC0415  (optional, and slow to import)

        self.xp = torch
        self.failures = (ArithmeticError, torch.linalg.LinAlgError)  # type: ignore[attr-defined]
        self.device, self._lock = torch.device(device), RLock()
        renew_after_fork(self)

    @contextmanager
    def session(self) -> Iterator[None]:
        matmul = self.xp.backends.cuda.matmul
        name, off = ("fp32_precision", "ieee") if hasattr(matmul, "fp32_precision") else ("allow_tf32", False)
        with self._lock:
            before = getattr(matmul, name)
            setattr(matmul, name, off)
            try:
                with self.xp.inference_mode():
                    yield
            finally:
                setattr(matmul, name, before)

    def asarray(self, array: Floats) -> Any:
        return self.xp.tensor(array, dtype=self.xp.float64, device=self.device)

    def scalars(self, *numbers: float) -> Any:
        return self.xp.tensor(numbers, dtype=self.xp.float64).to(self.device, non_blocking=True)

    def numpy(self, array: Any) -> Floats:
        return np.asarray(array.cpu().numpy(), dtype=np.float64)

    def empty(self, *shape: int) -> Any:
        return self.xp.empty(shape, dtype=self.xp.float64, device=self.device)

    def as_number(self, condition: Any) -> Any:
        return condition.to(self.xp.float64)

    def pad(self, array: Any, *more: int) -> Any:
        ends = [end for number in reversed(more) for end in (0, number)]
        return self.xp.nn.functional.pad(array, ends) if any(more) else array

    def padding(self, rows: int, units: int) -> tuple[int, int]:
        if self.device.type != "cuda":
            return 0, 0
        return -rows % (256 if rows <= 256 else 512), (31 - units) % 64

    def inverse_cholesky(self, matrix: Any) -> tuple[Any, Any]:
        factor, failed = self.xp.linalg.cholesky_ex(matrix)
        return self._inverse_lower(factor), failed.to(matrix.dtype)

    def _inverse_lower(self, lower: Any) -> Any:
        """Invert a lower triangular matrix: all diagonal blocks at once, then joined in pairs as in the numpy version.

        Blocks are views of the matrices, so that a join takes two launches.
        """
        xp, n, parts = self.xp, len(lower), _BLOCKS if len(lower) >= _MIN_ROWS_FOR_BLOCKS else 1
        size, whole = -(-n // parts), lower
        if size * parts > n:
            whole = xp.eye(size * parts, dtype=lower.dtype, device=lower.device)
            whole[:n, :n] = lower
        inverse = xp.zeros(whole.shape, dtype=lower.dtype, device=lower.device)

        def along_diagonal(matrix: Any, row: int, column: int, apart: int) -> Any:
            """Return the blocks (parts, size, size) of which the first begins at (row, column)."""
            down, right = matrix.stride()
            return matrix.as_strided((parts, size, size), (apart * (down + right), down, right), row * down + column * right)

        eye = xp.eye(size, dtype=lower.dtype, device=lower.device).expand(parts, size, size)
        blocks = xp.linalg.solve_triangular(along_diagonal(whole, 0, 0, size), eye, upper=False)
        along_diagonal(inverse, 0, 0, size).copy_(blocks)
        while parts > 1:
            parts //= 2
            first, second = (along_diagonal(inverse, start, start, 2 * size) for start in (0, size))
            below = along_diagonal(whole, size, 0, 2 * size) @ first
            along_diagonal(inverse, size, 0, 2 * size).baddbmm_(second, below, beta=0.0, alpha=-1.0)
            size *= 2
        return inverse[:n, :n].contiguous()

    def compiled(self, function: Callable[P, R]) -> Callable[P, R]:
        if self.device.type != "cuda":
            return function
        from slalom.core.fitting._arrays.graphs import captured  # noqa: PLC0415  (imports torch)

        return captured(function)

    def release_memory(self) -> None:
        from slalom.core.fitting._arrays.graphs import release  # noqa: PLC0415  (imports torch)

        on_gpu = self.device.type == "cuda"
        if on_gpu:
            self.xp.cuda.synchronize(self.device)  # a replay may still use the memory
        release()
        if on_gpu:
            self.xp.cuda.empty_cache()


_TORCH: dict[str, TorchBackend] = {}  # one per device: CUDA graphs are cached by their backend, among others


def _torch(device: str) -> TorchBackend:
    if device not in _TORCH:
        _TORCH[device] = TorchBackend(device)
    return _TORCH[device]


def backend_for(device: str) -> Backend:
    """Return the backend of a device: "cpu" is numpy, "auto" is CUDA where torch is loaded and sees it, else numpy.

    >>> backend_for("cpu").xp.__name__
    'numpy'
    """
    if device == "cpu":
        return NumpyBackend()
    if device == "auto":
        torch = sys.modules.get("torch")
        return _torch("cuda") if torch is not None and torch.cuda.is_available() else NumpyBackend()
    if not re.fullmatch(r"cuda(:\d+)?", str(device)):
        raise InputError(f"device must be 'auto', 'cpu' or 'cuda' (or 'cuda:1', ...); got {device!r}")
    with require(f"device {device!r}", "torch"):
        backend = _torch(device)
    if not backend.xp.cuda.is_available():
        raise InputError(f"device {device!r} is not available: torch finds no CUDA device; use device='cpu'")
    return backend


def release_memory() -> None:
    """Free the GPU memory that fits keep for the next one.

    Fits on a GPU keep CUDA graphs and their buffers, up to about 1 GiB per device, because the next fit of a similar size is
    then several times faster. After this call that fit captures its graphs again. Without a GPU there is nothing to free.

    Example:
        >>> from slalom.core.fitting import release_memory
        >>> release_memory()
    """
    for backend in list(_TORCH.values()):
        backend.release_memory()
