"""A chart as SVG in a page: `slalom.render.charts` sets positions, the style sheet colours, light or dark."""

from collections.abc import Iterable, Sequence

import numpy as np
from markupsafe import Markup

from slalom.core.checks import Floats
from slalom.render.charts import LINE_HEIGHT, Chart, Curve, NamePlace, name_places
from slalom.render.palette import DARK, LIGHT, Theme, hexadecimal
from slalom.text import printable

_SIZE = (465.0, 292.0)  # points
_LEFT, _RIGHT, _TOP, _BOTTOM = 48.0, 9.0, 9.0, 36.0  # around the axes
_LETTER, _BOLD = 5.1, 5.5  # how wide a letter of a name is, about
_LONGEST = 28  # letters of a name
_BLANK = Markup("")


def svg(chart: Chart, size: tuple[float, float] = _SIZE) -> Markup:
    """Return a chart as SVG."""
    names = [_short(curve.name) for curve in chart.curves]
    sizes = np.array(
        [[(_BOLD if c.ours else _LETTER) * len(name), LINE_HEIGHT] for c, name in zip(chart.curves, names, strict=True)]
    )
    column = np.array(chart.in_column())
    right = 20.0 + sizes[column, 0].max() if column.any() else _RIGHT
    height = max(size[1], _TOP + _BOTTOM + LINE_HEIGHT * int(column.sum()))
    frame = _Frame(chart, size[0] - _LEFT - right, height - _TOP - _BOTTOM)
    places = name_places(chart, (frame.width, frame.height), sizes)
    drawn = [_axes(frame), *(_curve(frame, curve) for curve in chart.curves)]
    drawn += [_name(frame, *named) for named in zip(chart.curves, names, places, strict=True)]
    if missing := places.count(None):
        note = f"no room for {missing} of {len(places)} names"
        text = Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>')
        drawn.append(text.format(_LEFT + frame.width, _TOP - 1, note))
    label = printable(f"{chart.title}. {chart.y_label} by {chart.x_label}, for {', '.join(c.name for c in chart.curves)}.")
    head = Markup('<svg class="chart" viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="{}">').format(size[0], height, label)
    return head + _BLANK.join(drawn) + Markup("</svg>")


def style(charts: Iterable[Chart]) -> str:
    """Return the style of the methods in some charts: a class for each, light and dark."""
    methods = sorted({curve.method for chart in charts for curve in chart.curves})

    def rules(theme: Theme) -> str:
        hues = [(_class(method), theme.method(method)) for method in methods]
        return "".join(f".{name}{{--c:{hexadecimal(hue)};--c-text:{hexadecimal(theme.text(hue))}}}" for name, hue in hues)

    return f"{rules(LIGHT)}\n@media screen and (prefers-color-scheme: dark){{{rules(DARK)}}}"


class _Frame:
    """The axes of a chart: their size, and where its numbers are in the SVG."""

    def __init__(self, chart: Chart, width: float, height: float) -> None:
        self.chart, self.width, self.height = chart, width, height

    def turned(self, points: Sequence[tuple[float, float]] | Floats) -> list[tuple[float, float]]:
        """Return points of the axes, counted from below, in the SVG, which counts from above."""
        return [(_LEFT + float(x), _TOP + self.height - float(y)) for x, y in points]

    def at(self, points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
        """Return where points of the data are."""
        return self.turned(self.chart.shares(list(points)) * (self.width, self.height))


def _class(method: str) -> str:
    return f"m{method.encode('utf-8', 'surrogatepass').hex()}"  # a name may hold anything


def _classes(curve: Curve) -> str:
    return f"{'ours' if curve.ours else 'other'} {_class(curve.method)}"


def _axes(frame: _Frame) -> Markup:
    chart, right, bottom = frame.chart, _LEFT + frame.width, _TOP + frame.height
    parts = [Markup('<path class="edge" d="M{:.1f} {:.1f}V{:.1f}H{:.1f}"/>').format(_LEFT, _TOP, bottom, right)]
    low_x, low_y = chart.limits(0)[0], chart.limits(1)[0]
    for number, label in chart.ticks(0):
        ((x, _),) = frame.at([(number, low_y)])
        parts.append(Markup('<path class="edge" d="M{:.1f} {:.1f}v3"/>').format(x, bottom))
        parts.append(Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>').format(x, bottom + 13.5, label))
    for number, label in chart.ticks(1):
        ((_, y),) = frame.at([(low_x, number)])
        parts.append(Markup('<path class="rule" d="M{:.1f} {:.1f}H{:.1f}"/>').format(_LEFT, y, right))
        parts.append(Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>').format(_LEFT - 5, y + 3, label))
    axis = Markup('<text class="axis" transform="translate({:.1f} {:.1f}) rotate({})" text-anchor="middle">{}</text>')
    parts.append(axis.format(_LEFT + frame.width / 2, bottom + 30, 0, chart.x_label))
    parts.append(axis.format(11.0, _TOP + frame.height / 2, -90, chart.y_label))
    return _BLANK.join(parts)


def _curve(frame: _Frame, curve: Curve) -> Markup:
    parts, intervals = [], frame.chart.intervals(curve)
    at = frame.at(zip(curve.x, curve.y, strict=True))
    if intervals:
        lower, upper = frame.at((x, low) for x, low, _ in intervals), frame.at((x, high) for x, _, high in intervals)
        if frame.chart.bands and len(at) > 1:
            parts.append(Markup('<path class="band" d="M{}Z"/>').format(_path([*upper, *reversed(lower)])))
        else:
            parts += [Markup('<path class="error" d="M{}"/>').format(_path(ends)) for ends in zip(upper, lower, strict=True)]
    if len(at) > 1:
        dash = " ".join(f"{curve.line_width * part:g}" for part in curve.dash) or "none"
        line = Markup('<path class="way" stroke-width="{}" stroke-dasharray="{}" d="M{}"/>')
        parts.append(line.format(curve.line_width, dash, _path(at)))
    for (cx, cy), x, y in zip(at, curve.x, curve.y, strict=True):
        dot = Markup('<circle cx="{:.1f}" cy="{:.1f}" r="{}"><title>{}</title></circle>')
        parts.append(dot.format(cx, cy, curve.radius, printable(f"{curve.name}: {y:.3g} at {x:.3g}")))
    group = Markup('<g class="{}" opacity="{:.2f}">').format(_classes(curve), curve.strength)
    return group + _BLANK.join(parts) + Markup("</g>")


def _name(frame: _Frame, curve: Curve, name: str, place: NamePlace | None) -> Markup:
    if place is None:
        return _BLANK
    left, bottom, right, top = place.box
    x = {"start": left, "middle": (left + right) / 2, "end": right}[place.anchor]
    ((x, y),) = frame.turned([(x, (bottom + top) / 2)])
    leader = Markup('<path class="leader {}" d="M{}"/>').format(_classes(curve), _path(frame.turned(place.leader)))
    text = Markup('<text class="name {}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>')
    return (leader if place.leader else _BLANK) + text.format(_classes(curve), x, y + 3.2, place.anchor, name)


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _short(name: str) -> str:
    name = printable(" ".join(name.split()))
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"
