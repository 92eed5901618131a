"""How texts become explanations:

    read -> plan -> ask -> explain -> test
             ^                         |
             +--------- extend --------+      in rounds, where the budget is "auto" or the method chooses queries by the answers

read      the text as the model reads it, and its units
plan      the queries of the method, and the held-out queries that test it
ask       all queries of all texts at once, through the engine
explain   the method turns the scores into a surrogate
test      the surrogate predicts the held-out scores
extend    more queries of the method; the held-out ones stay the same

All texts that go on ask together, so that batches stay full.
"""

import logging
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Literal, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom.budget import AUTO, CHECK, Goal
from slalom.core.checks import Floats, whole_number
from slalom.core.fitting.problem import explained_share
from slalom.errors import InputError, ModelError, SlalomError, one_line
from slalom.methods import Method, MethodContext, MethodResult
from slalom.methods.base import named_failures
from slalom.models import Answers, Decision, Engine, Estimate, Model, Observed, Queries, Reading, Target
from slalom.models.costs import money
from slalom.result import Explanation, Failure, Fidelity, HeldOut, Spread, quality, spread_of, versions
from slalom.result.plain import duration
from slalom.text import GIVEN, KINDS, Answered, QueryPlan, Units, query_keys, reserved, sentences, units, words

_LOG = logging.getLogger("slalom")
CELLS = 40_000_000  # entries of presence matrices that are held in memory at once
_LEAST_CHECK = 20  # held-out queries with which a gain can be told from noise
_LOT = 50  # queries of the first lot of a text that is asked in lots, and of the smallest
_TOGETHER = 64  # texts that a method may prepare at once
_BLOCK = 8  # neighbouring rows of a plan that are spread over the rounds
_LONG = 60.0  # seconds of a fit that are announced
_HUGE = 1e150  # the square of a score must fit into a float
_PACKAGES = ("slalom-xai", "numpy", "scipy", "torch", "transformers", "scikit-learn")


@final
@dataclass(frozen=True)
class Options:
    """How to explain a text, checked.

    Args:
        method: The method.
        unit: Kind of unit; None: the method's default.
        queries: Query budget per text, or "auto" for rounds until the goal is reached; None: five per unit, between 200 and
            1000, or "auto" where there is a tolerance.
        check: Number of held-out queries; None: a tenth of the budget, at least 20 and at most ``method.check``; 100 for
            "auto".
        target: Label or index of the class to explain, "all", or None for the model's default.
        seed: Seed of the queries and the fit.
        long: "cut" or "window", for texts longer than the model's context.
        errors: "raise" stops at a text that fails; "keep" yields a Failure for it and continues.
        pairs: Whether to look for pairs of units that act together.
        tolerance: Goal of "auto"; None: until the held-out error no longer falls.
        max_queries: Largest budget of "auto"; None: `slalom.budget.MAX_QUERIES`. Of a fixed budget, a limit of all queries
            about a text, those that test it included: what needs more is an error before any is asked.

    Raises:
        InputError: If an option is out of range.
    """

    method: Method
    unit: str | None
    queries: int | str | None
    check: int | None
    target: Target
    seed: int
    long: str
    errors: str = "raise"
    pairs: bool = True
    tolerance: float | None = None
    max_queries: int | None = None

    def __post_init__(self) -> None:
        """Check every option."""
        if self.unit_kind not in (*KINDS, *GIVEN):
            raise InputError(f"unit must be one of {', '.join(map(repr, KINDS))}; got {self.unit_kind!r}")
        if self.long not in ("cut", "window"):
            raise InputError(f"long must be 'cut' or 'window'; got {self.long!r}")
        if self.errors not in ("raise", "keep"):
            raise InputError(f"errors must be 'raise' or 'keep'; got {self.errors!r}")
        if self.queries is not None and self.queries != AUTO:
            if isinstance(self.queries, str):
                raise InputError(f"queries must be a whole number of at least 2, or 'auto'; got {self.queries!r}")
            whole_number("queries", self.queries, 2)
        if self.check is not None:
            whole_number("check", self.check, 0)
        whole_number("seed", self.seed, 0)
        Goal(self.tolerance, self.max_queries)
        if self.tolerance is not None and self.queries not in (None, AUTO):
            raise InputError(f"tolerance is a goal of queries='auto'; got queries={self.queries!r}")
        if self.auto and self.tolerance is None and self.check is not None and self.check < _LEAST_CHECK:
            raise InputError(
                f"queries='auto' needs at least {_LEAST_CHECK} held-out queries; got check={self.check}; leave it out"
                f" for {CHECK}"
            )

    @property
    def auto(self) -> bool:
        """Whether the budget grows in rounds; a tolerance implies it."""
        return self.queries == AUTO or (self.tolerance is not None and self.queries is None)

    @property
    def goal(self) -> Goal | None:
        """When a growing budget is large enough; None for a fixed one, and for methods that take none."""
        return Goal(self.tolerance, self.max_queries) if self.auto and self.method.takes_budget else None

    def budget(self, n: int) -> int:
        """Return the budget of n units, that of the first round where it grows."""
        if self.goal is not None:
            return self.goal.first(n)
        return self.queries if isinstance(self.queries, (int, np.integer)) else min(max(5 * n, 200), 1000)

    @property
    def limit(self) -> int | None:
        """Largest number of all queries about a text; None where the budget grows or there is none."""
        return None if self.auto else self.max_queries

    def held_out(self, budget: int) -> int:
        """Return the number of held-out queries."""
        if self.check is not None:
            return self.check
        if not self.method.signed:  # scores without a sign predict nothing that could be tested
            return 0
        return CHECK if self.goal is not None else min(max(budget // 10, 20), self.method.check)

    @property
    def unit_kind(self) -> str:
        """The kind of unit, with the method's default filled in."""
        return self.method.unit if self.unit is None else self.unit

    def settings(self, model_id: str | None) -> dict[str, Any]:
        """Return what a result depends on besides the text, method, unit and seed."""
        options: dict[str, Any] = {"queries": self.queries, "check": self.check, "target": self.target, "long": self.long}
        if not self.pairs:
            options["pairs"] = False
        if self.auto:
            options |= {"queries": AUTO, "tolerance": self.tolerance, "max_queries": self.max_queries}
        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in options.items()}
        return {**plain, "identity": model_id}


class Task(NamedTuple):
    """One text with all its queries.

    Attributes:
        number: Index of the text in the call.
        reading: The text as the model reads it.
        units: Its n units.
        plan: The queries of the method, m rows.
        keep: All queries (m + 1 + near + far, n): the plan, the whole text, then the held-out rows near it and far from it.
        near: Number of held-out rows near the text.
        budget: Query budget of the method.
        steps: Sizes that the plan still has to grow to before the method explains.
    """

    number: int
    reading: Reading
    units: Units
    plan: QueryPlan
    keep: NDArray[np.bool_]
    near: int
    budget: int
    steps: tuple[int, ...] = ()

    @property
    def whole(self) -> int:
        """Index of the row of the whole text."""
        return len(self.plan.keep)

    @property
    def distinct(self) -> int:
        """Number of different queries."""
        return len(set(query_keys(self.keep, self.units.names)))

    @property
    def tests(self) -> int:
        """Number of held-out rows."""
        return len(self.keep) - self.whole - 1

    def first(self, rows: NDArray[np.int64], tests: int) -> "Task":
        """Return the task with some rows of its plan, and its first held-out rows.

        Args:
            rows: Numbers of the rows of the plan; the whole text keeps its share of the weight.
            tests: Number of held-out rows.
        """
        keep, weights = self.plan.keep[rows], self.plan.weights[rows]
        whole, everything = keep.all(axis=1), self.plan.keep.all(axis=1)
        total = float(self.plan.weights[~everything].sum())
        if total > 0.0 and weights[~whole].any():
            weights = np.where(whole, np.maximum(weights * weights[~whole].sum() / total, 1.0 * (weights > 0)), weights)
        part = self._replace(keep=self.keep[: self.whole + 1 + tests], near=min(self.near, tests))
        return part.extended(QueryPlan(keep, weights))

    def extended(self, plan: QueryPlan) -> "Task":
        """Return the task with a larger plan; the whole text and the held-out rows stay."""
        return self._replace(plan=plan, keep=np.concatenate([plan.keep, self.keep[self.whole :]]))


class Step(NamedTuple):
    """Where the explanation of one text is, in rounds.

    Attributes:
        round: Number of the round, from 1.
        queries: Number of queries that are answered so far, those that test the explanation included.
        of: Number of queries in the end; of a budget that grows, that of the next round.
        answered: Whether all rows of the round are answered, so that what follows is its explanation.
        explanation: The explanation of the round; None as long as its rows are asked.
        final: Whether it is the last one.
    """

    round: int
    queries: int
    of: int
    answered: bool = False
    explanation: Explanation | None = None
    final: bool = False


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

    def run(self, texts: Sequence[Any], options: Options) -> Iterator[Explanation | Failure]:
        """Explain texts in order, as many at a time as fit into memory.

        Args:
            texts: The texts; anything but a string is an error of that text.
            options: How to explain them.

        Yields:
            One explanation per text, or a Failure where ``options.errors`` is "keep".
        """
        for tasks in self._planned(texts, options):
            yield from self._explained(tasks, options)

    def refine(self, text: Any, options: Options, first: int, seconds: float | None = None) -> Iterator[Step]:
        """Explain one text in rounds: from the first rows of its plan, then from twice as many, at last from all.

        Rows are asked in a random order, each once. Where several rounds follow, the first one is not tested: its explanation
        does not wait for the held-out rows, which the second asks. The last explanation is that of `run`, of the same rows in
        the same order.

        Args:
            text: The text.
            options: How to explain it.
            first: Rows of the plan in the first round.
            seconds: How long a lot of queries should take, so that a caller is not kept waiting; None: a round is one lot.

        Yields:
            A step after each lot, and one with the explanation of each round.
        """
        options = replace(options, errors="raise")
        task = self.plan(text, options)
        order = _order(task.plan, options.seed)
        sizes = _sizes(first, len(order)) if options.method.takes_budget else [len(order)]
        of, run = task.distinct, _Run(task)
        asked, tested, lot = 0, 0, min(first, _LOT)
        for number, size in enumerate(sizes, start=1):
            tests = 0 if number == 1 < len(sizes) else task.tests
            while asked < size or tested < tests:
                began, before = perf_counter(), asked + tested
                most = size + tests if seconds is None else lot
                tested, new = min(tests, tested + most), min(tests - tested, most)
                asked = min(size, asked + most - new)
                run.task = task.first(order[:asked], tested)
                self.ask([run], "asking")
                rate = (asked + tested - before) / max(perf_counter() - began, 1e-9)
                lot = max(_LOT, 0 if seconds is None else int(seconds * rate))
                yield Step(number, run.task.distinct, of, asked == size and tested == tests)
            if asked < len(order):
                part = task.first(np.sort(order[:asked]), tests)
                yield Step(number, part.distinct, of, True, self.explain(run.reordered(part, order[:asked]), options))
        run, number = run.reordered(task, order), len(sizes)
        run.rounds = 1  # as if all rows had been asked at once
        while run.result is None:
            asked = run.task.distinct
            self._advance(run, options)
            if isinstance(run.result, Explanation):
                yield Step(number, run.task.distinct, run.task.distinct, True, run.result, final=True)
                break
            if run.explanation is not None:
                yield Step(number, asked, run.task.distinct, True, run.explanation)
            number += 1
            self.ask([run], "asking")
            yield Step(number, run.task.distinct, run.task.distinct, True)

    def estimate(self, texts: Sequence[Any], options: Options) -> Estimate:
        """Return what `run` would ask: all queries of a fixed budget, those of the first round where it grows."""

        def queries() -> Iterator[Queries]:
            for number, text in enumerate(texts):
                try:
                    task = self.plan(text, options, number, "" if len(texts) == 1 else f" (text {number})")
                except SlalomError:
                    if options.errors == "raise":
                        raise
                    continue
                yield Queries(task.reading, task.units.atoms(task.keep))

        more = options.goal is not None or not options.method.plans_all
        return self.engine.estimate(queries())._replace(at_least=more)

    def read(self, text: str, kind: str, long: str) -> tuple[Reading, Units]:
        """Return the text as the model reads it, and its units of a kind."""
        given = self.model.given_units(text, kind)
        if given is None and kind in GIVEN:
            raise InputError(f"unit must be one of {', '.join(map(repr, KINDS))}; {kind}s are units of slalom.context")
        if self.model.tokenized:
            reading = self.model.read(text, long, None)
        elif given is not None:
            reading, kind = self.model.read(text, long, given), "token"
        else:
            reading = self.model.read(text, long, sentences(text) if kind == "sentence" else words(text))
            kind = "type" if kind == "type" else "token"
        return reading, units(text, kind, reading.names, reading.spans, reading.types)

    def plan(self, text: Any, options: Options, number: int = 0, where: str = "") -> Task:
        """Read a text and choose its queries; `where` is appended to error messages."""
        if not isinstance(text, str):
            missing = " (a missing value)" if type(text).__name__ in ("NoneType", "float", "NAType", "NaTType") else ""
            raise InputError(f"a text must be a string; got {type(text).__name__}{missing}{where}")
        reading, text_units = self.read(text, options.unit_kind, options.long)
        n = len(text_units)
        if n == 0:
            raise InputError(f"a text must have at least one {options.unit_kind}; got {text[:40]!r}{where}")
        if reading.cut:
            warnings.warn(
                f"{reading.cut} tokens do not fit into {self.model.name} and were cut{where};"
                ' long="window" explains overlapping windows',
                UserWarning,
                stacklevel=6,
            )
        seconds = options.method.seconds(text_units.n_types)
        if seconds > _LONG:
            faster = "" if options.unit_kind == "sentence" else ' unit="sentence" or'
            warnings.warn(
                f"a fit of {n:,} {options.unit_kind}s takes about {duration(seconds)} on one core{where};"
                f'{faster} method="ridge" is much faster',
                UserWarning,
                stacklevel=6,
            )
        budget = options.budget(n)
        steps = options.method.rounds(budget) if options.goal is None else (budget,)
        with named_failures(options.method):
            plan = options.method.plan(text_units, steps[0], np.random.default_rng(options.seed), reading.empty)
        check = options.held_out(budget)
        plan, near, far = reserved(plan, text_units.names, check, np.random.default_rng([options.seed, 1]))
        keep = np.concatenate([plan.keep, np.ones((1, n), dtype=bool), near, far])
        if options.limit is not None and (number_of := len(set(query_keys(keep, text_units.names)))) > options.limit:
            raise InputError(
                f"this text needs {number_of} queries with those that test the explanation, and max_queries is"
                f" {options.limit}; raise it, or lower queries or check{where}"
            )
        return Task(number, reading, text_units, plan, keep, len(near), budget, steps[1:])

    def ask(self, runs: "Sequence[_Run]", description: str) -> None:
        """Query the model for the new rows of all texts at once; in the first round, also for its decisions."""
        began, self._committed = perf_counter(), 0.0
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

    def extend(self, run: "_Run", budget: int, options: Options) -> bool:
        """Let the method add queries to its plan; return whether there are any."""
        task, target = run.task, self._target(options.target, run.decided, run.answers.outputs[run.task.whole])
        taken = set(query_keys(task.keep, task.units.names))

        def is_new(rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
            return np.array([key not in taken for key in query_keys(rows, task.units.names)], dtype=bool)

        observed = self.model.observe(run.answers.outputs[: task.whole], target)
        rng = np.random.default_rng([options.seed, 2, run.rounds])
        with named_failures(options.method):
            plan = options.method.extend(
                task.plan, task.units, budget, rng, task.reading.empty, Answered(observed.scores, is_new, observed.certainty)
            )
        run.task = task.extended(plan)
        return len(plan.keep) > task.whole

    def explain(self, run: "_Run", options: Options) -> Explanation:
        """Let the method explain one text from the answers so far, and test the result."""
        began = perf_counter()
        target, observed, context = self._scored(run, options) if run.scored is None else run.scored
        run.scored = None
        task, answer, decision, further = run.task, run.answers, run.decided, run.further
        head, m, scores = self.model.head, task.whole, observed.scores
        with named_failures(options.method):
            result = options.method.explain(context)
        others = ~task.keep.all(axis=1)  # the plan may have the whole text too; it is reported once
        report = self.model.report(np.concatenate([answer.outputs[m : m + 1], answer.outputs[others]]))
        tests = np.ones(len(scores), dtype=bool)
        if further.queried:  # what the method has asked by itself does not test it
            tests[m + 1 :] = [row.tobytes() not in further.queried for row in task.keep[m + 1 :]]
        tests[m + 1 :] &= observed.known[m + 1 :]
        if not tests.all():
            near = int(tests[m + 1 : m + 1 + task.near].sum())
            task, scores, observed = task._replace(keep=task.keep[tests], near=near), scores[tests], observed.rows(tests)
        inputs = {**answer.lengths, **further.lengths}
        return Explanation(
            text=task.reading.text,
            units=task.units.names,
            spans=task.units.spans,
            surrogate=result.surrogate,
            score=float(scores[m]) if scores.ndim == 1 else scores[m],
            target="all" if target == "all" else head.labels[target],
            labels=head.labels,
            fidelity=self.test(task, result, observed),
            fit_r2=_fit_r2(task, result, scores, further) if result.r2 is None else result.r2,
            unit=options.unit_kind,
            sizes=task.units.sizes,
            method=options.method.name,
            seed=int(options.seed),
            queries=len(inputs),
            tokens=sum(inputs.values()),
            seconds=run.spend(perf_counter() - began),
            values_se=result.values_se,
            importances_se=result.importances_se,
            removal_se=result.removal_se,
            linear_se=result.linear_se,
            gradient_se=result.gradient_se,
            shapley_se=result.shapley_se,
            pairs_se=result.pairs_se,
            spread=self._spread(task, result, observed) if options.method.signed else None,
            lengths=result.lengths,
            label=decision.label,
            probabilities=decision.probabilities,
            scale=head.scale,
            held_out=HeldOut(task.keep[m + 1 :], scores[m + 1 :], task.near) if len(task.keep) > m + 1 else None,
            cut=task.reading.cut,
            diagnosis=result.diagnosis,
            model=self.model.name,
            settings=options.settings(self.engine.model_id),
            signed=options.method.signed,
            figures=report.figures,
            notes=report.notes,
            versions={"python": ".".join(map(str, sys.version_info[:3])), **versions(*_PACKAGES)},
        )

    def _scored(self, run: "_Run", options: Options) -> "_Scored":
        """Return the scores of all rows of a text, and the text as the method sees it."""
        task, answer, m = run.task, run.answers, run.task.whole
        target = self._target(options.target, run.decided, answer.outputs[m])
        observed = self.model.observe(answer.outputs, target)
        scores = observed.scores
        if np.abs(scores).max() > _HUGE:
            raise ModelError(
                f"{self.model.name} answered with scores up to {np.abs(scores).max():.3g}; they must be below {_HUGE:g}:"
                " check what it returns, or divide it by a constant"
            )
        run.further.begin(task, scores, lambda rows: self._ask_rows(task, rows, target), options.limit)
        context = MethodContext(
            self.model, task.reading, task.units, task.plan, scores[:m], scores[m], target, task.budget,
            int(options.seed), run.further, options.pairs, observed.rows(slice(m)),
        )  # fmt: skip
        return _Scored(target, observed, context)

    def _prepare(self, runs: "Sequence[_Run]", options: Options) -> None:
        """Let the method do at once what takes less time for several texts.

        A text that fails here is left as it is: the error is raised when it is explained, as its own.
        """
        began, ready = perf_counter(), list[_Run]()
        for run in runs:
            if run.result is None and not run.task.steps:
                with suppress(Exception):
                    run.scored = self._scored(run, options)
                    ready.append(run)
        if len(ready) < 2:
            return
        with suppress(Exception):
            contexts = options.method.prepare([run.scored.context for run in ready if run.scored is not None])
            for run, context in zip(ready, contexts, strict=True):
                run.scored = None if run.scored is None else run.scored._replace(context=context)
        seconds = (perf_counter() - began) / len(ready)
        for run in ready:
            run.spend(seconds)

    def test(self, task: Task, result: MethodResult, observed: Observed) -> Fidelity:
        """Compare predictions with the scores of the held-out rows.

        Near the text both are changes from its score, unless that is noisy or not known.
        """
        tested = observed.rows(slice(task.whole, None))
        scores, noise = tested.scores, tested.variance
        predicted = result.predict(task.keep[task.whole :], task.units)
        near, far = slice(1, 1 + task.near), slice(1 + task.near, None)
        if noise is None and tested.known[0]:
            close = quality(predicted[near] - predicted[0], scores[near] - scores[0])
        else:
            close = quality(predicted[near], scores[near], None if noise is None else noise[near])
        return Fidelity(close, quality(predicted[far], scores[far], None if noise is None else noise[far]))

    def _spread(self, task: Task, result: MethodResult, observed: Observed) -> Spread | None:
        """Return how far predictions of all rows are from their scores, by the number of removed atoms."""
        held_out, keep, scores = np.arange(len(task.keep)) > task.whole, task.keep, observed.scores
        if not (known := observed.known).all():
            held_out, keep, scores = held_out[known], keep[known], scores[known]
        removed = task.units.sizes.sum() - task.units.lengths(keep)
        return spread_of(removed, result.predict(keep, task.units) - scores, held_out)

    def matches(self, explanation: Explanation, options: Options) -> bool:
        """Return whether an explanation has the model, method and options with which its text would be explained now."""
        mine = (options.method.name, options.seed, options.unit_kind, self.model.name, options.settings(self.engine.identify()))
        e = explanation
        return mine == (e.method, e.seed, e.unit, e.model, dict(e.settings))

    def _planned(self, texts: Sequence[Any], options: Options) -> Iterator[list[Task | Failure]]:
        """Plan all texts; each list holds as many tasks as fit into memory."""
        tasks: list[Task | Failure] = []
        size = 0
        for number, text in enumerate(texts):
            where = "" if len(texts) == 1 or options.errors == "keep" else f" (text {number})"  # a Failure has its number
            try:
                task = self.plan(text, options, number, where)
                size += _cells(task, options)
                tasks.append(task)
            except Exception as error:
                if options.errors == "raise":
                    raise
                tasks.append(_failure(number, text, error))
            if number == len(texts) - 1 or size > CELLS:
                yield tasks
                tasks, size = [], 0

    def _explained(self, tasks: Sequence[Task | Failure], options: Options) -> Iterator[Explanation | Failure]:
        """Ask and explain all tasks, round by round; a result is yielded as soon as those before it are there."""
        runs = deque(_Run(task) for task in tasks)
        while going := [run for run in runs if run.result is None]:
            self._ask_round(going, options, f"asking, round {going[0].rounds + 1}" if options.goal else "asking")
            for start in range(0, len(going), _TOGETHER):
                lot = going[start : start + _TOGETHER]
                self._prepare(lot, options)
                for run in lot:
                    if run.result is None:
                        self._advance(run, options)
                    while runs and runs[0].result is not None:
                        yield runs.popleft().result  # type: ignore[misc]
        yield from (run.result for run in runs if run.result is not None)

    def _ask_round(self, runs: "Sequence[_Run]", options: Options, description: str) -> None:
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

    def _advance(self, run: "_Run", options: Options) -> None:
        """Extend the plan of a text or explain it; the last round sets its result."""
        try:
            if run.task.steps:
                steps = run.task.steps
                run.task = run.task._replace(steps=steps[1:])
                if self.extend(run, steps[0], options):
                    return
                run.task = run.task._replace(steps=())  # no other query is left
            before, run.explanation = run.explanation, self.explain(run, options)
            run.result = self._finished(run, before, run.explanation, options)
        except Exception as error:
            if options.errors == "raise":
                raise
            run.fail(error)

    def _finished(self, run: "_Run", before: Explanation | None, after: Explanation, options: Options) -> Explanation | None:
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

    def _pays(self, run: "_Run") -> bool:
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

    def _target(self, wanted: Target, decision: Decision, outputs: Floats) -> int | Literal["all"]:
        """Return the class to explain. The predicted class need not be the one with the highest score."""
        head = self.model.head
        if wanted is None and len(head.labels) > 2 and decision.label in head.labels:
            wanted = decision.label
        return head.resolve(wanted, outputs)

    def _ask_rows(self, task: Task, rows: NDArray[np.bool_], target: int | Literal["all"]) -> tuple[Floats, Answers]:
        """Query further rows (k, n) of a text."""
        (answer,) = self.engine([Queries(task.reading, task.units.atoms(rows))])
        return self.model.observe(answer.outputs, target).scores, answer


class _Scored(NamedTuple):
    """A text with the scores of all its rows, before the method explains it."""

    target: int | Literal["all"]
    observed: Observed
    context: MethodContext


@final
class _FurtherQueries:
    """Answers queries of a method beyond its plan. A row is sent to the model once; rows of the plan are known.

    Attributes:
        asked: Number of rows that were sent to the model, in all rounds.
        lengths: Number of tokens of their inputs, by key.
        queried: The rows that the method has queried in this round, as bytes, and their scores, in the order of the first
            query.
    """

    def __init__(self) -> None:
        self.asked, self.lengths = 0, dict[bytes, int]()
        self.known, self.queried = dict[bytes, Any](), dict[bytes, Any]()

    def begin(
        self,
        task: Task,
        scores: Floats,
        ask: Callable[[NDArray[np.bool_]], tuple[Floats, Answers]],
        limit: int | None,
    ) -> None:
        """Begin a round: `scores` are those of the rows of the task; `limit` is the largest number of all queries."""
        self.task, self.scores, self.ask, self.loaded, self.queried, self.limit = task, scores, ask, False, {}, limit

    def __call__(self, keep: ArrayLike) -> Floats:
        if not self.loaded:  # most methods need no further queries
            self.known |= {row.tobytes(): score for row, score in zip(self.task.keep, self.scores.tolist(), strict=True)}
            self.loaded = True
        rows = np.asarray(keep).astype(bool).reshape(-1, len(self.task.units))
        keys = [row.tobytes() for row in rows]
        fresh = list({key: i for i, key in enumerate(keys) if key not in self.known}.values())
        if fresh:
            needed = len(self.task.keep) + self.asked + len(fresh)
            if self.limit is not None and needed > self.limit:
                raise InputError(
                    f"the method asks for {needed} queries, and max_queries is {self.limit}; raise it, or lower queries"
                )
            scores, answer = self.ask(rows[fresh])
            self.known.update(zip([keys[i] for i in fresh], scores.tolist(), strict=True))
            self.lengths |= answer.lengths
            self.asked += len(fresh)
        self.queried.update((key, self.known[key]) for key in keys)
        return np.array([self.known[key] for key in keys])


@final
class _Run:
    """A text on its way from its plan to its explanation.

    Args:
        task: The text with its queries, or the Failure that it has become.

    Attributes:
        rounds: Number of rounds that are answered.
        scored: The scores of this round, where several texts were prepared at once.
        explanation: That of the last round, if any.
        result: The final one, or a Failure; None as long as the text goes on.
    """

    def __init__(self, task: Task | Failure) -> None:
        self.result: Explanation | Failure | None = None
        self.decision: Decision | None = None
        self.scored: _Scored | None = None
        self.explanation: Explanation | None = None
        self.further = _FurtherQueries()
        self.rounds, self._seconds = 0, 0.0
        self._planned = self._others = 0  # answered rows of the plan, and of the whole text and the held-out ones
        self._answers: Answers | None = None
        if isinstance(task, Failure):
            self.result = task
        else:
            self.task = task

    @property
    def new_rows(self) -> NDArray[np.bool_]:
        """The rows (k, n) that are not answered yet: all at first, then those that were added to the plan, or held out."""
        keep, whole = self.task.keep, self.task.whole
        return keep if self._answers is None else np.concatenate([keep[self._planned : whole], keep[whole + self._others :]])

    @property
    def answers(self) -> Answers:
        """The answers to all rows of the task."""
        assert self._answers is not None
        return self._answers

    @property
    def decided(self) -> Decision:
        """The decision of the model about the whole text."""
        assert self.decision is not None
        return self.decision

    def receive(self, answers: Answers, seconds: float) -> None:
        """Add the answers to the new rows, which took so long."""
        if self._answers is not None:
            old, new, at, planned = self._answers.outputs, answers.outputs, self._planned, self.task.whole - self._planned
            outputs = np.concatenate([old[:at], new[:planned], old[at:], new[planned:]])
            answers = Answers(outputs, {**self._answers.lengths, **answers.lengths})
        self._answers, self._planned, self._others = answers, self.task.whole, len(self.task.keep) - self.task.whole
        self.rounds += 1
        self.spend(seconds)

    def spend(self, seconds: float) -> float:
        """Add seconds to those of the text, and return them all."""
        self._seconds += seconds
        return self._seconds

    def reordered(self, task: Task, order: NDArray[np.int64]) -> "_Run":
        """Return a run of the same rows in the order of their numbers, with its answers.

        Args:
            task: The task with the rows in that order.
            order: Number of each row of the plan of this run.
        """
        run, outputs, m = _Run(task), self.answers.outputs, len(order)
        run.decision, run._seconds, run.rounds = self.decision, self._seconds, self.rounds
        run._planned, run._others = m, self._others
        run._answers = Answers(np.concatenate([outputs[:m][np.argsort(order)], outputs[m:]]), self.answers.lengths)
        return run

    def fail(self, error: Exception) -> None:
        """End with a Failure."""
        self.result = _failure(self.task.number, self.task.reading.text, error)


def _order(plan: QueryPlan, seed: int) -> NDArray[np.int64]:
    """Return the rows of a plan in a random order whose beginnings are plans, too.

    The whole text and the empty one come first. Rows next to each other are of one kind, so each block of them is spread over
    the order. Rows without a weight correct a fit, and come later: of a small plan the fit needs a larger share.
    """
    rng, m = np.random.default_rng([seed, 3]), len(plan.keep)
    ranks = rng.permuted(np.tile(np.arange(_BLOCK), (-(-m // _BLOCK), 1)), axis=1).ravel()[:m]
    place = (ranks + rng.random(m)) / _BLOCK
    kept = plan.keep.sum(axis=1)
    place = np.where(plan.weights > 0, place, np.sqrt(place))
    return np.argsort(np.where((kept > 0) & (kept < plan.keep.shape[1]), place, -1.0), kind="stable")


def _sizes(first: int, most: int) -> list[int]:
    """Return sizes of rounds: the first, twice as many and so on; the last has all rows, and is not just a few more."""
    sizes = [first]
    while 2 * sizes[-1] < most:
        sizes.append(2 * sizes[-1])
    return [*(size for size in sizes if 1.25 * size <= most), most] if first < most else [most]


def _cells(task: Task, options: Options) -> int:
    """Return how many entries the queries of a task may have in the end."""
    largest = task.budget if options.goal is None else options.goal.most
    return task.keep.size + max(largest - task.whole, 0) * len(task.units)


def _predicted(task: Task, result: MethodResult, keep: NDArray[np.bool_]) -> Floats:
    """Return the predicted scores of rows (m, n)."""
    predicted = result.surrogate(keep.astype(np.float64))
    return predicted if result.lengths is None else predicted + result.lengths(task.units.lengths(keep))


def _fit_r2(task: Task, result: MethodResult, scores: Floats, further: _FurtherQueries) -> float:
    """Return R2 on the rows that the method has queried beyond its plan, or on the plan where there are none."""
    if not further.queried:
        return explained_share(result.predict(task.plan.keep, task.units), scores[: task.whole], task.plan.weights)
    rows = np.frombuffer(b"".join(further.queried), dtype=bool).reshape(-1, len(task.units))
    return explained_share(result.predict(rows, task.units), np.array(list(further.queried.values())), np.ones(len(rows)))


def _failure(number: int, text: object, error: Exception) -> Failure:
    """Return the line that is kept of an error; an unexpected one is logged with its traceback."""
    expected = isinstance(error, SlalomError)
    if not expected:
        _LOG.error("text %d could not be explained", number, exc_info=error)
    reason = one_line(error, limit=None)
    message = reason if expected else f"{type(error).__name__}: {reason}"
    return Failure(number, text if isinstance(text, str) else repr(text)[:200], message)
