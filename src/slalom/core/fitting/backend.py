"""Where the arrays of a fit live: numpy on the CPU, or torch on a CUDA device. The fitting code is the same for both.

numpy and torch spell most operations alike; a `Backend` holds the module and the few that they spell differently.
"""

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any, ParamSpec, TypeVar, final

import numpy as np

from slalom.core.checks import Floats
from slalom.errors import InputError, require

_BLOCKS = 8  # on the diagonal of a triangular matrix that is inverted on a GPU; a power of two
_WORTH_BLOCKS = 128  # rows from which that is quicker than in one piece

P = ParamSpec("P")
R = TypeVar("R")


class Backend(ABC):
    """An array library and a device. `xp` is the module whose functions take its arrays."""

    xp: Any
    failures: tuple[type[Exception], ...] = (ArithmeticError,)  # what is raised where a matrix has no decomposition

    @abstractmethod
    def asarray(self, array: Floats) -> Any:
        """Move a numpy array to the device, as float64."""

    def numbers(self, *given: float) -> Any:
        """Bring a few numbers to the device, as an array, without waiting for it."""
        return self.asarray(np.array(given))

    @abstractmethod
    def numpy(self, array: Any) -> Floats:
        """Bring an array back."""

    def floats(self, array: Any) -> list[float]:
        """Bring a few numbers back."""
        return [float(number) for number in self.numpy(array)]

    @abstractmethod
    def empty(self, *shape: int, coarse: bool) -> Any:
        """Return an array on the device, not yet filled, of float64 or, where coarse, of float32."""

    @abstractmethod
    def cast(self, array: Any, coarse: bool) -> Any:
        """Return an array of the device as float64 or, where coarse, as float32."""

    @abstractmethod
    def whiten(self, matrix: Any) -> tuple[Any, Any]:
        """Return L^-1 of the Cholesky factor L of a matrix, and a number other than 0 where it is not positive definite."""

    @abstractmethod
    def session(self) -> AbstractContextManager[Any]:
        """Return the context in which a fit runs."""

    @abstractmethod
    def fill(self, array: Any, *more: int) -> Any:
        """Return an array of the device with so many zeros more at the end of each side."""

    def recorded(self, work: Callable[P, R]) -> Callable[P, R]:
        """Return a function that does the same work, maybe with less to say to the device (see `recording`)."""
        return work

    def spare(self, rows: int, units: int) -> tuple[int, int]:
        """Return how many rows and units of nothing to fill up with, so that problems of nearly one size are of one."""
        return 0, 0


@final
class NumpyBackend(Backend):
    """numpy and LAPACK on the CPU."""

    xp = np
    failures = (ArithmeticError, np.linalg.LinAlgError)

    def asarray(self, array: Floats) -> Floats:
        """Return the array itself."""
        return array

    def numpy(self, array: Any) -> Floats:
        """Return the array itself."""
        return np.asarray(array, dtype=np.float64)

    def session(self) -> AbstractContextManager[Any]:
        """Keep quiet where a step that is tried leaves the numbers' range: it costs NaN or infinity and is not taken."""
        return np.errstate(over="ignore", invalid="ignore", divide="ignore")

    def empty(self, *shape: int, coarse: bool) -> Any:
        """Allocate."""
        return np.empty(shape, np.float32 if coarse else np.float64)

    def cast(self, array: Any, coarse: bool) -> Any:
        """Copy where the type is another."""
        return array.astype(np.float32 if coarse else np.float64, copy=False)

    def fill(self, array: Any, *more: int) -> Any:
        """Copy where there is something to add."""
        return np.pad(array, [(0, number) for number in more]) if any(more) else array

    def whiten(self, matrix: Floats) -> tuple[Floats, Any]:
        """Factorise by LAPACK, invert by blocks.

        Only numpy's own BLAS is used: scipy brings a second one, and the idle threads of each hold up the other.
        """
        try:
            return _inverse_lower(np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)), np.float64(0.0)
        except np.linalg.LinAlgError:
            return np.full_like(matrix, np.nan), np.float64(1.0)


def _inverse_lower(lower: Floats) -> Floats:
    """Return the inverse of a lower triangular matrix: [[A, 0], [B, C]]^-1 = [[A^-1, 0], [-C^-1 B A^-1, C^-1]]."""
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
        """Take the device that torch calls by this name."""
        import torch  # noqa: PLC0415  (optional, and slow to import)

        self.xp = torch
        self.failures = (ArithmeticError, torch.linalg.LinAlgError)  # type: ignore[attr-defined]
        self.device = torch.device(device)

    @contextmanager
    def session(self) -> Iterator[None]:
        """Switch off the recording of gradients, which slows small operations down, and TF32, which is coarser than float32."""
        matmul = self.xp.backends.cuda.matmul
        name, off = ("fp32_precision", "ieee") if hasattr(matmul, "fp32_precision") else ("allow_tf32", False)
        given = getattr(matmul, name)
        setattr(matmul, name, off)
        try:
            with self.xp.inference_mode():
                yield
        finally:
            setattr(matmul, name, given)

    def asarray(self, array: Floats) -> Any:
        """Copy to the device."""
        return self.xp.tensor(array, dtype=self.xp.float64, device=self.device)

    def numbers(self, *given: float) -> Any:
        """Copy to the device; what it still computes may go on."""
        return self.xp.tensor(given, dtype=self.xp.float64).to(self.device, non_blocking=True)

    def numpy(self, array: Any) -> Floats:
        """Copy to the host."""
        return np.asarray(array.cpu().numpy(), dtype=np.float64)

    def empty(self, *shape: int, coarse: bool) -> Any:
        """Allocate."""
        return self.xp.empty(shape, dtype=self.xp.float32 if coarse else self.xp.float64, device=self.device)

    def cast(self, array: Any, coarse: bool) -> Any:
        """Copy where the type is another."""
        return array.to(self.xp.float32 if coarse else self.xp.float64)

    def fill(self, array: Any, *more: int) -> Any:
        """Copy where there is something to add."""
        ends = [end for number in reversed(more) for end in (0, number)]
        return self.xp.nn.functional.pad(array, ends) if any(more) else array

    def whiten(self, matrix: Any) -> tuple[Any, Any]:
        """Factorise and invert on the device, without waiting for it."""
        factor, failed = self.xp.linalg.cholesky_ex(matrix)
        return self._inverse_lower(factor), failed.to(matrix.dtype)

    def _inverse_lower(self, lower: Any) -> Any:
        """Return the inverse of a lower triangular matrix: blocks on its diagonal all at once, then in pairs, as numpy's."""
        xp, n, parts = self.xp, len(lower), _BLOCKS if len(lower) >= _WORTH_BLOCKS else 1
        size = -(-n // parts)
        eye = xp.eye(size * parts, dtype=lower.dtype, device=lower.device)
        whole = lower
        if len(eye) > n:
            whole = eye.clone()
            whole[:n, :n] = lower
        blocks = whole.view(parts, size, parts, size)
        found = xp.stack([blocks[i, :, i] for i in range(parts)])
        found = xp.linalg.solve_triangular(found, eye[:size, :size].expand_as(found), upper=False)
        while parts > 1:
            parts, size = parts // 2, 2 * size
            blocks = whole.view(parts, size, parts, size)
            below = xp.stack([blocks[i, size // 2 :, i, : size // 2] for i in range(parts)])
            first, second = found[0::2], found[1::2]
            top = xp.cat((first, xp.zeros_like(first)), 2)
            found = xp.cat((top, xp.cat((-second @ (below @ first), second), 2)), 1)
        return found[0, :n, :n].contiguous()

    def recorded(self, work: Callable[P, R]) -> Callable[P, R]:
        """Record the work as a CUDA graph; on a CPU there is nothing to gain."""
        if self.device.type != "cuda":
            return work
        from slalom.core.fitting.recording import recorded  # noqa: PLC0415  (imports torch)

        return recorded(work)

    def spare(self, rows: int, units: int) -> tuple[int, int]:
        """Fill up to 512, 1024, ... rows and to 31, 95, 159, ... units, so that matrices of one more are well aligned."""
        return (-rows % 512, (31 - units) % 64) if self.device.type == "cuda" else (0, 0)


@cache
def _torch(device: str) -> TorchBackend:
    """Return the backend of a device, one and the same for all fits: what is recorded for one serves the next."""
    return TorchBackend(device)


def backend(device: str) -> Backend:
    """Return the backend of a device: "cpu" is numpy, "auto" is CUDA where torch is loaded and sees it, else numpy.

    >>> backend("cpu").xp.__name__
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
        found = _torch(device)
    if not found.xp.cuda.is_available():
        raise InputError(f"device {device!r} was asked for, but torch sees no CUDA device; use device='cpu'")
    return found
