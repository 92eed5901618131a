"""Queries of a method beyond its plan: recorded, and each sent to the model once."""

from collections.abc import Callable
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom.core.checks import Floats
from slalom.errors import InputError
from slalom.models import Answers
from slalom.pipeline.planning import Task


@final
class FurtherQueries:
    """Answers queries of a method beyond its plan. A row is sent to the model once; rows of the plan are known.

    Attributes:
        asked: Number of rows that were sent to the model, in all rounds.
        lengths: Number of tokens of their inputs, by key.
        queried: The rows that the method has queried in this round, as bytes, and their scores, in the order of the first
            query.
    """

    def __init__(self) -> None:
        self.asked, self.lengths = 0, dict[bytes, int]()
        self.known, self.queried = dict[bytes, Any](), dict[bytes, Any]()

    def begin(
        self,
        task: Task,
        scores: Floats,
        ask: Callable[[NDArray[np.bool_]], tuple[Floats, Answers]],
        limit: int | None,
    ) -> None:
        """Begin a round: `scores` are those of the rows of the task; `limit` is the largest number of all queries."""
        self.task, self.scores, self.ask, self.loaded, self.queried, self.limit = task, scores, ask, False, {}, limit

    def __call__(self, keep: ArrayLike) -> Floats:
        """Return the scores of rows (k, n) of presence."""
        if not self.loaded:  # most methods need no further queries
            self.known |= {row.tobytes(): score for row, score in zip(self.task.keep, self.scores.tolist(), strict=True)}
            self.loaded = True
        rows = np.asarray(keep).astype(bool).reshape(-1, len(self.task.units))
        keys = [row.tobytes() for row in rows]
        fresh = list({key: i for i, key in enumerate(keys) if key not in self.known}.values())
        if fresh:
            needed = len(self.task.keep) + self.asked + len(fresh)
            if self.limit is not None and needed > self.limit:
                raise InputError(
                    f"the method asks for {needed} queries, and max_queries is {self.limit}; raise it, or lower queries"
                )
            scores, answer = self.ask(rows[fresh])
            self.known.update(zip([keys[i] for i in fresh], scores.tolist(), strict=True))
            self.lengths |= answer.lengths
            self.asked += len(fresh)
        self.queried.update((key, self.known[key]) for key in keys)
        return np.array([self.known[key] for key in keys])
