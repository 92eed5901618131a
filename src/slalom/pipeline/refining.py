"""One text in rounds: explained from the first rows of its plan, then from twice as many, at last from all."""

from collections.abc import Iterator
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slalom.pipeline.explaining import explain
from slalom.pipeline.options import Options
from slalom.pipeline.pipeline import Pipeline
from slalom.pipeline.planning import plan
from slalom.pipeline.run import Step, TextRun
from slalom.result import Explanation
from slalom.text import QueryPlan

_LOT = 50  # queries of the first lot of a text that is asked in lots, and of the smallest
_BLOCK = 8  # neighbouring rows of a plan that are spread over the rounds


def refine(pipeline: Pipeline, text: Any, options: Options, first: int, seconds: float | None = None) -> Iterator[Step]:
    """Explain one text in rounds: from the first rows of its plan, then from twice as many, at last from all.

    Rows are asked in a random order, each once. Where several rounds follow, the first one is not tested: its explanation
    does not wait for the held-out rows, which the second asks. The last explanation is that of `Pipeline.run`,
    of the same rows in the same order. With a lexicon there is one more explanation before: without queries about the text.
    A pipeline may have rounds of its own instead.
    """
    options, rounds = replace(options, errors="raise"), 0
    if (steps := pipeline.rounds(text, options, seconds)) is not None:
        yield from steps
        return
    if options.method.prior is not None and options.queries != 0:
        alone = replace(options, queries=0, check=0, tolerance=None, max_queries=None)
        begun, rounds = TextRun(plan(pipeline.model, text, alone)), 1
        pipeline.ask([begun], "asking")
        yield Step(1, begun.task.distinct, begun.task.distinct, True, explain(pipeline.engine, begun, alone))
    task = plan(pipeline.model, text, options)
    order = _order(task.plan, options.seed)
    sizes = _sizes(first, len(order)) if options.method.takes_budget else [len(order)]
    of, run = task.distinct, TextRun(task)
    asked, tested, lot = 0, 0, min(first, _LOT)
    for number, size in enumerate(sizes, start=rounds + 1):
        tests = 0 if number == rounds + 1 and len(sizes) > 1 else task.tests
        while asked < size or tested < tests:
            began, before = perf_counter(), asked + tested
            most = size + tests if seconds is None else lot
            tested, new = min(tests, tested + most), min(tests - tested, most)
            asked = min(size, asked + most - new)
            run.task = task.first(order[:asked], tested)
            pipeline.ask([run], "asking")
            if seconds is not None:
                rate = (asked + tested - before) / max(perf_counter() - began, 1e-9)
                lot = max(_LOT, min(int(seconds * rate), 4 * lot))  # a cached lot says nothing of the next
            yield Step(number, run.task.distinct, of, asked == size and tested == tests)
        if asked < len(order):
            part = task.first(np.sort(order[:asked]), tests)
            yield Step(number, part.distinct, of, True, explain(pipeline.engine, run.of(part), options))
    run.task = task
    while True:
        asked, last = run.task.distinct, run.explanation
        pipeline.advance(run, options)
        if run.explanation is last and run.result is None:  # the method asks before it explains the text
            pipeline.ask([run], "asking")
            continue
        pipeline.check_pairs([run], options)
        e, of = run.result or run.explanation, run.task.distinct
        assert isinstance(e, Explanation)
        yield Step(number, asked, of, True, e, final=run.result is not None)
        if run.result is not None:
            return
        number += 1
        pipeline.ask([run], "asking")
        yield Step(number, of, of, True)


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
