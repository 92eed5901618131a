"""The pipeline: texts through all stages, in rounds; those that go on ask together, so that batches stay full."""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import row_keys
from slalom.errors import SlalomError, one_line
from slalom.methods.base import named_failures
from slalom.models import Engine, Estimate, Model, Queries, Reading
from slalom.models.costs import money
from slalom.pipeline.explaining import explain, next_rows, pairs_to_ask, with_pairs
from slalom.pipeline.options import Options
from slalom.pipeline.planning import Task, plan, read
from slalom.pipeline.run import Step, TextRun, failure, raise_interrupts
from slalom.result import Explanation, Failure
from slalom.result.pairs import combinations, most_checks
from slalom.text import QueryPlan, UnitFunction, Units, extended, query_keys
from slalom.threads import one_blas_thread

_CELLS = 40_000_000  # entries of presence matrices that are held in memory at once
# Texts, and seconds of their fits, that share the rounds after the first. Their results come together, so more delay the first
# one, and lose more where a run is interrupted; fewer leave a GPU idle.
_BLOCK, _FITS = 32, 10.0


class Pipeline:
    """Explains texts with one model and its engine.

    A text is a `TextRun`. It is asked what is new (`ask`) and explained from it (`advance`), until it has a result.
    """

    def __init__(self, model: Model, engine: Engine) -> None:
        self.model, self.engine = model, engine
        self._committed = 0.0  # cost of the rows that the next round asks

    def run(self, texts: Sequence[Any], options: Options, pairs: bool = True) -> Iterator[Explanation | Failure]:
        """Explain texts in order, as many at a time as fit into memory; `pairs`: whether to ask the model about pairs."""
        for tasks in self._planned(texts, options):
            runs = deque(TextRun(task) for task in tasks)
            self._ask_round([run for run in runs if run.result is None], options)
            while runs:
                block, seconds = deque[TextRun](), 0.0
                while runs and len(block) < _BLOCK and seconds < _FITS:
                    block.append(run := runs.popleft())
                    if run.result is None:
                        seconds += options.method.seconds(run.task.units.n_types, run.task.budget)
                yield from self._explained(block, options, pairs and options.checks_pairs)

    def rounds(self, text: Any, options: Options, seconds: float | None) -> Iterator[Step] | None:
        """Return the steps of one text, where they are not those of `refine`."""
        return None

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
                further[task.reading.text] = max(min(options.method.further(n, task.budget), task.budget - task.whole), 0)
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
        undecided, self._committed = [run for run in runs if run.decision is None], 0.0
        first = runs[0].explanation is None and runs[0].before is None
        with self.engine.spending.planned() if first else nullcontext():
            if undecided and self.model.usage is not None:
                # Paid: where a whole text has no usable answer, nothing else is asked.
                self._ask(undecided, [run.task.text for run in undecided], description)
                for run in undecided:
                    self.model.observe(run.outputs(run.task.text), 0)
            self._ask(runs, [run.task.keep for run in runs], description)
        if undecided:
            whole = np.concatenate([run.outputs(run.task.text) for run in undecided])
            decisions = self.model.decisions([run.task.reading.text for run in undecided], whole)
            for run, decision in zip(undecided, decisions, strict=True):
                run.decision = decision

    def advance(self, run: TextRun, options: Options) -> None:
        """Explain a text from the answers so far; the last round sets its result, others add queries.

        Rows that the method asks before it explains the text are added to its plan: then there is no new explanation yet.
        """
        try:
            if self._asks_first(run, options):
                return
            before, run.explanation = run.explanation, explain(self.engine, run, options)
            run.before = None
            run.result = self._finished(run, before, run.explanation, options)
        except Exception as error:
            if options.errors == "raise":
                raise
            run.fail(error)

    def check_pairs(self, runs: Sequence[TextRun], options: Options) -> None:
        """Ask the model about pairs of units that are predicted to act together, and put its answers into the results."""
        found = [(run, pairs) for run in runs if (pairs := pairs_to_ask(self.engine, run, options))]
        if not found:
            return
        try:
            self._ask([run for run, _ in found], [combinations(pairs, len(run.task.units)) for run, pairs in found], "asking")
        except SlalomError as error:  # the explanations themselves are finished
            raise_interrupts(error)
            for run, _ in found:
                if len(found) > 1:
                    self.check_pairs([run], options)
                elif isinstance(e := run.result, Explanation):
                    run.result = replace(e, notes=(*e.notes, f"Pairs could not be checked: {one_line(error)}"))
            return
        for run, pairs in found:
            run.result = with_pairs(self.engine, run, options, pairs)

    def _ask(self, runs: Sequence[TextRun], rows: Sequence[NDArray[np.bool_]], description: str) -> None:
        """Query the model for rows of several texts at once, as far as they have no answer."""
        began, new = perf_counter(), [run.unasked(part) for run, part in zip(runs, rows, strict=True)]
        answers = self.engine([run.task.queries(part) for run, part in zip(runs, new, strict=True)], description)
        seconds = (perf_counter() - began) / max(sum(map(len, new)), 1)
        for run, part, answer in zip(runs, new, answers, strict=True):
            run.receive(part, answer, seconds * len(part))

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

    def _explained(self, runs: deque[TextRun], options: Options, pairs: bool) -> Iterator[Explanation | Failure]:
        """Take texts through all rounds, the first of which is answered; yield results in order, before pairs at once."""
        while going := [run for run in runs if run.result is None]:
            for run in going:
                self.advance(run, options)
                if not pairs:
                    yield from _results(runs)
            self._ask_round([run for run in runs if run.result is None], options)
        if pairs:
            self.check_pairs(runs, options)
        yield from _results(runs)

    def _ask_round(self, runs: Sequence[TextRun], options: Options) -> None:
        """Ask for all texts; where the model fails and errors are kept, for one after the other."""
        if not runs:
            return
        try:
            self.ask(runs, f"asking, round {runs[0].round}" if options.goal else "asking")
        except Exception as error:
            if options.errors == "raise":
                raise
            raise_interrupts(error)
            if len(runs) == 1:
                runs[0].fail(error)
                return
            for run in runs:
                self._ask_round([run], options)

    def _asks_first(self, run: TextRun, options: Options) -> bool:
        """Add the rows to the plan that the method asks before it explains the text; return whether there are any."""
        rows, run.before = next_rows(self.engine, run, options)
        task, plan = run.task, run.task.plan
        if not len(rows):
            return False
        weights = np.append(plan.weights, np.ones(len(rows)))
        run.task = task.extended(QueryPlan(np.concatenate([plan.keep, rows]), weights))
        if self._pays(run):
            return True
        run.task, run.before = task, None
        return False

    def _finished(self, run: TextRun, before: Explanation | None, after: Explanation, options: Options) -> Explanation | None:
        """Return the explanation with the reason why it is the last one; None where another round follows."""
        goal, task = options.goal, run.task
        if goal is None:
            return after
        reason = goal.reached(before, after, run.round)
        if not reason:
            budget = goal.after(task.budget, run.further)
            if budget <= task.budget:
                reason = goal.exhausted(after)
            else:
                run.task = self._extended(run, budget, options)
                if self._pays(run):
                    run.round += 1
                    return None
                run.task = task
                reason = f"another round costs more than is left of max_cost, {money(self.engine.spending.max_cost or 0.0)}"
        return replace(after, stopped=f"{reason} (round {run.round})")

    def _extended(self, run: TextRun, budget: int, options: Options) -> Task:
        """Return the task of a text with more queries of the method, for a larger budget."""
        task, rng, method = run.task, np.random.default_rng([options.seed, 2, run.round]), run.task.method
        n = len(task.units)
        taken = set(query_keys(task.keep, task.units.words))

        def is_new(rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
            fresh = set(row_keys(run.unasked(rows)))  # the method may have asked others by itself
            keys = zip(query_keys(rows, task.units.words), row_keys(rows), strict=True)
            return np.array([query not in taken and row in fresh for query, row in keys], dtype=bool)

        with named_failures(method), one_blas_thread():
            more = extended(
                task.plan,
                lambda number: method.plan(task.units, number + method.further(n, number), rng, task.reading.empty),
                budget - method.further(n, budget),
                is_new,
            )
        return task.extended(more)._replace(budget=budget)

    def _pays(self, run: TextRun) -> bool:
        """Return whether the new rows of a text can be paid, after those of other texts in the same round."""
        spending = self.engine.spending
        if spending.max_cost is None:
            return True
        cost = self.engine.estimate([run.task.queries(run.unasked(run.task.keep))]).cost or 0.0
        if not spending.allows(spending.dearer * (self._committed + cost + spending.reserved)):
            return False
        self._committed += cost
        return True


def _results(runs: deque[TextRun]) -> Iterator[Explanation | Failure]:
    """Take the first runs that have a result, and yield it."""
    while runs and (result := runs[0].result) is not None:
        runs.popleft()
        yield result
