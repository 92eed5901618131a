"""A chart as SVG in a page: shapes and text, whose colours are classes of the style sheet, so that they turn with the theme."""

from collections.abc import Sequence
from itertools import pairwise

from markupsafe import Markup

from slalom.render import palette as colours
from slalom.render.charts import Chart, Curve, spread, tick_label, ticks
from slalom.text import printable

_SIZE = (620.0, 390.0)
_LEFT, _TOP, _BOTTOM = 64.0, 12.0, 48.0
_LETTER, _LINE = 6.8, 17.0  # of a name: how wide a letter is, how far two lines are apart
_DASHES = ("", "7 3", "2 3", "8 3 2 3")
_SIDES = (
    *((1.0, 0.0), (-1.0, 0.0), (0.0, -1.0), (0.0, 1.0), (0.5, -1.0), (-0.5, -1.0), (0.5, 1.0), (-0.5, 1.0)),
    *((1.0, -1.0), (-1.0, -1.0), (1.0, 1.0), (-1.0, 1.0), (1.0, -0.5), (1.0, 0.5), (-1.0, -0.5), (-1.0, 0.5)),
)
_LONGEST = 28

Box = tuple[float, float, float, float]  # left, top, right, bottom
Named = tuple[Curve, str, list[tuple[float, float]]]


def svg(chart: Chart, size: tuple[float, float] = _SIZE) -> Markup:
    """Return the chart, at least this wide and high: names in a column to the right where lines end there, or beside points."""
    names = [_short(curve.name) for curve in chart.curves]
    aside = chart.aside()
    margin = max([34 + (_LETTER + 0.5) * len(name) for name, there in zip(names, aside, strict=True) if there], default=12.0)
    width, height = size[0], max(size[1], _TOP + _BOTTOM + _LINE * sum(aside))
    frame = (_LEFT, _TOP, width - margin, height - _BOTTOM)
    points = [_at(chart, frame, curve) for curve in chart.curves]
    drawn = [_axes(chart, frame)]
    for curve, at in sorted(zip(chart.curves, points, strict=True), key=lambda pair: pair[0].look.ours):
        drawn.append(_curve(chart, frame, curve, at))
    named = list(zip(chart.curves, names, points, strict=True))
    drawn.append(_ends([one for one, there in zip(named, aside, strict=True) if there], frame))
    full = [box for curve, at in zip(chart.curves, points, strict=True) for box in _boxes(chart, frame, curve, at)]
    drawn.append(_beside([one for one, there in zip(named, aside, strict=True) if not there], full, frame))
    label = printable(f"{chart.title}. {chart.y_label} by {chart.x_label}, for {', '.join(c.name for c in chart.curves)}.")
    head = Markup('<svg class="chart" viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="{}">').format(width, height, label)
    return head + Markup("").join(drawn) + Markup("</svg>")


def palette() -> str:
    """Return the style of the methods' classes, light and dark."""

    def rules(ours: Sequence[tuple[int, ...]], others: Sequence[tuple[int, ...]]) -> str:
        every = [(f"o{i}", rgb) for i, rgb in enumerate(ours)] + [(f"b{i}", rgb) for i, rgb in enumerate(others)]
        return "".join(f".{name}{{--c:rgb({' '.join(map(str, rgb))})}}" for name, rgb in every)

    dark = rules(colours.OURS_DARK, colours.OTHERS_DARK)
    return f"{rules(colours.OURS_LIGHT, colours.OTHERS_LIGHT)}\n@media screen and (prefers-color-scheme: dark){{{dark}}}"


def _class(curve: Curve) -> str:
    ours, number, _ = curve.look
    return f"ours o{number % len(colours.OURS_LIGHT)}" if ours else f"other b{number % len(colours.OTHERS_LIGHT)}"


def _at(chart: Chart, frame: Box, curve: Curve) -> list[tuple[float, float]]:
    return [(_across(chart, frame, x), _down(chart, frame, y)) for x, y in zip(curve.x, curve.y, strict=True)]


def _across(chart: Chart, frame: Box, x: float) -> float:
    return frame[0] + (frame[2] - frame[0]) * chart.share(0, x)


def _down(chart: Chart, frame: Box, y: float) -> float:
    return frame[3] - (frame[3] - frame[1]) * chart.share(1, y)


def _axes(chart: Chart, frame: Box) -> Markup:
    left, top, right, bottom = frame
    parts = [Markup('<path class="edge" d="M{:.1f} {:.1f}V{:.1f}H{:.1f}"/>').format(left, top, bottom, right)]
    for t in ticks(*chart.limits(0), chart.log[0]):
        x = _across(chart, frame, t)
        parts.append(Markup('<path class="edge" d="M{:.1f} {:.1f}v4"/>').format(x, bottom))
        parts.append(Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>').format(x, bottom + 18, tick_label(t)))
    for t in ticks(*chart.limits(1), chart.log[1]):
        y = _down(chart, frame, t)
        parts.append(Markup('<path class="rule" d="M{:.1f} {:.1f}H{:.1f}"/>').format(left, y, right))
        parts.append(Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>').format(left - 7, y + 4, tick_label(t)))
    middle = (top + bottom) / 2
    parts.append(
        Markup('<text class="axis" x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>').format(
            (left + right) / 2, bottom + 40, chart.x_label
        )
    )
    parts.append(
        Markup('<text class="axis" transform="translate(15 {:.1f}) rotate(-90)" text-anchor="middle">{}</text>').format(
            middle, chart.y_label
        )
    )
    return Markup("").join(parts)


def _curve(chart: Chart, frame: Box, curve: Curve, at: list[tuple[float, float]]) -> Markup:
    parts, spans = [], _spans(chart, frame, curve, at)
    if curve.look.ours and any(se is not None for se in curve.se):
        if not chart.log[0] and len(at) > 1:
            corners = [(x, high) for x, high, _ in spans] + [(x, low) for x, _, low in reversed(spans)]
            parts.append(Markup('<path class="band" d="M{}Z"/>').format(_path(corners)))
        else:
            parts += [Markup('<path class="error" d="M{:.1f} {:.1f}V{:.1f}"/>').format(*span) for span in spans]
    if len(at) > 1:
        dash = "" if curve.look.ours else _DASHES[curve.look.number % len(_DASHES)]
        extra = Markup(' stroke-dasharray="{}"').format(dash) if dash else Markup("")
        parts.append(Markup('<path class="way"{} d="M{}"/>').format(extra, _path(at)))
    radius = (5.0 if curve.look.ours else 4.0) if len(at) == 1 else (3.2 if curve.look.ours else 2.2)
    for (x, y), a, b in zip(at, curve.x, curve.y, strict=True):
        said = printable(f"{curve.name}: {b:.3g} at {a:.3g}")
        parts.append(Markup('<circle cx="{:.1f}" cy="{:.1f}" r="{}"><title>{}</title></circle>').format(x, y, radius, said))
    group = Markup('<g class="{}" opacity="{:.2f}">').format(_class(curve), curve.look.strength)
    return group + Markup("").join(parts) + Markup("</g>")


def _spans(chart: Chart, frame: Box, curve: Curve, at: list[tuple[float, float]]) -> list[tuple[float, float, float]]:
    """Return x, top and bottom of the errors."""
    return [
        (x, _down(chart, frame, y + (se or 0.0)), _low(chart, frame, y - (se or 0.0)))
        for (x, _), y, se in zip(at, curve.y, curve.se, strict=True)
    ]


def _boxes(chart: Chart, frame: Box, curve: Curve, at: list[tuple[float, float]]) -> list[Box]:
    """Return what names must not cover: points, lines and errors."""
    dots = [(x - 5, y - 5, x + 5, y + 5) for x, y in _dense(at)]
    errors = _spans(chart, frame, curve, at) if curve.look.ours else []
    return dots + [(x - 1, top, x + 1, bottom) for x, top, bottom in errors]


def _low(chart: Chart, frame: Box, y: float) -> float:
    """Return where the lower end of an error is; that of an axis that has no such number is at its end."""
    return frame[3] if chart.log[1] and y <= 0 else min(_down(chart, frame, y), frame[3])


def _path(points: list[tuple[float, float]]) -> str:
    return "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _short(name: str) -> str:
    name = printable(" ".join(name.split()))
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"


def _name(curve: Curve, name: str, x: float, y: float, anchor: str = "start") -> Markup:
    return Markup('<text class="name {}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        _class(curve), x, y + 4.5, anchor, name
    )


def _ends(named: list[Named], frame: Box) -> Markup:
    places = spread([at[-1][1] for _, _, at in named], _LINE, frame[1] + 6, frame[3] - 6)
    parts = []
    for (curve, name, at), y in zip(named, places, strict=True):
        way = _path([at[-1], (frame[2], at[-1][1]), (frame[2] + 20, y)])
        parts.append(Markup('<path class="leader {}" d="M{}"/>').format(_class(curve), way))
        parts.append(_name(curve, name, frame[2] + 24, y))
    return Markup("").join(parts)


def _beside(named: list[Named], full: list[Box], frame: Box) -> Markup:
    """Write names where they touch neither points nor lines nor each other: ours first, near their points first."""
    taken = list(full)
    parts = []
    for curve, name, at in sorted(named, key=lambda one: not one[0].look.ours):
        box = _free(at[-1], (_LETTER + 0.6 * curve.look.ours) * len(name), taken, frame)
        if box is None:
            continue
        taken.append(box)
        x, y = at[-1]
        near = (min(max(x, box[0]), box[2]), min(max(y, box[1]), box[3]))
        if abs(near[0] - x) + abs(near[1] - y) > 14:
            parts.append(Markup('<path class="leader {}" d="M{}"/>').format(_class(curve), _path([at[-1], near])))
        place, anchor = (
            (box[0], "start") if box[0] >= x else (box[2], "end") if box[2] <= x else ((box[0] + box[2]) / 2, "middle")
        )
        parts.append(_name(curve, name, place, (box[1] + box[3]) / 2, anchor))
    return Markup("").join(parts)


def _dense(at: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points of a line and some between them."""
    found = at[:1]
    for (x0, y0), (x1, y1) in pairwise(at):
        n = max(1, int(max(abs(x1 - x0), abs(y1 - y0)) / 9))
        found += [(x0 + (x1 - x0) * k / n, y0 + (y1 - y0) * k / n) for k in range(1, n + 1)]
    return found


def _free(point: tuple[float, float], width: float, taken: list[Box], frame: Box) -> Box | None:
    """Return the nearest place for a name around a point, or None."""
    half, tall = width / 2, 7.5
    for ring in (0.0, 4.0, 9.0, 15.0, 22.0, 30.0, 40.0, 55.0, 75.0, 100.0):
        for right, down in _SIDES:
            x = point[0] + right * (half + 7 + ring * (1.0 if down == 0 else 0.4))
            y = point[1] + down * (tall + 6 + ring)
            box = (x - half, y - tall, x + half, y + tall)
            inside = frame[0] < box[0] and frame[1] - 8 < box[1] and box[2] < frame[2] and box[3] < frame[3]
            if inside and not any(b[0] < box[2] and box[0] < b[2] and b[1] < box[3] and box[1] < b[3] for b in taken):
                return box
    return None
