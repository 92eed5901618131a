"""A text on its way from its plan to its explanation: what is asked, answered and explained so far."""

import logging
from copy import copy
from typing import Any, Literal, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats, row_keys
from slalom.errors import SlalomError, one_line
from slalom.models import Answers, Decision, Engine, Head, Target
from slalom.pipeline.planning import Task
from slalom.result import Explanation, Failure

_LOG = logging.getLogger("slalom")


class Step(NamedTuple):
    """Where the explanation of one text is, in rounds.

    Attributes:
        round: Number of the round, from 1.
        queries: Number of queries that are answered so far, those that test the explanation included.
        of: Number of queries in the end; of a budget that grows, that of the next round.
        answered: Whether all rows of the round are answered, so that what follows is its explanation.
        explanation: The explanation of the round; None as long as its rows are asked.
        final: Whether it is the last one.
    """

    round: int
    queries: int
    of: int
    answered: bool = False
    explanation: Explanation | None = None
    final: bool = False


@final
class TextRun:
    """A text on its way from its plan to its explanation."""

    decision: Decision | None = None
    before: Any = None  # what the method takes up when it explains the text (`Method.next_rows`)
    explanation: Explanation | None = None  # that of the last round
    result: Explanation | Failure | None = None  # None as long as the text goes on

    def __init__(self, task: Task | Failure) -> None:
        self.round, self.further = 1, 0  # number of the round; rows that were asked beyond the task
        self.lengths = dict[bytes, int]()  # tokens of all inputs that were asked, by key
        self._answers = dict[bytes, int]()  # from all rows that were asked to their outputs
        self._outputs = np.zeros((0, 0))
        self._seconds = 0.0
        if isinstance(task, Failure):
            self.result = task
        else:
            self.task = task

    @property
    def decided(self) -> Decision:
        """The decision of the model about the whole text."""
        assert self.decision is not None
        return self.decision

    def target(self, wanted: Target, head: Head) -> int | Literal["all"]:
        """Return the class to explain. The predicted class need not be the one with the highest score."""
        if wanted is None and len(head.labels) > 2 and self.decided.label in head.labels:
            wanted = self.decided.label
        return head.resolve(wanted, self.outputs(self.task.text)[0])

    def unasked(self, rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the different ones of rows (k, n) that have no answer yet."""
        fresh = {key: i for i, key in enumerate(row_keys(rows)) if key not in self._answers}
        return rows[list(fresh.values())]

    def has(self, rows: NDArray[np.bool_]) -> bool:
        """Return whether rows (k, n) have answers."""
        return all(key in self._answers for key in row_keys(rows))

    def outputs(self, rows: NDArray[np.bool_]) -> Floats:
        """Return the outputs (k, n_columns) of rows (k, n) that were asked."""
        return self._outputs[[self._answers[key] for key in row_keys(rows)]]

    def receive(self, rows: NDArray[np.bool_], answers: Answers, seconds: float = 0.0) -> None:
        """Add the answers to rows, which took so long."""
        self._answers |= {key: i for i, key in enumerate(row_keys(rows), start=len(self._outputs))}
        self._outputs = np.concatenate([self._outputs, answers.outputs]) if len(self._outputs) else answers.outputs
        self.lengths |= answers.lengths
        self.spend(seconds)

    def ask(self, engine: Engine, rows: NDArray[np.bool_]) -> Floats:
        """Return the outputs of any rows (k, n); each row is sent to the model once."""
        fresh = self.unasked(rows)
        if len(fresh):
            self.receive(fresh, engine([self.task.queries(fresh)])[0])
            self.further += len(fresh)
        return self.outputs(rows)

    def spend(self, seconds: float) -> float:
        """Add seconds to those of the text, and return them all."""
        self._seconds += seconds
        return self._seconds

    def of(self, task: Task) -> "TextRun":
        """Return a copy with another task of the same text, whose rows were asked."""
        run = copy(self)
        run.task, run.lengths, run._answers = task, dict(self.lengths), dict(self._answers)
        return run

    def fail(self, error: Exception) -> None:
        """End with a Failure."""
        self.result = failure(self.task.number, self.task.reading.text, error)


def raise_interrupts(error: Exception) -> None:
    """Raise a KeyboardInterrupt where an error came of one, which some libraries turn into an error of their own."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        cause = cause.__cause__ or cause.__context__


def failure(number: int, text: object, error: Exception) -> Failure:
    """Return the line that is kept of an error; an unexpected one is logged with its traceback."""
    raise_interrupts(error)
    expected = isinstance(error, SlalomError)
    if not expected:
        _LOG.error("text %d could not be explained", number, exc_info=error)
    reason = one_line(error, limit=None)
    message = reason if expected else f"{type(error).__name__}: {reason}"
    return Failure(number, text if isinstance(text, str) else repr(text)[:200], message)
