"""The first two stages: a text as the model reads it, and all queries that are asked about it."""

import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import row_keys
from slalom.errors import InputError, count
from slalom.methods.base import Method, named_failures
from slalom.models import FilledReading, Model, Queries, Reading
from slalom.pipeline.options import Options
from slalom.result.plain import duration
from slalom.text import (
    CHOSEN,
    KINDS,
    QueryPlan,
    Record,
    UnitFunction,
    Units,
    as_record,
    chosen_spans,
    query_keys,
    reserved,
    sentences,
    simple_words,
    units,
    words,
)
from slalom.threads import one_blas_thread

_LONG = 60.0  # seconds of a fit that are announced


class Task(NamedTuple):
    """One text with all its queries, and its number in the call."""

    number: int
    reading: Reading
    units: Units  # n
    plan: QueryPlan  # the queries of the method, m rows
    keep: NDArray[np.bool_]  # (m + 1 + near + far, n): the plan, the whole text, the held-out rows near it and far from it
    near: int  # held-out rows near the text
    budget: int
    method: Method  # with what it knows of the text

    @property
    def whole(self) -> int:
        """Index of the row of the whole text."""
        return len(self.plan.keep)

    @property
    def text(self) -> NDArray[np.bool_]:
        """The row (1, n) of the whole text."""
        return self.keep[self.whole : self.whole + 1]

    @property
    def distinct(self) -> int:
        """Number of different queries."""
        return len(set(query_keys(self.keep, self.units.words)))

    def queries(self, rows: NDArray[np.bool_]) -> Queries:
        """Return rows (k, n) as the engine takes them."""
        return Queries(self.reading, self.units.atoms(rows))

    @property
    def tests(self) -> int:
        """Number of held-out rows."""
        return len(self.keep) - self.whole - 1

    def first(self, rows: NDArray[np.int64], tests: int) -> "Task":
        """Return the task with some rows of its plan, after which nothing is asked, and its first held-out rows."""
        keep, weights = self.plan.keep[rows], self.plan.weights[rows]
        whole, everything = keep.all(axis=1), self.plan.keep.all(axis=1)
        total = float(self.plan.weights[~everything].sum())
        if total > 0.0 and weights[~whole].any():
            weights = np.where(whole, np.maximum(weights * weights[~whole].sum() / total, 1.0 * (weights > 0)), weights)
        part = self._replace(keep=self.keep[: self.whole + 1 + tests], near=min(self.near, tests))
        return part.extended(QueryPlan(keep, weights))._replace(budget=len(keep))

    def extended(self, plan: QueryPlan) -> "Task":
        """Return the task with a larger plan; the whole text and the held-out rows stay."""
        return self._replace(plan=plan, keep=np.concatenate([plan.keep, self.keep[self.whole :]]))

    def cells(self, options: Options) -> int:
        """Return how many entries the queries may have in the end."""
        largest = self.budget if options.goal is None else options.goal.most
        return self.keep.size + max(largest - self.whole, 0) * len(self.units)


def read(
    model: Model, text: str, unit: str | UnitFunction, long: str, cells: NDArray[np.int64] | None = None
) -> tuple[Reading, Units]:
    """Return the text as the model reads it, and its units: of a kind, those of a function, or given by their spans (n, 2)."""
    by_kind = {"sentence": sentences, "word": words}
    find = by_kind.get(unit, simple_words) if isinstance(unit, str) else partial(chosen_spans, function=unit)
    chosen = not isinstance(unit, str)
    whole = model.whole_fields(text) if isinstance(text, Record) else frozenset[str]()
    if cells is None and isinstance(text, Record) and (chosen or not model.tokenized):
        cells = text.cells(find, whole)
    elif cells is None and chosen:
        cells = find(text)
    unit = kind = unit if isinstance(unit, str) else CHOSEN
    given = model.given_units(text, unit)
    if given is None and cells is None and unit not in KINDS:
        raise InputError(f"unit must be one of {', '.join(map(repr, KINDS))}; {unit}s are units of slalom.context")
    if model.tokenized:
        reading = model.read(text, long, None)
        if callable(model.removal):
            reading = FilledReading(reading, model)
    else:
        given = given if given is not None else find(text) if cells is None else cells
        reading = model.read(text, long, given)
        unit = "type" if unit == "type" else "token"
    made = units(text, unit, reading.names, reading.spans, reading.types, cells)
    if given is not None and len(made) < len(reading.names):
        made = replace(made, names=tuple(_run_names(made, kind)))
    return reading, made if model.removal == "drop" or callable(model.removal) else replace(made, move=False)


def _run_names(runs: Units, kind: str) -> Iterator[str]:
    """Yield the names of units that are runs of the units which a model knows: their numbers."""
    ends = runs.sizes.cumsum().tolist()
    for name, size, end in zip(runs.names, runs.sizes.tolist(), ends, strict=True):
        yield name if size == 1 else f"{kind}s {end - size + 1} to {end}"


def plan(model: Model, text: Any, options: Options, number: int = 0, where: str = "") -> Task:
    """Read a text and choose its queries; `where` is appended to error messages."""
    try:
        text = as_record(text)
    except InputError as error:
        raise InputError(f"{error}{where}") from error
    if not isinstance(text, str):
        missing = " (a missing value)" if type(text).__name__ in ("NoneType", "float", "NAType", "NaTType") else ""
        raise InputError(f"a text must be a string; got {type(text).__name__}{missing}{where}")
    if isinstance(text, Record) and text.blank is not None:
        raise InputError(f"the field {text.blank!r} must not be empty; give it a text{where}")
    reading, text_units = read(model, text, options.unit_or_default, options.long)
    n, kind = len(text_units), options.unit_kind
    if n == 0:
        raise InputError(f"a text must have at least one {kind}; got {text[:40]!r}{where}")
    if reading.cut:
        _warn(
            f"{count(reading.cut, 'token')}{reading.cut_from} {'does' if reading.cut == 1 else 'do'} not fit into {model.name}"
            f" and {'was' if reading.cut == 1 else 'were'} cut{where}; the option long=window explains overlapping windows"
        )
    seconds = options.method.seconds(text_units.n_types, options.most_queries(n))
    if seconds > _LONG:
        faster = "" if kind == "sentence" else " unit=sentence or"
        _warn(f"a fit of {n:,} {kind}s takes about {duration(seconds)} on one core{where};{faster} method=ridge is much faster")
    budget = options.budget(n)
    with named_failures(options.method), one_blas_thread():
        method = options.method.on(reading, text_units)
        fields = text_units.without_fields
        fields = fields if options.method.takes_budget and len(fields) <= budget // 2 else fields[:0]
        others = max(budget - len(fields), min(budget, 2))
        plan = method.plan(text_units, others, np.random.default_rng(options.seed), reading.empty)
        known = set(row_keys(plan.keep))
        fields = fields[[key not in known for key in row_keys(fields)]]
        plan = QueryPlan(np.concatenate([plan.keep, fields]), np.append(plan.weights, np.ones(len(fields))))
    check = options.held_out(budget)
    rng = np.random.default_rng([options.seed, 1])
    plan, near, far = reserved(plan, text_units.words, check, rng, method.known(text_units))
    keep = np.concatenate([plan.keep, np.ones((1, n), dtype=bool), near, far])
    number_of = len(set(query_keys(keep, text_units.words))) * reading.per_row
    if options.limit is not None and number_of > options.limit:
        raise InputError(
            f"this text needs {count(number_of, 'query')} with those that test the explanation, and max_queries is"
            f" {options.limit}; raise it, or lower queries{'' if options.check is None else ' or check'}{where}",
            "max_queries",
        )
    return Task(number, reading, text_units, plan, keep, len(near), budget, method)


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=7)  # where the Explainer is called
