"""The last two stages: the method explains a text from the answers so far, and the held-out answers test it."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from time import perf_counter
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom.core.checks import Floats, row_keys
from slalom.core.fitting.problem import explained_share
from slalom.errors import InputError
from slalom.methods import MethodContext, MethodResult
from slalom.methods.base import named_failures
from slalom.models import Engine, Observed
from slalom.pipeline.options import Options
from slalom.pipeline.planning import Task
from slalom.pipeline.run import TextRun
from slalom.result import Explanation, Fidelity, HeldOut, Spread, quality, spread_of, versions
from slalom.result.pairs import combinations, measured_pairs, pairs_to_check
from slalom.threads import one_blas_thread

_ROUNDING = 1e-6  # of the largest score: what a model in single precision may be off, and no error of removal is below
_LONG = 1.5  # seconds of a fit that a second BLAS thread makes shorter by a third and more
_LEAST_ROWS = 20  # fewer queries than that, and than units, tell no standard errors: 95% intervals then held 0.4 to 0.7
_PACKAGES = ("slalom-xai", "numpy", "scipy", "torch", "transformers", "scikit-learn", "icu4py")


def next_rows(engine: Engine, run: TextRun, options: Options) -> tuple[NDArray[np.bool_], Any]:
    """Return the rows (k, n) that the method asks before it explains a text, within the budget, and its state."""
    began, left = perf_counter(), _budget(run, options) - run.task.whole
    if left <= 0:
        return run.task.keep[:0], run.before
    with one_blas_thread(_is_short(run, options)), named_failures(options.method):
        target = run.target(options.target, engine.model.head)
        rows, state = run.task.method.next_rows(_context(engine, run, options, target, {})[0])
        rows = np.asarray(rows, dtype=bool).reshape(-1, len(run.task.units))
    run.spend(perf_counter() - began)
    return rows[:left], state


def explain(engine: Engine, run: TextRun, options: Options) -> Explanation:
    """Let the method explain one text from the answers so far, and test the result."""
    labels, target = engine.model.head.labels, run.target(options.target, engine.model.head)
    with one_blas_thread(_is_short(run, options)):
        details = engine.model.details if target == 0 else ()
        parts = [_explain(engine, run, options, labels.index(label)) for label in details]
        return replace(_explain(engine, run, options, target), details=tuple(parts))


def _context(
    engine: Engine, run: TextRun, options: Options, target: int | Literal["all"], queried: dict[bytes, Any]
) -> tuple[MethodContext, Observed]:
    """Return a text as its method sees it, and all scores; `queried` gets those of rows that the method asks by itself."""
    task, m, model = run.task, run.task.whole, engine.model
    observed = model.observe(run.outputs(task.keep), target)

    def ask(keep: ArrayLike) -> Floats:
        rows = np.asarray(keep).astype(bool).reshape(-1, len(task.units))
        needed = len(task.keep) + run.further + len(run.unasked(rows))
        if options.limit is not None and needed > options.limit:
            raise InputError(
                f"the method asks for {needed} queries, and max_queries is {options.limit}; raise it, or lower queries",
                "max_queries",
            )
        answered = model.observe(run.ask(engine, rows), target).scores
        queried.update(zip(row_keys(rows), answered.tolist(), strict=True))
        return answered

    context = MethodContext(
        model, task.reading, task.units, task.plan, observed.scores[:m], observed.scores[m], target, _budget(run, options),
        int(options.seed), ask, options.pairs, observed.rows(slice(m)),
        run.before if target == run.target(options.target, model.head) else None,
    )  # fmt: skip
    return context, observed


def _explain(
    engine: Engine, run: TextRun, options: Options, target: int | Literal["all"], part: Callable[[Floats], Any] | None = None
) -> Explanation:
    """Return the explanation of a label; `part` takes its scores to the fit of another one that it is a part of."""
    began, task, m, model = perf_counter(), run.task, run.task.whole, engine.model
    queried = dict[bytes, Any]()  # rows that the method has asked by itself, and their scores
    context, observed = _context(engine, run, options, target, queried)
    scores, outputs = observed.scores, run.outputs(task.keep)
    if part is not None:
        context = replace(context, before=part(context.scores))
    with named_failures(options.method):
        result = task.method.explain(context)
    fit_r2 = _fit_r2(context, result, queried) if result.r2 is None else result.r2
    others = ~task.keep.all(axis=1)  # the plan may have the whole text too; it is reported once
    report = model.report(np.concatenate([outputs[m : m + 1], outputs[others]]))
    tests = np.ones(len(scores), dtype=bool)  # what the method has asked for does not test it
    seen = queried.keys() | set(row_keys(task.plan.keep))
    unseen = np.array([key not in seen for key in row_keys(task.keep[m + 1 :])], dtype=bool)
    tests[m + 1 :] = observed.known[m + 1 :] & unseen
    if not tests.all():
        near = int(tests[m + 1 : m + 1 + task.near].sum())
        task, scores, observed = task._replace(keep=task.keep[tests], near=near), scores[tests], observed.rows(tests)
    predicted, labels = result.surrogate(task.keep.astype(float)), model.head.labels
    words = () if target == "all" else model.words(labels[target])
    return Explanation(
        text=task.reading.text,
        units=task.units.names,
        spans=task.units.spans,
        surrogate=result.surrogate,
        score=float(scores[m]) if scores.ndim == 1 else scores[m],
        target="all" if target == "all" else labels[target],
        labels=labels,
        fidelity=_fidelity(task, predicted[m:], observed),
        fit_r2=fit_r2,
        unit=options.unit_kind,
        sizes=task.units.sizes,
        method=options.method.name,
        seed=int(options.seed),
        queries=len(run.lengths),
        tokens=sum(run.lengths.values()),
        seconds=run.spend(perf_counter() - began),
        errors=_errors(result, task, observed),
        measured=dict(result.measured),
        spread=_spread(task, predicted, observed) if options.method.signed else None,
        label=run.decided.label,
        probabilities=run.decided.probabilities,
        scale=model.head.scale,
        held_out=HeldOut(task.keep[m + 1 :], scores[m + 1 :], task.near) if len(task.keep) > m + 1 else None,
        cut=task.reading.cut,
        diagnosis=result.diagnosis,
        model=model.name,
        settings=options.settings(engine.model_id),
        signed=options.method.signed,
        figures=report.figures,
        notes=(*task.reading.notes, *report.notes, *result.notes),
        without_fields=_without_fields(engine, run, target),
        versions={"python": ".".join(map(str, sys.version_info[:3])), **versions(*_PACKAGES)},
        words=tuple(_explain(engine, run, options, labels.index(word), result.part) for word in words),
    )


def _without_fields(engine: Engine, run: TextRun, target: int | Literal["all"]) -> Floats | None:
    """Return the scores without each field, where that was asked."""
    rows = run.task.units.without_fields
    if not len(rows) or not run.has(rows):
        return None
    observed = engine.model.observe(run.outputs(rows), target)
    return observed.scores if observed.exact else None


def _budget(run: TextRun, options: Options) -> int:
    """Return how many rows a method may ask, those of its plan included; a limit that is almost used up ends it."""
    task = run.task
    if not options.method.plans_all or options.limit is None:
        return task.budget
    return min(task.budget, task.whole + max(options.limit - len(task.keep), 0))


def pairs_to_ask(engine: Engine, run: TextRun, options: Options) -> list[tuple[int, int]]:
    """Return the pairs of units that are predicted to act together, about which the model should be asked.

    There are none where that would exceed max_queries, nor where costs are limited: texts that follow may need the rest.
    """
    e = run.result
    if not isinstance(e, Explanation) or not options.checks_pairs or engine.spending.max_cost is not None:
        return []
    pairs = [pair for pair in pairs_to_check(e, run.task.budget) if run.task.reading.empty or len(e) > 2]
    rows = run.unasked(combinations(pairs, len(e)))
    return pairs if e.queries + len(rows) <= (options.max_queries or np.inf) else []


def with_pairs(engine: Engine, run: TextRun, options: Options, pairs: list[tuple[int, int]]) -> Explanation:
    """Return the result with the model's answers about pairs."""
    e = run.result
    assert isinstance(e, Explanation)
    outputs = run.outputs(np.concatenate([run.task.text, combinations(pairs, len(e))]))
    observed = engine.model.observe(outputs, run.target(options.target, engine.model.head))
    return replace(
        e,
        pairs=measured_pairs(e, pairs, observed.scores, observed.variance, observed.known),
        queries=len(run.lengths),
        pair_queries=len(run.lengths) - e.queries,
        tokens=sum(run.lengths.values()),
        seconds=run.spend(0.0),
    )


def _is_short(run: TextRun, options: Options) -> bool:
    return options.method.seconds(run.task.units.n_types, run.task.whole) < _LONG


def _errors(result: MethodResult, task: Task, observed: Observed) -> dict[str, Floats]:
    """Return the standard errors of a result; those of predicted removals are at least what rounding makes of scores."""
    errors = dict(result.errors)
    if task.method.prior is None and task.whole < min(len(task.units), _LEAST_ROWS):
        return {}
    if "removal" in errors:
        rounding = _ROUNDING * float(np.abs(observed.scores[observed.known]).max(initial=0.0))
        errors["removal"] = np.where(errors["removal"] > 0.0, np.maximum(errors["removal"], rounding), 0.0)
    return errors


def _fit_r2(context: MethodContext, result: MethodResult, queried: Mapping[bytes, Any]) -> float:
    """Return R2 on the rows that the method has asked by itself, or on the plan where there are none."""
    plan, units = context.plan, context.units
    if not queried:
        return explained_share(result.surrogate(plan.keep.astype(float)), context.scores, plan.weights)
    rows = np.frombuffer(b"".join(queried), dtype=bool).reshape(-1, len(units))
    return explained_share(result.surrogate(rows.astype(float)), np.array(list(queried.values())), np.ones(len(rows)))


def _fidelity(task: Task, predicted: Floats, observed: Observed) -> Fidelity:
    """Compare predictions of the whole text and the held-out rows with their scores.

    Near the text both are changes from its score, unless that is noisy or not known.
    """
    tested = observed.rows(slice(task.whole, None))
    scores, noise = tested.scores, tested.variance
    near, far = slice(1, 1 + task.near), slice(1 + task.near, None)
    if noise is None and tested.known[0]:
        close = quality(predicted[near] - predicted[0], scores[near] - scores[0])
    else:
        close = quality(predicted[near], scores[near], None if noise is None else noise[near])
    return Fidelity(close, quality(predicted[far], scores[far], None if noise is None else noise[far]))


def _spread(task: Task, predicted: Floats, observed: Observed) -> Spread | None:
    held_out, known = np.arange(len(task.keep)) > task.whole, observed.known
    removed = task.units.sizes.sum() - task.units.lengths(task.keep)
    return spread_of(removed[known], (predicted - observed.scores)[known], held_out[known])
