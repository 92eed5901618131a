"""The query engine: every query about every text goes through here, and equal inputs are computed once.

Duplicates are removed, across texts too. Inputs are sorted by their exact length and packed into batches, unpadded
unless the model asks for it (`Model.batch_overhead`); while a GPU computes one, the next is built. Where memory runs out the
batches are halved. Answers are cached in memory, and in an SQLite file (slalom.models.store) if one is given, batch by batch:
an interruption loses at most the batches in flight.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Condition, get_ident
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats
from slalom.errors import InputError, ModelError, SlalomError
from slalom.forks import renew_after_fork
from slalom.interrupt import check
from slalom.models.base import InputGroup, Model, Reading
from slalom.models.costs import Estimate, Spending
from slalom.models.packing import Batch, built_together, length_ranges, padded
from slalom.models.store import AnswerStore
from slalom.progress import progress_bar

_MAX_CACHED = 500_000  # answers in memory
_PROGRESS_DELAY = 2.0  # seconds before a progress bar appears
_FIRST_TURN = 8  # rows of the first turn, before it is known how long they take
_ROW = 8  # tokens of a row besides its own, when turns are measured


class Queries(NamedTuple):
    """Queries about one text.

    Attributes:
        reading: The text as the model reads it.
        keep: Presence of its atoms, one row per query, (m, n_atoms).
    """

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

    @property
    def inputs(self) -> int:
        """Number of different inputs."""
        return len(self.lengths)

    @property
    def tokens(self) -> int:
        """Their tokens."""
        return sum(self.lengths.values())


class QueryCost(NamedTuple):
    """The cost of all queries of an engine so far.

    Attributes:
        inputs: Inputs that the model computed.
        tokens: Their tokens, or their number where the model reads strings.
        seconds: Time spent in the engine.
    """

    inputs: int
    tokens: int
    seconds: float


class _FairLock:
    """A reentrant lock; threads get it in the order in which they asked for it, so that none of them starves."""

    def __init__(self) -> None:
        self._changed, self._waiting = Condition(), deque[object]()
        self._owner, self._depth = 0, 0

    @property
    def taken(self) -> bool:
        """Whether a thread has it."""
        return self._depth > 0

    @property
    def mine(self) -> bool:
        """Whether this thread has it."""
        return self._owner == get_ident()

    def __enter__(self) -> None:
        with self._changed:
            if self._owner != get_ident():
                ticket = object()
                self._waiting.append(ticket)
                try:
                    self._changed.wait_for(lambda: not self._depth and self._waiting[0] is ticket)
                    self._owner = get_ident()
                finally:
                    self._waiting.remove(ticket)
                    self._changed.notify_all()
            self._depth += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._depth -= 1
            if not self._depth:
                self._owner = 0
                self._changed.notify_all()


class Engine:
    """Queries one model and caches its answers. Thread-safe: calls are serialised. A forked process has a lock of its own.

    Args:
        model: The model.
        cache: An SQLite file for the answers.
        identity: A name for the model, where it has no identity or one that is slow to compute. Change it whenever
            the model changes.
        progress: Whether to show a progress bar. Default: in a terminal or notebook, after two seconds.

    Attributes:
        answered: Called after every batch that the model has answered; None: nothing is.
        ended: Called at the end of every call with the number of texts, and the error that it raises or None; None: nothing is.
        turn_seconds: How long a thread may keep the model, about: a longer call is answered in parts, and other threads have
            their turn in between. None: a call is answered as a whole.

    Raises:
        InputError: A cache file is given and nothing identifies the model.
    """

    def __init__(
        self, model: Model, cache: str | Path | None = None, identity: str | None = None, progress: bool | None = None
    ) -> None:
        self.model, self.progress, self._identity = model, progress, identity
        self.answered: Callable[[], None] | None = None
        self.ended: Callable[[int, Exception | None], None] | None = None
        self.turn_seconds: float | None = None
        self._pace = 0.0  # seconds per token, as the last turn has shown
        self._file, self._file_failed = None if cache is None else Path(cache), False
        if self._file is not None and self.identify() is None:
            raise InputError(
                f"a cache file needs to identify the model, and {model.name} has no identity;"
                " pass identity=, a name that you change whenever the model changes"
            )
        self._slots: dict[bytes, int] = {}  # from the digest of an input to its row in the table
        self._table = np.full((0, model.n_columns), np.nan)  # NaN: not answered yet
        self._model_id: str | None = None
        self._inputs, self._tokens, self._seconds = 0, 0, 0.0
        self.spending = Spending(model)
        self._lock = _FairLock()
        renew_after_fork(self)

    @property
    def cached(self) -> int:
        """Number of answers in memory."""
        return len(self._slots)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keep other threads from the model, for code that changes it temporarily, such as methods that look inside."""
        with self._lock:
            yield

    def forget(self) -> None:
        """Clear the answers in memory; a cache file is left as it is."""
        with self._lock:
            self._slots, self._table = {}, np.full((0, self.model.n_columns), np.nan)

    @contextmanager
    def fresh(self) -> Iterator[None]:
        """Use an empty cache temporarily, e.g. for cold timings. It is restored afterwards, unless the model has changed."""
        with self._lock:
            saved, model_id = (self._slots, self._table), self._model_id
            self.forget()
            try:
                yield
            finally:
                self.forget()
                if self._model_id == model_id:
                    self._slots, self._table = saved

    @property
    def model_id(self) -> str | None:
        """Identifies the model that answered last, as `identify` does; None where nothing identifies it."""
        return self._model_id

    @property
    def cost(self) -> QueryCost:
        """The cost of all queries so far."""
        return QueryCost(self._inputs, self._tokens, self._seconds)

    def __getstate__(self) -> dict[str, Any]:
        return {name: part for name, part in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=_FairLock())
        renew_after_fork(self)

    def after_fork(self, held: bool) -> None:
        """Take a new lock in a forked process, and forget the answers where a thread of its parent was writing them.

        Args:
            held: Whether a thread of the parent had a lock of this object.
        """
        if self._lock.mine:
            return
        writing, self._lock = held or self._lock.taken, _FairLock()
        if writing:
            self.forget()

    def estimate(self, queries: Iterable[Queries]) -> Estimate:
        """Return what queries would cost; the model is asked nothing, and equal inputs count once.

        What the model has to ask before its first query counts too.

        Args:
            queries: One item per text.
        """
        with self._lock:
            model_id = self.identify()
            current = model_id is not None and model_id == self._model_id
            file = self._file if self._file is not None and self._file.is_file() and not self._file_failed else None
            seen, counted = set[bytes](), np.zeros(4, dtype=np.int64)
            with AnswerStore(file, model_id) as store:
                for item in queries:
                    for group in item.reading.groups(item.keep):
                        inputs, keys = group.build()
                        fresh = {key: i for i, key in enumerate(keys) if key not in seen}
                        seen |= fresh.keys()
                        names = [key for key in fresh if not (current and key in self._slots)]
                        table = np.full((len(names), self.model.n_columns), np.nan)
                        store.load(table, names, np.arange(len(names)))
                        new = [fresh[key] for key, row in zip(names, table, strict=True) if np.isnan(row[0])]
                        tokens = [self._tokens_of(inputs[i], group.length) for i in new]
                        counted += len(new), sum(t for t, _ in tokens), sum(t for _, t in tokens), len(fresh) - len(new)
        inputs, read, written, cached = map(int, counted)
        if inputs:
            read, written = (part + first for part, first in zip((read, written), self.model.start_tokens, strict=True))
        prices = self.spending.prices
        cost = None if prices is None else prices.cost(read, written)
        return Estimate(inputs, read, written, cost, cached, about=not self.model.tokenized)

    def _tokens_of(self, one: Any, length: int) -> tuple[int, int]:
        """Return the tokens that are read and written for one input."""
        return (length, 0) if self.model.tokenized else self.model.tokens_of(one)

    def _cost(self, batch: Batch) -> float:
        """Return the estimated cost of a batch; 0 without prices."""
        prices = self.spending.prices
        if prices is None:
            return 0.0
        return sum(prices.cost(*self._tokens_of(one, batch.length)) for one in batch.inputs)

    def __call__(self, queries: Sequence[Queries], description: str = "asking") -> list[Answers]:
        """Answer queries about several texts, which share batches."""
        if self.turn_seconds is None:
            return self._whole(queries, description)
        answers: list[list[Answers]] = [[] for _ in queries]
        for part in self._turns(queries, self.turn_seconds):
            with self._lock:
                check()
                began, inputs = perf_counter(), self._inputs
                found = self._whole([queries for _, queries in part], description)
                rows, tokens = (sum(counts) for counts in zip(*(_size(queries) for _, queries in part), strict=True))
                if 2 * (computed := self._inputs - inputs) > rows:  # cached answers say nothing about the model's speed
                    self._pace = (perf_counter() - began) / tokens * rows / computed
            for (number, _), answer in zip(part, found, strict=True):
                answers[number].append(answer)
        return [_joined(parts) for parts in answers]

    def _turns(self, queries: Sequence[Queries], seconds: float) -> Iterator[list[tuple[int, Queries]]]:
        """Yield queries, with the numbers of their texts, in parts that take about so many seconds each."""
        least, part, rows, tokens = 2 * self.model.max_in_flight, list[tuple[int, Queries]](), 0, 0  # two rounds of requests
        for number, item in enumerate(queries):
            start, lengths = 0, item.keep.sum(axis=1) + _ROW
            for i, length in enumerate(lengths.tolist()):
                rows, tokens = rows + 1, tokens + length
                if rows >= least and (tokens * self._pace >= seconds if self._pace else rows >= _FIRST_TURN):
                    yield [*part, (number, item._replace(keep=item.keep[start : i + 1]))]
                    start, part, rows, tokens = i + 1, [], 0, 0
            if start < len(lengths) or not len(lengths):
                part.append((number, item._replace(keep=item.keep[start:])))
        if part:
            yield part

    def _whole(self, queries: Sequence[Queries], description: str) -> list[Answers]:
        with self._lock:
            try:
                found = self._answer(queries, description)
            except Exception as error:
                if self.ended is not None:
                    self.ended(len(queries), error)
                raise
            if self.ended is not None:
                self.ended(len(queries), None)
            return found

    def _answer(self, queries: Sequence[Queries], description: str) -> list[Answers]:
        began = perf_counter()
        model_id = self.identify()
        if model_id is None or model_id != self._model_id or len(self._slots) > _MAX_CACHED:
            self._slots, self._table = {}, self._table[:0]
        self._model_id = model_id
        plan: dict[int, list[tuple[int, InputGroup]]] = {}  # by length, each group with the number of its text
        for number, item in enumerate(queries):
            for group in item.reading.groups(item.keep):
                plan.setdefault(group.length, []).append((number, group))
        pending = [_Pending(len(item.keep), []) for item in queries]
        store = AnswerStore(None if self._file_failed else self._file, model_id)
        try:
            with store:
                self._run(plan, pending, store, description)
        finally:
            self._file_failed |= store.failed
            self._drop_unanswered()
            self._seconds += perf_counter() - began
        return [item.answers(self._table) for item in pending]

    def _new_batches(
        self, plan: dict[int, list[tuple[int, InputGroup]]], pending: "list[_Pending]", store: AnswerStore
    ) -> Iterator[Batch]:
        """Build the inputs; yield those without an answer, one batch per length, or per range of lengths where they are padded.

        The longest work comes first: while the last batch is computed there is nothing left to build, so it should be small.
        """
        rows_of = {length: sum(len(group.rows) for _, group in groups) for length, groups in plan.items()}
        ranges = length_ranges(rows_of, self.model.batch_overhead)
        for lengths in sorted(ranges, key=lambda r: (sum(rows_of[n] * n for n in r), r[-1]), reverse=True):
            parts: list[Any] = []
            names: list[bytes] = []
            slots: list[NDArray[np.int64]] = []
            sizes: list[int] = []
            for number, group in (item for length in lengths for item in plan[length]):
                inputs, keys = group.build()
                known, table = len(self._slots), self._slots
                rows = np.array([table.setdefault(key, len(table)) for key in keys], dtype=np.int64)
                pending[number].groups.append((group, rows, keys))
                if len(table) < known + len(keys):  # some are known already, or duplicates
                    fresh, at = np.unique(np.where(rows >= known, rows, -1), return_index=True)
                    fresh, at = fresh[fresh >= 0], at[fresh >= 0]
                    inputs = inputs[at] if isinstance(inputs, np.ndarray) else [inputs[i] for i in at]
                    keys = [keys[i] for i in at]
                parts.append(inputs if group.length == lengths[-1] else padded(inputs, lengths[-1]))
                names += keys
                sizes += [group.length] * len(keys)
                slots.append(np.arange(known, len(table), dtype=np.int64))
            if not names:
                continue
            if len(self._table) < len(self._slots):
                more = np.full((max(len(self._slots), 1024), self._table.shape[1]), np.nan)  # grows by doubling
                self._table = np.concatenate([self._table, more])
            targets, each = np.concatenate(slots), np.array(sizes)
            joined = np.concatenate(parts) if isinstance(parts[0], np.ndarray) else [text for part in parts for text in part]
            if store.load(self._table, names, targets):
                missing = np.flatnonzero(np.isnan(self._table[targets, 0]))
                joined = joined[missing] if isinstance(joined, np.ndarray) else [joined[i] for i in missing]
                names, targets, each = [names[i] for i in missing], targets[missing], each[missing]
            if len(targets):
                yield Batch(joined, names, targets, each)

    def _run(
        self,
        plan: dict[int, list[tuple[int, InputGroup]]],
        pending: "list[_Pending]",
        store: AnswerStore,
        description: str,
    ) -> None:
        """Compute all batches; the next one is built while the model computes those in flight."""
        total = sum(length * len(group.rows) for length in plan for _, group in plan[length])
        batches, queue = self._new_batches(plan, pending, store), deque[Batch]()
        in_flight: deque[tuple[Batch, Any]] = deque()

        def collect() -> None:
            """Store the outputs of the batch in flight that is ready first; if interrupted before that, it stays in flight."""
            first = self.model.wait([handle for _, handle in in_flight])
            batch, handle = in_flight[first]
            try:
                self._keep(batch, handle, store)
            except Exception:
                del in_flight[first]
                raise
            del in_flight[first]
            self._count(batch, bar)

        with ExitStack() as stack:
            bar = stack.enter_context(self._bar(total, description))
            batch = next(batches, None)
            if batch is None:
                return
            self._check_start()
            stack.enter_context(self.model.session())
            most = self.model.max_in_flight
            queue.append(batch)
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

    def _bar(self, total: int, description: str) -> Any:
        """Return the progress bar of so many tokens, or queries."""
        options = {
            "unit": "token" if self.model.tokenized else "query",
            "unit_scale": True,
            "desc": description,
            "leave": False,
        }
        return progress_bar(self.progress, total=total, delay=_PROGRESS_DELAY, **options)

    def _keep(self, batch: Batch, handle: Any, store: AnswerStore) -> None:
        """Write the outputs of a batch into the table and the file."""
        outputs = self.model.checked(self.model.collect(handle), len(batch.slots))
        self._table[batch.slots] = outputs
        store.save(batch.keys, outputs)

    def _count(self, batch: Batch, bar: Any) -> None:
        """Count a batch that is answered, and show it."""
        if self.answered is not None:
            self.answered()
        self._inputs += len(batch.slots)
        self._tokens += batch.tokens
        if self.spending.prices is not None:
            self.spending.received(self._cost(batch))
            bar.set_postfix_str(self.spending.shown, refresh=False)
        bar.update(batch.tokens)

    def _check_start(self) -> None:
        """Raise an InputError where what the model asks before its first query would exceed max_cost."""
        if self.spending.prices is not None:
            self.spending.check(self.spending.prices.cost(*self.model.start_tokens), "finding out what the server can do")

    def _check_cost(self, batch: Batch, in_flight: deque[tuple[Batch, Any]], collect: Callable[[], None]) -> None:
        """Raise an InputError where a batch would exceed max_cost; in doubt what is in flight is collected first."""
        if self.spending.max_cost is None:
            return
        cost = self._cost(batch)
        while in_flight and not self.spending.allows(
            self.spending.dearer * (cost + sum(self._cost(part) for part, _ in in_flight))
        ):
            collect()
        self.spending.check(cost + sum(self._cost(part) for part, _ in in_flight), "the next request")

    def _halve(self, batch: Batch, queue: deque[Batch], waiting: bool) -> None:
        """Put a batch that did not fit back into the queue, in two halves."""
        if len(batch.slots) == 1 and not waiting:
            raise ModelError(
                f"one input of {batch.length} tokens does not fit into the memory of {self.model.name};"
                " use a larger device, a smaller model or a shorter text"
            )
        self.model.shrink()
        queue.extendleft(reversed([part for part in batch.split(len(batch.slots) // 2) if len(part.slots)]))

    def _drop_unanswered(self) -> None:
        """Remove inputs without an answer, after an interruption or an error."""
        n = len(self._slots)
        answered = np.zeros(n, dtype=bool)
        answered[: len(self._table)] = ~np.isnan(self._table[:n, 0])
        if not answered.all():
            entries = [(key, slot) for key, slot in self._slots.items() if answered[slot]]
            self._table = self._table[[slot for _, slot in entries]]
            self._slots = {key: i for i, (key, _) in enumerate(entries)}

    def identify(self) -> str | None:
        """Return a string that identifies the model as it is now, and its settings; None where nothing does.

        Raises:
            InputError: A cache file needs the identity of the model, and it cannot be computed.
        """
        identity, head = self._model_identity(), self.model.head
        if identity is None and self._identity is None:
            return None
        return f"{self._identity or ''} {identity or ''} {head.kind} {self.model.n_columns} {self.model.variant}".strip()

    def _model_identity(self) -> str | None:
        """Return the model's identity; None where it has none, or it is costly or fails and no cache file needs it."""
        needed = self._file is not None and self._identity is None
        if not needed and self.model.costly_identity:
            return None
        try:
            return self.model.identity()
        except SlalomError:
            raise
        except Exception as error:  # it may hash anything that is in the model
            if not needed:
                return None
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise InputError(
                f"a cache file needs to identify the model, and the identity of {self.model.name} could not be computed"
                f" ({reason}); pass identity=, a name that you change whenever the model changes"
            ) from error


class _Pending(NamedTuple):
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


def _size(queries: Queries) -> tuple[int, int]:
    """Return the number of rows, and about how many tokens they have."""
    return len(queries.keep), int(queries.keep.sum()) + _ROW * len(queries.keep)


def _joined(parts: Sequence[Answers]) -> Answers:
    """Return the answers to parts of the queries about one text as one."""
    if len(parts) == 1:
        return parts[0]
    return Answers(np.concatenate([part.outputs for part in parts]), {k: v for part in parts for k, v in part.lengths.items()})
