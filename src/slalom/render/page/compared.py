"""A comparison of methods as one HTML page: tables, pictures, and no script at all."""

import json
import math
import re
from functools import cache
from typing import Any

from markupsafe import Markup

from slalom.errors import InputError
from slalom.evaluate import MEASURES, Compared, PairedComparison, Summary
from slalom.render.charts import Chart, measure_label, profile_chart, queries_chart, row_name, seconds_chart
from slalom.render.page.charts import palette, svg
from slalom.render.page.parts import asset, policy, style, template
from slalom.text import printable

_ARROWS = {True: "↑", False: "↓", None: ""}
_DIRECTIONS = {True: "more is better", False: "less is better", None: "neither more nor less is better"}
_ROUNDING = 1e-12
_CROWDED = 14  # points whose names need a wide chart
_PAIRED = ("near", "far")
_MINUS, _NONE = "\N{MINUS SIGN}", "\N{EN DASH}"


def comparison_page(compared: Compared, title: str | None = None) -> str:
    """Return a self-contained HTML page about a comparison.

    title: of the page; None says what was compared.
    """
    given: Any = compared
    if not isinstance(given, Compared) or not given.records:
        raise InputError("a page of a comparison is made of what slalom.compare returns, with at least one record")
    rows = compared.rows
    methods, texts = len({name for name, _ in rows}), len({record["text"] for record in compared.records})
    if title is None:
        model = compared.about.get("model")
        title = f"{_many(methods, 'method')} on {_many(texts, 'text')}" + (f", {model}" if model else "")
    look = _style()
    return template("compared.html").render(
        title=printable(title),
        policy=Markup(policy(look)),
        style=Markup(look),
        facts=_facts(compared, texts),
        columns=[
            {
                "name": name,
                "arrow": _ARROWS[MEASURES[name][0]],
                "way": _DIRECTIONS[MEASURES[name][0]],
                "says": MEASURES[name][1],
            }
            for name in compared.measures
        ],
        rows=_table(compared, texts),
        charts=_charts(compared),
        pairs=[pair for name in _PAIRED if name in compared.measures and (pair := _pairs(compared, name)) is not None],
        skipped=[(printable(name), printable(reason)) for name, reason in compared.skipped.items()],
    )


@cache
def _style() -> str:
    """Return the style of all pages, with its dark colours where the reader's system is dark: nothing switches here."""
    every = style()
    dark = re.search(r':root\[data-theme="dark"\] \{(.*?)\}', every, re.DOTALL)
    colours = dark.group(1) if dark else ""
    turned = f"@media screen and (prefers-color-scheme: dark) {{:root {{{colours}}}}}"
    return "\n".join((every, turned, asset("compared.css"), palette()))


def _many(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def _facts(compared: Compared, texts: int) -> list[tuple[str, str]]:
    """Return what is known about the comparison."""
    names = {"identity": "model's identity", "first": "first text", "last": "last text"}
    found = [("texts measured", str(texts))] if compared.about.get("texts") != texts else []
    for name, value in compared.about.items():
        if value is not None:
            said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            found.append((printable(names.get(name, name)), printable(said)))
    return found


def _table(compared: Compared, texts: int) -> list[dict[str, Any]]:
    best = {name: _best(compared, name) for name in compared.measures}
    table = []
    for row in compared.rows:
        cells = []
        for name in compared.measures:
            one = compared.summary(row, name)
            mean, se = _with_error(one)
            few = "" if one.n in (0, texts) else f"{one.n} of {_many(texts, 'text')}"
            cells.append({"mean": mean, "se": se, "best": _same(one.mean, best[name]), "few": few})
        table.append({"method": printable(row[0]), "budget": _NONE if row[1] is None else f"{row[1]:,}", "cells": cells})
    return table


def _best(compared: Compared, measure: str) -> float | None:
    """Return the best mean; None where all are the same, or none is better."""
    row = compared.best(measure)
    best = None if row is None else compared.summary(row, measure).mean
    means = [compared.summary(row, measure).mean for row in compared.rows]
    return None if all(mean is None or _same(mean, best) for mean in means) else best


def _same(mean: float | None, best: float | None) -> bool:
    return mean is not None and best is not None and math.isclose(mean, best, rel_tol=_ROUNDING)


def _charts(compared: Compared) -> list[dict[str, Any]]:
    own = [name for name in _PAIRED if name in compared.measures]
    made: list[Chart] = [profile_chart(compared)]
    made += [queries_chart(compared, name) for name in own] + [seconds_chart(compared, name) for name in own]
    found = []
    for chart in made:
        wide = chart is made[0] or (not chart.column and len(chart.curves) > _CROWDED)
        found.append(
            {
                "title": chart.title,
                "subtitle": printable(chart.subtitle),
                "wide": wide,
                "svg": svg(chart, (760.0, 440.0) if wide else (620.0, 390.0)) if chart.curves else None,
                "notes": [printable(note) for note in chart.notes],
            }
        )
    return found


def _pairs(compared: Compared, measure: str) -> dict[str, Any] | None:
    """Return how the best method differs from every other one, or None where there is no other."""
    best = compared.best(measure)
    found = compared.against(best, measure) if best is not None else {}
    if best is None or not found:
        return None
    rows = [
        {
            "name": printable(row_name(compared, row)),
            "difference": _number(one.difference, sign=True),
            "interval": f"{_number(one.low, one.high - one.low, True)} to {_number(one.high, one.high - one.low, True)}",
            "p": _p(p),
            "sure": p < 0.05,
            "texts": _wins(one, MEASURES[measure][0]),
        }
        for row, (one, p) in found.items()
    ]
    return {"measure": measure_label(measure), "best": printable(row_name(compared, best)), "rows": rows}


def _wins(one: PairedComparison, more: bool | None) -> str:
    better, worse = (one.higher, one.lower) if more else (one.lower, one.higher)
    return f"{better} / {one.equal} / {worse}"


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _with_error(one: Summary) -> tuple[str, str]:
    """Return mean and standard error as text, with as many decimals as the error deserves.

    >>> _with_error(Summary(0.123456, 0.0123, 9, 0)), _with_error(Summary(None, None, 0, 9))
    (('0.123', '0.012'), ('', ''))
    """
    if one.mean is None:
        return "", ""
    if not one.se or one.se <= _ROUNDING * abs(one.mean):
        return f"{one.mean:,.0f}" if one.mean == round(one.mean) else _number(one.mean), ""
    beside = max(one.se, abs(one.mean) / 1000)
    return _number(one.mean, beside), _number(one.se, beside)


def _number(number: float, beside: float | None = None, sign: bool = False) -> str:
    """Write a number with three digits, or with as many decimals as two digits of `beside` have.

    >>> _number(1234.5), _number(0.04567), _number(0.04567, 0.01), _number(2.5e-7).replace(_MINUS, '-')
    ('1,234', '0.0457', '0.046', '2.5e-7')
    """
    scale, digits = (abs(beside), 2) if beside else (abs(number), 3)
    plus = "+" if sign else ""
    if number and max(abs(number), scale) < 1e-4:
        mantissa, power = f"{number:{plus}.1e}".split("e")
        return f"{mantissa}e{int(power)}".replace("-", _MINUS)
    decimals = max(0, digits - 1 - math.floor(math.log10(scale))) if scale else 0
    return f"{number:{plus},.{min(decimals, 6)}f}".replace("-", _MINUS)
