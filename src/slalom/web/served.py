"""The models behind the server: what they offer, their recent explanations, and the work that requests ask for.

Everything here that asks a model or fits runs in a worker thread (`slalom.web.work`), as a generator: one step per turn. The
engine gives the model to a thread for half a second at a time, so that a long request does not hold up a short one.
"""

import json
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import nullcontext
from time import perf_counter
from typing import Any, TypeAlias, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import plain
from slalom.errors import InputError
from slalom.explainer import Explainer
from slalom.methods import SurrogateMethod, method
from slalom.pipeline import Step
from slalom.render.page.content import content
from slalom.result import Explanation
from slalom.result.plain import duration
from slalom.text import KINDS
from slalom.web.limits import Limits
from slalom.web.schema import Question, Subject
from slalom.web.work import Queue, takes_long

_STEP = 0.5  # seconds that a step with questions to a model should take: a cancelled text ends after it
_MOST_ANSWERS = 100_000  # answers of the model that the engine keeps in memory
_LOT = 16  # rows or texts of the first lot of a question
FIRST = 50  # queries of the first round
_SHORT = 500  # characters of a text that is not worth an estimate
_ANNOUNCED = 15.0  # seconds of fits that a visitor is told of
_LONG = 1.0  # seconds of fits that must not take the last worker
_ALONE = threading.Lock()  # of methods that use global random numbers, or look inside the model
_AGAIN = 0.05  # seconds in which a worker waits for it

Result = TypeVar("Result")
Part: TypeAlias = tuple[Any, Sequence[Any]]  # scores and decisions


@final
class Served:
    """One model, its queue and its recent explanations.

    Args:
        name: Its id in requests.
        explainer: The explainer of the model.
        limits: Bounds of requests.
        code: Python code that makes the same explainer.
        remote: Whether the model answers elsewhere, so that texts leave this server.
    """

    def __init__(
        self,
        name: str,
        explainer: Explainer,
        limits: Limits,
        code: str = "explainer = slalom.Explainer(model)",
        remote: bool = False,
    ) -> None:
        self.id, self.explainer, self.limits, self.code, self.remote = name, explainer, limits, code, remote
        explainer.engine.turn_seconds = _STEP
        self.queue = Queue(f"slalom {name}", limits.workers, limits.waiting)
        self._recent: OrderedDict[Hashable, Explanation] = OrderedDict()
        self._recent_lock = threading.Lock()

    def recent(self, subject: Subject) -> Explanation | None:
        """Return an explanation that was asked for lately; None where there is none."""
        with self._recent_lock:
            e = self._recent.get(_key(subject))
            if e is not None:
                self._recent.move_to_end(_key(subject))
            return e

    def rounds(self, subject: Subject, first: int = FIRST) -> Iterator[Step | None]:
        """Explain a text in steps, or return a recent explanation in one; None while another text must end first."""
        if (known := self.recent(subject)) is not None:
            yield Step(1, known.queries, known.queries, True, known, final=True)
            return
        fits = self._check_units(subject, first)
        steps = self.explainer.steps(
            subject.text, first=first, seconds=_STEP, method=subject.method, unit=subject.unit, queries=subject.queries,
            target=self.target(subject.target), seed=subject.seed,
        )  # fmt: skip
        chosen = method(subject.method)
        side_by_side = isinstance(chosen, SurrogateMethod)
        if not side_by_side:
            takes_long()
            yield None
        while True:
            if self.explainer.engine.cached > _MOST_ANSWERS:
                self.explainer.engine.forget()
            if side_by_side:
                step = next(steps, None)
            elif _ALONE.acquire(timeout=_AGAIN):
                try:
                    step = self._alone(steps, bool({"gradients", "attention"} & set(chosen.needs)))
                finally:
                    _ALONE.release()
            else:
                yield None
                continue
            if step is None:
                return
            if step.final and step.explanation is not None:
                with self._recent_lock:
                    self._recent[_key(subject)] = step.explanation
                    while len(self._recent) > self.limits.kept:
                        self._recent.popitem(last=False)
            elif step.answered and fits > _LONG:
                takes_long()
            yield step

    def _alone(self, steps: Iterator[Step], inside: bool) -> Step | None:
        """Take a step of a method that is not ours; where it looks inside the model, other threads wait."""
        with self.explainer.engine.exclusive() if inside else nullcontext():
            return next(steps, None)

    def expected(self, subject: Subject, first: int = FIRST) -> tuple[int, float]:
        """Return the number of units of a text and about how many seconds its fits take; zeros where both are small."""
        chosen = method(subject.method)
        kind = subject.unit or chosen.unit
        if len(subject.text) <= min(self.limits.units, _SHORT) or kind not in KINDS:  # an unknown kind is refused elsewhere
            return 0, 0.0
        units = self.explainer.pipeline.read(subject.text, kind, self.explainer.options.long)[1]
        seconds, queries = 0.0, subject.queries or self.explainer.options.budget(len(units))
        while True:
            seconds += chosen.seconds(units.n_types, queries)
            queries //= 2
            if queries < first:
                return len(units), seconds

    def _check_units(self, subject: Subject, first: int) -> float:
        """Refuse a text of too many units, or one whose fit would be stopped before its end; return the seconds of its fits."""
        kind = subject.unit or method(subject.method).unit
        n, seconds = self.expected(subject, first)
        if n > self.limits.units:
            most = f"{self.limits.units:,}"
            raise InputError(f"a text must have at most {most} {kind}s; got {n:,}; choose unit 'sentence', or a shorter text")
        if seconds > self.limits.seconds:
            raise InputError(
                f"{n:,} {kind}s would take about {duration(seconds)}, and requests end after {self.limits.seconds:g} s;"
                " choose unit 'sentence', or method 'ridge'"
            )
        return seconds

    def events(self, subject: Subject) -> Iterator[tuple[str, str] | None]:
        """Explain a text in rounds, as names and JSON of server-sent events."""
        if self.recent(subject) is None:
            n, seconds = self.expected(subject)
            if seconds > _ANNOUNCED:
                yield "expected", dumps({"units": n, "seconds": round(seconds)})
        for step in self.rounds(subject):
            if step is None:
                yield None
            elif step.explanation is None:
                yield "progress", dumps({"round": step.round, "queries": step.queries, "of": step.of})
            else:
                shown = {"round": step.round, "queries": step.queries, "final": step.final}
                yield "explanation", dumps(shown | {"content": content(step.explanation)})

    def explained(self, subject: Subject, then: Callable[[Explanation], Result]) -> Iterator[Result | None]:
        """Explain a text without rounds in between, and yield what a function makes of the explanation, at last."""
        for step in self.rounds(subject, first=max(subject.queries or 0, self.limits.queries) + 1):
            if step is not None and step.final and step.explanation is not None:
                yield then(step.explanation)
            else:
                yield None

    def asked(self, question: Question) -> Iterator[dict[str, Any] | None]:
        """Ask the model about parts of an explained text, or about whole texts."""
        if question.keep is None:
            yield from self._whole_texts(question.texts or [], self.target(question.target))
            return
        for step in self.explained(question.subject(), lambda e: e):
            if step is None:
                yield None
            else:
                yield from self._parts(step, question.keep)

    def _whole_texts(self, texts: Sequence[str], target: str | int | None) -> Iterator[dict[str, Any] | None]:
        head = self.explainer.model.head

        def ask(lot: Sequence[str]) -> Part:
            nonlocal target
            scores, decisions = self.explainer.decide(lot, target)
            if target is None and decisions[0].label is not None and (len(head.labels) > 2 or head.kind == "labels"):
                target = head.labels.index(decisions[0].label)  # by default the class of the first text, of every lot
            return scores, decisions

        for part in _in_lots(texts, ask):
            yield None if part is None else self._answer(*part)

    def _parts(self, e: Explanation, keep: Sequence[Sequence[int]]) -> Iterator[dict[str, Any] | None]:
        n = len(e)
        if (wrong := next((len(row) for row in keep if len(row) != n), None)) is not None:
            raise InputError(f"every row of keep must have {n} numbers, one per {e.unit}; got {wrong}")
        rows = np.array(keep, dtype=bool).reshape(len(keep), n)
        for part in _in_lots(rows, lambda lot: self.explainer.decide_parts(e, lot)):
            yield None if part is None else self._answer(*part) | {"predicted": _predicted(e, rows)}

    def _answer(self, scores: Any, decisions: Sequence[Any]) -> dict[str, Any]:
        known = all(decision.probabilities is not None for decision in decisions)
        return {
            "scores": plain(scores),
            "probabilities": [decision.probabilities.tolist() for decision in decisions] if known else None,
            "labels": list(self.explainer.model.head.labels),
            "label": [decision.label for decision in decisions],
        }

    def flipped(self, subject: Subject) -> Iterator[dict[str, Any] | None]:
        """Find the fewest units without which the model decides otherwise."""
        return self.explained(subject, self._flip)

    def _flip(self, e: Explanation) -> dict[str, Any]:
        flip = self.explainer.flip(e)
        if flip is None or flip.asked is None:
            return {"flip": None}
        found = {
            "units": list(flip.units),
            "label_before": e.label,
            "label_after": flip.label,
            "score_before": float(np.max(e.score)),  # of the class whose score `asked` is
            "score_after": flip.asked,
            "confirmed": flip.confirmed,
            "queries": flip.queries,
        }
        return {"flip": found}

    def target(self, name: str | None) -> str | int | None:
        """Return a class by its label, or by its index where no label is that number."""
        if name is None or name in self.explainer.model.head.labels:
            return name
        return int(name) if name.isascii() and name.isdecimal() and len(name) < 10 else name


def _in_lots(rows: Any, ask: Callable[[Any], Part]) -> Iterator[Part | None]:
    """Ask about rows in lots of about a step each, so that others have their turns; yield all answers, at last."""
    scores, decisions, lot = list[Any](), list[Any](), _LOT
    while True:
        began, start = perf_counter(), len(decisions)
        some, decided = ask(rows[start : start + lot])
        scores.append(some)
        decisions += decided
        if len(decisions) >= len(rows):
            break
        lot = max(1, int(_STEP * len(decided) / max(perf_counter() - began, 1e-9)))
        yield None
    yield np.concatenate(scores), decisions


def dumps(part: Any) -> str:
    """Return data as one line of JSON in ASCII, with null for numbers that are not finite.

    Example:
        >>> dumps({"se": [0.5, float("inf")]})
        '{"se":[0.5,null]}'
    """
    try:
        return json.dumps(part, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except ValueError:
        return json.dumps(_finite(part), ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def _finite(part: Any) -> Any:
    """Return data without numbers that JSON lacks."""
    match part:
        case dict():
            return {name: _finite(entry) for name, entry in part.items()}
        case list() | tuple():
            return [_finite(entry) for entry in part]
        case float() if not math.isfinite(part):
            return None
        case _:
            return part


def _predicted(e: Explanation, rows: NDArray[np.bool_]) -> list[Any] | None:
    """Return the predictions of the surrogate; None where it has none, as without a background for an empty text."""
    if not e.signed:
        return None
    filled = rows.sum(axis=1) > 0
    if filled.all() or e.background is not None or e.additive:
        return list(plain(e.predict(rows)))
    known = iter(plain(e.predict(rows[filled])) if filled.any() else [])
    return [next(known) if kept else None for kept in filled.tolist()]


def _key(subject: Subject) -> Hashable:
    return (subject.text, subject.method, subject.unit, subject.queries, subject.target, subject.seed)
