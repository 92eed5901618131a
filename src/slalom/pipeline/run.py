"""A text on its way from its plan to its explanation: what is asked, answered and explained so far."""

import logging
from collections.abc import Callable
from time import perf_counter
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats
from slalom.errors import SlalomError, one_line
from slalom.models import Answers, Decision, Engine, Head, Target
from slalom.pipeline.planning import Task
from slalom.result import Explanation, Failure

_LOG = logging.getLogger("slalom")


@final
class TextRun:
    """A text on its way from its plan to its explanation."""

    answers: Answers  # to all rows of the task
    decision: Decision | None = None
    explanation: Explanation | None = None  # that of the last round
    result: Explanation | Failure | None = None  # None as long as the text goes on

    def __init__(self, task: Task | Failure) -> None:
        self.rounds = self.further = 0  # answered rounds; rows that were asked beyond the task
        self.lengths = dict[bytes, int]()  # tokens of all inputs that were asked, by key
        self.clock: Callable[[], float] = perf_counter  # that of its thread where several texts are explained at a time
        self._outputs = dict[bytes, Any]()  # of each row, filled where rows beyond the task are asked
        self._filled, self._seconds = 0, 0.0
        self._planned = self._others = 0  # answered rows of the plan, and of the whole text and the held-out ones
        if isinstance(task, Failure):
            self.result = task
        else:
            self.task = task

    @property
    def new_rows(self) -> NDArray[np.bool_]:
        """The rows (k, n) that are not answered yet: all at first, then those that were added to the plan, or held out."""
        keep, whole = self.task.keep, self.task.whole
        return np.concatenate([keep[self._planned : whole], keep[whole + self._others :]])

    @property
    def decided(self) -> Decision:
        """The decision of the model about the whole text."""
        assert self.decision is not None
        return self.decision

    def target(self, wanted: Target, head: Head) -> int | Literal["all"]:
        """Return the class to explain. The predicted class need not be the one with the highest score."""
        if wanted is None and len(head.labels) > 2 and self.decided.label in head.labels:
            wanted = self.decided.label
        return head.resolve(wanted, self.answers.outputs[self.task.whole])

    def receive(self, answers: Answers, seconds: float) -> None:
        """Add the answers to the new rows, which took so long."""
        if self.rounds:
            old, new, at, planned = self.answers.outputs, answers.outputs, self._planned, self.task.whole - self._planned
            outputs = np.concatenate([old[:at], new[:planned], old[at:], new[planned:]])
            answers = Answers(outputs, {**self.answers.lengths, **answers.lengths})
        self.answers, self._planned, self._others = answers, self.task.whole, len(self.task.keep) - self.task.whole
        self.lengths |= answers.lengths
        self.rounds += 1
        self.spend(seconds)

    def unasked(self, rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the different ones of rows (k, n) that have no answer yet."""
        if self._filled < self.rounds:
            self._outputs |= {row.tobytes(): output for row, output in zip(self.task.keep, self.answers.outputs, strict=True)}
            self._filled = self.rounds
        fresh = {key: row for row in rows if (key := row.tobytes()) not in self._outputs}
        return np.array(list(fresh.values()), dtype=bool).reshape(-1, len(self.task.units))

    def ask(self, engine: Engine, rows: NDArray[np.bool_]) -> Floats:
        """Return the outputs of any rows (k, n); each row is sent to the model once."""
        fresh = self.unasked(rows)
        if len(fresh):
            (answer,) = engine([self.task.queries(fresh)])
            self._outputs |= {row.tobytes(): output for row, output in zip(fresh, answer.outputs, strict=True)}
            self.lengths |= answer.lengths
            self.further += len(fresh)
        return np.stack([self._outputs[row.tobytes()] for row in rows])

    def spend(self, seconds: float) -> float:
        """Add seconds to those of the text, and return them all."""
        self._seconds += seconds
        return self._seconds

    def reordered(self, task: Task, order: NDArray[np.int64]) -> "TextRun":
        """Return a run of the same rows in the order of their numbers, with its answers, as if they had been asked at once."""
        run, outputs, m = TextRun(task), self.answers.outputs, len(order)
        run.decision, run._planned, run._others = self.decision, m, self._others
        run.answers = Answers(np.concatenate([outputs[:m][np.argsort(order)], outputs[m:]]), self.answers.lengths)
        run.lengths, run.rounds, run._seconds = dict(self.lengths), 1, self._seconds
        return run

    def fail(self, error: Exception) -> None:
        """End with a Failure."""
        self.result = failure(self.task.number, self.task.reading.text, error)


def failure(number: int, text: object, error: Exception) -> Failure:
    """Return the line that is kept of an error; an unexpected one is logged with its traceback.

    Raises:
        KeyboardInterrupt: The error came of one, which some libraries turn into an error of their own.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        cause = cause.__cause__ or cause.__context__
    expected = isinstance(error, SlalomError)
    if not expected:
        _LOG.error("text %d could not be explained", number, exc_info=error)
    reason = one_line(error, limit=None)
    message = reason if expected else f"{type(error).__name__}: {reason}"
    return Failure(number, text if isinstance(text, str) else repr(text)[:200], message)
