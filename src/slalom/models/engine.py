"""The query engine: every question about every text goes through here, once.

Duplicates are asked once, across texts too. Inputs are sorted by their exact length, so that nothing is ever padded, and packed
into batches; while one batch is computed the next is prepared. Where memory runs out the batches are halved. Answers are
remembered, and kept in an SQLite file if one is named, batch by batch: an interruption loses at most the batches under way.
"""

import sqlite3
from collections import deque
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from slalom.errors import InputError, ModelError
from slalom.models.model import Floats, Group, Model, Reading

_REMEMBERED = 500_000  # answers kept in memory
_QUIET = 2.0  # seconds before a progress bar appears


class Question(NamedTuple):
    """A text as the model reads it, and the presence of its atoms (m, n_atoms)."""

    reading: Reading
    keep: NDArray[np.bool_]


class Answer(NamedTuple):
    """The outputs (m, n_outputs) of a question, how many different inputs it took, and their tokens.

    Inputs whose answers were known from before are counted too; `Engine.spent` tells what the model was really asked.
    """

    outputs: Floats
    inputs: int
    tokens: int


class Spent(NamedTuple):
    """What an engine has asked so far: inputs, their tokens (strings, where the model reads strings), and seconds."""

    inputs: int
    tokens: int
    seconds: float


class _Batch(NamedTuple):
    """Inputs of one length and where in the table their answers go."""

    inputs: Any
    slots: NDArray[np.int64]
    length: int

    def halves(self) -> "tuple[_Batch, _Batch]":
        """Return two batches."""
        k = len(self.slots) // 2
        return (
            _Batch(self.inputs[:k], self.slots[:k], self.length),
            _Batch(self.inputs[k:], self.slots[k:], self.length),
        )


class Engine:
    """Asks one model.

    cache: an SQLite file for the answers. identity: a name for what answers, where the model has none of its own.
    progress: whether to show a bar; None shows one in a terminal or notebook when it takes more than two seconds.
    """

    def __init__(
        self, model: Model, cache: str | Path | None = None, identity: str | None = None, progress: bool | None = None
    ) -> None:
        self.model, self.progress, self._given = model, progress, identity
        self._file = None if cache is None else Path(cache)
        if self._file is not None and self._name() is None:
            raise InputError(
                f"cache needs to know whose answers it holds, and {model.name} has no identity of its own;"
                " pass identity=, a name that you change whenever the model changes"
            )
        self._slots: dict[bytes, int] = {}  # from the digest of an input to its row in the table
        self._table = np.full((0, model.head.n_outputs), np.nan)  # NaN: not answered yet
        self._whose: str | None = None
        self._inputs, self._tokens, self._seconds = 0, 0, 0.0

    @property
    def spent(self) -> Spent:
        """What has been asked so far."""
        return Spent(self._inputs, self._tokens, self._seconds)

    def __call__(self, questions: Sequence[Question]) -> list[Answer]:
        """Answer all questions."""
        began, whose = perf_counter(), self._name()
        if whose is None or whose != self._whose or len(self._slots) > _REMEMBERED:
            self._slots, self._table = {}, self._table[:0]
        self._whose = whose
        try:
            with _Store(self._file, whose) as store:
                return self._answer(questions, store)
        finally:
            self._drop_unanswered()
            self._seconds += perf_counter() - began

    def _answer(self, questions: Sequence[Question], store: "_Store") -> list[Answer]:
        new: dict[int, list[tuple[Group, NDArray[np.int64], NDArray[np.int64]]]] = {}
        plans, costs = [], []
        for question in questions:
            windows = question.reading.parts(question.keep)
            plan, inputs, tokens = [], 0, 0
            seen: set[int] = set()
            for group in (group for groups in windows for group in groups):
                known, slots = len(self._slots), self._slots
                found = np.array([slots.setdefault(key, len(slots)) for key in group.keys], dtype=np.int64)
                fresh, at = np.unique(np.where(found >= known, found, -1), return_index=True)
                fresh, at = fresh[fresh >= 0], at[fresh >= 0]
                if len(fresh):
                    new.setdefault(group.length, []).append((group, fresh, at))
                distinct = set(found.tolist()) - seen
                seen |= distinct
                inputs, tokens = inputs + len(distinct), tokens + len(distinct) * group.length
                plan.append((group.rows, found))
            plans.append((len(question.keep), plan))
            costs.append((inputs, tokens))
        grown = np.full((len(self._slots), self._table.shape[1]), np.nan)
        grown[: len(self._table)] = self._table
        self._table = grown
        store.load(self._table, [(group.keys, fresh, at) for length in new for group, fresh, at in new[length]])
        self._run(self._batches(new), store)
        return [
            Answer(_gathered(m, plan, self._table), inputs, tokens)
            for (m, plan), (inputs, tokens) in zip(plans, costs, strict=True)
        ]

    def _batches(
        self, new: dict[int, list[tuple[Group, NDArray[np.int64], NDArray[np.int64]]]]
    ) -> "list[tuple[_Batch, list[bytes]]]":
        """Return what is not answered yet as one batch a length, the longest inputs first, with the keys of the inputs."""
        batches = []
        for length in sorted(new, reverse=True):
            parts, slots, keys = [], [], []
            for group, every, places in new[length]:
                unknown = np.isnan(self._table[every, 0])
                fresh, at = every[unknown], places[unknown]
                parts.append(group.inputs[at] if isinstance(group.inputs, np.ndarray) else [group.inputs[i] for i in at])
                slots.append(fresh)
                keys += [group.keys[i] for i in at]
            joined = np.concatenate(parts) if isinstance(parts[0], np.ndarray) else [text for part in parts for text in part]
            if keys:
                batches.append((_Batch(joined, np.concatenate(slots), length), keys))
        return batches

    def _run(self, work: "list[tuple[_Batch, list[bytes]]]", store: "_Store") -> None:
        """Ask the model, one batch ahead of the answers."""
        if not work:
            return
        total = sum(batch.length * len(batch.slots) for batch, _ in work)
        unit = "token" if self.model.tokenized else "text"
        hidden = None if self.progress is None else not self.progress
        keys = {int(slot): key for batch, names in work for slot, key in zip(batch.slots, names, strict=True)} if store else {}
        queue = deque(batch for batch, _ in work)
        running: deque[tuple[_Batch, Any]] = deque()

        def finish() -> None:
            """Take in the answers of the oldest batch under way."""
            batch, started = running.popleft()
            outputs = self.model.checked(self.model.finish(started), len(batch.slots))
            self._table[batch.slots] = outputs
            store.save([keys[int(slot)] for slot in batch.slots] if store else [], outputs)
            self._inputs += len(batch.slots)
            self._tokens += batch.length * len(batch.slots)
            bar.update(batch.length * len(batch.slots))

        with (
            self.model.session(),
            tqdm(total=total, unit=unit, unit_scale=True, desc="asking", delay=_QUIET, disable=hidden, leave=False) as bar,
        ):
            try:
                while queue or running:
                    if not queue or len(running) == 2:
                        finish()
                        continue
                    batch = queue.popleft()
                    k = max(self.model.rows(batch.length), 1)
                    if len(batch.slots) > k:
                        queue.appendleft(_Batch(batch.inputs[k:], batch.slots[k:], batch.length))
                        batch = _Batch(batch.inputs[:k], batch.slots[:k], batch.length)
                    try:
                        running.append((batch, self.model.start(batch.inputs)))
                    except MemoryError:
                        self._halve(batch, queue, bool(running))
                        if running:
                            finish()
            finally:  # what was under way when something broke is kept
                while running:
                    with suppress(ModelError):
                        finish()

    def _halve(self, batch: _Batch, queue: "deque[_Batch]", waiting: bool) -> None:
        """Put a batch that did not fit back into the queue, for smaller batches."""
        if len(batch.slots) == 1 and not waiting:
            raise ModelError(
                f"one input of {batch.length} tokens does not fit into the memory of {self.model.name};"
                " use a larger device, a smaller model or a shorter text"
            )
        self.model.shrink()
        queue.extendleft(reversed(batch.halves()) if len(batch.slots) > 1 else [batch])

    def _drop_unanswered(self) -> None:
        """Forget inputs that never got an answer (after an interruption or an error)."""
        if np.isnan(self._table[:, 0]).any() or len(self._slots) != len(self._table):
            n = len(self._table)
            self._slots = {key: slot for key, slot in self._slots.items() if slot < n and not np.isnan(self._table[slot, 0])}
            order = np.fromiter(self._slots.values(), dtype=np.int64, count=len(self._slots))
            self._table = self._table[order]
            self._slots = {key: i for i, key in enumerate(self._slots)}

    def _name(self) -> str | None:
        own = self.model.identity()
        return own if self._given is None else f"{self._given} {own or ''}".strip()


def _gathered(m: int, plan: list[tuple[NDArray[np.int64], NDArray[np.int64]]], table: Floats) -> Floats:
    """Return the answers (m, n_outputs): the mean over the windows of each row."""
    outputs, times = np.zeros((m, table.shape[1])), np.zeros(m)
    for rows, slots in plan:
        outputs[rows] += table[slots]
        times[rows] += 1.0
    return np.asarray(outputs / times[:, None])


class _Store:
    """Answers of one model in an SQLite file; does nothing, and is false, where there is no file."""

    def __init__(self, file: Path | None, whose: str | None) -> None:
        self.file, self.whose = file, whose
        self.base: sqlite3.Connection | None = None

    def __bool__(self) -> bool:
        return self.file is not None

    def __enter__(self) -> "_Store":
        if self.file is not None:
            try:
                self.base = sqlite3.connect(self.file, timeout=60.0)
                self.base.execute("PRAGMA journal_mode=WAL")
                self.base.execute(
                    "CREATE TABLE IF NOT EXISTS answers"
                    " (model TEXT, key BLOB, outputs BLOB, PRIMARY KEY (model, key)) WITHOUT ROWID"
                )
            except sqlite3.Error as error:
                raise InputError(f"cache must be an SQLite file that can be written; {self.file}: {error}") from error
        return self

    def __exit__(self, *_: object) -> None:
        if self.base is not None:
            self.base.close()

    def load(self, table: Floats, wanted: list[tuple[list[bytes], NDArray[np.int64], NDArray[np.int64]]]) -> None:
        """Fill in the rows of the table that the file has."""
        if self.base is None:
            return
        slots = {keys[i]: int(slot) for keys, fresh, at in wanted for slot, i in zip(fresh, at, strict=True)}
        keys = list(slots)
        for start in range(0, len(keys), 500):
            some = keys[start : start + 500]
            marks = ",".join("?" * len(some))
            query = f"SELECT key, outputs FROM answers WHERE model = ? AND key IN ({marks})"
            with closing(self.base.execute(query, [self.whose, *some])) as found:
                for key, outputs in found:
                    table[slots[key]] = np.frombuffer(outputs)

    def save(self, keys: list[bytes], outputs: Floats) -> None:
        """Keep the answers of one batch; all of them or, if interrupted, none."""
        if self.base is not None:
            with self.base:
                rows = [(self.whose, key, row.tobytes()) for key, row in zip(keys, outputs, strict=True)]
                self.base.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", rows)
