"""Texts that show what a word does, and a sample of its effects for pictures."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, final

import numpy as np

from slalom.core.checks import Floats
from slalom.corpus.summarised import Example, WordEffect
from slalom.corpus.table import GIVEN
from slalom.corpus.words import Chosen, Chunk, observations

_SAMPLE = 150  # effects of a word
_AROUND = 70  # characters before and after it


@final
class Examples:
    """Collects the strongest texts of some words in both directions, and a sample that is independent of the rows' order.

    Args:
        words: The words by key.
        most: Texts per word and direction.
        counts: Which columns hold true labels; `label_of` and `gold` are used.
    """

    def __init__(self, words: Mapping[int, WordEffect], most: int, counts: Any) -> None:
        self._words, self._most, self._counts = words, most, counts
        self._keys = np.array(sorted(words), dtype=np.uint64)
        self._chosen = Chosen(self._keys)
        self._sign = np.array([1.0 if (words[int(key)].effect.mean or 0.0) >= 0 else -1.0 for key in self._keys])
        self._sample: list[Floats] = []  # rows of key index, priority, effect, wrong
        self._waiting = 0
        self._found: dict[tuple[int, bool], list[Example]] = {}

    def add(self, chunk: Chunk) -> None:
        """Look for examples in a chunk."""
        every = chunk.occurrences
        if not len(self._keys):
            return
        wanted, _ = self._chosen.find(every.key)
        seen = observations(every[wanted])
        index = np.searchsorted(self._keys, seen.key)
        number = np.asarray(chunk.column("number"), dtype=np.int64)
        labels, golds = chunk.column("label"), self._golds(chunk)
        wrong = np.array([-1.0 if g is None else float(g != p) for g, p in zip(golds, labels, strict=True)])
        # priorities are pseudo-random numbers of text and key: the smallest ones are a sample without replacement
        bits = (number[seen.row].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) ^ seen.key
        bits = (bits ^ (bits >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        self._sample.append(np.stack([index, (bits >> np.uint64(11)) / 2.0**53, seen.effect, wrong[seen.row]], axis=1))
        self._waiting += len(seen)
        if self._waiting > 1_000_000:
            self._thin()
        signed = seen.effect * self._sign[index]
        for usual, strength in ((True, signed), (False, -signed)):
            self._strongest(chunk, usual, strength, seen, index, wanted, (number, labels, golds))

    def _golds(self, chunk: Chunk) -> list[str | None]:
        if self._counts.gold is None:
            return [None] * chunk.rows.num_rows
        return [self._counts.label_of(gold) for gold in chunk.column(GIVEN + self._counts.gold)]

    def _strongest(self, chunk: Chunk, usual: bool, strength: Floats, seen: Any, index: Any, wanted: Any, facts: Any) -> None:
        if not self._most:
            return
        number, labels, golds = facts
        bars = np.zeros(len(self._keys))
        for (i, way), kept in self._found.items():
            if way == usual and len(kept) == self._most:
                bars[i] = abs(kept[-1].effect)
        good = np.flatnonzero(strength > bars[index])
        order = good[np.lexsort((-strength[good], index[good]))]
        heads = np.concatenate([[True], index[order][1:] != index[order][:-1]]) if len(order) else np.zeros(0, dtype=bool)
        starts = np.maximum.accumulate(np.where(heads, np.arange(len(order)), 0))
        ids, texts = chunk.rows.column("id"), chunk.rows.column("text")
        for o in order[np.arange(len(order)) - starts < self._most].tolist():
            row, where = int(seen.row[o]), int(wanted[seen.first[o]])
            start, end = int(chunk.occurrences.start[where]), int(chunk.occurrences.end[where])
            text = texts[row].as_py()
            before, word, after = _snippet(text, start, end) if text is not None else (None, chunk.text_of(where), None)
            example = Example(
                int(number[row]), ids[row].as_py(), float(seen.effect[o]), labels[row], golds[row], before, word, after
            )
            kept = self._found.setdefault((int(index[o]), usual), [])
            kept.append(example)
        for kept in self._found.values():
            kept.sort(key=lambda example: (-abs(example.effect), example.number))
            del kept[self._most :]

    def _thin(self) -> None:
        """Keep the smallest priorities of each word."""
        rows = np.concatenate(self._sample) if self._sample else np.zeros((0, 4))
        rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
        heads = np.concatenate([[True], rows[1:, 0] != rows[:-1, 0]]) if len(rows) else np.zeros(0, dtype=bool)
        starts = np.maximum.accumulate(np.where(heads, np.arange(len(rows)), 0))
        self._sample, self._waiting = [rows[np.arange(len(rows)) - starts < _SAMPLE]], 0

    def result(self) -> dict[int, WordEffect]:
        """Return the words with their examples."""
        self._thin()
        samples: dict[int, list[tuple[float, bool | None]]] = {}
        for i, _, effect, wrong in self._sample[0].tolist():
            samples.setdefault(int(i), []).append((effect, None if wrong < 0 else bool(wrong)))
        at = {int(key): i for i, key in enumerate(self._keys.tolist())}
        return {
            key: replace(
                word,
                usual=tuple(self._found.get((at[key], True), ())),
                unusual=tuple(self._found.get((at[key], False), ())),
                sample=tuple(samples.get(at[key], ())),
            )
            for key, word in self._words.items()
        }


def _snippet(text: str, start: int, end: int) -> tuple[str, str, str]:
    """Return some text before a span, the span, and some text after it.

    Example:
        >>> _snippet("a good film", 2, 6)
        ('a ', 'good', ' film')
    """
    low, high = max(0, start - _AROUND), min(len(text), end + _AROUND)
    before, after = text[low:start], text[end:high]
    return ("…" if low else "") + before, text[start:end], after + ("…" if high < len(text) else "")
