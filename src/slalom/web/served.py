"""The models behind the server: what they offer, their recent explanations, and the work that requests ask for.

Everything here that asks a model or fits runs in a worker thread (`slalom.web.work`), as a generator: one step per turn. The
engine gives the model to a thread for half a second at a time, so that a long request does not hold up a short one.
"""

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, final

import numpy as np

from slalom.core.checks import plain
from slalom.errors import InputError
from slalom.explainer import Explainer
from slalom.methods import JointMethod, SurrogateMethod, method
from slalom.pipeline import Step
from slalom.render.page.content import content
from slalom.result import Explanation
from slalom.result.plain import duration
from slalom.text import KINDS
from slalom.web.access import Limits
from slalom.web.schema import Question, Subject
from slalom.web.work import Queue, takes_long

_STEP = 0.5  # seconds that a step with questions to a model should take: a cancelled text ends after it
_MAX_ANSWERS = 100_000  # answers of the model that the engine keeps in memory
_FEW = 16  # rows or texts of a question that must not take the last worker
_FIRST = 50  # queries of the first round
_SHORT = 500  # characters of a text that is not worth an estimate
_ANNOUNCED = 15.0  # seconds of fits that a visitor is told of
_LONG = 1.0  # seconds of fits that must not take the last worker
_ALONE = threading.Lock()  # of methods that use global random numbers, or look inside the model
_AGAIN = 0.05  # seconds in which a worker waits for it

_KEY = ("text", "method", "unit", "queries", "target", "seed")  # of a recent explanation, beside the fields

T = TypeVar("T")


class Expected(NamedTuple):
    """About how many seconds the fits of a text take."""

    units: int
    seconds: float


@final
@dataclass(eq=False)
class Served:
    """One model, its queue and its recent explanations."""

    id: str  # in requests
    explainer: Explainer
    limits: Limits
    code: str = "explainer = slalom.Explainer(model)"  # Python that makes the same explainer
    remote: bool = False  # whether the model answers elsewhere, so that texts leave this server
    prior: str = "lexicon.parquet"  # file of the lexicon of the explainer, where it has one

    def __post_init__(self) -> None:
        self.explainer.engine.turn_seconds = _STEP
        self.queue = Queue(f"slalom {self.id}", self.limits.workers, self.limits.waiting)
        self._recent: OrderedDict[Hashable, Explanation] = OrderedDict()
        self._recent_lock = threading.Lock()

    def _rounds(self, subject: Subject, first: int) -> Iterator[Step | Expected | None]:
        """Explain a text in steps, or return a recent explanation in one; None while another text must end first."""
        key = repr(getattr(subject.text, "fields", None)), *(getattr(subject, name) for name in _KEY)
        with self._recent_lock:
            if (known := self._recent.get(key)) is not None:
                self._recent.move_to_end(key)
        if known is not None:
            yield Step(1, known.queries, known.queries, True, known, final=True)
            return
        chosen, fits = method(subject.method), self._expected(subject, first)
        if fits.seconds > _ANNOUNCED:
            yield fits
        self._check(fits, subject.unit or chosen.unit)
        steps = self._beginning(subject).steps(
            subject.text, first=first, seconds=_STEP, method=subject.method, unit=subject.unit, queries=subject.queries,
            target=self._target(subject.target), seed=subject.seed,
        )  # fmt: skip
        side_by_side = isinstance(chosen, (JointMethod, SurrogateMethod))
        looks_inside = bool({"gradients", "attention"} & set(chosen.needs))
        if not side_by_side:
            takes_long()
            yield None
        while True:
            if self.explainer.engine.cached > _MAX_ANSWERS:
                self.explainer.engine.forget()
            while not side_by_side and not _ALONE.acquire(timeout=_AGAIN):
                yield None
            try:
                with self.explainer.engine.lock if looks_inside else nullcontext():
                    step = next(steps, None)
            finally:
                if not side_by_side:
                    _ALONE.release()
            if step is None:
                return
            if step.final and step.explanation is not None:
                self._keep(key, step.explanation)
            elif step.answered and fits.seconds > _LONG:
                takes_long()
            yield step

    def _beginning(self, subject: Subject) -> Explainer:
        """Return the Explainer of a text: without its lexicon for a record, for other units, and for all classes."""
        prior, unit = self.explainer.prior, subject.unit or method(subject.method).unit
        fits = prior is None or (unit == prior.about["unit"] and subject.target != "all" and type(subject.text) is str)
        return self.explainer if fits else self.explainer.with_prior(None)

    def code_of(self, e: Explanation) -> str:
        """Return Python that makes the Explainer of an explanation."""
        begins = f"\nexplainer = explainer.with_prior(slalom.Lexicon.load({self.prior!r}))" if "prior" in e.settings else ""
        return self.code + begins

    def _keep(self, key: Hashable, e: Explanation) -> None:
        with self._recent_lock:
            self._recent[key] = e
            while len(self._recent) > self.limits.kept:
                self._recent.popitem(last=False)

    def _expected(self, subject: Subject, first: int) -> Expected:
        """Return the number of units of a text and how long its fits take; zeros where both are small."""
        chosen = method(subject.method)
        kind = subject.unit or chosen.unit
        if len(subject.text) <= min(self.limits.units, _SHORT) or kind not in KINDS:  # an unknown kind is refused elsewhere
            return Expected(0, 0.0)
        units = self.explainer.pipeline.read(subject.text, kind, self.explainer.options.long)[1]
        seconds, queries = 0.0, subject.queries or self.explainer.options.budget(len(units))
        while True:
            seconds += chosen.seconds(units.n_types, queries)
            queries //= 2
            if queries < first:
                return Expected(len(units), seconds)

    def _check(self, expected: Expected, kind: str) -> None:
        """Refuse a text of too many units, or one whose fit would be stopped before its end."""
        n, most = f"{expected.units:,}", self.limits.seconds
        if expected.units > self.limits.units:
            most_units = f"{self.limits.units:,}"
            raise InputError(
                f"a text must have at most {most_units} {kind}s; got {n}; choose unit 'sentence', or a shorter text"
            )
        if expected.seconds > most:
            raise InputError(
                f"{n} {kind}s would take about {duration(expected.seconds)}, and requests end after {most:g} s;"
                " choose unit 'sentence', or method 'ridge'"
            )

    def events(self, subject: Subject) -> Iterator[tuple[str, str] | None]:
        for step in self._rounds(subject, _FIRST):
            if step is None:
                yield None
            elif isinstance(step, Expected):
                yield "expected", dumps({"units": step.units, "seconds": round(step.seconds)})
            else:
                yield step_event(step)

    def explained(self, subject: Subject, then: Callable[[Explanation], T]) -> Iterator[T | None]:
        """Explain a text without rounds in between, and yield what a function makes of the explanation, at last."""
        for step in self._rounds(subject, first=max(subject.queries or 0, self.limits.queries) + 1):
            if isinstance(step, Step) and step.final and step.explanation is not None:
                yield then(step.explanation)
            else:
                yield None

    def asked(self, question: Question) -> Iterator[str | None]:
        if len(question.keep or question.texts or ()) > _FEW:
            takes_long()
            yield None
        if question.keep is None:
            yield self._answer(*self.explainer.decide(question.texts or [], self._target(question.target)))
        else:
            yield from self.explained(question.subject(), lambda e: self._parts(e, question.keep))

    def _parts(self, e: Explanation, keep: Any) -> str:
        n = len(e)
        if (wrong := next((len(row) for row in keep if len(row) != n), None)) is not None:
            raise InputError(f"every row of keep must have {n} numbers, one per {e.unit}; got {wrong}")
        rows = np.array(keep, dtype=bool).reshape(len(keep), n)
        return self._answer(*self.explainer.decide_parts(e, rows), predicted=_predicted(e, rows))

    def _answer(self, scores: Any, decisions: Any, **more: Any) -> str:
        known = all(decision.probabilities is not None for decision in decisions)
        answer = {
            "scores": plain(scores),
            "probabilities": [decision.probabilities.tolist() for decision in decisions] if known else None,
            "labels": list(self.explainer.model.head.labels),
            "label": [decision.label for decision in decisions],
        }
        return dumps(answer | more)

    def flip(self, e: Explanation) -> str:
        """Find the fewest units without which the model decides otherwise."""
        flip = self.explainer.flip(e)
        if flip is None or flip.asked is None:
            return dumps({"flip": None})
        shown = {
            "units": list(flip.units),
            "label_before": e.label,
            "label_after": flip.label,
            "score_before": float(np.max(e.score)),  # of the class whose score `asked` is
            "score_after": flip.asked,
            "confirmed": flip.confirmed,
            "queries": flip.queries,
        }
        return dumps({"flip": shown})

    def _target(self, name: str | None) -> str | int | None:
        if name is None or name in self.explainer.model.head.labels:
            return name
        return int(name) if name.isascii() and name.isdecimal() and len(name) < 10 else name


def step_event(step: Step) -> tuple[str, str]:
    """Return the name and the data of the server-sent event of a step."""
    shown = {"round": step.round, "queries": step.queries}
    if step.explanation is None:
        return "progress", dumps(shown | {"of": step.of})
    return "explanation", dumps(shown | {"final": step.final, "content": content(step.explanation)})


def dumps(part: Any) -> str:
    """Return data as one line of JSON in ASCII, with null for numbers that are not finite.

    Example:
        >>> dumps({"se": [0.5, float("inf")]})
        '{"se":[0.5,null]}'
    """
    try:
        return json.dumps(part, allow_nan=False, separators=(",", ":"))
    except ValueError:
        return dumps(json.loads(json.dumps(part), parse_constant=lambda _: None))


def _predicted(e: Explanation, rows: Any) -> list[Any] | None:
    """Return the predictions of the surrogate; None where scores have no sign."""
    if not e.signed:
        return None
    predicted: list[Any] = plain(e.predict(rows))
    return predicted
