"""How one text, or many, become explanations:

read -> plan -> ask -> explain -> test

read      the text as the model reads it, and its units
plan      the queries of the method, and those that test it
ask       all queries of all texts at once, through the engine
explain   the method turns the answers into a surrogate
test      the surrogate predicts the held-out queries
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

from slalom.core.checks import Floats
from slalom.core.fitting.problem import explained_share
from slalom.errors import InputError, ModelError, SlalomError
from slalom.methods import Method, MethodContext
from slalom.models import Answers, Decision, Engine, Model, Queries, Reading, Target
from slalom.result import Explanation, Failure, Fidelity, HeldOut, quality, versions
from slalom.text import Asked, Units, held_out, sentences, units, words

_LOG = logging.getLogger("slalom")
CELLS = 40_000_000  # presence of atoms held at once
_HUGE = 1e150  # the square of a score must fit into a float
_PACKAGES = ("slalom-xai", "numpy", "scipy", "torch", "transformers", "scikit-learn")


@dataclass(frozen=True)
class Options:
    """How to explain a text; every field is checked."""

    method: Method
    unit: str
    queries: int | None
    check: int | None
    target: Target
    seed: int
    long: str
    errors: str = "raise"

    def settings(self, model_id: str | None) -> dict[str, Any]:
        """Return what a result depends on besides the text, method, unit and seed."""
        given: dict[str, Any] = {"queries": self.queries, "check": self.check, "target": self.target, "long": self.long}
        plain = {name: part.item() if isinstance(part, np.generic) else part for name, part in given.items()}
        return {**plain, "identity": model_id}


class Task(NamedTuple):
    """One text on its way: its number among those given, its units and what is asked about them.

    keep: all rows: those of the method's plan, the whole text, near ones, far ones. near: how many of them are near ones.
    """

    number: int
    reading: Reading
    units: Units
    plan: Asked
    keep: NDArray[np.bool_]
    near: int
    budget: int

    @property
    def whole(self) -> int:
        """The row of the whole text."""
        return len(self.plan.keep)


@final
class Pipeline:
    """Explains texts with one model and its engine."""

    def __init__(self, model: Model, engine: Engine) -> None:
        self.model, self.engine = model, engine

    def run(self, texts: Sequence[Any], options: Options, first: int = 0) -> Iterator[Explanation | Failure]:
        """Explain texts, as many at a time as fit into memory.

        Args:
            texts: What should be strings.
            options: How.
            first: The number that the first of several texts has in messages.
        """
        tasks: list[Task | Failure] = []
        for number, text in enumerate(texts):
            alone = len(texts) == 1 and not first
            where = "" if alone or options.errors == "keep" else f" (text {first + number})"  # a failure has its number
            try:
                tasks.append(self.plan(text, options, where, number))
            except Exception as error:
                if options.errors == "raise":
                    raise
                tasks.append(_failure(number, text, error))
            size = sum(task.keep.size for task in tasks if isinstance(task, Task))
            if number == len(texts) - 1 or size > CELLS:
                yield from self._solved(tasks, options)
                tasks = []

    def read(self, text: str, kind: str, long: str) -> tuple[Reading, Units]:
        """Return the text as the model reads it, and its units of a kind."""
        if self.model.tokenized:
            reading = self.model.read(text, long, None)
        else:
            reading = self.model.read(text, long, sentences(text) if kind == "sentence" else words(text))
            kind = "type" if kind == "type" else "token"
        return reading, units(text, kind, reading.names, reading.spans, reading.types)

    def plan(self, text: Any, options: Options, where: str, number: int) -> Task:
        """Read a text and choose the queries."""
        if not isinstance(text, str):
            missing = " (a missing value)" if type(text).__name__ in ("NoneType", "float", "NAType", "NaTType") else ""
            raise InputError(f"a text must be a string; got {type(text).__name__}{missing}{where}")
        reading, found = self.read(text, options.unit, options.long)
        n = len(found)
        if n == 0:
            raise InputError(f"a text must have at least one {options.unit}; got {text[:40]!r}{where}")
        if reading.cut:
            warnings.warn(
                f"{reading.cut} tokens of the text are more than {self.model.name} can see and were cut{where};"
                ' long="window" explains overlapping windows',
                UserWarning,
                stacklevel=5,
            )
        budget = min(max(5 * n, 200), 1000) if options.queries is None else options.queries
        check = min(max(budget // 10, 20), options.method.check) if options.check is None else options.check
        plan = options.method.plan(found, budget, np.random.default_rng(options.seed), reading.empty)
        near, far = held_out(plan.keep, found.names, check, np.random.default_rng([options.seed, 1]))
        keep = np.concatenate([plan.keep, np.ones((1, n), dtype=bool), near, far])
        return Task(number, reading, found, plan, keep, len(near), budget)

    def ask(self, tasks: Sequence[Task]) -> list[tuple[Answers, Decision]]:
        """Ask the model about all tasks at once: its answers to all rows, and what it decides about the whole texts."""
        if not tasks:
            return []
        answers = self.engine([Queries(task.reading, task.units.atoms(task.keep)) for task in tasks])
        whole = np.stack([answer.outputs[task.whole] for task, answer in zip(tasks, answers, strict=True)])
        decisions = self.model.decisions([task.reading.text for task in tasks], whole)
        return list(zip(answers, decisions, strict=True))

    def explain(self, task: Task, answer: Answers, decision: Decision, options: Options, asking: float) -> Explanation:
        """Let the method explain one text, and test what it says."""
        began = perf_counter()
        head, m = self.model.head, task.whole
        wanted = options.target
        if wanted is None and len(head.labels) > 2 and decision.label in head.labels:
            wanted = decision.label  # which need not have the highest score
        target = head.resolve(wanted, answer.outputs[m])
        scores = head.scores(answer.outputs, target)
        if np.abs(scores).max() > _HUGE:
            raise ModelError(
                f"{self.model.name} answered with scores up to {np.abs(scores).max():.3g}; they must be below {_HUGE:g}:"
                " check what it returns, or divide it by a constant"
            )
        further = _Further(task, scores, lambda rows: self._asked(task, rows, target))
        found = options.method.explain(
            MethodContext(
                self.model, task.reading, task.units, task.plan, scores[:m], scores[m], target, task.budget,
                int(options.seed), further,
            )
        )  # fmt: skip
        rows = task.keep[m:]
        guess = found.surrogate(rows.astype(np.float64))
        if found.lengths is not None:
            guess = guess + found.lengths(task.units.lengths(rows))
        r2 = found.r2
        if r2 is None:
            r2 = explained_share(found.surrogate(task.plan.keep.astype(np.float64)), scores[:m], task.plan.weights)
        return Explanation(
            text=task.reading.text,
            units=task.units.names,
            spans=task.units.spans,
            surrogate=found.surrogate,
            score=float(scores[m]) if scores.ndim == 1 else scores[m],
            target="all" if target == "all" else head.labels[target],
            labels=head.labels,
            fidelity=_tested(guess, scores[m:], task.near),
            fit_r2=r2,
            unit=options.unit,
            sizes=task.units.sizes,
            method=options.method.name,
            seed=int(options.seed),
            queries=answer.inputs + further.inputs,
            tokens=answer.tokens + further.tokens,
            seconds=asking + perf_counter() - began,
            values_se=found.values_se,
            importances_se=found.importances_se,
            lengths=found.lengths,
            label=decision.label,
            probabilities=decision.probabilities,
            scale=head.scale,
            held_out=HeldOut(task.keep[m + 1 :], scores[m + 1 :], task.near) if len(task.keep) > m + 1 else None,
            cut=task.reading.cut,
            diagnosis=found.diagnosis,
            model=self.model.name,
            settings=options.settings(self.engine.model_id),
            signed=options.method.signed,
            versions={"python": ".".join(map(str, sys.version_info[:3])), **versions(*_PACKAGES)},
        )

    def _asked(self, task: Task, rows: NDArray[np.bool_], target: int | Literal["all"]) -> tuple[Floats, Answers]:
        """Ask further rows of a text."""
        (answer,) = self.engine([Queries(task.reading, task.units.atoms(rows))])
        return self.model.head.scores(answer.outputs, target), answer

    def _solved(self, tasks: Sequence[Task | Failure], options: Options) -> Iterator[Explanation | Failure]:
        """Ask and explain all tasks; where the model fails and errors are kept, one after the other."""
        open_ = [task for task in tasks if isinstance(task, Task)]
        began, keep = perf_counter(), options.errors == "keep"
        try:
            answers = iter(self.ask(open_))
        except Exception as error:
            if not keep:
                raise
            for task in tasks:
                if isinstance(task, Failure):
                    yield task
                elif len(open_) == 1:
                    yield _failure(task.number, task.reading.text, error)
                else:
                    yield from self._solved([task], options)
            return
        asking = (perf_counter() - began) / max(sum(len(task.keep) for task in open_), 1)
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


@final
class _Further:
    """Asks what a method wants to know beyond its plan, each row once, and counts it. scores: of the rows of the task."""

    def __init__(self, task: Task, scores: Floats, ask: Callable[[NDArray[np.bool_]], tuple[Floats, Answers]]) -> None:
        self.task, self.scores, self.ask, self.inputs, self.tokens = task, scores, ask, 0, 0
        self.known: dict[bytes, Any] = {}

    def __call__(self, keep: ArrayLike) -> Floats:
        if not self.known:  # most methods ask nothing further
            self.known = {row.tobytes(): score for row, score in zip(self.task.keep, self.scores.tolist(), strict=True)}
        rows = np.asarray(keep).astype(bool).reshape(-1, len(self.task.units))
        names = [row.tobytes() for row in rows]
        fresh = list({name: i for i, name in enumerate(names) if name not in self.known}.values())
        if fresh:
            scores, answer = self.ask(rows[fresh])
            self.known.update(zip([names[i] for i in fresh], scores.tolist(), strict=True))
            self.inputs, self.tokens = self.inputs + answer.inputs, self.tokens + answer.tokens
        return np.array([self.known[name] for name in names])


def _tested(guess: Floats, scores: Floats, near: int) -> Fidelity:
    """Compare predictions and answers: row 0 is the whole text, then come the near rows, then the far ones."""
    close, wide = slice(1, 1 + near), slice(1 + near, None)
    return Fidelity(quality(guess[close] - guess[0], scores[close] - scores[0]), quality(guess[wide], scores[wide]))


def _failure(number: int, text: object, error: Exception) -> Failure:
    """Return what is kept of an error; one that nobody expected is logged with its traceback."""
    expected = isinstance(error, SlalomError)
    if not expected:
        _LOG.error("text %d could not be explained", number, exc_info=error)
    reason = " ".join(str(error).split())
    said = reason if expected else f"{type(error).__name__}: {reason}"
    return Failure(number, text if isinstance(text, str) else repr(text)[:200], said)
