"""How texts become explanations:

    read -> plan -> ask -> explain -> test

read      the text as the model reads it, and its units
plan      the queries of the method, and the held-out queries that test it
ask       all queries of all texts at once, through the engine
explain   the method turns the scores into a surrogate
test      the surrogate predicts the held-out scores
"""

import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom.core.checks import Floats, whole_number
from slalom.core.fitting.problem import explained_share
from slalom.errors import InputError, ModelError, SlalomError, one_line
from slalom.methods import Method, MethodContext, MethodResult
from slalom.methods.base import named_failures
from slalom.models import Answers, Decision, Engine, Model, Queries, Reading, Target
from slalom.result import Explanation, Failure, Fidelity, HeldOut, Spread, quality, spread_of, versions
from slalom.text import KINDS, QueryPlan, Units, held_out, sentences, units, words

_LOG = logging.getLogger("slalom")
CELLS = 40_000_000  # entries of presence matrices that are held in memory at once
_HUGE = 1e150  # the square of a score must fit into a float
_PACKAGES = ("slalom-xai", "numpy", "scipy", "torch", "transformers", "scikit-learn")


@final
@dataclass(frozen=True)
class Options:
    """How to explain a text, checked.

    Args:
        method: The method.
        unit: Kind of unit; None: the method's default.
        queries: Query budget per text; None: five per unit, between 200 and 1000.
        check: Number of held-out queries; None: a tenth of the budget, at least 20 and at most ``method.check``.
        target: Label or index of the class to explain, "all", or None for the model's default.
        seed: Seed of the queries and the fit.
        long: "cut" or "window", for texts longer than the model's context.
        errors: "raise" stops at a text that fails; "keep" yields a Failure for it and continues.
        pairs: Whether to look for pairs of units that act together.

    Raises:
        InputError: If an option is out of range.
    """

    method: Method
    unit: str | None
    queries: int | None
    check: int | None
    target: Target
    seed: int
    long: str
    errors: str = "raise"
    pairs: bool = True

    def __post_init__(self) -> None:
        """Check every option."""
        if self.unit_kind not in KINDS:
            raise InputError(f"unit must be one of {', '.join(map(repr, KINDS))}; got {self.unit_kind!r}")
        if self.long not in ("cut", "window"):
            raise InputError(f"long must be 'cut' or 'window'; got {self.long!r}")
        if self.errors not in ("raise", "keep"):
            raise InputError(f"errors must be 'raise' or 'keep'; got {self.errors!r}")
        for name, number, least in (("queries", self.queries, 2), ("check", self.check, 0)):
            if number is not None:
                whole_number(name, number, least)
        whole_number("seed", self.seed, 0)

    @property
    def unit_kind(self) -> str:
        """The kind of unit, with the method's default filled in."""
        return self.method.unit if self.unit is None else self.unit

    def settings(self, model_id: str | None) -> dict[str, Any]:
        """Return what a result depends on besides the text, method, unit and seed."""
        options: dict[str, Any] = {"queries": self.queries, "check": self.check, "target": self.target, "long": self.long}
        if not self.pairs:
            options["pairs"] = False
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
    """

    number: int
    reading: Reading
    units: Units
    plan: QueryPlan
    keep: NDArray[np.bool_]
    near: int
    budget: int

    @property
    def whole(self) -> int:
        """Index of the row of the whole text."""
        return len(self.plan.keep)


@final
class Pipeline:
    """Explains texts with one model and its engine.

    Args:
        model: The model to explain.
        engine: The engine that queries it.
    """

    def __init__(self, model: Model, engine: Engine) -> None:
        self.model, self.engine = model, engine

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

    def read(self, text: str, kind: str, long: str) -> tuple[Reading, Units]:
        """Return the text as the model reads it, and its units of a kind."""
        if self.model.tokenized:
            reading = self.model.read(text, long, None)
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
        budget = min(max(5 * n, 200), 1000) if options.queries is None else options.queries
        check = options.check
        if check is None:  # scores without a sign predict nothing that could be tested
            check = min(max(budget // 10, 20), options.method.check) if options.method.signed else 0
        with named_failures(options.method):
            plan = options.method.plan(text_units, budget, np.random.default_rng(options.seed), reading.empty)
        near, far = held_out(plan.keep, text_units.names, check, np.random.default_rng([options.seed, 1]))
        keep = np.concatenate([plan.keep, np.ones((1, n), dtype=bool), near, far])
        return Task(number, reading, text_units, plan, keep, len(near), budget)

    def ask(self, tasks: Sequence[Task]) -> list[tuple[Answers, Decision]]:
        """Query the model for all tasks at once: its answers to all rows, and its decisions about the whole texts."""
        if not tasks:
            return []
        answers = self.engine([Queries(task.reading, task.units.atoms(task.keep)) for task in tasks])
        whole = np.stack([answer.outputs[task.whole] for task, answer in zip(tasks, answers, strict=True)])
        decisions = self.model.decisions([task.reading.text for task in tasks], whole)
        return list(zip(answers, decisions, strict=True))

    def explain(self, task: Task, answer: Answers, decision: Decision, options: Options, asking: float) -> Explanation:
        """Let the method explain one text, and test the result; `asking`: seconds of its queries."""
        began = perf_counter()
        head, m = self.model.head, task.whole
        target = self._target(options.target, decision, answer.outputs[m])
        scores = head.scores(answer.outputs, target)
        if np.abs(scores).max() > _HUGE:
            raise ModelError(
                f"{self.model.name} answered with scores up to {np.abs(scores).max():.3g}; they must be below {_HUGE:g}:"
                " check what it returns, or divide it by a constant"
            )
        further = _FurtherQueries(task, scores, lambda rows: self._ask_rows(task, rows, target))
        context = MethodContext(
            self.model, task.reading, task.units, task.plan, scores[:m], scores[m], target, task.budget,
            int(options.seed), further, options.pairs,
        )  # fmt: skip
        with named_failures(options.method):
            result = options.method.explain(context)
        if further.queried:  # what the method has asked by itself does not test it
            unseen = np.array([*[True] * (m + 1), *(row.tobytes() not in further.queried for row in task.keep[m + 1 :])])
            near = int(unseen[m + 1 : m + 1 + task.near].sum())
            task, scores = task._replace(keep=task.keep[unseen], near=near), scores[unseen]
        return Explanation(
            text=task.reading.text,
            units=task.units.names,
            spans=task.units.spans,
            surrogate=result.surrogate,
            score=float(scores[m]) if scores.ndim == 1 else scores[m],
            target="all" if target == "all" else head.labels[target],
            labels=head.labels,
            fidelity=self.test(task, result, scores),
            fit_r2=_fit_r2(task, result, scores, further) if result.r2 is None else result.r2,
            unit=options.unit_kind,
            sizes=task.units.sizes,
            method=options.method.name,
            seed=int(options.seed),
            queries=answer.inputs + further.inputs,
            tokens=answer.tokens + further.tokens,
            seconds=asking + perf_counter() - began,
            values_se=result.values_se,
            importances_se=result.importances_se,
            removal_se=result.removal_se,
            linear_se=result.linear_se,
            gradient_se=result.gradient_se,
            shapley_se=result.shapley_se,
            pairs_se=result.pairs_se,
            spread=self._spread(task, result, scores) if options.method.signed else None,
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
            versions={"python": ".".join(map(str, sys.version_info[:3])), **versions(*_PACKAGES)},
        )

    def test(self, task: Task, result: MethodResult, scores: Floats) -> Fidelity:
        """Compare predictions with the scores of the held-out rows; near the text both are changes from its score."""
        observed = scores[task.whole :]
        predicted = result.predict(task.keep[task.whole :], task.units)
        near, far = slice(1, 1 + task.near), slice(1 + task.near, None)
        return Fidelity(
            quality(predicted[near] - predicted[0], observed[near] - observed[0]), quality(predicted[far], observed[far])
        )

    def _spread(self, task: Task, result: MethodResult, scores: Floats) -> Spread | None:
        """Return how far predictions of all rows are from their scores, by the number of removed atoms."""
        rows = np.arange(len(task.keep))
        residual = result.predict(task.keep, task.units) - scores
        return spread_of((~task.keep) @ task.units.sizes, residual, rows > task.whole)

    def matches(self, explanation: Explanation, options: Options) -> bool:
        """Return whether an explanation has the model, method and options with which its text would be explained now."""
        mine = (options.method.name, options.seed, options.unit_kind, self.model.name, options.settings(self.engine.identify()))
        e = explanation
        return mine == (e.method, e.seed, e.unit, e.model, dict(e.settings))

    def _planned(self, texts: Sequence[Any], options: Options) -> Iterator[list[Task | Failure]]:
        """Plan all texts; each list holds as many tasks as fit into memory."""
        tasks: list[Task | Failure] = []
        for number, text in enumerate(texts):
            where = "" if len(texts) == 1 or options.errors == "keep" else f" (text {number})"  # a Failure has its number
            try:
                tasks.append(self.plan(text, options, number, where))
            except Exception as error:
                if options.errors == "raise":
                    raise
                tasks.append(_failure(number, text, error))
            size = sum(task.keep.size for task in tasks if isinstance(task, Task))
            if number == len(texts) - 1 or size > CELLS:
                yield tasks
                tasks = []

    def _explained(self, tasks: Sequence[Task | Failure], options: Options) -> Iterator[Explanation | Failure]:
        """Ask and explain all tasks; where the model fails and errors are kept, one task after the other."""
        planned = [task for task in tasks if isinstance(task, Task)]
        began, keep = perf_counter(), options.errors == "keep"
        try:
            answers = iter(self.ask(planned))
        except Exception as error:
            if not keep:
                raise
            for task in tasks:
                if isinstance(task, Failure):
                    yield task
                elif len(planned) == 1:
                    yield _failure(task.number, task.reading.text, error)
                else:
                    yield from self._explained([task], options)
            return
        asking = (perf_counter() - began) / max(sum(len(task.keep) for task in planned), 1)
        for task in tasks:
            if isinstance(task, Failure):
                yield task
                continue
            try:
                yield self.explain(task, *next(answers), options, asking * len(task.keep))
            except Exception as error:
                if not keep:
                    raise
                yield _failure(task.number, task.reading.text, error)

    def _target(self, wanted: Target, decision: Decision, outputs: Floats) -> int | Literal["all"]:
        """Return the class to explain. The predicted class need not be the one with the highest score."""
        head = self.model.head
        if wanted is None and len(head.labels) > 2 and decision.label in head.labels:
            wanted = decision.label
        return head.resolve(wanted, outputs)

    def _ask_rows(self, task: Task, rows: NDArray[np.bool_], target: int | Literal["all"]) -> tuple[Floats, Answers]:
        """Query further rows (k, n) of a text."""
        (answer,) = self.engine([Queries(task.reading, task.units.atoms(rows))])
        return self.model.head.scores(answer.outputs, target), answer


@final
class _FurtherQueries:
    """Answers queries of a method beyond its plan. A row is sent to the model once; rows of the plan are known.

    Attributes:
        inputs, tokens: What these queries have cost.
        queried: The rows that the method has queried, as bytes, and their scores, in the order of the first query.
    """

    def __init__(self, task: Task, scores: Floats, ask: Callable[[NDArray[np.bool_]], tuple[Floats, Answers]]) -> None:
        self.task, self.scores, self.ask = task, scores, ask
        self.inputs = self.tokens = 0
        self.known, self.queried = dict[bytes, Any](), dict[bytes, Any]()

    def __call__(self, keep: ArrayLike) -> Floats:
        if not self.known:  # most methods need no further queries
            self.known = {row.tobytes(): score for row, score in zip(self.task.keep, self.scores.tolist(), strict=True)}
        rows = np.asarray(keep).astype(bool).reshape(-1, len(self.task.units))
        keys = [row.tobytes() for row in rows]
        fresh = list({key: i for i, key in enumerate(keys) if key not in self.known}.values())
        if fresh:
            scores, answer = self.ask(rows[fresh])
            self.known.update(zip([keys[i] for i in fresh], scores.tolist(), strict=True))
            self.inputs, self.tokens = self.inputs + answer.inputs, self.tokens + answer.tokens
        self.queried.update((key, self.known[key]) for key in keys)
        return np.array([self.known[key] for key in keys])


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
