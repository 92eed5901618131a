"""A text on its way from its plan to its explanation: what is asked, answered and explained so far."""

import logging
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from slalom.errors import SlalomError, one_line
from slalom.models import Answers, Decision, Head, Target
from slalom.pipeline.further import FurtherQueries
from slalom.pipeline.planning import Task
from slalom.pipeline.side_by_side import SharedClock
from slalom.result import Explanation, Failure

_LOG = logging.getLogger("slalom")


@final
class Run:
    """A text on its way from its plan to its explanation.

    Args:
        task: The text with its queries, or the Failure that it has become.

    Attributes:
        rounds: Number of rounds that are answered.
        clock: Counts the seconds of this text while it is explained, perhaps beside others.
        explanation: That of the last round, if any.
        result: The final one, or a Failure; None as long as the text goes on.
    """

    def __init__(self, task: Task | Failure) -> None:
        self.result: Explanation | Failure | None = None
        self.decision: Decision | None = None
        self.explanation: Explanation | None = None
        self.further = FurtherQueries()
        self.rounds, self._seconds = 0, 0.0
        self.clock = SharedClock()
        self._planned = self._others = 0  # answered rows of the plan, and of the whole text and the held-out ones
        self._answers: Answers | None = None
        if isinstance(task, Failure):
            self.result = task
        else:
            self.task = task

    @property
    def new_rows(self) -> NDArray[np.bool_]:
        """The rows (k, n) that are not answered yet: all at first, then those that were added to the plan, or held out."""
        keep, whole = self.task.keep, self.task.whole
        return keep if self._answers is None else np.concatenate([keep[self._planned : whole], keep[whole + self._others :]])

    @property
    def answers(self) -> Answers:
        """The answers to all rows of the task."""
        assert self._answers is not None
        return self._answers

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
        if self._answers is not None:
            old, new, at, planned = self._answers.outputs, answers.outputs, self._planned, self.task.whole - self._planned
            outputs = np.concatenate([old[:at], new[:planned], old[at:], new[planned:]])
            answers = Answers(outputs, {**self._answers.lengths, **answers.lengths})
        self._answers, self._planned, self._others = answers, self.task.whole, len(self.task.keep) - self.task.whole
        self.rounds += 1
        self.spend(seconds)

    def spend(self, seconds: float) -> float:
        """Add seconds to those of the text, and return them all."""
        self._seconds += seconds
        return self._seconds

    def reordered(self, task: Task, order: NDArray[np.int64]) -> "Run":
        """Return a run of the same rows in the order of their numbers, with its answers."""
        run, outputs, m = Run(task), self.answers.outputs, len(order)
        run.decision, run._seconds, run.rounds = self.decision, self._seconds, self.rounds
        run._planned, run._others = m, self._others
        run._answers = Answers(np.concatenate([outputs[:m][np.argsort(order)], outputs[m:]]), self.answers.lengths)
        return run

    def fail(self, error: Exception) -> None:
        """End with a Failure."""
        self.result = failure(self.task.number, self.task.reading.text, error)


def failure(number: int, text: object, error: Exception) -> Failure:
    """Return the line that is kept of an error; an unexpected one is logged with its traceback."""
    expected = isinstance(error, SlalomError)
    if not expected:
        _LOG.error("text %d could not be explained", number, exc_info=error)
    reason = one_line(error, limit=None)
    message = reason if expected else f"{type(error).__name__}: {reason}"
    return Failure(number, text if isinstance(text, str) else repr(text)[:200], message)
