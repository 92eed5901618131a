"""Inputs packed into batches: lengths in ranges, so that padding and the overhead of the batches together are least."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slalom.models.base import PADDING

_BUILD_TOKENS = 16_384  # tokens of small batches that are built in a row


class Batch(NamedTuple):
    """Inputs, padded to one length, their keys, the rows of the table (n,) that their answers go to, and their lengths (n,)."""

    inputs: Any
    keys: list[bytes]
    slots: NDArray[np.int64]
    lengths: NDArray[np.int64]

    @property
    def length(self) -> int:
        """The length of the longest input; the others are padded to it."""
        return int(self.lengths.max())

    @property
    def tokens(self) -> int:
        """Number of tokens, without padding."""
        return int(self.lengths.sum())

    def take(self, places: NDArray[np.int64]) -> "Batch":
        """Return some of the inputs."""
        inputs = self.inputs[places] if isinstance(self.inputs, np.ndarray) else [self.inputs[i] for i in places]
        return Batch(inputs, [self.keys[i] for i in places], self.slots[places], self.lengths[places])

    def split(self, k: int) -> "tuple[Batch, Batch]":
        """Return the first k inputs, and the rest."""
        first, rest = (
            Batch(self.inputs[at], self.keys[at], self.slots[at], self.lengths[at]) for at in (slice(k), slice(k, None))
        )
        return first, rest


def joined(parts: Sequence[Batch]) -> Batch:
    """Return several batches as one, padded to the longest."""
    length, keys = max(part.length for part in parts), [key for part in parts for key in part.keys]
    if isinstance(parts[0].inputs, np.ndarray):
        inputs: Any = np.concatenate([part.inputs if part.length == length else padded(part.inputs, length) for part in parts])
    else:
        inputs = [text for part in parts for text in part.inputs]
    return Batch(inputs, keys, np.concatenate([part.slots for part in parts]), np.concatenate([part.lengths for part in parts]))


def built_together(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Yield the next batch, or several small ones: building several in a row is faster than alternating with the model."""
    tokens = 0
    while tokens < _BUILD_TOKENS and (batch := next(batches, None)) is not None:
        tokens += batch.tokens
        yield batch


def length_ranges(rows: Mapping[int, int], overhead: int) -> list[list[int]]:
    """Return lengths in ranges, one per batch, so that padding and the overhead of the batches together are least.

    A range costs its overhead, and its largest length for each of its inputs.
    """
    lengths = sorted(rows)
    if not overhead:
        return [[length] for length in lengths]
    counted = np.cumsum([0, *(rows[length] for length in lengths)])
    least, begin = np.zeros(len(counted)), np.zeros(len(counted), dtype=np.int64)
    for end in range(1, len(counted)):  # least[end]: of the first `end` lengths, the last of which closes a range
        costs = least[:end] + overhead + (counted[end] - counted[:end]) * lengths[end - 1]
        begin[end] = costs.argmin()
        least[end] = costs[begin[end]]
    ranges, end = list[list[int]](), len(lengths)
    while end:
        ranges.append(lengths[begin[end] : end])
        end = int(begin[end])
    return ranges[::-1]


def padded(inputs: NDArray[Any], length: int) -> NDArray[Any]:
    """Return ids (k, planes, n) padded on the right to a length."""
    longer = np.full((*inputs.shape[:2], length), PADDING, dtype=inputs.dtype)  # np.pad takes ten times as long for few rows
    longer[:, :, : inputs.shape[2]] = inputs
    return longer
