"""A comparison of methods as one HTML page: tables, the figures of `compared.plot` as images, no script."""

import base64
import io
import json
import math
from typing import Any

from slalom.errors import InputError, MissingExtra, count
from slalom.evaluate import MEASURES, Compared, Summary
from slalom.render.charts import measure_label, row_name
from slalom.render.page.parts import asset, rendered, style
from slalom.text import printable

_WAYS = {True: ("↑", "more is better"), False: ("↓", "less is better"), None: ("", "neither more nor less is better")}
_ROUNDING = 1e-12
_PAIRED = ("near", "far")
_MINUS, _NONE = "\N{MINUS SIGN}", "\N{EN DASH}"


def comparison_page(compared: Compared, title: str | None = None) -> str:
    """Return a comparison of methods as one self-contained HTML page: tables, and charts by matplotlib."""
    if not compared.records:
        raise InputError("a comparison page needs at least one record")
    methods, texts = len({name for name, _ in compared.rows}), len({record["text"] for record in compared.records})
    if title is None:
        model = compared.about.get("model")
        title = f"{count(methods, 'method')} on {count(texts, 'text')}" + (f", {model}" if model else "")
    paired = [name for name in _PAIRED if name in compared.measures]
    look = "\n".join((style(follow_system=True), asset("compared.css")))
    return rendered(
        "compared.html",
        title,
        look,
        allowed="; img-src data:",
        facts=_facts(compared, texts),
        columns=[
            {"name": name, "arrow": _WAYS[more][0], "way": _WAYS[more][1], "says": says}
            for name, (more, says) in ((name, MEASURES[name]) for name in compared.measures)
        ],
        rows=_table(compared, texts),
        charts=_charts(compared, paired),
        pairs=[pair for name in paired if (pair := _pairs(compared, name)) is not None],
        skipped=[(printable(name), printable(reason)) for name, reason in compared.skipped.items()],
    )


def _facts(compared: Compared, texts: int) -> list[tuple[str, str]]:
    names = {"identity": "model's identity", "first": "first text", "last": "last text"}
    facts = [("texts measured", str(texts))] if compared.about.get("texts") != texts else []
    for name, value in compared.about.items():
        if value is not None:
            written = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            facts.append((printable(names.get(name, name)), printable(written)))
    return facts


def _table(compared: Compared, texts: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {
            "method": printable(name),
            "budget": _NONE if budget is None else f"{budget:,}" if isinstance(budget, int) else budget,
            "cells": [],
        }
        for name, budget in compared.rows
    ]
    for name in compared.measures:
        summaries = [compared.summary(row, name) for row in compared.rows]
        first = compared.best(name)
        best = None if first is None else compared.summary(first, name).mean
        tops = [_same(s.mean, best) for s in summaries]
        some_better = not all(top or s.mean is None for top, s in zip(tops, summaries, strict=True))
        for row, summary, top in zip(rows, summaries, tops, strict=True):
            few = "" if summary.n in (0, texts) else f"{summary.n} of {count(texts, 'text')}"
            mean, within = _with_interval(summary)
            row["cells"].append({"mean": mean, "within": within, "best": top and some_better, "few": few})
    return rows


def _same(mean: float | None, best: float | None) -> bool:
    return mean is not None and best is not None and math.isclose(mean, best, rel_tol=_ROUNDING)


def _charts(compared: Compared, paired: list[str]) -> list[dict[str, str]]:
    try:
        from slalom.render.figures.canvas import Words  # noqa: PLC0415
    except MissingExtra as error:
        return [{"missing": str(error)}]
    charts = []
    for kind, options in (("profile", ()), *((f"against_{x}", (name,)) for x in ("queries", "seconds") for name in paired)):
        try:
            light, dark = (getattr(compared.plot, kind)(*options, theme=theme) for theme in ("light", "dark"))
        except InputError as error:
            charts.append({"missing": printable(str(error))})
            continue
        words = [words.get_text() for gid in (None, "note") for words in light.findobj(Words) if words.get_gid() == gid]
        charts.append({"light": _address(light), "dark": _address(dark), "says": printable(". ".join(words))})
    return charts


def _address(figure: Any) -> str:
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    return f"data:image/svg+xml;base64,{base64.b64encode(file.getvalue().encode()).decode()}"


def _pairs(compared: Compared, measure: str) -> dict[str, Any] | None:
    """Return how the best method differs from every other one, or None where there is no other."""
    best = compared.best(measure)
    others = compared.against(best, measure) if best is not None else {}
    if best is None or not others:
        return None
    rows = []
    for row, (paired, p) in others.items():
        wins = (paired.higher, paired.equal, paired.lower)
        interval = (_number(end, paired.high - paired.low, True) for end in (paired.low, paired.high))
        rows.append(
            {
                "name": printable(row_name(compared, row)),
                "difference": _number(paired.difference, sign=True),
                "interval": " to ".join(interval),
                "p": "< 0.001" if p < 0.001 else f"{p:.3f}",
                "sure": p < 0.05,
                "texts": " / ".join(map(str, wins if MEASURES[measure][0] else wins[::-1])),
            }
        )
    return {"measure": measure_label(measure), "best": printable(row_name(compared, best)), "rows": rows}


def _with_interval(summary: Summary) -> tuple[str, str]:
    """Return the mean and half its 95% interval as text, with as many decimals as the interval deserves.

    >>> _with_interval(Summary(0.123456, 0.0123, 9, 0)), _with_interval(Summary(None, None, 0, 9))
    (('0.123', '0.028'), ('', ''))
    """
    mean, half = summary.mean, summary.half_width
    if mean is None:
        return "", ""
    if not half or half <= _ROUNDING * abs(mean):
        return f"{mean:,.0f}" if mean == round(mean) else _number(mean), ""
    beside = max(half, abs(mean) / 1000)
    return _number(mean, beside), _number(half, beside)


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
