"""Queries about texts, and the answers to them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats
from slalom.models.base import InputGroup, Reading


class Queries(NamedTuple):
    """Queries about one text, as the model reads it: the presence of its atoms, one row per query, (m, n_atoms)."""

    reading: Reading
    keep: NDArray[np.bool_]


class Answers(NamedTuple):
    """The answers to the queries about one text.

    Attributes:
        outputs: One row per query, (m, n_columns).
        lengths: Number of tokens of each different input, by its key. Inputs that were in the cache count too; `Engine.cost`
            has what was computed.
    """

    outputs: Floats
    lengths: Mapping[bytes, int]

    @staticmethod
    def joined(parts: "Sequence[Answers]") -> "Answers":
        """Return the answers to parts of the queries about one text as one."""
        if len(parts) == 1:
            return parts[0]
        lengths = {key: length for part in parts for key, length in part.lengths.items()}
        return Answers(np.concatenate([part.outputs for part in parts]), lengths)


class QueryCost(NamedTuple):
    """The cost of all queries of an engine so far."""

    inputs: int  # that the model computed
    tokens: int  # of these; their number where the model reads strings
    seconds: float  # spent in the engine


class Pending(NamedTuple):
    """The m queries of one text: groups of rows, each with the slots and the keys of its inputs."""

    m: int
    groups: list[tuple[InputGroup, NDArray[np.int64], list[bytes]]]

    def answers(self, table: Floats) -> Answers:
        """Return the answers; that to a row in several groups is the mean over them."""
        outputs, times = np.zeros((self.m, table.shape[1])), np.zeros(self.m)
        lengths: dict[bytes, int] = {}
        for group, slots, keys in self.groups:
            outputs[group.rows] += table[slots]
            times[group.rows] += 1.0
            lengths.update(dict.fromkeys(keys, group.length))
        return Answers(outputs / times[:, None], lengths)
