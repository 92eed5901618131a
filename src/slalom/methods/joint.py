"""Our methods: values that add up or compete, with what that formula leaves, fitted in one evidence.

joint   queries of all kinds    right near the text and far from it
local   1 to 10 units removed   small changes only

At the end the units that are predicted to matter most are removed one by one, so that the effects that people quote are the
model's own answers. Of a short text every unit was removed alone already.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from slalom.core import Observed, Surrogate
from slalom.core.checks import Floats
from slalom.core.fitting.joint import Changes, Fitted, Prior, State, fitted
from slalom.core.fitting.kernels import Kernel, NeighbourKernel, PlaceKernel
from slalom.core.fitting.problem import Fit, Problem, explained_share
from slalom.methods.base import Method, MethodContext, MethodResult
from slalom.models import Model, Reading
from slalom.text import Deletions, Mixed, QueryPlan, Sampler, Units

Keep = NDArray[np.bool_]

_LEAST_NEAR = 0.5  # share of deletions where a lexicon has what words say
_ASKED = 10  # strongest units that are removed one by one at the end
_LEAST_BUDGET = 60  # of queries; below, all are planned in advance
_WHOLE, _NEXT, _NOISY = 1e-3, 0.02, 20  # noise of the whole text, next to it, and removed units from which it is 1
_MOST_ROWS = 1000  # in which the errors of Shapley values are computed
_BLOCK = 256  # units whose errors are computed together
# Seconds of one core, measured with 200 to 1,500 rows and 20 to 2,000 units: of steps by rows, and rows and units; of errors.
_ROW_SECONDS, _UNIT_SECONDS, _ERROR_SECONDS = 2.1e-9, 5.6e-9, 1.1e-6


@final
@dataclass(frozen=True)
class JointMethod(Method):
    """Fits the formula and what it leaves to the scores of sampled queries.

    Args:
        name: Name of the method.
        sampler: Chooses the queries.
        summary: One line on what it does.
        unit: Default unit.
        check: Largest default number of held-out queries.
    """

    name: str
    sampler: Sampler
    summary: str = ""
    unit: str = "token"
    check: int = 100
    lexicon: Any = field(default=None, repr=False)  # a slalom.Lexicon
    words: Any = field(default=None, repr=False)  # what it has of the words of one text
    most: ClassVar[int] = 1500  # one fit then takes a minute, and eight times as long with twice as many
    plans_all: ClassVar[bool] = True

    @property
    def prior(self) -> str | None:
        return None if self.lexicon is None else self.lexicon.digest

    def knowing(self, lexicon: Any) -> "JointMethod":
        """Return the method with a lexicon as prior."""
        return replace(self, lexicon=lexicon)

    def known(self, units: Units) -> Keep:
        return super().known(units) if self.words is None else np.asarray(self.words.rows()[0])

    def on(self, reading: Reading, units: Units) -> "JointMethod":
        if self.lexicon is None:
            return self
        words = self.lexicon.of_text(reading, units)
        return replace(self, words=words, sampler=Mixed(tuple(words.known.tolist()), _LEAST_NEAR))

    @property
    def finds_pairs(self) -> bool:
        return isinstance(self.sampler, Mixed)

    def seconds(self, n: int, rows: int) -> float:
        return rows**2 * (_ROW_SECONDS * rows + _UNIT_SECONDS * n) + _ERROR_SECONDS * n**2

    def further(self, n: int, budget: int) -> int:
        return _ASKED if budget >= _LEAST_BUDGET and n > _ASKED else 0

    def plan(self, units: Units, budget: int, rng: np.random.Generator, empty: bool) -> QueryPlan:
        later = self.further(len(units), budget)
        if not budget:  # the text, and words that are new
            alone = np.eye(len(units), dtype=bool)[self.words.first[self.words.new]]
            keep = np.concatenate([np.ones((1, len(units)), dtype=bool), alone])
            return QueryPlan(keep, np.ones(len(keep)))
        plan = self.sampler.draw(units.shared.type_of_unit, budget - later, rng, empty)
        if later and len(_single(plan.keep)) == len(units):  # all have been removed alone
            return self.sampler.draw(units.shared.type_of_unit, budget, rng, empty)
        return plan

    def next_rows(self, context: MethodContext) -> tuple[Keep, Any]:
        keep, scores = context.plan.keep, context.observed or Observed(context.scores)
        left = min(context.budget - len(keep), _ASKED)
        if context.before is not None or left <= 0 or _constant(keep, scores):
            return keep[:0], context.before
        found = self._fit(context)
        rows = self._strongest(found, keep, left)
        return rows, found.state if len(rows) else found  # without rows it is the final fit

    def explain(self, context: MethodContext) -> MethodResult:
        keep, scores, units = context.plan.keep, context.observed or Observed(context.scores), context.units
        notes = self.words.notes(context.budget > 0) if self.words else ()
        if (len(keep) > 1 or not self.words) and (constant := _constant(keep, scores)):
            if scores.variance is None:
                return MethodResult(constant.model, constant.r2, constant.diagnosis, notes=notes)
            noise = np.full(len(units), np.sqrt(2.0 * scores.variance.mean()))  # counts may be equal by chance
            return MethodResult(constant.model, 0.0, constant.diagnosis, errors={"removal": noise, "value": noise}, notes=notes)
        before = context.before
        found = before if isinstance(before, Fitted) else self._fit(context, before)
        model = found.model
        tested = scores.known if scores.known.any() else np.ones(len(keep), dtype=bool)
        r2 = explained_share(model(keep[tested].astype(float)), scores.start()[tested], np.ones(int(tested.sum())))
        if self.words:
            keep, scores = _with_known(self.words, context.model, keep, scores, context.one_class(self.name))
        measured = dict(_measured(keep, scores.scores, units.shared.type_of_unit)) if scores.exact else {}
        errors = dict(_errors(found, units.shared.type_of_unit, measured))
        part = found.part if scores.exact and not self.words else None
        return MethodResult(model, r2, errors=errors, measured=measured, notes=notes, part=part)

    def _fit(self, context: MethodContext, before: State | None = None) -> Fitted:
        keep, scores, units = context.plan.keep, context.observed or Observed(context.scores), context.units
        if not self.words:
            return self.posterior(units, keep, scores, before)
        return self.known_fit(self.words, context.model, units, keep, scores, context.one_class(self.name), before)

    def known_fit(
        self, words: Any, model: Model, units: Units, keep: Keep, scores: Observed, target: int, before: State | None = None
    ) -> Fitted:
        """Fit all parts with what a lexicon has of the words of the text."""
        keep, scores = _with_known(words, model, keep, scores, target)
        return self.posterior(units, keep, scores, before, words.prior(model.head, target, keep, scores.start()))

    def posterior(
        self, units: Units, keep: Keep, scores: Observed, before: State | None = None, known: Prior | None = None
    ) -> Fitted:
        """Fit all parts; again, with further rows, where there is a fit of most of them.

        Args:
            units: Units of the text.
            keep: Which units each row keeps (m, n).
            scores: Scores of the rows.
            before: State of a fit of most of the rows, which is taken up.
            known: What other texts tell of the parameters.
        """
        types = units.shared.type_of_unit
        kernels: list[Kernel] = [] if len(units) == 1 else [NeighbourKernel(keep, units.sizes)]
        if kernels and units.move:
            kernels.append(PlaceKernel(keep, units.sizes))
        return fitted(_counts(keep, types), scores, _profile(keep), kernels, types, before=before, known=known)

    def effects(self, units: Units, keep: Keep, scores: Observed) -> tuple[Floats, Floats]:
        """Return the Shapley values (n,) by any rows (m, n), and their standard errors; 0 where rows do not differ."""
        if _constant(keep, scores):
            return np.zeros(len(units)), np.zeros(len(units))
        found = self.posterior(units, keep, scores)
        return found.model.shapley(), found.errors(_orders(len(units), units.shared.type_of_unit))

    def surrogate(self, units: Units, keep: Keep, scores: Observed) -> Surrogate:
        """Return the surrogate of any rows (m, n); a constant where they do not differ."""
        constant = _constant(keep, scores)
        return self.posterior(units, keep, scores).model if constant is None else constant.model

    def _strongest(self, found: Fitted, keep: Keep, most: int) -> Keep:
        """Return the rows without one of the strongest units each, as far as they have not been asked."""
        effects = np.abs(found.model.removal()).reshape(keep.shape[1], -1).max(axis=1)
        known = _single(keep)
        units = [unit for unit in np.argsort(-effects, kind="stable")[:_ASKED].tolist() if unit not in known]
        return ~np.eye(keep.shape[1], dtype=bool)[units[:most]]


def _constant(keep: Keep, scores: Observed) -> Fit | None:
    """Return the constant that explains rows (m, n) which are all alike, or have one score."""
    problem = Problem.of(keep.astype(float), scores.start(), None)
    return problem.constant() if problem.steady or problem.rows_alike else None


def _with_known(words: Any, model: Model, keep: Keep, scores: Observed, target: int) -> tuple[Keep, Observed]:
    """Return rows and scores with those of a text that a lexicon has: words alone, and the empty text."""
    more, outputs = words.rows()
    parts = zip(scores, model.observe(outputs, target), strict=True)
    both = (None if ours is None or own is None else np.concatenate([own, ours]) for own, ours in parts)
    return np.concatenate([keep, more]), Observed(*both)  # type: ignore[arg-type]


def _counts(keep: Keep, types: NDArray[np.int64]) -> Floats:
    """Return how often each row keeps each distinct unit (m, p)."""
    return np.asarray(keep @ np.eye(int(types.max()) + 1)[types])


def _profile(keep: Keep) -> Floats:
    """Return how much more noise than others each row has (m,)."""
    removed = (~keep).sum(axis=1)
    return np.where(removed <= 1, _WHOLE, _NEXT + (1.0 - _NEXT) * np.minimum(removed, _NOISY) / _NOISY)


def _single(keep: Keep) -> set[int]:
    """Return the units that are removed alone in one of the rows."""
    return set(np.argmin(keep[(~keep).sum(axis=1) == 1], axis=1).tolist())


def _measured(keep: Keep, scores: Floats, types: NDArray[np.int64]) -> Iterator[tuple[str, Floats]]:
    """Yield removals and values by the model's own answers to rows (m, n), (n,) or (n, n_classes); NaN where not asked."""
    n, kept = keep.shape[1], keep.sum(axis=1)
    for name, start, one in (("removal", n, n - 1), ("value", 0, 1)):
        before, rows = scores[kept == start], np.flatnonzero(kept == one)
        if len(before) and len(rows):
            found = np.full((n, *scores.shape[1:]), np.nan)
            found[np.argmax(keep[rows] != (start == n), axis=1)] = (
                before[0] - scores[rows] if start else scores[rows] - before[0]
            )
            if name == "value":  # alone, equal units are one input
                known = np.flatnonzero(~np.isnan(found.reshape(n, -1)[:, 0]))
                same = types[:, None] == types[known]
                found = np.where(
                    same.any(axis=1).reshape(-1, *[1] * (found.ndim - 1)), found[known[same.argmax(axis=1)]], np.nan
                )
            yield name, found + 0.0  # no -0.0


def _errors(found: Fitted, types: NDArray[np.int64], measured: Mapping[str, Floats]) -> Iterator[tuple[str, Floats]]:
    """Yield the names of scores and their standard errors (n,) or (n, n_classes): 0 where the model itself was asked."""
    n = len(types)
    empty, whole, one = np.zeros((1, n), dtype=bool), np.ones((1, n), dtype=bool), np.eye(n, dtype=bool)
    for name, other, rows in (("removal", whole, ~one), ("value", empty, one)):
        errors = np.zeros((n, *found.model.values.shape[1:]))
        guessed = np.isnan(measured[name].reshape(n, -1)[:, 0]) if name in measured else np.ones(n, dtype=bool)
        for block in (units for units in np.array_split(np.flatnonzero(guessed), -(-n // _BLOCK)) if len(units)):
            matrix = np.hstack([-np.ones((len(block), 1)), np.eye(len(block))])
            profile = np.append(0.0, _profile(rows[block]))
            changes = _changes(np.concatenate([other, rows[block]]), types, matrix)._replace(profile=profile)
            errors[block] = found.errors(changes)
        yield name, errors
    yield "importance", found.importances_se[types]
    if 2 * n <= _MOST_ROWS:
        yield "shapley", found.errors(_orders(n, types))


def _changes(keep: Keep, types: NDArray[np.int64], matrix: Floats) -> Changes:
    return Changes(_counts(keep, types), keep, matrix)


def _orders(n: int, types: NDArray[np.int64]) -> Changes:
    """Return the mean effects of the units in a few orders, as differences of predictions."""
    number = 2 * int(np.clip(_MOST_ROWS // (4 * (n + 1)), 1, 4))
    rng, half = np.random.default_rng(0), []
    for _ in range(number // 2):
        order = rng.permutation(n)
        half += [order, order[::-1]]
    place = np.argsort(half, axis=1)
    keep = np.arange(n + 1)[:, None] > place[:, None, :]  # (orders, steps, units)
    matrix, units, steps = np.zeros((n, number, n + 1)), np.arange(n), place
    for k in range(number):
        matrix[units, k, steps[k] + 1] += 1.0 / number
        matrix[units, k, steps[k]] -= 1.0 / number
    return _changes(keep.reshape(-1, n), types, matrix.reshape(n, -1))


OURS = (
    JointMethod("joint", Mixed(), "values, importances and how words compete, from queries of all kinds"),
    JointMethod("local", Deletions(), "the same from 1 to 10 units removed: small changes only"),
)
