"""The query engine: every question about every text goes through here, once.

Duplicates are asked once, across texts too. Inputs are sorted by their exact length, so that nothing is ever padded, and packed
into batches; while a GPU computes some the next are prepared. Where memory runs out the batches are halved. Answers are
remembered, and kept in an SQLite file (slalom.models.store) if one is named, batch by batch: an interruption loses at most the
batches under way.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import RLock
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from slalom.core.checks import Floats
from slalom.errors import InputError, ModelError, SlalomError
from slalom.models.model import Group, Model, Reading
from slalom.models.store import AnswerStore

_REMEMBERED = 500_000  # answers kept in memory
_TOGETHER = 16_384  # tokens of small batches that are made in one go
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
    """Inputs of one length, their names, and where in the table their answers go."""

    inputs: Any
    keys: list[bytes]
    slots: NDArray[np.int64]
    length: int

    def split(self, k: int) -> "tuple[_Batch, _Batch]":
        """Return the first k inputs, and the rest."""
        return (
            _Batch(self.inputs[:k], self.keys[:k], self.slots[:k], self.length),
            _Batch(self.inputs[k:], self.keys[k:], self.slots[k:], self.length),
        )


class Engine:
    """Asks one model.

    Args:
        model: The model that answers.
        cache: An SQLite file for the answers.
        identity: A name for what answers, where the model has none of its own or one that is slow to compute. Change it
            whenever the model changes.
        progress: Whether to show a bar. Default: in a terminal or notebook, when it takes more than two seconds.
    """

    def __init__(
        self, model: Model, cache: str | Path | None = None, identity: str | None = None, progress: bool | None = None
    ) -> None:
        self.model, self.progress, self._given = model, progress, identity
        self._file, self._file_failed = None if cache is None else Path(cache), False
        if self._file is not None and self.name() is None:
            raise InputError(
                f"cache needs to know whose answers it holds, and {model.name} has no identity of its own;"
                " pass identity=, a name that you change whenever the model changes"
            )
        self._slots: dict[bytes, int] = {}  # from the digest of an input to its row in the table
        self._table = np.full((0, model.head.n_outputs), np.nan)  # NaN: not answered yet
        self._whose: str | None = None
        self._inputs, self._tokens, self._seconds = 0, 0, 0.0
        self._lock = RLock()

    def forget(self) -> None:
        """Forget all answers that are in memory; a cache file keeps its own."""
        with self._lock:
            self._slots, self._table = {}, np.full((0, self.model.head.n_outputs), np.nan)

    @contextmanager
    def fresh(self) -> Iterator[None]:
        """Begin with an empty memory, and afterwards have the old one again: what is asked within costs what it costs."""
        with self._lock:
            kept, whose = (self._slots, self._table), self._whose
            self.forget()
            try:
                yield
            finally:
                self.forget()
                if self._whose == whose:  # the same model answered within
                    self._slots, self._table = kept

    @property
    def whose(self) -> str | None:
        """The name of what answered last; None where nothing is known about that."""
        return self._whose

    @property
    def spent(self) -> Spent:
        """What has been asked so far."""
        return Spent(self._inputs, self._tokens, self._seconds)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the lock behind: a copy has its own."""
        return {name: part for name, part in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over everything, with a lock of its own."""
        self.__dict__.update(state, _lock=RLock())

    def __call__(self, questions: Sequence[Question]) -> list[Answer]:
        """Answer all questions; threads wait for each other."""
        with self._lock:
            return self._answers(questions)

    def _answers(self, questions: Sequence[Question]) -> list[Answer]:
        began, whose = perf_counter(), self.name()
        if whose is None or whose != self._whose or len(self._slots) > _REMEMBERED:
            self._slots, self._table = {}, self._table[:0]
        self._whose = whose
        plan: dict[int, list[tuple[int, Group]]] = {}  # by length, each group with the number of its question
        for number, question in enumerate(questions):
            for group in (group for groups in question.reading.parts(question.keep) for group in groups):
                plan.setdefault(group.length, []).append((number, group))
        asked = [_Asked(len(question.keep), []) for question in questions]
        store = AnswerStore(None if self._file_failed else self._file, whose)
        try:
            with store:
                self._run(plan, asked, store)
        finally:
            self._file_failed |= store.failed
            self._drop_unanswered()
            self._seconds += perf_counter() - began
        return [one.answer(self._table) for one in asked]

    def _work(self, plan: dict[int, list[tuple[int, Group]]], asked: "list[_Asked]", store: AnswerStore) -> Iterator[_Batch]:
        """Make the inputs; give those that nobody has answered yet, one batch a length.

        What takes longest comes first: the last batch, during which there is nothing left to prepare, is small.
        """
        tokens = {length: length * sum(len(group.rows) for _, group in groups) for length, groups in plan.items()}
        for length in sorted(plan, key=lambda length: (tokens[length], length), reverse=True):
            parts: list[Any] = []
            names: list[bytes] = []
            slots: list[NDArray[np.int64]] = []
            for number, group in plan[length]:
                inputs, keys = group.make()
                known, table = len(self._slots), self._slots
                found = np.array([table.setdefault(key, len(table)) for key in keys], dtype=np.int64)
                asked[number].groups.append((group, found))
                if len(table) < known + len(keys):  # some were known, or come twice
                    fresh, at = np.unique(np.where(found >= known, found, -1), return_index=True)
                    fresh, at = fresh[fresh >= 0], at[fresh >= 0]
                    inputs = inputs[at] if isinstance(inputs, np.ndarray) else [inputs[i] for i in at]
                    keys = [keys[i] for i in at]
                parts.append(inputs)
                names += keys
                slots.append(np.arange(known, len(table), dtype=np.int64))
            if not names:
                continue
            if len(self._table) < len(self._slots):
                more = np.full((max(len(self._slots), 1024), self._table.shape[1]), np.nan)  # grows by doubling
                self._table = np.concatenate([self._table, more])
            where = np.concatenate(slots)
            joined = np.concatenate(parts) if isinstance(parts[0], np.ndarray) else [text for part in parts for text in part]
            if store.load(self._table, names, where):
                left = np.flatnonzero(np.isnan(self._table[where, 0]))
                joined = joined[left] if isinstance(joined, np.ndarray) else [joined[i] for i in left]
                names, where = [names[i] for i in left], where[left]
            if len(where):
                yield _Batch(joined, names, where, length)

    def _run(self, plan: dict[int, list[tuple[int, Group]]], asked: "list[_Asked]", store: AnswerStore) -> None:
        """Ask the model: while it answers as many batches as it takes at a time, the next is made."""
        hidden = None if self.progress is None else not self.progress
        options = {"unit": "token" if self.model.tokenized else "text", "unit_scale": True, "desc": "asking", "leave": False}
        total = sum(length * len(group.rows) for length in plan for _, group in plan[length])
        work, queue = self._work(plan, asked, store), deque[_Batch]()
        running: deque[tuple[_Batch, Any]] = deque()

        def finish() -> None:
            """Take in the answers of the oldest batch under way."""
            batch, started = running.popleft()
            outputs = self.model.checked(self.model.finish(started), len(batch.slots))
            self._table[batch.slots] = outputs
            store.save(batch.keys, outputs)
            self._inputs += len(batch.slots)
            self._tokens += batch.length * len(batch.slots)
            bar.update(batch.length * len(batch.slots))

        with ExitStack() as stack:
            bar = stack.enter_context(tqdm(total=total, delay=_QUIET, disable=hidden, **options))
            batch = next(work, None)
            if batch is None:
                return
            stack.enter_context(self.model.session())
            ahead = self.model.ahead
            queue.append(batch)
            try:
                while True:
                    if not queue and len(running) < ahead:
                        queue.extend(_some(work))
                    if not queue and not running:
                        break
                    if not queue or len(running) == ahead:
                        finish()
                        continue
                    batch = queue.popleft()
                    if len(batch.slots) > (most := max(self.model.rows(batch.length), 1)):
                        batch, rest = batch.split(most)
                        queue.appendleft(rest)
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
        queue.extendleft(reversed([part for part in batch.split(len(batch.slots) // 2) if len(part.slots)]))

    def _drop_unanswered(self) -> None:
        """Forget inputs that never got an answer (after an interruption or an error)."""
        n = len(self._slots)
        answered = np.zeros(n, dtype=bool)
        answered[: len(self._table)] = ~np.isnan(self._table[:n, 0])
        if not answered.all():
            kept = [(key, slot) for key, slot in self._slots.items() if answered[slot]]
            self._table = self._table[[slot for _, slot in kept]]
            self._slots = {key: i for i, (key, _) in enumerate(kept)}

    def name(self) -> str | None:
        """Return the name of what answers now; None where nothing is known about that.

        Raises:
            InputError: Where a cache file needs the identity of the model and it cannot be had.
        """
        own, head = self._own_identity(), self.model.head
        if own is None and self._given is None:
            return None
        return f"{self._given or ''} {own or ''} {head.kind} {head.n_outputs} {self.model.form}".strip()

    def _own_identity(self) -> str | None:
        """Return the model's own identity; None where it has none, or it is costly or fails and no cache file needs it."""
        needed = self._file is not None and self._given is None
        if not needed and self.model.costly_identity:
            return None
        try:
            return self.model.identity()
        except SlalomError:
            raise
        except Exception as error:  # it may hash whatever the user's model is made of
            if not needed:
                return None
            said = " ".join(f"{type(error).__name__}: {error}".split())
            raise InputError(
                f"cache needs to know whose answers it holds, and the identity of {self.model.name} could not be computed"
                f" ({said}); pass identity=, a name that you change whenever the model changes"
            ) from error


def _some(work: Iterator[_Batch]) -> Iterator[_Batch]:
    """Give the next batch, or several small ones: to make them one after the other is quicker than in turn with the model."""
    tokens = 0
    while tokens < _TOGETHER and (batch := next(work, None)) is not None:
        tokens += batch.length * len(batch.slots)
        yield batch


class _Asked(NamedTuple):
    """What a question of m rows asks: its groups of rows, each with the slots of its inputs."""

    m: int
    groups: list[tuple[Group, NDArray[np.int64]]]

    def answer(self, table: Floats) -> Answer:
        """Return the answers (m, n_outputs): the mean over the windows of each row."""
        outputs, times = np.zeros((self.m, table.shape[1])), np.zeros(self.m)
        for group, own in self.groups:
            outputs[group.rows] += table[own]
            times[group.rows] += 1.0
        lengths = np.repeat([group.length for group, _ in self.groups], [len(own) for _, own in self.groups])
        slots = np.concatenate([np.zeros(0, dtype=np.int64), *(own for _, own in self.groups)])
        different, first = np.unique(slots, return_index=True)
        return Answer(outputs / times[:, None], len(different), int(lengths[first].sum()))
