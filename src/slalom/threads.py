"""How many threads to use: the cores of this process, and one BLAS thread where matrices are small.

BLAS divides each product among all cores, and its threads wait for each other in a loop. On small matrices that brings little,
and where a core is busy with something else (another process, a container with fewer cores than its machine) the others spend
their time waiting: fits of `joint` took six times as much processor time on a busy machine of two cores as with one thread, and
on 16 cores an explanation took three times as long.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from math import ceil, inf
from pathlib import Path
from typing import Any, final
from weakref import WeakSet

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
    block = _Block()
    try:
        _HERE.blocks.add(block)
        _LIMIT.change(_LIMIT.blocks.add, [block])
        yield
    finally:
        _LIMIT.change(_LIMIT.blocks.discard, [block])


@contextmanager
def many_blas_threads(large: bool = True) -> Iterator[None]:
    """Leave the blocks of `one_blas_thread` that this thread is in, for large matrices or for a model that is not ours.

    Example:
        >>> with one_blas_thread(), many_blas_threads():
        ...     print(blocks_here())
        0
    """
    left = [block for block in _HERE.blocks if large and block in _LIMIT.blocks]
    try:
        _LIMIT.change(_LIMIT.blocks.discard, left)
        yield
    finally:
        _LIMIT.change(_LIMIT.blocks.add, left)


def blocks_here() -> int:
    """Return how many blocks of `one_blas_thread` this thread is in.

    Example:
        >>> blocks_here()
        0
    """
    return sum(block in _LIMIT.blocks for block in _HERE.blocks)


@final
class _Block:
    """A block of `one_blas_thread`; it exists as long as its function runs, and ends with it in any case."""

    def __del__(self) -> None:
        with suppress(Exception):  # the interpreter may be about to end
            if self in _LIMIT.blocks or (_LIMIT.limits and not len(_LIMIT.blocks)):
                _LIMIT.change(_LIMIT.blocks.discard, [self])


@final
class _Here(threading.local):
    """The blocks that this thread is in."""

    def __init__(self) -> None:
        self.blocks: WeakSet[_Block] = WeakSet()


@final
class _Limit:
    """The limit, which holds as long as there are blocks: threads of a server overlap.

    Ctrl-C may come at any moment: what was begun is done again by the next change, with the numbers of threads that were noted
    before the first one.
    """

    def __init__(self) -> None:
        self.blocks: WeakSet[_Block] = WeakSet()
        self._lock, self._before = threading.RLock(), list[tuple[Any, int]]()
        renew_after_fork(self)

    def after_fork(self, held: bool) -> None:
        """Leave the blocks of other threads, which do not exist in a forked process."""
        if held or self.limits or len(self.blocks):
            self.blocks = WeakSet(block for block in _HERE.blocks if block in self.blocks)
            self.change(self.blocks.add, [])

    @cached_property
    def _libraries(self) -> list[Any]:
        """What is loaded, numpy's among it, and has one limit for the whole process; with OpenMP each thread has its own."""
        import threadpoolctl  # noqa: PLC0415  (30 ms)

        loaded = threadpoolctl.ThreadpoolController().lib_controllers
        return [lib for lib in loaded if lib.user_api == "blas" and getattr(lib, "threading_layer", "") != "openmp"]

    @property
    def limits(self) -> bool:
        """Whether numbers of threads are changed."""
        return bool(self._before)

    def change(self, change: Callable[[_Block], None], blocks: list[_Block]) -> None:
        """Add or discard blocks, and set the number of threads; also where Ctrl-C comes meanwhile."""
        try:
            self._change(change, blocks)
        except KeyboardInterrupt:
            self._change(change, blocks)
            raise

    def _change(self, change: Callable[[_Block], None], blocks: list[_Block]) -> None:
        with self._lock:
            for block in blocks:
                change(block)
            if len(self.blocks):
                self._before = self._before or [(library, library.num_threads) for library in self._libraries]
                for library, _ in self._before:
                    library.set_num_threads(1)
            elif self._before:
                _take_control()
                for library, number in self._before:
                    library.set_num_threads(number)
                _take_control()
                self._before = []


def _take_control() -> None:
    """Let any thread set limits: from 3.8 on threadpoolctl lets only the first one undo what it has set."""
    import threadpoolctl  # noqa: PLC0415

    clear = getattr(getattr(threadpoolctl, "OpenBLASController", None), "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


_LIMIT = _Limit()
_HERE = _Here()
