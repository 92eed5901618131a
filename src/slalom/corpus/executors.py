"""Where jobs are computed: an executor starts workers, and a worker, which holds the model, takes one job after another.

InProcess       this process
Processes       N processes of this machine, of concurrent.futures
RayActors       actors on the machines of a Ray cluster (`slalom.corpus.cluster`)
"""

import glob
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from typing import Any, final

from tqdm import tqdm

from slalom.corpus.work import Bench, Finished, Job, Setup
from slalom.errors import InputError, one_line
from slalom.threads import cores_here


class Worker(ABC):
    """Holds the model, and computes one job at a time."""

    @abstractmethod
    def load(self) -> "Future[dict[str, Any]]":
        """Load the model, and return its description."""

    @abstractmethod
    def submit(self, job: Job) -> "Future[Finished]":
        """Start to compute a job."""

    @abstractmethod
    def stop(self) -> None:
        """End the worker at once, whatever it does."""


class Executor(ABC):
    """Starts workers."""

    @abstractmethod
    def size(self) -> int:
        """Return how many workers may be there now."""

    @abstractmethod
    def start(self, setup: Setup) -> Worker:
        """Start a worker."""

    @abstractmethod
    def died(self, error: BaseException) -> bool:
        """Return whether an error of a job means that its worker is gone."""

    def cause(self, error: BaseException) -> BaseException:
        """Return the error as it was raised in the worker."""
        return error

    def close(self) -> None:  # noqa: B027
        """Release everything but the workers."""


@final
class InProcess(Executor):
    """This process: a job is computed when it is submitted.

    Args:
        tick: Called after each text.
    """

    def __init__(self, tick: Callable[[], None]) -> None:
        self.tick = tick

    def size(self) -> int:
        return 1

    def start(self, setup: Setup) -> Worker:
        return _Here(setup, self.tick)

    def died(self, error: BaseException) -> bool:
        return isinstance(error, SystemExit)


@final
class _Here(Worker):
    def __init__(self, setup: Setup, tick: Callable[[], None]) -> None:
        self.bench, self.tick = Bench(setup), tick

    def load(self) -> "Future[dict[str, Any]]":
        future: Future[dict[str, Any]] = Future()
        future.set_result(self.bench.describe())
        return future

    def submit(self, job: Job) -> "Future[Finished]":
        future: Future[Finished] = Future()
        try:
            future.set_result(self.bench(job, self.tick))
        except SystemExit as error:  # of the model
            future.set_exception(error)
        return future

    def stop(self) -> None:
        """The process goes on."""


@final
class Processes(Executor):
    """Processes of this machine. Every worker is a pool of one, so that a death tells which job was under way.

    Args:
        number: How many.
        cores: Threads of each. Default: they share the cores of this machine.
    """

    def __init__(self, number: int, cores: int | None = None) -> None:
        self.number, self.cores = number, max(cores_here() // number, 1) if cores is None else cores
        self._started, self._gpus = 0, gpus()

    def size(self) -> int:
        return self.number

    def start(self, setup: Setup) -> Worker:
        environment = threads(self.cores)
        if self.number > 1 and len(self._gpus) > 1:
            environment["CUDA_VISIBLE_DEVICES"] = self._gpus[self._started % len(self._gpus)]
        self._started += 1
        return _Process(pickled(setup), environment)

    def died(self, error: BaseException) -> bool:
        return isinstance(error, BrokenProcessPool | SystemExit)


@final
class _Process(Worker):
    def __init__(self, setup: bytes, environment: dict[str, str]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pool, self.setup = ProcessPoolExecutor(1, context, _prepare, (environment,)), setup

    def load(self) -> "Future[dict[str, Any]]":
        if threading.current_thread() is not threading.main_thread():  # only the main thread can ignore Ctrl-C
            return self.pool.submit(_load, self.setup)
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process starts here, and inherits it
        try:
            return self.pool.submit(_load, self.setup)
        finally:
            signal.signal(signal.SIGINT, before)

    def submit(self, job: Job) -> "Future[Finished]":
        return self.pool.submit(_compute, job)

    def stop(self) -> None:
        processes: Mapping[int, Any] = dict(getattr(self.pool, "_processes", None) or {})
        for process in processes.values():
            process.kill()
        self.pool.shutdown(wait=True, cancel_futures=True)


def threads(cores: int) -> dict[str, str]:
    """Return the environment of a worker that may use so many cores."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "SLALOM_THREADS")
    return {**dict.fromkeys(names, str(cores)), "TOKENIZERS_PARALLELISM": "false"}


def limit_threads(environment: Mapping[str, str]) -> None:
    """Set the environment of a worker, and the threads of what is loaded already."""
    os.environ.update(environment)
    from threadpoolctl import threadpool_limits  # noqa: PLC0415

    threadpool_limits(int(environment["OMP_NUM_THREADS"]))


def gpus() -> list[str]:
    """Return the numbers of the GPUs of this machine that may be used, without loading a library for it."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name for name in visible.split(",") if name.strip()]
    return [str(i) for i in range(len(glob.glob("/proc/driver/nvidia/gpus/*")))]


def pickled(setup: Setup) -> bytes:
    """Return a setup as bytes for another process."""
    try:
        return pickle.dumps(setup)
    except Exception as error:  # of any kind
        raise InputError(
            "the explainer must be picklable for other processes; pass a function of a module that makes it"
            f" ({one_line(error)})"
        ) from error


_bench: list[Bench] = []  # of a worker process


def _prepare(environment: dict[str, str]) -> None:
    """Prepare a worker process: few threads, no Ctrl-C of its own, and an end with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    limit_threads(environment)
    warnings.simplefilter("default", UserWarning)
    warnings.showwarning = lambda message, *_, **__: print(f"warning: {one_line(message)}", file=sys.stderr)
    tqdm.set_lock(threading.RLock())  # its own is a semaphore, which a killed process leaves behind
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: Any) -> None:
    wait([sentinel])
    os._exit(1)


def _load(setup: bytes) -> dict[str, Any]:
    _bench[:] = [Bench(pickle.loads(setup))]
    return _bench[0].describe()


def _compute(job: Job) -> Finished:
    return _bench[0](job)
