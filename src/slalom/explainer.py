"""The Explainer: the one place where text, model and surrogate meet.

    text -> units -> which parts to ask about (sampler) -> answers (engine) -> surrogate (fitter) -> Explanation

A method is a sampler and a fitter:

    joint   Scales + Joint        subsets of every size, background, link (ours, the default)
    local   Deletions + Joint     1 to 10 units removed, background (ours): most faithful near the text
    eff     Pairs + Sgd           the paper's SLALOM-eff, equal tokens share their parameters
    fidel   Deletions + Alternating   the paper's SLALOM-fidel, likewise
"""

import logging
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, NamedTuple, final, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom.core import Additive, Alternating, Fit, Fitter, Joint, Lengths, Sgd, Slalom, Surrogate, fit, fit_lengths
from slalom.core.checks import Counts, Floats, whole_number
from slalom.core.fitting.problem import Problem
from slalom.errors import InputError, ModelError, SlalomError
from slalom.explanation import Explanation, Explanations, Failure, Fidelity, HeldOut, Quality, presence, versions
from slalom.models import (
    Answer,
    Attribution,
    Decision,
    Engine,
    Model,
    Output,
    Querying,
    Question,
    Questions,
    Reading,
    Spent,
    Target,
    model_of,
)
from slalom.text import KINDS, Asked, Deletions, Pairs, Sampler, Scales, Units, as_texts, sentences, units, words
from slalom.text.samplers import spread

_LOG = logging.getLogger("slalom")
_CELLS = 40_000_000  # presence of atoms held at once
_HUGE = 1e150  # the square of a score must fit into a float
_PACKAGES = ("slalom", "numpy", "scipy", "torch", "transformers", "scikit-learn")


@final
@dataclass(frozen=True)
class Method:
    """A way to explain: what is asked, how it is fitted, and the units that it takes unless told otherwise.

    fitter: fits a surrogate to the answers; or looks inside the model itself (an Attribution), or asks in its own way (a
    Querying), and then the sampler is `Whole`.
    lengths: how often the effect of the mere length of the input is fitted, in turn with the units; 0 leaves it out.
    check: at most so many further queries test the fit, unless told otherwise.
    """

    name: str
    sampler: Sampler
    fitter: Fitter | Attribution | Querying
    unit: str = "token"
    lengths: int = 0
    check: int = 100

    @property
    def signed(self) -> bool:
        """Whether the sign of its scores means for or against the target."""
        return not isinstance(self.fitter, Attribution) or self.fitter.signed


METHODS = {
    method.name: method
    for method in (
        Method("joint", Scales(), Joint(), lengths=1),
        Method("local", Deletions(), Joint(), lengths=2),
        Method("eff", Pairs(), Sgd(), unit="type", check=20),
        Method("fidel", Deletions(most=5, repeats=True), Alternating(once=True, floor=0.1), unit="type"),
    )
}


class _Unset:
    """Stands for an argument that was not given, where None means something."""

    def __repr__(self) -> str:
        return "as the Explainer was told"


_UNSET = _Unset()


@dataclass(frozen=True)
class _Options:
    """How to explain a text."""

    method: Method
    unit: str
    queries: int | None
    check: int | None
    target: Target
    seed: int
    long: str
    errors: str = "raise"


class _Task(NamedTuple):
    """One text on its way: its number among those given, its units and what is asked about them."""

    number: int
    reading: Reading
    units: Units
    asked: Asked
    keep: NDArray[np.bool_]  # all rows: those of the fit, the whole text, near ones, far ones
    near: int  # how many of them are near ones
    budget: int


@final
class Explainer:
    """Explains the decisions of one model.

    Args:
        model: A Hugging Face classifier, a text-classification pipeline, the path of a saved classifier, a fitted scikit-learn
            classifier, or a callable ``list[str] -> (n, n_classes)``. Default: the sentiment classifier of English film
            reviews that ships with slalom.
        tokenizer: The tokenizer of a Hugging Face classifier.
        method: "joint", "local", "eff", "fidel" or a Method.
        unit: "token", "type", "word" or "sentence". Default: the method's own.
        queries: How many parts of the text are asked about at most. Default: five per unit, between 200 and 1000.
        check: How many further queries test the fit. Default: a tenth of the budget, 20 to 100 (20 for eff, which is to be
            quick).
        target: The class to explain, by label or index, or "all" for every class. A label comes first: of the classes -1 and
            1 the target 1 is the second. Default: class 1 of two, else the class that the model predicts.
        seed: Of the queries and the fit. None draws one, which the explanation names.
        long: "cut" explains what the model can see of a text that is too long, with a warning; "window" explains the mean of
            the scores of overlapping windows.
        output: What a callable returns: "logits", "probabilities", "log_odds", or "scores" for numbers that stand for no
            probability.
        labels: Names of a callable's classes: a list in the order of its columns, or a mapping such as ``id2label``.
        batch_size: Strings in one call of a callable or scikit-learn model.
        precision: "bfloat16" asks a Hugging Face model in half precision.
        device: Where a model given by its path is put.
        cache: An SQLite file that keeps the answers.
        identity: What to call the model in the cache, where it is a callable.
        progress: Whether to show a bar. Default: one in a terminal where it takes long.

    Example:
        >>> shouts = Explainer(lambda texts: [text.count("!") - 1.0 for text in texts], output="log_odds")
        >>> shouts("Stop! Now!").strongest(2)
        [1, 3]
    """

    def __init__(
        self,
        model: Any = None,
        tokenizer: Any = None,
        *,
        method: str | Method = "joint",
        unit: str | None = None,
        queries: int | None = None,
        check: int | None = None,
        target: Target = None,
        seed: int | None = 0,
        long: Literal["cut", "window"] = "cut",
        output: Output | None = None,
        labels: Iterable[object] | Mapping[Any, object] | None = None,
        batch_size: int | None = None,
        precision: Literal["bfloat16"] | None = None,
        device: str | None = None,
        cache: str | Path | None = None,
        identity: str | None = None,
        progress: bool | None = None,
    ) -> None:
        chosen = int(np.random.default_rng().integers(2**31)) if seed is None else seed
        self.options = _Options(_method(method), unit or "", queries, check, target, chosen, long)
        _checked(self.options)
        self.model: Model = model_of(
            model, tokenizer, output=output, labels=labels, precision=precision, device=device, batch_size=batch_size
        )
        self.engine = Engine(self.model, cache, identity, progress)

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self,
        text: str,
        /,
        *,
        method: str | Method | None = ...,
        unit: str | None = ...,
        queries: int | None = ...,
        check: int | None = ...,
        target: Target | _Unset = ...,
        seed: int | None = ...,
        long: Literal["cut", "window"] | None = ...,
        errors: Literal["raise", "keep"] = ...,
        first: int = ...,
    ) -> Explanation: ...
    @overload
    def __call__(
        self,
        text: Iterable[str],
        /,
        *,
        method: str | Method | None = ...,
        unit: str | None = ...,
        queries: int | None = ...,
        check: int | None = ...,
        target: Target | _Unset = ...,
        seed: int | None = ...,
        long: Literal["cut", "window"] | None = ...,
        errors: Literal["raise", "keep"] = ...,
        first: int = ...,
    ) -> Explanations: ...
    def __call__(
        self,
        text: str | Iterable[str],
        /,
        *,
        method: str | Method | None = None,
        unit: str | None = None,
        queries: int | None = None,
        check: int | None = None,
        target: Target | _Unset = _UNSET,
        seed: int | None = None,
        long: Literal["cut", "window"] | None = None,
        errors: Literal["raise", "keep"] = "raise",
        first: int = 0,
    ) -> Explanation | Explanations:
        """Explain one text, or several at once, which share batches. Options given here replace those of the Explainer.

        Args:
            text: A string, or a list, array, Series, column or generator of strings.
            method, unit, queries, check, target, seed, long: As the Explainer takes them.
            errors: What becomes of a text that cannot be explained: "raise" ends with its error; "keep" goes on, and the
                result names it in ``failures``. For several texts.
            first: The number that the first of several texts has in messages.

        Returns:
            An Explanation for a string, Explanations for several texts.
        """
        if errors not in ("raise", "keep"):
            raise InputError(f"errors must be 'raise' or 'keep'; got {errors!r}")
        base = self.options
        chosen = base.method if method is None else _method(method)
        options = _checked(
            replace(
                base,
                method=chosen,
                unit=unit or base.unit,
                queries=base.queries if queries is None else queries,
                check=base.check if check is None else check,
                target=base.target if isinstance(target, _Unset) else target,
                seed=base.seed if seed is None else seed,
                long=base.long if long is None else long,
                errors=errors if not isinstance(text, str) else "raise",
            )
        )
        self.model.head.resolve(options.target, np.zeros(self.model.head.n_outputs))  # before anything is asked
        if isinstance(text, str):
            return Explanations(self._explained([text], options))[0]
        return Explanations(self._explained(as_texts(text), options, first))

    def tokens(self, text: str) -> list[int] | list[str]:
        """Return the units of a text as they can be counted: token ids where units are tokens of the model, else names."""
        options = _checked(self.options)
        reading, made = self._read(text, options)
        if self.model.tokenized and options.unit in ("token", "type"):
            return [int(number) for number in reading.types]
        return list(made.names)

    def made(self, explanation: Explanation, target: Target = None) -> bool:
        """Return whether an explanation is one that this Explainer would make of its text: same model, method and options."""
        options = _checked(replace(self.options, target=target))
        mine = (options.method.name, options.seed, options.unit, self.model.name, _settings(options, self.engine.name()))
        e = explanation
        return mine == (e.method, e.seed, e.unit, e.model, dict(e.settings))

    def ask(self, explanation: Explanation, keep: ArrayLike) -> Floats:
        """Return what the model itself says where `explanation.predict` guesses: its scores for presence of units (m, n)."""
        return self.ask_many([explanation], [keep])[0]

    def ask_many(self, explanations: Sequence[Explanation], keeps: Sequence[ArrayLike]) -> list[Floats]:
        """Return what `ask` says of each explanation and its rows. All texts share batches; equal queries are asked once."""
        if len(explanations) != len(keeps):
            raise InputError(f"ask_many needs one keep an explanation; got {len(keeps)} for {len(explanations)}")
        head, found = self.model.head, list[Floats]()
        questions: list[Question] = []
        for number, (explanation, keep) in enumerate(zip(explanations, keeps, strict=True)):
            where = "" if len(explanations) == 1 else f" (explanation {number})"
            questions.append(self._question(explanation, keep, where))
            if number == len(explanations) - 1 or sum(question.keep.size for question in questions) > _CELLS:
                for answer in self.engine(questions):
                    scores = head.scores(answer.outputs, self._column(explanations[len(found)]))
                    found.append(scores if np.ndim(keeps[len(found)]) == 2 else scores[0])
                questions = []
        return found

    def _column(self, explanation: Explanation) -> int | Literal["all"]:
        """Return the target of an explanation as the index of a class of this model."""
        if explanation.values.ndim == 2:
            return "all"
        if explanation.target not in self.model.head.labels:
            raise InputError(f"{explanation.target!r} is no class of this model; ask the model that was explained")
        return self.model.head.labels.index(explanation.target)

    def _question(self, explanation: Explanation, keep: ArrayLike, where: str) -> Question:
        """Return what is asked for presence of units (m, n) or (n,), as the model reads the text."""
        reading, made = self._read(explanation.text, replace(self.options, unit=explanation.unit))
        if made.names != explanation.units:
            raise InputError(
                f"this model reads the text as {len(made)} {explanation.unit}s, the explanation has {len(explanation)}{where};"
                " ask the model that was explained"
            )
        rows = np.atleast_2d(presence(keep, len(made)))
        if not reading.empty and not rows.any(axis=1).all():
            raise InputError(
                f"{self.model.name} cannot be asked about nothing: a row of keep must have at least one unit{where}"
            )
        return Question(reading, made.atoms(rows))

    def _explained(self, texts: list[Any], options: _Options, first: int = 0) -> Iterator[Explanation | Failure]:
        """Explain texts, as many at a time as fit into memory."""
        tasks: list[_Task | Failure] = []
        for number, text in enumerate(texts):
            alone = len(texts) == 1 and not first
            where = "" if alone or options.errors == "keep" else f" (text {first + number})"  # a failure has its number
            try:
                tasks.append(self._task(text, options, where, number))
            except Exception as error:
                if options.errors == "raise":
                    raise
                tasks.append(_failure(number, text, error))
            size = sum(task.keep.size for task in tasks if isinstance(task, _Task))
            if number == len(texts) - 1 or size > _CELLS:
                yield from self._solved(tasks, options)
                tasks = []

    def _task(self, text: Any, options: _Options, where: str, number: int) -> _Task:
        """Read a text and choose the queries."""
        if not isinstance(text, str):
            missing = " (a missing value)" if text is None or text != text else ""  # noqa: PLR0124  NaN is not itself
            raise InputError(f"a text must be a string; got {type(text).__name__}{missing}{where}")
        reading, made = self._read(text, options)
        n = len(made)
        if n == 0:
            raise InputError(f"a text must have at least one {options.unit}; got {text[:40]!r}{where}")
        if reading.cut:
            warnings.warn(
                f"{reading.cut} tokens of the text are more than {self.model.name} can see and were cut{where};"
                ' long="window" explains overlapping windows',
                UserWarning,
                stacklevel=4,
            )
        budget = min(max(5 * n, 200), 1000) if options.queries is None else options.queries
        check = min(max(budget // 10, 20), options.method.check) if options.check is None else options.check
        asked = options.method.sampler.draw(made.type_of_unit, budget, np.random.default_rng(options.seed), reading.empty)
        near, far = _held_out(asked.keep, made.names, check, np.random.default_rng([options.seed, 1]))
        keep = np.concatenate([asked.keep, np.ones((1, n), dtype=bool), near, far])
        return _Task(number, reading, made, asked, keep, len(near), budget)

    def _read(self, text: str, options: _Options) -> tuple[Reading, Units]:
        """Return the text as the model reads it, and its units."""
        kind = options.unit
        if self.model.tokenized:
            reading = self.model.read(text, options.long, None)
        else:
            reading = self.model.read(text, options.long, sentences(text) if kind == "sentence" else words(text))
            kind = "type" if kind == "type" else "token"
        return reading, units(text, kind, reading.names, reading.spans, reading.types)

    def _solved(self, tasks: Sequence[_Task | Failure], options: _Options) -> Iterator[Explanation | Failure]:
        """Ask the model about all tasks at once and fit each; where that fails and errors are kept, one after the other."""
        open_ = [task for task in tasks if isinstance(task, _Task)]
        began, keep = perf_counter(), options.errors == "keep"
        try:
            answers = self.engine([Question(task.reading, task.units.atoms(task.keep)) for task in open_])
            whole = np.stack([a.outputs[len(t.asked.keep)] for t, a in zip(open_, answers, strict=True)]) if open_ else None
            decisions = [] if whole is None else self.model.decisions([task.reading.text for task in open_], whole)
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
        found = iter(zip(answers, decisions, strict=True))
        for task in tasks:
            if isinstance(task, Failure):
                yield task
                continue
            answer, decision = next(found)
            try:
                yield self._fitted(task, answer, decision, options, asking * len(task.keep))
            except Exception as error:
                if not keep:
                    raise
                yield _failure(task.number, task.reading.text, error)

    def _inside(self, task: _Task, score: Floats, target: int | Literal["all"], options: _Options, look: Attribution) -> Fit:
        """Return what a method that looks inside the model says of one text: effects that add up to its score."""
        own = task.units.type_of_unit
        atoms = look(self.model, task.reading, _one_class(target, options), options.seed)
        total = np.bincount(own[task.units.unit_of_atom], atoms, minlength=task.units.n_types)
        effects = total / np.bincount(own, minlength=task.units.n_types)
        return _given(Additive(effects, float(score) - float(effects[own].sum())), np.ones((1, task.units.n_types)), score)

    def _questioned(
        self, task: _Task, scores: Floats, target: int | Literal["all"], options: _Options, method: Querying, spent: Spent
    ) -> tuple[Fit, Spent]:
        """Return what a method that asks in its own way says of one text, and what all was spent on it.

        scores: of the rows of the task, which need not be asked again.
        """
        chosen, n = _one_class(target, options), len(task.units)
        known = {row.tobytes(): score for row, score in zip(task.keep, scores.tolist(), strict=True)}
        its: dict[bytes, None] = {}

        def ask(keep: ArrayLike) -> Floats:
            nonlocal spent
            rows = np.asarray(keep).astype(bool).reshape(-1, n)
            names = [row.tobytes() for row in rows]
            its.update(dict.fromkeys(names))
            fresh = list({name: i for i, name in enumerate(names) if name not in known}.values())
            if fresh:
                (answer,) = self.engine([Question(task.reading, task.units.atoms(rows[fresh]))])
                known.update(
                    zip([names[i] for i in fresh], self.model.head.scores(answer.outputs, chosen).tolist(), strict=True)
                )
                spent = Spent(spent.inputs + answer.inputs, spent.tokens + answer.tokens, 0.0)
            return np.array([known[name] for name in names])

        text, units_ = task.reading, task.units
        made = method(Questions(text.text, units_.names, units_.spans, ask, task.budget, text.empty, int(options.seed)))
        own, n_types = task.units.type_of_unit, task.units.n_types
        shared = np.bincount(own, made.effects, minlength=n_types) / np.bincount(own, minlength=n_types)
        rows = np.frombuffer(b"".join(its), dtype=bool).reshape(-1, n)
        counts = task.units.counts(rows)
        return _given(Additive(shared, made.base), counts, np.array([known[name] for name in its])), spent

    def _fitted(self, task: _Task, answer: Answer, decision: Decision, options: _Options, asking: float) -> Explanation:
        """Fit the surrogate of one text and test it."""
        began = perf_counter()
        head, m, n = self.model.head, len(task.asked.keep), len(task.units)
        target = head.resolve(options.target, answer.outputs[m])
        scores = head.scores(answer.outputs, target)
        if np.abs(scores).max() > _HUGE:
            raise ModelError(
                f"{self.model.name} answered with scores up to {np.abs(scores).max():.3g}; they must be below {_HUGE:g}:"
                " check what it returns, or divide it by a constant"
            )
        length, r2, spent = None, None, Spent(answer.inputs, answer.tokens, 0.0)
        if isinstance(options.method.fitter, Attribution):
            found = self._inside(task, scores[m], target, options, options.method.fitter)
        elif isinstance(options.method.fitter, Querying):
            found, spent = self._questioned(task, scores, target, options, options.method.fitter, spent)
        else:
            found, length, r2 = _surrogate(task, scores[:m], options.method, options.method.fitter)
        own = task.units.type_of_unit
        surrogate = found.model if task.units.n_types == n else _untied(found.model, own)
        rows = task.keep[m:]
        guess = surrogate(rows.astype(np.float64))
        if length is not None:
            guess = guess + length(task.units.lengths(rows))
        if r2 is None:
            r2 = _r2(surrogate(task.keep[:m].astype(np.float64)), scores[:m], task.asked.weights)
        return Explanation(
            text=task.reading.text,
            units=task.units.names,
            spans=task.units.spans,
            surrogate=surrogate,
            score=float(scores[m]) if scores.ndim == 1 else scores[m],
            target="all" if target == "all" else head.labels[target],
            labels=head.labels,
            fidelity=_fidelity(guess, scores[m:], task.near),
            fit_r2=r2,
            unit=options.unit,
            sizes=task.units.sizes,
            method=options.method.name,
            seed=int(options.seed),
            queries=spent.inputs,
            tokens=spent.tokens,
            seconds=asking + perf_counter() - began,
            values_se=None if found.values_se is None else found.values_se[own],
            importances_se=None if found.importances_se is None else found.importances_se[own],
            lengths=length,
            label=decision.label,
            probabilities=decision.probabilities,
            scale=head.scale,
            held_out=HeldOut(task.keep[m + 1 :], scores[m + 1 :], task.near) if len(task.keep) > m + 1 else None,
            cut=task.reading.cut,
            diagnosis=found.diagnosis,
            model=self.model.name,
            settings=_settings(options, self.engine.whose),
            signed=options.method.signed,
            versions={"python": ".".join(map(str, sys.version_info[:3])), **versions(*_PACKAGES)},
        )


def _failure(number: int, text: object, error: Exception) -> Failure:
    """Return what is kept of an error; one that nobody expected is logged with its traceback."""
    expected = isinstance(error, SlalomError)
    if not expected:
        _LOG.error("text %d could not be explained", number, exc_info=error)
    reason = " ".join(str(error).split())
    return Failure(
        number, text if isinstance(text, str) else repr(text)[:200], reason if expected else f"{type(error).__name__}: {reason}"
    )


def _method(given: object) -> Method:
    if isinstance(given, Method):
        return given
    if not isinstance(given, str) or given not in METHODS:
        raise InputError(f"method must be one of {', '.join(map(repr, METHODS))}, or a Method; got {given!r}")
    return METHODS[given]


def _checked(options: _Options) -> _Options:
    """Check the options; an empty unit becomes that of the method, and fitters with a seed get it."""
    unit = options.unit or options.method.unit
    if unit not in KINDS:
        raise InputError(f"unit must be one of {', '.join(map(repr, KINDS))}; got {unit!r}")
    if options.long not in ("cut", "window"):
        raise InputError(f"long must be 'cut' or 'window'; got {options.long!r}")
    for name, number, least in (("queries", options.queries, 2), ("check", options.check, 0)):
        if number is not None:
            whole_number(name, number, least)
    whole_number("seed", options.seed, 0)
    method = options.method
    if isinstance(method.fitter, Sgd):
        method = replace(method, fitter=replace(method.fitter, seed=options.seed))
    return replace(options, unit=unit, method=method)


def _held_out(
    fitted: NDArray[np.bool_], names: Sequence[str], check: int, rng: np.random.Generator
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return rows that are not in the fit: 1 to 10 units removed, and subsets of all sizes (of few lengths, for few batches).

    Two rows are the same query where the same names are left: of "very very" it does not matter which one goes.
    """
    n = fitted.shape[1]
    kinds = np.unique(np.array(names, dtype=object), return_inverse=True)[1].astype(np.int32)

    def queries(keep: NDArray[np.bool_]) -> list[bytes]:
        if len(set(names)) == n:
            return [row.tobytes() for row in np.packbits(keep, axis=1)]
        left = np.broadcast_to(kinds, keep.shape)[keep].tobytes()
        ends = [0, *(kinds.itemsize * keep.sum(axis=1, dtype=np.int32).cumsum(dtype=np.int64)).tolist()]
        return [left[start:end] for start, end in pairwise(ends)]

    near = n - np.array([k for k in (1, 2, 4, 7, 10) if k <= n // 2], dtype=np.int64)
    far = np.unique(np.linspace(1, n - 1, min(10, n - 1)).round().astype(np.int64)) if n > 1 else near
    same = np.isin(fitted.sum(axis=1, dtype=np.int32), [*near, *far])  # only rows of one size can be one query
    used, found = set(queries(fitted[same])), []
    for sizes, budget in ((near, check // 2), (far, check - check // 2)):
        drawn = spread(n, sizes, 2 * budget, rng) if len(sizes) and budget else np.zeros((0, n), dtype=bool)
        fresh = {query: i for i, query in enumerate(queries(drawn)) if query not in used}
        left = drawn[sorted(fresh.values())]
        # `spread` gives the sizes one after the other: thin out evenly, so that all sizes stay.
        found.append(left[np.unique(np.linspace(0, len(left) - 1, min(budget, len(left))).round().astype(np.int64))])
        used |= set(queries(found[-1]))
    return found[0], found[1]


def _surrogate(task: _Task, scores: Floats, method: Method, fitter: Fitter) -> tuple[Fit, Lengths | None, float]:
    """Fit the surrogate to the scores (m,) or (m, n_classes), and the effect of the length to what it leaves over, in turn.

    Returns, too, the share of the variance that both explain together.
    """
    asked, units_ = task.asked, task.units
    counts = units_.counts(asked.keep)
    found = fit(counts, scores, fitter, weights=asked.weights)
    if not method.lengths:
        return found, None, found.r2
    sizes, longest, turns = units_.lengths(asked.keep), int(units_.sizes.sum()), method.lengths
    while True:
        guess = found.model(counts)
        length = fit_lengths(sizes, scores - guess, longest)
        turns -= 1
        if length is None or not turns:
            break
        found = fit(counts, scores - length(sizes), fitter, weights=asked.weights)
    return found, length, _r2(guess if length is None else guess + length(sizes), scores, asked.weights)


def _one_class(target: int | Literal["all"], options: _Options) -> int:
    if target == "all":
        raise InputError(f"method {options.method.name!r} explains one class at a time; choose a target")
    return target


def _given(model: Additive, counts: Counts, scores: Floats) -> Fit:
    """Return a model that was not fitted here as a Fit, judged on what was asked."""
    problem = Problem.of(counts, np.atleast_1d(scores), None)
    return problem.fitted(model, converged=True, iterations=0, judged=False)


def _settings(options: _Options, whose: str | None) -> dict[str, Any]:
    """Return what a result depends on besides the text, method, unit and seed."""
    given: dict[str, Any] = {
        "queries": options.queries,
        "check": options.check,
        "target": options.target,
        "long": options.long,
    }
    plain = {name: int(part) if isinstance(part, np.integer) else part for name, part in given.items()}
    return {**plain, "identity": whose}


def _untied(model: Surrogate, own: NDArray[np.int64]) -> Surrogate:
    """Return the model with one unit an occurrence, from one with a unit a type."""
    if isinstance(model, Additive):
        return Additive(model.effects[own], model.base)
    return Slalom(model.values[own], model.importances[own], model.background, model.link)


def _fidelity(guess: Floats, scores: Floats, near: int) -> Fidelity:
    """Compare predictions and answers: row 0 is the whole text, then come the near rows, then the far ones."""
    close, wide = slice(1, 1 + near), slice(1 + near, None)
    return Fidelity(
        _quality(guess[close] - guess[0], scores[close] - scores[0]),
        _quality(guess[wide], scores[wide]),
    )


def _r2(guess: Floats, scores: Floats, weights: Floats) -> float:
    """Return the share of the variance that is explained, rows weighted; 1 where there is none and nothing is left over."""
    problem = Problem.of(np.ones((len(scores), 1)), scores, weights)
    return problem.r2(problem.mean_square(guess - problem.scores))


def _quality(guess: Floats, truth: Floats) -> Quality | None:
    if not len(truth):
        return None
    mse = float(((guess - truth) ** 2).sum() / len(truth))
    spread_ = float(((truth - truth.mean(axis=0)) ** 2).sum() / len(truth))
    return Quality(1.0 - mse / spread_ if spread_ > 1e-20 * float((truth**2).sum() + 1e-300) else None, mse, len(truth))
