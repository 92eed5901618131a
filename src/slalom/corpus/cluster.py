"""A Ray cluster as an executor: one actor per GPU or per few cores, each of which holds the model and writes its parts.

Ray places the actors, sends them jobs and notices their deaths. An actor is not restarted by Ray, which would wait for a
machine that may be gone: it is given up, and another one is asked for wherever there is room.
"""

import logging
import os
import socket
import warnings
from concurrent.futures import Future
from typing import Any, final

from slalom.corpus.executors import Executor, Worker, limit_threads, threads
from slalom.corpus.work import Bench, Finished, Job, Setup
from slalom.errors import InputError, one_line, require


@final
class RayActors(Executor):
    """Actors of a Ray cluster.

    Args:
        address: "auto" (the cluster of this machine, or RAY_ADDRESS), "local" (a new one, of this machine alone), or host:port.
        most: Largest number of actors; 0: as many as there is room for.
        cores: Cores of each.
        gpus: GPUs of each. Default: one where the cluster has any.

    Raises:
        InputError: There is no such cluster.
        MissingExtra: ray is not installed.
    """

    def __init__(self, address: str, most: int = 0, cores: int = 1, gpus: float | None = None) -> None:
        _reach(address)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        with require("--ray", "ray"):
            import ray as package  # noqa: PLC0415
        ray: Any = package
        self.ray, self.most, self.cores = ray, most, cores
        self._began = not ray.is_initialized()
        self._sent: Any = None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ray.init(
                    address=address,
                    ignore_reinit_error=True,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    configure_logging=True,
                    include_dashboard=False if address == "local" else None,
                )
        except Exception as error:  # of any kind
            raise _no_cluster(address, error) from error
        logging.getLogger("ray").setLevel(logging.ERROR)
        self.gpus = gpus if gpus is not None else min(float(ray.cluster_resources().get("GPU", 0.0)), 1.0)

    def size(self) -> int:
        there = self.ray.cluster_resources()
        room = int(there.get("CPU", 0.0) // self.cores)
        if self.gpus:
            room = min(room, int(there.get("GPU", 0.0) / self.gpus + 1e-9))
        return max(min(room, self.most) if self.most else room, 1)

    def start(self, setup: Setup) -> Worker:
        if self._sent is None:
            self._sent = self.ray.put(setup)
        return _Actor(self.ray, self._sent, self.cores, self.gpus)

    def died(self, error: BaseException) -> bool:
        gone = self.ray.exceptions
        return isinstance(error, (gone.RayActorError, gone.WorkerCrashedError, gone.NodeDiedError, gone.OutOfMemoryError))

    def cause(self, error: BaseException) -> BaseException:
        return getattr(error, "cause", None) or error

    def close(self) -> None:
        if self._began:
            self.ray.shutdown()


@final
class _Actor(Worker):
    def __init__(self, ray: Any, setup: Any, cores: int, gpus: float) -> None:
        self.ray, self.setup = ray, setup
        self.actor = ray.remote(_RayBench).options(num_cpus=cores, num_gpus=gpus, max_restarts=0, max_task_retries=0).remote()
        self.cores = cores

    def load(self) -> "Future[dict[str, Any]]":
        future: Future[dict[str, Any]] = self.actor.load.remote(self.setup, self.cores).future()
        return future

    def submit(self, job: Job) -> "Future[Finished]":
        future: Future[Finished] = self.actor.compute.remote(job).future()
        return future

    def stop(self) -> None:
        self.ray.kill(self.actor)


class _RayBench:
    """The class of the actors."""

    def load(self, setup: Setup, cores: int) -> dict[str, Any]:
        limit_threads(threads(cores))
        self.bench = Bench(setup)
        return self.bench.describe()

    def compute(self, job: Job) -> Finished:
        return self.bench(job)


def _reach(address: str) -> None:
    """Fail at once where nothing listens at host:port; Ray itself tries for most of a minute."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        return
    try:
        socket.create_connection((host, int(port)), timeout=10.0).close()
    except OSError as error:
        raise _no_cluster(address, error) from error


def _no_cluster(address: str, error: Exception) -> InputError:
    return InputError(
        f"there must be a Ray cluster at {address!r} ({one_line(error, 120)}); start one with ray start --head, or use"
        " --ray local"
    )
