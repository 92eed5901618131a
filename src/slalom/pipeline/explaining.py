"""The last two stages: the method explains a text from the answers so far, and the held-out answers test it."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from slalom.core.checks import Floats
from slalom.core.fitting.problem import explained_share
from slalom.errors import InputError, SlalomError, one_line
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


def explain(engine: Engine, run: TextRun, options: Options) -> Explanation:
    """Let the method explain one text from the answers so far, and test the result."""
    with one_blas_thread(options.method.seconds(run.task.units.n_types, run.task.whole) < _LONG):
        return _explain(engine, run, options)


def _explain(engine: Engine, run: TextRun, options: Options) -> Explanation:
    began, task, m = run.clock(), run.task, run.task.whole
    model = engine.model
    target = run.target(options.target, model.head)
    observed = model.observe(run.answers.outputs, target)
    scores = observed.scores
    queried = dict[bytes, Any]()  # rows that the method has asked by itself, and their scores

    def ask(keep: ArrayLike) -> Floats:
        rows = np.asarray(keep).astype(bool).reshape(-1, len(task.units))
        needed = len(task.keep) + run.further + len(run.unasked(rows))
        if options.limit is not None and needed > options.limit:
            raise InputError(
                f"the method asks for {needed} queries, and max_queries is {options.limit}; raise it, or lower queries",
                "max_queries",
            )
        answered = model.observe(run.ask(engine, rows), target).scores
        queried.update(zip((row.tobytes() for row in rows), answered.tolist(), strict=True))
        return answered

    context = MethodContext(
        model, task.reading, task.units, task.plan, scores[:m], scores[m], target, _budget(engine, run, options),
        int(options.seed), ask, options.pairs, observed.rows(slice(m)),
    )  # fmt: skip
    with named_failures(options.method):
        result = options.method.explain(context)
    fit_r2 = _fit_r2(context, result, queried) if result.r2 is None else result.r2
    others = ~task.keep.all(axis=1)  # the plan may have the whole text too; it is reported once
    report = model.report(np.concatenate([run.answers.outputs[m : m + 1], run.answers.outputs[others]]))
    tests = np.ones(len(scores), dtype=bool)  # what the method has asked by itself does not test it
    unseen = np.array([row.tobytes() not in queried for row in task.keep[m + 1 :]], dtype=bool)
    tests[m + 1 :] = observed.known[m + 1 :] & unseen
    if not tests.all():
        near = int(tests[m + 1 : m + 1 + task.near].sum())
        task, scores, observed = task._replace(keep=task.keep[tests], near=near), scores[tests], observed.rows(tests)
    predicted = result.surrogate(task.keep.astype(float))
    return Explanation(
        text=task.reading.text,
        units=task.units.names,
        spans=task.units.spans,
        surrogate=result.surrogate,
        score=float(scores[m]) if scores.ndim == 1 else scores[m],
        target="all" if target == "all" else model.head.labels[target],
        labels=model.head.labels,
        fidelity=_fidelity(task, predicted[m:], observed),
        fit_r2=fit_r2,
        unit=options.unit_kind,
        sizes=task.units.sizes,
        method=options.method.name,
        seed=int(options.seed),
        queries=len(run.lengths),
        tokens=sum(run.lengths.values()),
        seconds=run.spend(run.clock() - began),
        errors=_errors(result, task, observed),
        measured=result.measured,
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
        notes=(*task.reading.notes, *report.notes),
        versions={"python": ".".join(map(str, sys.version_info[:3])), **versions(*_PACKAGES)},
    )


def _budget(engine: Engine, run: TextRun, options: Options) -> int:
    """Return how many rows a method may ask, those of its plan included; costs and limits that are almost used up end it."""
    task = run.task
    if not options.method.plans_all:
        return task.budget
    if engine.spending.max_cost is not None:
        return task.whole
    return task.budget if options.limit is None else min(task.budget, task.whole + max(options.limit - len(task.keep), 0))


def check_pairs(engine: Engine, run: TextRun, options: Options) -> None:
    """Ask the model about pairs of units that are predicted to act together, and put its answers into the result.

    Nothing is asked where that would exceed max_queries, nor where costs are limited: texts that follow may need the rest.
    """
    e = run.result
    if not isinstance(e, Explanation) or not options.checks_pairs or engine.spending.max_cost is not None:
        return
    task, began = run.task, run.clock()
    pairs = [pair for pair in pairs_to_check(e, task.budget) if task.reading.empty or len(e) > 2]
    rows = combinations(pairs, len(e))
    if not pairs or e.queries + len(run.unasked(rows)) > (options.max_queries or np.inf):
        return
    try:
        outputs = run.ask(engine, np.concatenate([task.keep[task.whole : task.whole + 1], rows]))
    except SlalomError as error:  # the explanation itself is finished
        run.result = replace(e, notes=(*e.notes, f"Pairs could not be checked: {one_line(error)}"))
        return
    observed = engine.model.observe(outputs, run.target(options.target, engine.model.head))
    run.result = replace(
        e,
        pairs=measured_pairs(e, pairs, observed.scores, observed.variance, observed.known),
        queries=len(run.lengths),
        pair_queries=len(run.lengths) - e.queries,
        tokens=sum(run.lengths.values()),
        seconds=run.spend(run.clock() - began),
    )


def _errors(result: MethodResult, task: Task, observed: Observed) -> dict[str, Floats]:
    """Return the standard errors of a result; those of predicted removals are at least what rounding makes of scores."""
    errors = dict(result.errors)
    if task.whole < min(len(task.units), _LEAST_ROWS):
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
