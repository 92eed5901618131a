"""The last two stages: the method explains a text from the answers so far, and the held-out answers test it."""

import sys
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats
from slalom.core.fitting.problem import explained_share
from slalom.methods import MethodContext, MethodResult
from slalom.methods.base import named_failures
from slalom.models import Answers, Engine, Observed, Queries
from slalom.pipeline.further import FurtherQueries
from slalom.pipeline.options import Options
from slalom.pipeline.planning import Task
from slalom.pipeline.run import Run
from slalom.result import Explanation, Fidelity, HeldOut, Spread, quality, spread_of, versions
from slalom.threads import many_blas_threads, one_blas_thread

_ROUNDING = 1e-6  # of the largest score: what a model in single precision may be off, and no error of removal is below
_LEAST_ROWS = 20  # fewer queries than that, and than units, tell no standard errors: 95% intervals then held 0.4 to 0.7
_PACKAGES = ("slalom-xai", "numpy", "scipy", "torch", "transformers", "scikit-learn", "icu4py")


@one_blas_thread()
def explain(engine: Engine, run: Run, options: Options) -> Explanation:
    """Let the method explain one text from the answers so far, and test the result."""
    began = run.clock()
    target, observed, context = _scored(engine, run, options)
    task, answer, decision, further = run.task, run.answers, run.decided, run.further
    model, m, scores = engine.model, task.whole, observed.scores
    with named_failures(options.method):
        result = options.method.explain(context)
    errors = result.errors
    if task.whole < min(len(task.units), _LEAST_ROWS):
        errors = {}
    others = ~task.keep.all(axis=1)  # the plan may have the whole text too; it is reported once
    report = model.report(np.concatenate([answer.outputs[m : m + 1], answer.outputs[others]]))
    tests = np.ones(len(scores), dtype=bool)
    if further.queried:  # what the method has asked by itself does not test it
        tests[m + 1 :] = [row.tobytes() not in further.queried for row in task.keep[m + 1 :]]
    tests[m + 1 :] &= observed.known[m + 1 :]
    if not tests.all():
        near = int(tests[m + 1 : m + 1 + task.near].sum())
        task, scores, observed = task._replace(keep=task.keep[tests], near=near), scores[tests], observed.rows(tests)
    inputs, predicted = {**answer.lengths, **further.lengths}, result.predict(task.keep, task.units)
    if "removal" in errors:
        rounding = _ROUNDING * float(np.abs(scores[observed.known]).max(initial=0.0))
        errors = {**errors, "removal": np.maximum(errors["removal"], rounding)}
    return Explanation(
        text=task.reading.text,
        units=task.units.names,
        spans=task.units.spans,
        surrogate=result.surrogate,
        score=float(scores[m]) if scores.ndim == 1 else scores[m],
        target="all" if target == "all" else model.head.labels[target],
        labels=model.head.labels,
        fidelity=_fidelity(task, predicted[m:], observed),
        fit_r2=_fit_r2(task, result, predicted[:m], scores[:m], further) if result.r2 is None else result.r2,
        unit=options.unit_kind,
        sizes=task.units.sizes,
        method=options.method.name,
        seed=int(options.seed),
        queries=len(inputs),
        tokens=sum(inputs.values()),
        seconds=run.spend(run.clock() - began),
        errors=errors,
        spread=_spread(task, predicted, observed) if options.method.signed else None,
        lengths=result.lengths,
        label=decision.label,
        probabilities=decision.probabilities,
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


def _scored(engine: Engine, run: Run, options: Options) -> tuple[int | Literal["all"], Observed, MethodContext]:
    """Return the scores of all rows of a text, and the text as the method sees it."""
    model, task, m = engine.model, run.task, run.task.whole
    target = run.target(options.target, model.head)
    observed = model.observe(run.answers.outputs, target)
    scores = observed.scores
    run.further.begin(task, scores, lambda rows: _ask_rows(engine, task, rows, target), options.limit)
    context = MethodContext(
        model, task.reading, task.units, task.plan, scores[:m], scores[m], target, task.budget,
        int(options.seed), run.further, options.pairs, observed.rows(slice(m)),
    )  # fmt: skip
    return target, observed, context


def _ask_rows(engine: Engine, task: Task, rows: NDArray[np.bool_], target: int | Literal["all"]) -> tuple[Floats, Answers]:
    """Query further rows (k, n) of a text."""
    queries = Queries(task.reading, task.units.atoms(rows))
    with many_blas_threads():  # what the model does is its own affair
        (answer,) = engine([queries])
    return engine.model.observe(answer.outputs, target).scores, answer


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
    """Return how far predictions of all rows are from their scores, by the number of removed atoms."""
    held_out, known = np.arange(len(task.keep)) > task.whole, observed.known
    removed = task.units.sizes.sum() - task.units.lengths(task.keep)
    return spread_of(removed[known], (predicted - observed.scores)[known], held_out[known])


def _fit_r2(task: Task, result: MethodResult, predicted: Floats, scores: Floats, further: FurtherQueries) -> float:
    """Return R2 on the rows that the method has queried beyond its plan, or on the plan where there are none.

    Rows of the plan without a weight were fitted, too, to what the others leave.
    """
    if not further.queried:
        return explained_share(predicted, scores, np.where(task.plan.weights > 0, task.plan.weights, 1.0))
    rows = np.frombuffer(b"".join(further.queried), dtype=bool).reshape(-1, len(task.units))
    return explained_share(result.predict(rows, task.units), np.array(list(further.queried.values())), np.ones(len(rows)))
