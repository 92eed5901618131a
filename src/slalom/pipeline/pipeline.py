"""The pipeline: texts through all stages, in rounds; those that go on ask together, so that batches stay full."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from time import perf_counter
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from slalom.errors import SlalomError, one_line
from slalom.methods.base import named_failures
from slalom.models import Engine, Estimate, Model, Queries, Reading
from slalom.models.costs import money
from slalom.pipeline.explaining import explain
from slalom.pipeline.options import Options
from slalom.pipeline.planning import Task, plan, read
from slalom.pipeline.run import Run, failure
from slalom.pipeline.side_by_side import SharedClock, side_by_side
from slalom.result import Explanation, Failure
from slalom.result.pairs import combinations, measured_pairs, most_checks, pairs_to_check
from slalom.text import UnitFunction, Units, extended, query_keys
from slalom.threads import one_blas_thread, threads_here

CELLS = 40_000_000  # entries of presence matrices that are held in memory at once
_THREADS = 3  # that explain texts: with more, they wait for the interpreter's lock


@final
class Pipeline:
    """Explains texts with one model and its engine.

    Args:
        model: The model to explain.
        engine: The engine that queries it.
    """

    def __init__(self, model: Model, engine: Engine) -> None:
        self.model, self.engine = model, engine
        self._committed = 0.0  # cost of the rows that the next round asks

    def run(self, texts: Sequence[Any], options: Options, check_pairs: bool = True) -> Iterator[Explanation | Failure]:
        """Explain texts in order, as many at a time as fit into memory."""
        for tasks in self._planned(texts, options):
            for run in self._explained(tasks, options):
                if check_pairs:
                    self.check_pairs(run, options)
                assert run.result is not None
                yield run.result

    def estimate(self, texts: Sequence[Any], options: Options) -> Estimate:
        """Return what `run` would ask: all queries of a fixed budget, those of the first round where it grows."""
        checks = dict[str, int]()

        def queries() -> Iterator[Queries]:
            for number, text in enumerate(texts):
                try:
                    task = plan(self.model, text, options, number, "" if len(texts) == 1 else f" (text {number})")
                except SlalomError:
                    if options.errors == "raise":
                        raise
                    continue
                if self._asks_pairs(options):
                    checks[task.reading.text] = most_checks(task.distinct, len(task.units), task.budget)
                yield Queries(task.reading, task.units.atoms(task.keep))

        more = options.goal is not None or not options.method.plans_all
        return self.engine.estimate(queries())._replace(at_least=more, pairs=sum(checks.values()))

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

    def ask(self, runs: Sequence[Run], description: str) -> None:
        """Query the model for the new rows of all texts at once; in the first round, also for its decisions."""
        began, self._committed = perf_counter(), 0.0
        tasks = [run.task for run in runs if run.decision is None]
        if tasks and self.model.usage is not None:  # paid: where a whole text has no usable answer, nothing else is asked
            wholes = [Queries(task.reading, task.units.atoms(task.keep[task.whole : task.whole + 1])) for task in tasks]
            for answer in self.engine(wholes, description):
                self.model.observe(answer.outputs, 0)
        new = [run.new_rows for run in runs]
        queries = [Queries(run.task.reading, run.task.units.atoms(rows)) for run, rows in zip(runs, new, strict=True)]
        answers = self.engine(queries, description)
        undecided = [(run, answer) for run, answer in zip(runs, answers, strict=True) if run.decision is None]
        if undecided:
            whole = np.stack([answer.outputs[run.task.whole] for run, answer in undecided])
            decisions = self.model.decisions([run.task.reading.text for run, _ in undecided], whole)
            for (run, _), decision in zip(undecided, decisions, strict=True):
                run.decision = decision
        seconds = (perf_counter() - began) / max(sum(map(len, new)), 1)
        for run, rows, answer in zip(runs, new, answers, strict=True):
            run.receive(answer, seconds * len(rows))

    def extend(self, run: Run, budget: int, options: Options) -> None:
        """Let the method add queries to its plan."""
        task = run.task
        taken = set(query_keys(task.keep, task.units.names))

        def is_new(rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
            return np.array([key not in taken for key in query_keys(rows, task.units.names)], dtype=bool)

        rng = np.random.default_rng([options.seed, 2, run.rounds])
        with named_failures(options.method), one_blas_thread():
            more = extended(
                task.plan, lambda number: options.method.plan(task.units, number, rng, task.reading.empty), budget, is_new
            )
        run.task = task.extended(more)

    def advance(self, run: Run, options: Options) -> None:
        """Explain a text from the answers so far; the last round sets its result."""
        try:
            before, run.explanation = run.explanation, explain(self.engine, run, options)
            run.result = self._finished(run, before, run.explanation, options)
        except Exception as error:
            if options.errors == "raise":
                raise
            run.fail(error)

    def _planned(self, texts: Sequence[Any], options: Options) -> Iterator[list[Task | Failure]]:
        """Plan all texts; each list holds as many tasks as fit into memory."""
        tasks: list[Task | Failure] = []
        size = 0
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
            if number == len(texts) - 1 or size > CELLS:
                yield tasks
                tasks, size = [], 0

    def check_pairs(self, run: Run, options: Options) -> None:
        """Ask the model about pairs of units that are predicted to act together, and put its answers into the result.

        Nothing is asked where that would exceed max_queries, nor where costs are limited: texts that follow may need the rest.
        """
        if isinstance(run.result, Explanation) and self._asks_pairs(options):
            with run.clock.running():
                self._check_pairs(run, run.result, options)

    def _asks_pairs(self, options: Options) -> bool:
        return options.checks_pairs and self.engine.spending.max_cost is None

    def _check_pairs(self, run: Run, e: Explanation, options: Options) -> None:
        task, began = run.task, run.clock()
        pairs = [pair for pair in pairs_to_check(e, task.budget) if task.reading.empty or len(e) > 2]
        if not pairs:
            return
        rows, known = combinations(pairs, len(e)), {row.tobytes(): number for number, row in enumerate(task.keep)}
        new = {row.tobytes(): row for row in rows if row.tobytes() not in known}
        outputs, lengths = run.answers.outputs, dict[bytes, int]()
        if new:
            queries = Queries(task.reading, task.units.atoms(np.array(list(new.values()))))
            if e.queries + len(new) > (options.max_queries or np.inf):
                return
            try:
                (answer,) = self.engine([queries])
            except SlalomError as error:  # the explanation itself is finished
                run.result = replace(e, notes=(*e.notes, f"Pairs could not be checked: {one_line(error)}"))
                return
            known |= {key: len(outputs) + number for number, key in enumerate(new)}
            outputs = np.concatenate([outputs, answer.outputs])
            lengths = {key: tokens for key, tokens in answer.lengths.items() if key not in run.answers.lengths}
        places = [task.whole, *(known[row.tobytes()] for row in rows)]
        observed = self.model.observe(outputs[places], run.target(options.target, self.model.head))
        run.result = replace(
            e,
            pairs=measured_pairs(e, pairs, observed.scores, observed.variance, observed.known),
            queries=e.queries + len(lengths),
            pair_queries=len(lengths),
            tokens=e.tokens + sum(lengths.values()),
            seconds=run.spend(run.clock() - began),
        )

    def _explained(self, tasks: Sequence[Task | Failure], options: Options) -> Iterator[Run]:
        """Ask and explain all tasks, round by round; a run is yielded as soon as it and those before it have a result."""
        runs = deque(Run(task) for task in tasks)
        while going := [run for run in runs if run.result is None]:
            self._ask_round(going, options, f"asking, round {going[0].rounds + 1}" if options.goal else "asking")
            for _ in self._advanced(going, options):
                while runs and runs[0].result is not None:
                    yield runs.popleft()
        yield from runs

    def _advanced(self, runs: Sequence[Run], options: Options) -> Iterator[Run]:
        """Advance runs; yield each when it and those before it have advanced."""
        clock = SharedClock()

        def together(run: Run) -> bool:
            if run.result is not None:
                return True
            task = run.task
            return options.goal is None and options.method.separable(len(task.units), task.whole)

        def advance(run: Run) -> None:
            if run.result is None:
                with clock.running():
                    run.clock = clock
                    self.advance(run, options)

        for several, group in groupby(runs, together):
            yield from side_by_side(advance, list(group), min(_THREADS, threads_here()) if several else 1)

    def _ask_round(self, runs: Sequence[Run], options: Options, description: str) -> None:
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

    def _finished(self, run: Run, before: Explanation | None, after: Explanation, options: Options) -> Explanation | None:
        """Return the explanation with the reason why it is the last one; None where another round follows."""
        goal = options.goal
        if goal is None:
            return after
        reason = goal.reached(before, after, run.rounds)
        if not reason:
            budget = goal.after(run.task.budget, run.further.asked)
            if budget > run.task.budget:
                before_round = run.task
                run.task = run.task._replace(budget=budget)
                self.extend(run, budget, options)
                if self._pays(run):
                    return None
                run.task = before_round
                reason = f"another round costs more than is left of max_cost, {money(self.engine.spending.max_cost or 0.0)}"
            else:
                reason = goal.exhausted(after)
        return replace(after, stopped=f"{reason} (round {run.rounds})")

    def _pays(self, run: Run) -> bool:
        """Return whether the new rows of a text can be paid, after those of other texts in the same round."""
        spending = self.engine.spending
        if spending.max_cost is None:
            return True
        queries = Queries(run.task.reading, run.task.units.atoms(run.new_rows))
        cost = self.engine.estimate([queries]).cost or 0.0
        if not spending.allows(self._committed + cost):
            return False
        self._committed += cost
        return True
