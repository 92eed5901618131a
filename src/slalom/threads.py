"""How many threads to use: the cores of this process, and one BLAS thread where matrices are small.

BLAS divides each product among all cores, and its threads wait for each other in a loop. On small matrices that brings little,
and where a core is busy with something else (another process, a container with fewer cores than its machine) the others spend
their time waiting: fits of `joint` took six times as much processor time on a busy machine of two cores as with one thread, and
on 16 cores an explanation took three times as long.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from math import ceil
from pathlib import Path
from threading import RLock
from typing import Any

from slalom.forks import wait_before_fork

_LIMIT_FILE = Path("/sys/fs/cgroup/cpu.max")  # where Linux says what a container may use
_LOCK = RLock()
_blocks = 0  # of one_blas_thread, in all threads
_limit: Any = None
wait_before_fork(_LOCK)


def cores_here() -> int:
    """Return how many cores this process may use: those of the machine, or as many as its container is given."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError, ZeroDivisionError):  # no such file, or "max"
        quota, period = map(int, _LIMIT_FILE.read_text().split())
        return max(min(cores, ceil(quota / period)), 1)
    return cores


def threads_here() -> int:
    """Return how many threads compute at the same time: SLALOM_THREADS where it is set, else one per core."""
    wanted = os.environ.get("SLALOM_THREADS", "")
    return max(int(wanted), 1) if wanted.isdecimal() else cores_here()


@contextmanager
def one_blas_thread(small: bool = True) -> Iterator[None]:
    """Let BLAS use one thread in all threads of the process, as long as one of them is in a block for small matrices."""
    _count(int(small))
    try:
        yield
    finally:
        _count(-int(small))


def _count(blocks: int) -> None:
    """Set the limit for the first block; after the last, restore what was before, from whatever thread."""
    global _blocks, _limit  # noqa: PLW0603
    with _LOCK:
        _blocks += blocks
        if _blocks and _limit is None:
            _limit = _controller().limit(limits=1, user_api="blas")
        elif not _blocks and _limit is not None:
            _take_control()
            _limit.restore_original_limits()
            _take_control()
            _limit = None


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
