"""The pipeline: texts through all stages, in rounds; those that go on ask together, so that batches stay full."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from time import perf_counter, thread_time
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from slalom.errors import SlalomError
from slalom.methods.base import named_failures
from slalom.models import Engine, Estimate, Model, Queries, Reading
from slalom.models.costs import money
from slalom.pipeline.explaining import check_pairs, explain
from slalom.pipeline.options import Options
from slalom.pipeline.planning import Task, plan, read
from slalom.pipeline.run import TextRun, failure
from slalom.pipeline.side_by_side import side_by_side
from slalom.result import Explanation, Failure
from slalom.result.pairs import most_checks
from slalom.text import UnitFunction, Units, extended, query_keys
from slalom.threads import one_blas_thread, threads_here

_CELLS = 40_000_000  # entries of presence matrices that are held in memory at once
_THREADS = 3  # that explain texts: with more, they wait for the interpreter's lock


@final
class Pipeline:
    """Explains texts with one model and its engine.

    A text is a `TextRun`. Each round asks what is new (`ask`) and explains it (`advance`), until it has a result.
    """

    def __init__(self, model: Model, engine: Engine) -> None:
        self.model, self.engine = model, engine
        self._committed = 0.0  # cost of the rows that the next round asks

    def run(self, texts: Sequence[Any], options: Options, pairs: bool = True) -> Iterator[Explanation | Failure]:
        """Explain texts in order, as many at a time as fit into memory; `pairs`: whether to ask the model about pairs."""
        for tasks in self._planned(texts, options):
            for run in self._explained(tasks, options):
                if pairs:
                    check_pairs(self.engine, run, options)
                assert run.result is not None
                yield run.result

    def estimate(self, texts: Sequence[Any], options: Options) -> Estimate:
        """Return what `run` would ask: all queries of a fixed budget, those of the first round where it grows."""
        checks, further = dict[str, int](), dict[str, int]()
        limited = self.engine.spending.max_cost is not None

        def queries() -> Iterator[Queries]:
            for number, text in enumerate(texts):
                try:
                    task = plan(self.model, text, options, number, "" if len(texts) == 1 else f" (text {number})")
                except SlalomError:
                    if options.errors == "raise":
                        raise
                    continue
                n = len(task.units)
                if not limited:
                    further[task.reading.text] = min(options.method.further(n, task.budget), task.budget - task.whole)
                if options.checks_pairs and not limited:
                    checks[task.reading.text] = most_checks(task.distinct, n, task.budget)
                yield task.queries(task.keep)

        more = options.goal is not None or not options.method.plans_all
        return self.engine.estimate(queries())._replace(at_least=more, further=sum(further.values()) + sum(checks.values()))

    def read(
        self, text: str, unit: str | UnitFunction, long: str, cells: NDArray[np.int64] | None = None
    ) -> tuple[Reading, Units]:
        """Return the text as the model reads it, and its units: of a kind, those of a function, or given by their spans."""
        return read(self.model, text, unit, long, cells)

    def matches(self, explanation: Explanation, options: Options) -> bool:
        """Return whether an explanation has the model, method and options with which its text would be explained now."""
        mine = (options.method.name, options.seed, options.unit_kind, self.model.name, options.settings(self.engine.identify()))
        e = explanation
        return mine == (e.method, e.seed, e.unit, e.model, dict(e.settings))

    def ask(self, runs: Sequence[TextRun], description: str) -> None:
        """Query the model for the new rows of all texts at once; in the first round, also for its decisions."""
        began, self._committed = perf_counter(), 0.0
        undecided = [run for run in runs if run.decision is None]
        if undecided and self.model.usage is not None:  # paid: where a whole text has no usable answer, nothing else is asked
            wholes = [run.task.queries(run.task.keep[run.task.whole : run.task.whole + 1]) for run in undecided]
            for answer in self.engine(wholes, description):
                self.model.observe(answer.outputs, 0)
        new = [run.new_rows for run in runs]
        answers = self.engine([run.task.queries(rows) for run, rows in zip(runs, new, strict=True)], description)
        if undecided:
            whole = np.stack(
                [answer.outputs[run.task.whole] for run, answer in zip(runs, answers, strict=True) if run.decision is None]
            )
            decisions = self.model.decisions([run.task.reading.text for run in undecided], whole)
            for run, decision in zip(undecided, decisions, strict=True):
                run.decision = decision
        seconds = (perf_counter() - began) / max(sum(map(len, new)), 1)
        for run, rows, answer in zip(runs, new, answers, strict=True):
            run.receive(answer, seconds * len(rows))

    def advance(self, run: TextRun, options: Options) -> None:
        """Explain a text from the answers so far; the last round sets its result, others add queries."""
        try:
            before, run.explanation = run.explanation, explain(self.engine, run, options)
            run.result = self._finished(run, before, run.explanation, options)
        except Exception as error:
            if options.errors == "raise":
                raise
            run.fail(error)

    def _planned(self, texts: Sequence[Any], options: Options) -> Iterator[list[Task | Failure]]:
        """Plan all texts; each list holds as many tasks as fit into memory."""
        tasks, size = list[Task | Failure](), 0
        for number, text in enumerate(texts):
            where = "" if len(texts) == 1 or options.errors == "keep" else f" (text {number})"  # a Failure has its number
            try:
                task = plan(self.model, text, options, number, where)
                size += task.cells(options)
                tasks.append(task)
            except Exception as error:
                if options.errors == "raise":
                    raise
                tasks.append(failure(number, text, error))
            if number == len(texts) - 1 or size > _CELLS:
                yield tasks
                tasks, size = [], 0

    def _explained(self, tasks: Sequence[Task | Failure], options: Options) -> Iterator[TextRun]:
        """Ask and explain all tasks, round by round; a run is yielded as soon as it and those before it have a result."""
        runs = deque(TextRun(task) for task in tasks)
        while going := [run for run in runs if run.result is None]:
            self._ask_round(going, options, f"asking, round {going[0].rounds + 1}" if options.goal else "asking")
            for _ in self._advanced(going, options):
                while runs and runs[0].result is not None:
                    yield runs.popleft()
        yield from runs

    def _advanced(self, runs: Sequence[TextRun], options: Options) -> Iterator[TextRun]:
        """Advance runs, several at a time where the method allows it; yield each when it and those before it have advanced."""
        threads = min(_THREADS, threads_here())

        def separable(run: TextRun) -> bool:
            return run.result is not None or (
                options.goal is None and options.method.separable(len(run.task.units), run.task.whole)
            )

        def advance(run: TextRun) -> None:
            if run.result is None:
                run.clock = clock
                self.advance(run, options)
                run.clock = perf_counter

        for together, group in groupby(runs, separable):
            going = list(group)
            several = together and min(threads, len(going)) > 1
            clock = thread_time if several else perf_counter
            yield from side_by_side(advance, going, threads if several else 1)

    def _ask_round(self, runs: Sequence[TextRun], options: Options, description: str) -> None:
        """Ask for all texts; where the model fails and errors are kept, for one after the other."""
        try:
            self.ask(runs, description)
        except Exception as error:
            if options.errors == "raise":
                raise
            if len(runs) == 1:
                runs[0].fail(error)
                return
            for run in runs:
                self._ask_round([run], options, description)

    def _finished(self, run: TextRun, before: Explanation | None, after: Explanation, options: Options) -> Explanation | None:
        """Return the explanation with the reason why it is the last one; None where another round follows."""
        goal, task = options.goal, run.task
        if goal is None:
            return after
        reason = goal.reached(before, after, run.rounds)
        if not reason:
            budget = goal.after(task.budget, run.further)
            if budget <= task.budget:
                reason = goal.exhausted(after)
            else:
                run.task = self._extended(run, budget, options)
                if self._pays(run):
                    return None
                run.task = task
                reason = f"another round costs more than is left of max_cost, {money(self.engine.spending.max_cost or 0.0)}"
        return replace(after, stopped=f"{reason} (round {run.rounds})")

    def _extended(self, run: TextRun, budget: int, options: Options) -> Task:
        """Return the task of a text with more queries of the method, for a larger budget."""
        task, rng = run.task, np.random.default_rng([options.seed, 2, run.rounds])
        taken = set(query_keys(task.keep, task.units.names))

        def is_new(rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
            fresh = {row.tobytes() for row in run.unasked(rows)}  # the method may have asked others by itself
            keys = query_keys(rows, task.units.names)
            return np.array(
                [key not in taken and row.tobytes() in fresh for key, row in zip(keys, rows, strict=True)], dtype=bool
            )

        with named_failures(options.method), one_blas_thread():
            more = extended(
                task.plan,
                lambda number: options.method.plan(task.units, number, rng, task.reading.empty),
                budget - options.method.further(len(task.units), budget),
                is_new,
            )
        return task.extended(more)._replace(budget=budget)

    def _pays(self, run: TextRun) -> bool:
        """Return whether the new rows of a text can be paid, after those of other texts in the same round."""
        spending = self.engine.spending
        if spending.max_cost is None:
            return True
        cost = self.engine.estimate([run.task.queries(run.new_rows)]).cost or 0.0
        if not spending.allows(self._committed + cost):
            return False
        self._committed += cost
        return True
