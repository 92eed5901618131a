"""How many threads to use: the cores of this process, and one BLAS thread where matrices are small.

BLAS divides each product among all cores, and its threads wait for each other in a loop. On small matrices that brings little,
and where a core is busy with something else (another process, a container with fewer cores than its machine) the others spend
their time waiting: fits of `joint` took six times as much processor time on a busy machine of two cores as with one thread, and
on 16 cores an explanation took three times as long.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from math import ceil, inf
from pathlib import Path
from typing import Any, final

LONG_FIT = 1.5  # seconds of one core, from which a fit has all BLAS threads for itself; they save a third of its time and more
_GROUPS = Path("/sys/fs/cgroup")  # where Linux says what a container may use


def cores_here() -> int:
    """Return how many cores this process may use: those of the machine, or as many as its container is given.

    Example:
        >>> cores_here() >= 1
        True
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(ceil(min(float(cores), _quota(_GROUPS))), 1)


def threads_here() -> int:
    """Return how many threads compute at the same time: SLALOM_THREADS where it is set, else one per core.

    Example:
        >>> threads_here() >= 1
        True
    """
    wanted = os.environ.get("SLALOM_THREADS", "")
    return max(int(wanted), 1) if wanted.isdecimal() else cores_here()


def _quota(groups: Path) -> float:
    """Return the cores that control groups of version 2 or 1 allow; infinity where they do not limit them."""
    for files in (["cpu.max"], ["cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"]):
        with suppress(OSError, ValueError, ZeroDivisionError):
            quota, period = " ".join((groups / file).read_text() for file in files).split()
            return int(quota) / int(period) if int(quota) > 0 else inf
    return inf


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let BLAS use one thread in a block, in all threads of the process.

    Example:
        >>> import numpy as np
        >>> with one_blas_thread():
        ...     print(np.linalg.inv(2.0 * np.eye(2))[0, 0])
        0.5
    """
    _LIMIT.enter()
    _HERE.blocks = blocks_here() + 1
    try:
        yield
    finally:
        _HERE.blocks -= 1
        _LIMIT.leave()


@contextmanager
def many_blas_threads(large: bool = True) -> Iterator[None]:
    """Leave the blocks of `one_blas_thread` that this thread is in, for large matrices or for a model that is not ours.

    Args:
        large: Whether matrices are large; otherwise nothing changes.

    Example:
        >>> with one_blas_thread(), many_blas_threads():
        ...     print(blocks_here())
        0
    """
    left = blocks_here() if large else 0
    for _ in range(left):
        _LIMIT.leave()
    _HERE.blocks = blocks_here() - left
    try:
        yield
    finally:
        _HERE.blocks += left
        for _ in range(left):
            _LIMIT.enter()


def blocks_here() -> int:
    """Return how many blocks of `one_blas_thread` this thread is in.

    Example:
        >>> blocks_here()
        0
    """
    return getattr(_HERE, "blocks", 0)


@final
class _Limit:
    """The limit, which holds from the first block that begins to the last one that ends: threads of a server overlap."""

    def __init__(self) -> None:
        self._lock, self._blocks, self._before = threading.Lock(), 0, list[tuple[Any, int]]()

    @cached_property
    def _libraries(self) -> list[Any]:
        """What is loaded, numpy's among it, and has one limit for the whole process; with OpenMP each thread has its own."""
        import threadpoolctl  # noqa: PLC0415  (30 ms)

        loaded = threadpoolctl.ThreadpoolController().lib_controllers
        return [lib for lib in loaded if lib.user_api == "blas" and getattr(lib, "threading_layer", "") != "openmp"]

    def enter(self) -> None:
        with self._lock:
            if not self._blocks:
                self._before = [(library, library.num_threads) for library in self._libraries]
                for library in self._libraries:
                    library.set_num_threads(1)
            self._blocks += 1

    def leave(self) -> None:
        with self._lock:
            self._blocks -= 1
            if not self._blocks:
                _take_control()
                for library, number in self._before:
                    library.set_num_threads(number)
                _take_control()


def _take_control() -> None:
    """Let any thread set limits: from 3.8 on threadpoolctl lets only the first one undo what it has set."""
    import threadpoolctl  # noqa: PLC0415

    clear = getattr(getattr(threadpoolctl, "OpenBLASController", None), "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


_LIMIT = _Limit()
_HERE = threading.local()
