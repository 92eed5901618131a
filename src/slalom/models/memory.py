"""Answers in memory: a row of a table per input."""

import numpy as np
from numpy.typing import NDArray


class Memory:
    """The answers of one model, of so many numbers each."""

    def __init__(self, n_columns: int) -> None:
        self.slots: dict[bytes, int] = {}  # from the digest of an input to its row in the table
        self.table = np.full((0, n_columns), np.nan)  # NaN where there is no answer yet

    def add(self, keys: list[bytes]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows of inputs, and the places of those among them that are new, each once."""
        before, slots = len(self.slots), self.slots
        rows = np.array([slots.setdefault(key, len(slots)) for key in keys], dtype=np.int64)
        if len(self.table) < len(slots):
            more = np.full((max(len(slots), 1024), self.table.shape[1]), np.nan)  # grows by doubling
            self.table = np.concatenate([self.table, more])
        if len(slots) == before + len(keys):
            return rows, np.arange(len(keys))
        distinct, places = np.unique(rows, return_index=True)
        return rows, places[distinct >= before]

    def drop_unanswered(self) -> None:
        """Remove inputs without an answer, after an interruption or an error."""
        answered = ~np.isnan(self.table[: len(self.slots), 0])
        if not answered.all():
            self.table = self.table[np.flatnonzero(answered)]
            self.slots = {key: i for i, key in enumerate(key for key, slot in self.slots.items() if answered[slot])}
