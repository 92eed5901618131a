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
from functools import cache
from math import ceil, inf
from pathlib import Path
from typing import Any, final

from slalom.forks import renew_after_fork

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
    _LIMIT.count(1)
    try:
        yield
    finally:
        _LIMIT.count(-1)


@contextmanager
def many_blas_threads(large: bool = True) -> Iterator[None]:
    """Leave the blocks of `one_blas_thread` that this thread is in, for large matrices or for a model that is not ours."""
    left = _LIMIT.mine if large else 0
    _LIMIT.count(-left)
    try:
        yield
    finally:
        _LIMIT.count(left)


@final
class _Limit(threading.local):
    """The limit of BLAS, which holds as long as any thread is in a block; each thread counts its own blocks."""

    mine = 0

    def count(self, blocks: int) -> None:
        """Enter (or leave, where it is negative) a number of blocks."""
        self.mine += blocks
        _ALL.count(blocks)


@final
class _All:
    """The blocks of all threads, and the limit of threadpoolctl that is set for them."""

    def __init__(self) -> None:
        self.blocks, self._lock = 0, threading.RLock()
        self._limit: Any = None
        renew_after_fork(self)

    def count(self, blocks: int) -> None:
        """Add to the number of blocks; set the limit for the first, and restore what was before after the last."""
        with self._lock:
            self.blocks += blocks
            if self.blocks > 0 and self._limit is None:
                self._limit = _controller().limit(limits=1, user_api="blas")
            elif self.blocks <= 0 and self._limit is not None:
                _take_control()
                self._limit.restore_original_limits()
                _take_control()
                self._limit = None

    def after_fork(self, held: bool) -> None:
        """Leave the blocks of other threads, which do not exist in a forked process."""
        self.count(_LIMIT.mine - self.blocks)


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController  # noqa: PLC0415  (30 ms)

    return ThreadpoolController()


def _take_control() -> None:
    """Let any thread restore the limits: from 3.8 on threadpoolctl lets only the one that has set them."""
    import threadpoolctl  # noqa: PLC0415

    clear = getattr(getattr(threadpoolctl, "OpenBLASController", None), "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


_LIMIT = _Limit()
_ALL = _All()
