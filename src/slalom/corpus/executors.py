"""Where jobs are computed: an executor starts workers, and a worker, which holds the model, takes one job after another.

InProcess       this process
Processes       N processes of this machine, of concurrent.futures
RayActors       actors on the machines of a Ray cluster
"""

import glob
import logging
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any, final

from tqdm import tqdm

from slalom.corpus.work import Bench, Job, Setup
from slalom.errors import InputError, one_line, require
from slalom.threads import cores_here


@final
@dataclass(frozen=True, eq=False)
class Worker:
    """Holds the model, and computes one job at a time."""

    loaded: "Future[dict[str, Any]]"  # the description of the model
    submit: "Callable[[Job], Future[list[dict[str, Any]]]]"
    stop: Callable[[], None]  # ends it at once, whatever it does


class Executor(ABC):
    """Starts workers."""

    deaths: tuple[type[BaseException], ...]  # errors of a job that mean that its worker is gone

    @abstractmethod
    def size(self) -> int:
        """Return how many workers may be there now."""

    @abstractmethod
    def start(self, setup: Setup) -> Worker:
        """Start a worker."""

    def close(self) -> None:  # noqa: B027
        """Release everything but the workers."""


@final
class InProcess(Executor):
    """This process, as the only worker: a job is computed when it is submitted; `tick` is called after each text."""

    deaths = (SystemExit,)  # of the model

    def __init__(self, tick: Callable[[], Any]) -> None:
        self._tick = tick

    def size(self) -> int:
        return 1

    def start(self, setup: Setup) -> Worker:
        bench, loaded = Bench(setup), Future[dict[str, Any]]()
        loaded.set_result(bench.describe())

        def submit(job: Job) -> "Future[Any]":
            future = Future[Any]()
            try:
                future.set_result(bench(job, self._tick))
            except SystemExit as error:
                future.set_exception(error)
            return future

        return Worker(loaded, submit, lambda: None)


@final
class Processes(Executor):
    """Processes of this machine, which share its cores; each is a pool of one, so that a death tells which job it had."""

    deaths = (BrokenProcessPool, SystemExit)

    def __init__(self, number: int, cores: int | None = None) -> None:
        self.number, self.cores = number, max(cores_here() // number, 1) if cores is None else cores
        self._started, self._gpus = 0, gpus()

    def size(self) -> int:
        return self.number

    def start(self, setup: Setup) -> Worker:
        environment, content = threads(self.cores), pickled(setup)
        if self.number > 1 and len(self._gpus) > 1:
            environment["CUDA_VISIBLE_DEVICES"] = self._gpus[self._started % len(self._gpus)]
        self._started += 1
        pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _prepare, (environment,))
        is_main = threading.current_thread() is threading.main_thread()  # only it can ignore Ctrl-C
        before = signal.signal(signal.SIGINT, signal.SIG_IGN) if is_main else None
        try:
            loaded = pool.submit(_load, content)  # the process starts here, and inherits that
        finally:
            if is_main:
                signal.signal(signal.SIGINT, before)
        return Worker(loaded, lambda job: pool.submit(_compute, job), lambda: _kill(pool))


def _kill(pool: ProcessPoolExecutor) -> None:
    for process in dict(getattr(pool, "_processes", None) or {}).values():
        process.kill()
    pool.shutdown(wait=True, cancel_futures=True)


@final
class RayActors(Executor):
    """Actors of a Ray cluster, each of which holds the model.

    Ray places the actors, sends them jobs and notices their deaths. An actor is not restarted by Ray, which would wait for a
    machine that may be gone: it is given up, and another one is asked for wherever there is room.

    Args:
        address: "auto" (the cluster of this machine, or RAY_ADDRESS), "local" (a new one, of this machine alone), or host:port.
        limit: Largest number of actors; 0: as many as there is room for.
        cores, gpus: Of each. Default: one GPU where the cluster has any.
    """

    def __init__(self, address: str, limit: int = 0, cores: int = 1, gpus: float | None = None) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        with require("--ray", "ray"):
            import ray as package  # noqa: PLC0415
        ray: Any = package
        self.ray, self.limit, self.cores = ray, limit, cores
        self._began = not ray.is_initialized()
        self._setup: Any = None
        try:
            _reach(address)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                dashboard = False if address == "local" else None
                quiet = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": True}
                ray.init(address=address, ignore_reinit_error=True, include_dashboard=dashboard, **quiet)
        except Exception as error:  # of any kind
            raise InputError(
                f"there must be a Ray cluster at {address!r} ({one_line(error, 120)}); start one with ray start --head, or use"
                " --ray local"
            ) from error
        logging.getLogger("ray").setLevel(logging.ERROR)
        gone = ray.exceptions
        self.deaths = (gone.RayActorError, gone.WorkerCrashedError, gone.NodeDiedError, gone.OutOfMemoryError)
        self.gpus = gpus if gpus is not None else min(float(ray.cluster_resources().get("GPU", 0.0)), 1.0)

    def size(self) -> int:
        there = self.ray.cluster_resources()
        room = int(there.get("CPU", 0.0) // self.cores)
        if self.gpus:
            room = min(room, int(there.get("GPU", 0.0) / self.gpus + 1e-9))
        return max(min(room, self.limit) if self.limit else room, 1)

    def start(self, setup: Setup) -> Worker:
        if self._setup is None:
            self._setup = self.ray.put(setup)
        options = {"num_cpus": self.cores, "num_gpus": self.gpus, "max_restarts": 0, "max_task_retries": 0}
        actor = self.ray.remote(_RayBench).options(**options).remote()
        loaded = actor.load.remote(self._setup, self.cores).future()
        return Worker(loaded, lambda job: actor.compute.remote(job).future(), lambda: self.ray.kill(actor))

    def close(self) -> None:
        if self._began:
            self.ray.shutdown()


class _RayBench:
    """The class of the actors."""

    def load(self, setup: Setup, cores: int) -> dict[str, Any]:
        limit_threads(threads(cores))
        self.bench = Bench(setup)
        return self.bench.describe()

    def compute(self, job: Job) -> Any:
        return self.bench(job)


def _reach(address: str) -> None:
    """Fail at once where nothing listens at host:port; Ray itself tries for most of a minute."""
    host, _, port = address.rpartition(":")
    if host and "/" not in host and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=10.0).close()


def threads(cores: int) -> dict[str, str]:
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "SLALOM_THREADS")
    return {**dict.fromkeys(names, str(cores)), "TOKENIZERS_PARALLELISM": "false"}


def limit_threads(environment: Mapping[str, str]) -> None:
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


def _compute(job: Job) -> Any:
    return _bench[0](job)
