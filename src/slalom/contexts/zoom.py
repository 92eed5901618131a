"""Contexts of many sources, from coarse to fine: runs of neighbours first, then the parts of those that matter.

    cells -> ask about random subsets -> fit all rows so far -> split the cells that matter -> ask ...

The cells are a partition of the sources into runs; those of the last round are the units of the explanation. A row about
coarse cells is one about finer ones too, so every fit takes up all answers. Cells that matter to the answer, or to one of its
sentences, are split into documents, paragraphs, sentences or words, and into runs of neighbours where these are many. Shapley
values tell what matters: without one of two sources that say the same nothing changes.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from math import ceil, log
from time import perf_counter
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats, row_keys
from slalom.errors import InputError
from slalom.methods import JointMethod, Method
from slalom.models import Answers, Estimate, Queries
from slalom.models.continuation import AnswerModel
from slalom.models.sources import Sources
from slalom.pipeline import Options, Pipeline, Step
from slalom.pipeline.explaining import explain
from slalom.pipeline.planning import Task
from slalom.pipeline.run import TextRun
from slalom.result import Explanation, Failure
from slalom.result.pairs import most_checks
from slalom.text import QueryPlan, Scales, reserved
from slalom.threads import one_blas_thread

QUERIES = 256  # default budget: with those that test the explanation and those about pairs less than 300
_MANY = 100  # sources that are explained one by one
_FAN = 8  # parts of a cell that is split
_SPARE = 3  # rounds beside one per level: weak cells are told from noise later than strong ones
_NEAR = 0.2  # share of the budget for the cells of the last round: removals, which people quote
_LOT = 16  # queries of the first lot of a round that is asked in lots, and of the smallest, of a server; else 1
_BESIDE = 3  # one row in so many keeps the strongest cell: it shows what matters only beside that
_SURE, _LEAST = 1.2, 0.04  # standard errors, and share of the range of the scores, of cells that are split

_Cells = NDArray[np.int64]  # the first source of each


def zooms(n: int, method: Method) -> bool:
    """Return whether n sources are explained from coarse to fine."""
    return n > _MANY and isinstance(method, JointMethod) and method.finds_pairs


@final
class ZoomPipeline(Pipeline):
    """Explains contexts of many sources from coarse to fine, others as they are."""

    def run(self, texts: Sequence[Any], options: Options, pairs: bool = True) -> Iterator[Explanation | Failure]:
        if not self._zooms(options):
            yield from super().run(texts, options, pairs)
            return
        *_, last = self._steps(texts[0], replace(options, errors="raise"), pairs=pairs)
        assert last.explanation is not None
        yield last.explanation

    def rounds(self, text: Any, options: Options, seconds: float | None) -> Iterator[Step] | None:
        return self._steps(text, options, seconds, rough=True) if self._zooms(options) else None

    def _steps(
        self, text: str, options: Options, seconds: float | None = None, pairs: bool = True, rough: bool = False
    ) -> Iterator[Step]:
        """Explain a context in steps; `rough`: also after each round, with the cells of that round as units."""
        budget = options.budget(len(self._sources.spans))
        of = budget + options.held_out(budget)
        run = yield from self._searched(text, options, of, seconds, rough)
        while run.result is None:
            yield from self._asked(run, of, seconds)
            self.advance(run, options)
        if pairs and options.checks_pairs:
            self.check_pairs([run], options)
        assert isinstance(run.result, Explanation)  # errors are raised
        yield Step(run.round, run.result.queries, of, True, run.result, final=True)

    def estimate(self, texts: Sequence[Any], options: Options) -> Estimate:
        if not self._zooms(options):
            return super().estimate(texts, options)
        reading, units = self.read(texts[0], options.unit_kind, options.long)
        budget = options.budget(len(units))
        asked = budget + options.held_out(budget)
        keep = Scales().draw(np.arange(len(units)), asked, np.random.default_rng(options.seed), reading.empty).keep
        limited = not options.checks_pairs or self.engine.spending.max_cost is not None
        estimate = self.engine.estimate([Queries(reading, keep)])  # cells are runs of any length: so are subsets of any size
        return estimate._replace(further=0 if limited else most_checks(asked, len(units), budget))

    @property
    def _sources(self) -> Sources:
        assert isinstance(self.model, AnswerModel)
        return self.model.sources

    def _zooms(self, options: Options) -> bool:
        return zooms(len(self._sources.spans), options.method) and options.goal is None

    def _searched(
        self, text: str, options: Options, of: int, seconds: float | None, rough: bool
    ) -> Generator[Step, None, TextRun]:
        """Return a context whose units are the cells of the last round, with all answers so far and what is left to ask."""
        method, sources = options.method, self._sources
        assert isinstance(method, JointMethod)
        n, rng = len(sources.spans), np.random.default_rng([options.seed, 4])
        budget, levels = options.budget(n), (*sources.levels, np.arange(n))
        tests, later = options.held_out(budget), method.further(n, budget)
        if options.limit is not None and of > options.limit:
            raise InputError(
                f"this context needs {of} queries with those that test the explanation, and max_queries is"
                f" {options.limit}; raise it, or lower queries",
                "max_queries",
            )
        search = round((1.0 - _NEAR) * budget)
        size = max(search // (ceil(log(n, _FAN)) + _SPARE), 2 * _FAN)
        cells = _parts(0, n, levels)
        run, matters = self._on(cells, text, options), np.zeros(len(cells))
        self.ask([run], "asking")  # about the whole context
        yield Step(run.round, len(run.lengths), of)
        while True:
            asked = len(run.task.plan.keep)
            last = search - asked < 1.5 * size
            rows = Scales().draw(np.arange(len(cells)), search - asked if last else size, rng, True).keep
            rows[::_BESIDE, matters >= max(matters.max(), _LEAST)] = True
            self._extend(run, rows)
            yield from self._asked(run, of, seconds)
            e = explain(self.engine, run, options) if rough else None
            if e is not None:
                yield Step(run.round, len(run.lengths), of, True, e)
            run.round += 1
            began = perf_counter()
            with one_blas_thread():
                matters = self._matters(run, method, options, () if e is None else (e, *e.details))
            run.spend(perf_counter() - began)
            wide = np.flatnonzero((matters > _LEAST) & (run.task.units.sizes > 1))
            chosen = wide[np.argsort(-matters[wide], kind="stable")][: max(size // 4, 1)]
            if len(chosen):
                ends = np.append(cells, n)
                finer = [_parts(int(ends[i]), int(ends[i + 1]), levels) for i in chosen]
                cells, before = np.unique(np.concatenate([cells, *finer])), cells
                cell_of = np.searchsorted(before, cells, side="right") - 1
                run, matters = self._on(cells, text, options, run, cell_of), matters[cell_of]
            if last:  # the parts of cells that were found late are told apart by removals alone
                break
        drawn = method.sampler.draw(np.arange(len(cells)), budget - later - len(run.task.plan.keep), rng, True)
        self._extend(run, drawn.keep)
        units = run.task.units
        _, near, far = reserved(run.task.plan, units.words, tests, np.random.default_rng([options.seed, 1]))
        run.task = run.task._replace(keep=np.concatenate([run.task.keep, near, far]), near=len(near), budget=budget)
        return run

    def _asked(self, run: TextRun, of: int, seconds: float | None) -> Iterator[Step]:
        """Ask the new rows of a context, in lots that take about so many seconds."""
        task, least = run.task, 1 if self.model.usage is None else _LOT
        lot = len(task.keep) if seconds is None else least
        while len(rows := run.unasked(task.keep)):
            began, run.task = perf_counter(), task._replace(keep=rows[:lot])
            self.ask([run], f"asking, {len(run.lengths)} of {of} done")
            if seconds is not None:
                lot = max(least, min(int(seconds * lot / max(perf_counter() - began, 1e-9)), 4 * lot))
            yield Step(run.round, len(run.lengths), of, len(rows) <= len(run.task.keep))
        run.task = task

    def _on(
        self, cells: _Cells, text: str, options: Options, before: TextRun | None = None, cell_of: _Cells | None = None
    ) -> TextRun:
        """Return a run on cells, with the answers to the rows of another one, in whose cells (c,) they are."""
        spans = self._sources.spans
        ends = np.append(cells[1:], len(spans)) - 1
        reading, units = self.read(text, options.unit_kind, options.long, np.stack([spans[cells, 0], spans[ends, 1]], axis=1))
        whole, plan = np.ones((1, len(cells)), dtype=bool), QueryPlan(np.zeros((0, len(cells)), dtype=bool), np.zeros(0))
        run = TextRun(Task(0, reading, units, plan, whole, 0, 0, options.method))
        if before is not None:
            keep, run.round, run.decision = before.task.keep, before.round, before.decision
            run.receive(keep[:, cell_of], Answers(before.outputs(keep), before.lengths), before.spend(0.0))
            self._extend(run, before.task.plan.keep[:, cell_of])
        return run

    @staticmethod
    def _extend(run: TextRun, rows: NDArray[np.bool_]) -> None:
        """Add those of rows (k, c) to the plan of a run that it does not have."""
        plan = run.task.plan
        known = set(row_keys(plan.keep))
        keep = np.concatenate([plan.keep, rows[[key not in known for key in row_keys(rows)]]])
        run.task = run.task.extended(QueryPlan(keep, np.ones(len(keep))))

    def _matters(self, run: TextRun, method: JointMethod, options: Options, rough: Sequence[Explanation]) -> Floats:
        """Return how much each cell matters to the answer or one of its sentences: its share of the range of scores, (c,).

        It is 0 where that is not distinguishable from zero. Rough explanations have the same fits.
        """
        model, keep, units = self.model, run.task.plan.keep, run.task.units
        target, labels = run.target(options.target, model.head), model.head.labels
        matters = np.zeros(len(units))
        known = {e.target: (e.surrogate.shapley(), e.errors["shapley"]) for e in rough if "shapley" in e.errors}
        for column in dict.fromkeys([target, 0, *map(labels.index, model.details)]):
            observed = model.observe(run.outputs(keep), column)
            values, errors = known.get(labels[int(column)]) or method.effects(units, keep, observed)
            share = np.abs(values) / (float(np.ptp(observed.start())) + 1e-300)
            matters = np.maximum(matters, np.where(np.abs(values) > _SURE * errors, share, 0.0))
        return matters


def _parts(start: int, stop: int, levels: Sequence[_Cells]) -> _Cells:
    """Return the first sources of the parts of a cell: those of a level, or balanced runs of them where they are many."""
    for level in levels:
        inside = np.unique(level[(level > start) & (level < stop)])
        if 2 * len(inside) + 2 >= _FAN:
            break
    if len(inside) >= _FAN:
        goals = start + (stop - start) * np.arange(1, _FAN) / _FAN
        after = np.searchsorted(inside, goals).clip(1, len(inside) - 1)
        nearer = goals - inside[after - 1] < inside[after] - goals
        inside = np.unique(inside[after - nearer])
    return np.append(start, inside)
