"""Work that takes long, in turns: threads take one step of one job at a time, first come first served.

    job       an iterator of messages; the work is done in its __next__, in a worker thread
    step      one __next__: the message goes to the event loop, and the job waits for its next turn

One of several workers only takes jobs that had little time so far: whoever has just come sees something at once, and long
steps, such as fits, never take all. A job that is cancelled is closed before its next step; a fit ends at its next iteration,
questions to a model end at its next turn, and an answer ends at its next token.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any, final

from starlette.exceptions import HTTPException

from slalom.interrupt import interrupted_if

_LITTLE = 1.0  # seconds of work after which a job is no longer new
_THREAD = threading.local()


@final
class Job:
    """Work for one request; every step is a message to the one who waits, but None."""

    def __init__(self, steps: Iterator[Any]) -> None:
        self.steps, self.position, self.seconds, self.cancelled = steps, 0, 0.0, False
        self._loop = asyncio.get_running_loop()
        self._messages: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()

    def send(self, kind: str, content: Any) -> None:
        """Pass a message to the event loop, from any thread."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._messages.put_nowait, (kind, content))

    def cancel(self, reason: str | None = None) -> None:
        """Take no further step; whoever waits gets the reason as an error."""
        self.cancelled = True
        if reason is not None:
            self.send("error", HTTPException(503, reason))

    async def messages(self, seconds: float) -> AsyncIterator[Any]:
        """Yield what the steps return, until the last."""
        deadline = self._loop.time() + seconds
        try:
            while True:
                try:
                    async with asyncio.timeout_at(deadline):
                        kind, content = await self._messages.get()
                except TimeoutError as error:
                    why = f"this took longer than {seconds:g} s and was stopped; ask for fewer queries"
                    raise HTTPException(503, why) from error
                if kind == "end":
                    return
                if kind == "error":
                    raise content
                yield content
        finally:
            self.cancel()

    def step(self) -> bool:
        """Take one step; return whether there may be another."""
        began, _THREAD.job = time.monotonic(), self
        try:
            with interrupted_if(lambda: self.cancelled):
                message = next(self.steps)
            if message is not None:
                self.send("message", message)
        except StopIteration:
            self.send("end", None)
            return False
        except Exception as error:
            self.send("error", error.with_traceback(None))
            return False
        except BaseException as error:  # of a model, such as SystemExit: the server goes on
            self.send("error", RuntimeError(f"{type(error).__name__}: {error}"))
            return False
        finally:
            _THREAD.job = None
        self.seconds += time.monotonic() - began
        return not self.cancelled


def takes_long() -> None:
    """Say that the job of this thread takes long from its next step on, as far as is known."""
    job: Job | None = getattr(_THREAD, "job", None)
    if job is not None:
        job.seconds = max(job.seconds, _LITTLE)


def send_now(message: Any) -> None:
    """Send a message of the job of this thread before its step ends."""
    job: Job | None = getattr(_THREAD, "job", None)
    if job is not None:
        job.send("message", message)


@final
class Queue:
    """The jobs of one model and the threads that work on them; one of several takes new jobs only."""

    def __init__(self, name: str, workers: int, max_jobs: int) -> None:
        self._max_jobs, self._stopping = max_jobs, False
        self._waiting, self._jobs = deque[Job](), set[Job]()
        self._changed = threading.Condition()
        for number in range(workers):
            only_new = number > 0 and number == workers - 1
            threading.Thread(target=self._work, args=(only_new,), name=f"{name} {number}", daemon=True).start()

    def __len__(self) -> int:
        return len(self._jobs)

    def submit(self, job: Job) -> None:
        with self._changed:
            if self._stopping:
                raise HTTPException(503, "the server is stopping")
            alive = sum(not other.cancelled for other in self._jobs)
            if alive >= self._max_jobs or len(self._jobs) >= 2 * self._max_jobs:
                seconds = str(1 + alive // 16)
                why = f"{alive} requests are waiting already; try again in {seconds} s"
                raise HTTPException(429, why, {"Retry-After": seconds})
            job.position = len(self._waiting)
            self._jobs.add(job)
            self._waiting.append(job)
            self._changed.notify_all()

    def stop(self) -> None:
        """Cancel all jobs and end the threads after their current step."""
        with self._changed:
            self._stopping = True
            for job in self._jobs:
                job.cancel("the server is stopping")
            self._changed.notify_all()

    def _next(self, only_new: bool) -> Job | None:
        """Return the job whose turn it is, after waiting for one; None when the threads end."""
        with self._changed:
            while not self._stopping:
                for job in self._waiting:
                    if not only_new or job.seconds < _LITTLE:
                        self._waiting.remove(job)
                        return job
                self._changed.wait()
        return None

    def _work(self, only_new: bool) -> None:
        while (job := self._next(only_new)) is not None:
            goes_on = not job.cancelled and job.step()
            with self._changed:
                if goes_on:
                    self._waiting.append(job)
                    self._changed.notify_all()
                    continue
                self._jobs.discard(job)
            with suppress(Exception):  # what a generator raises when it is closed is nobody's business
                job.steps.close()  # type: ignore[attr-defined]
            del job  # an idle thread holds nothing
