"""The query engine: every query about every text goes through here, and equal inputs are computed once.

Duplicates are removed, across texts too. Inputs are sorted by their exact length and packed into batches, unpadded
unless the model asks for it (`Model.batch_overhead`); while a GPU computes one, the next is built. Where memory runs out the
batches are halved. Answers are cached in memory, and in an SQLite file (slalom.models.store) if one is given, batch by batch:
an interruption loses at most the batches in flight.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from slalom.errors import InputError, ModelError, SlalomError, one_line
from slalom.forks import renew_after_fork
from slalom.interrupt import check
from slalom.models.base import InputGroup, Model
from slalom.models.costs import Estimate, Spending
from slalom.models.memory import Memory
from slalom.models.packing import Batch, built_together, joined, length_ranges
from slalom.models.queries import Answers, Pending, Queries, QueryCost
from slalom.models.store import AnswerStore
from slalom.models.turns import FairLock, Pace
from slalom.progress import progress_bar

_MAX_CACHED = 500_000  # answers in memory
_PROGRESS_DELAY = 2.0  # seconds before a progress bar appears

_Plan = dict[int, list[tuple[int, InputGroup]]]  # by length, each group with the number of its text


class Engine:
    """Queries one model and caches its answers. Thread-safe: calls are serialised. A forked process has a lock of its own.

    Args:
        model: The model.
        cache: An SQLite file for the answers.
        identity: A name for the model, where it has no identity or one that is slow to compute. Change it whenever
            the model changes.
        progress: Whether to show a progress bar. Default: in a terminal or notebook, after two seconds.

    Attributes:
        model_id: Identifies the model that answered last, as `identify` does; None where nothing identifies it.
        answered: Called after every batch that the model has answered.
        ended: Called at the end of every call with the number of texts, and the error that it raises or None.
        lock: Keeps other threads from the model, for code that changes it temporarily, such as methods that look inside.
        turn_seconds: How long a thread may keep the model, about: a longer call is answered in parts, and other threads have
            their turn in between. None: a call is answered as a whole.

    Raises:
        InputError: A cache file is given and nothing identifies the model.
    """

    def __init__(
        self, model: Model, cache: str | Path | None = None, identity: str | None = None, progress: bool | None = None
    ) -> None:
        self.model, self.progress, self.given_identity = model, progress, identity
        self.answered: Callable[[], None] | None = None
        self.ended: Callable[[int, Exception | None], None] | None = None
        self.turn_seconds: float | None = None
        self._pace = Pace()
        self._file = None if cache is None else Path(cache)
        if self._file is not None and self.identify() is None:
            raise InputError(
                f"a cache file needs to identify the model, and {model.name} has no identity;"
                " pass identity=, a name that you change whenever the model changes"
            )
        self._memory = Memory(model.n_columns)
        self.model_id: str | None = None
        self._inputs, self._tokens, self._seconds = 0, 0, 0.0
        self.spending = Spending(model)
        self.lock = FairLock()
        renew_after_fork(self)

    @property
    def cached(self) -> int:
        """Number of answers in memory."""
        return len(self._memory.slots)

    @property
    def cost(self) -> QueryCost:
        """The cost of all queries so far."""
        return QueryCost(self._inputs, self._tokens, self._seconds)

    def forget(self) -> None:
        """Clear the answers in memory; a cache file is left as it is."""
        with self.lock:
            self._memory = Memory(self.model.n_columns)

    @contextmanager
    def fresh(self) -> Iterator[None]:
        """Use an empty cache temporarily, e.g. for cold timings. It is restored afterwards, unless the model has changed."""
        with self.lock:
            memory, model_id = self._memory, self.model_id
            self.forget()
            try:
                yield
            finally:
                self.forget()
                if self.model_id == model_id:
                    self._memory = memory

    def __getstate__(self) -> dict[str, Any]:
        return {name: part for name, part in self.__dict__.items() if name != "lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, lock=FairLock())
        renew_after_fork(self)

    def after_fork(self, held: bool) -> None:
        """Take a new lock in a forked process; forget the answers where a thread of the parent was writing (`held`: a lock)."""
        if self.lock.mine:
            return
        writing, self.lock = held or self.lock.taken, FairLock()
        if writing:
            self.forget()

    def estimate(self, queries: Iterable[Queries]) -> Estimate:
        """Return what queries would cost, and what comes before the first; nothing is asked, and equal inputs count once."""
        n = read = written = 0
        seen, in_file = set[bytes](), set[bytes]()
        with self.lock:
            model_id = self.identify()
            known = self._memory.slots.keys() if model_id is not None and model_id == self.model_id else set[bytes]()
            file = self._file if self._file is not None and self._file.is_file() else None
            with AnswerStore(file, model_id) as store:
                for item in queries:
                    for group in item.reading.groups(item.keep):
                        inputs, keys = group.build()
                        new = {key: i for i, key in enumerate(keys) if key not in seen}
                        seen |= new.keys()
                        in_file |= store.load([key for key in new if key not in known], self.model.n_columns).keys()
                        for i in (i for key, i in new.items() if key not in known and key not in in_file):
                            tokens = self._tokens_of(inputs[i], group.length)
                            n, read, written = n + 1, read + tokens[0], written + tokens[1]
        if n:
            read, written = (part + first for part, first in zip((read, written), self.model.start_tokens, strict=True))
        cost = self.spending.cost(read, written) if self.spending.prices else None
        return Estimate(n, read, written, cost, len(seen) - n, about=not self.model.tokenized)

    def _tokens_of(self, one: Any, length: int) -> tuple[int, int]:
        return (length, 0) if self.model.tokenized else self.model.tokens_of(one)

    def _cost(self, batch: Batch) -> float:
        return sum(self.spending.cost(*self._tokens_of(one, batch.length)) for one in batch.inputs)

    def __call__(self, queries: Sequence[Queries], description: str = "asking") -> list[Answers]:
        """Answer queries about several texts, which share batches."""
        if self.turn_seconds is None:
            return self._whole(queries, description)
        answers: list[list[Answers]] = [[] for _ in queries]
        for part in self._pace.parts(queries, self.turn_seconds, 2 * self.model.max_in_flight):
            with self.lock:
                check()
                began, inputs = perf_counter(), self._inputs
                for (number, _), answer in zip(part, self._whole([item for _, item in part], description), strict=True):
                    answers[number].append(answer)
                self._pace.measure(part, perf_counter() - began, self._inputs - inputs)
        return [Answers.joined(parts) for parts in answers]

    def _whole(self, queries: Sequence[Queries], description: str) -> list[Answers]:
        failure = None
        with self.lock:
            try:
                return self._answer(queries, description)
            except Exception as error:
                failure = error
                raise
            finally:
                if self.ended is not None:
                    self.ended(len(queries), failure)

    def _answer(self, queries: Sequence[Queries], description: str) -> list[Answers]:
        began = perf_counter()
        model_id = self.identify()
        if model_id is None or model_id != self.model_id or self.cached > _MAX_CACHED:
            self._memory = Memory(self.model.n_columns)
        self.model_id = model_id
        plan: _Plan = {}
        for number, item in enumerate(queries):
            for group in item.reading.groups(item.keep):
                plan.setdefault(group.length, []).append((number, group))
        total = sum(length * len(group.rows) for length in plan for _, group in plan[length])
        pending = [Pending(len(item.keep), []) for item in queries]
        store = AnswerStore(self._file, model_id)
        try:
            with store:
                self._run(self._batches(plan, pending, store), store, total, description)
        finally:
            self._file = None if store.failed else self._file
            self._memory.drop_unanswered()
            self._seconds += perf_counter() - began
        return [item.answers(self._memory.table) for item in pending]

    def _batches(self, plan: _Plan, pending: list[Pending], store: AnswerStore) -> Iterator[Batch]:
        """Build the inputs; yield those without an answer, one batch per length, or per range of lengths where they are padded.

        The longest work comes first: while the last batch is computed there is nothing left to build, so it should be small.
        """
        memory = self._memory
        rows_of = {length: sum(len(group.rows) for _, group in groups) for length, groups in plan.items()}
        ranges = length_ranges(rows_of, self.model.batch_overhead)
        for lengths in sorted(ranges, key=lambda r: (sum(rows_of[n] * n for n in r), r[-1]), reverse=True):
            parts: list[Batch] = []
            for number, group in (item for length in lengths for item in plan[length]):
                inputs, keys = group.build()
                slots, new = memory.add(keys)
                pending[number].groups.append((group, slots, keys))
                if len(new):
                    parts.append(Batch(inputs, keys, slots, np.full(len(keys), group.length)).take(new))
            if not parts:
                continue
            batch = joined(parts)
            stored = store.load(batch.keys, self.model.n_columns)
            for key, outputs in stored.items():
                memory.table[memory.slots[key]] = outputs
            if stored:
                batch = batch.take(np.flatnonzero(np.isnan(memory.table[batch.slots, 0])))
            if len(batch.slots):
                yield batch

    def _run(self, batches: Iterator[Batch], store: AnswerStore, total: int, description: str) -> None:
        """Compute all batches; the next one is built while the model computes those in flight."""
        queue, in_flight = deque[Batch](), deque[tuple[Batch, Any]]()
        with ExitStack() as stack:
            unit = "token" if self.model.tokenized else "query"
            options = {"unit": unit, "unit_scale": True, "desc": description, "leave": False}
            bar = stack.enter_context(progress_bar(self.progress, total=total, delay=_PROGRESS_DELAY, **options))
            first = next(batches, None)
            if first is None:
                return
            collect = partial(self._collect, in_flight, store, bar)
            if self.spending.prices:
                self.spending.check(self.spending.cost(*self.model.start_tokens), "finding out what the server can do")
            queue.append(first)
            stack.enter_context(self.model.session())
            most = self.model.max_in_flight
            try:
                while True:
                    if not queue and len(in_flight) < most:
                        queue.extend(built_together(batches))
                    if not queue and not in_flight:
                        break
                    if not queue or len(in_flight) == most:
                        collect()
                        continue
                    batch = queue.popleft()
                    if len(batch.slots) > (rows := max(self.model.batch_rows(batch.length), 1)):
                        batch, rest = batch.split(rows)
                        queue.appendleft(rest)
                    self._check_cost(batch, in_flight, collect)
                    try:
                        in_flight.append((batch, self.model.submit(batch.inputs)))
                    except MemoryError:
                        self._halve(batch, queue, bool(in_flight))
                        if in_flight:
                            collect()
            finally:  # after an error, keep what is answered
                for _, handle in in_flight:
                    self.model.cancel(handle)
                while in_flight:
                    with suppress(ModelError, CancelledError):
                        collect()

    def _collect(self, in_flight: deque[tuple[Batch, Any]], store: AnswerStore, bar: Any) -> None:
        """Store the outputs of the batch in flight that is ready first; if interrupted before that, it stays in flight."""
        first = self.model.wait([handle for _, handle in in_flight])
        batch, handle = in_flight[first]
        try:
            outputs = self.model.checked(self.model.collect(handle), len(batch.slots))
            self._memory.table[batch.slots] = outputs
            store.save(batch.keys, outputs)
        except Exception:
            del in_flight[first]
            raise
        del in_flight[first]
        if self.answered is not None:
            self.answered()
        self._inputs += len(batch.slots)
        self._tokens += batch.tokens
        if self.spending.prices:
            self.spending.received(self._cost(batch))
            bar.set_postfix_str(self.spending.shown, refresh=False)
        bar.update(batch.tokens)

    def _check_cost(self, batch: Batch, in_flight: deque[tuple[Batch, Any]], collect: Callable[[], None]) -> None:
        """Raise an InputError where a batch would exceed max_cost; in doubt what is in flight is collected first."""
        if self.spending.max_cost is None:
            return

        def cost() -> float:
            return self._cost(batch) + sum(self._cost(part) for part, _ in in_flight)

        while in_flight and not self.spending.allows(self.spending.dearer * cost()):
            collect()
        self.spending.check(cost(), "the next request")

    def _halve(self, batch: Batch, queue: deque[Batch], waiting: bool) -> None:
        """Put a batch that did not fit back into the queue, in two halves."""
        if len(batch.slots) == 1 and not waiting:
            raise ModelError(
                f"one input of {batch.length} tokens does not fit into the memory of {self.model.name};"
                " use a larger device, a smaller model or a shorter text"
            )
        self.model.shrink()
        queue.extendleft(reversed([part for part in batch.split(len(batch.slots) // 2) if len(part.slots)]))

    def identify(self) -> str | None:
        """Return a string that identifies the model as it is now, and its settings; None where nothing does."""
        head, identity, needed = self.model.head, None, self._file is not None and self.given_identity is None
        if needed or not self.model.costly_identity:
            try:
                identity = self.model.identity()
            except SlalomError:
                raise
            except Exception as error:  # it may hash anything that is in the model
                if needed:
                    raise InputError(
                        f"a cache file needs to identify the model, and the identity of {self.model.name} could not be computed"
                        f" ({type(error).__name__}: {one_line(error)}); pass identity=, a name that you change whenever the"
                        " model changes"
                    ) from error
        if identity is None and self.given_identity is None:
            return None
        return f"{self.given_identity or ''} {identity or ''} {head.kind} {self.model.n_columns} {self.model.variant}".strip()
