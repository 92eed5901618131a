"""Value against importance, as in figures 5 and 12 of the paper.

    x = what a unit says (v),  y = how loudly (s),  area = its share of attention,  colour = direction of its effect

The effect is that of its removal, or its Shapley value where no single unit decides, as on the page.

The strongest units are named. Units whose value or importance is too uncertain to show are pale, and such values do not decide
the limits (`charts.scatter_frame`): those outside are triangles on the edge that point to where they are. The background is a
hollow diamond where it is not far outside.
"""

import unicodedata
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from slalom.core.checks import Floats
from slalom.errors import InputError
from slalom.render.charts import ScatterFrame, scatter_frame
from slalom.render.figures.canvas import Words, canvas, header, key, settle, shorten
from slalom.render.figures.names import write_names
from slalom.render.figures.theme import dress
from slalom.render.figures.view import TIMES, View, percent, signed
from slalom.render.palette import Colour, Theme, mix
from slalom.result.scale import leading_score

_SMALLEST, _LARGEST = 14.0, 300.0  # area of a marker, square points
_FULL = 0.1  # a share of attention that is drawn at the largest area, unless there are larger ones
_FAR = 0.6  # the background is shown where it widens the axes by no more than this share
_MARGIN = 0.09
_TEXT = 9.0
_WEAK = 0.05  # of the strongest effect: pale units below it have no names
_PALE, _RING = 0.15, 0.6  # share of the colour in the face and in the edge of a pale point
_OUTSIDE, _INSET = 45.0, 0.012  # area of a triangle on the edge, and its distance from the edge


def scatter(view: View, label: int, intervals: bool, ax: Axes | None, theme: Theme) -> Figure:
    """Draw the units, and name `label` of them."""
    directed = view.explanation.signed
    x, y, weights = view.scores("value"), view.explanation.importances, view.explanation.weights
    by = leading_score(view.explanation)
    effect = view.rounded(view.scores(by))
    spread = _intervals(view) if intervals else None
    frame = scatter_frame(view.explanation, view.column)
    figure, ax = canvas(ax, theme, (7.4, 5.6))
    dress(ax, theme)
    ax.set_xlabel("value: what it says")
    ax.set_ylabel("importance: how loudly it says it")
    only = "; they hardly compete: only effects count" if view.explanation.additive else ""
    header(ax, theme, view.title(), view.subtitle() + only)
    shown = _limits(ax, frame, x, y, spread, view.background)
    ax.axvline(0.0, color=theme.line, linewidth=0.8, zorder=0)
    ax.axhline(0.0, color=theme.line, linewidth=0.8, zorder=0)
    top = float(np.abs(effect).max()) or 1.0
    full = view.full_effect(by)
    colours = np.array([_colour(float(e) / full, directed, theme) for e in effect])
    hues = np.array([theme.hue(float(e), directed) for e in effect])
    chosen = [
        (i, times)
        for i, times in view.strongest(np.abs(effect), label, points=True)
        if not frame.pale[i] or (abs(effect[i]) >= _WEAK * top and not _punctuation(view.explanation.units[i]))
    ]
    if spread is not None:
        lines = [mix(theme.paper, theme.muted, 0.1 if unknown else 0.25) for unknown in frame.pale]
        for i, _ in chosen:
            hue = theme.hue(float(effect[i]), directed)
            lines[i] = mix(theme.paper, hue, 0.35) if frame.pale[i] else hue
        _bars(ax, x, y, spread, lines)
    areas = _area(weights, weights)
    points, outside = _points(ax, x, y, areas, np.abs(effect), frame.pale, colours, hues, theme)
    areas = np.where(outside, _OUTSIDE, areas)
    if shown and view.background is not None:
        ax.scatter(
            *view.background,
            s=60,
            marker="D",
            facecolors="none",
            edgecolors=[theme.ink],
            zorder=3,
            gid="background",
        )
    _key(ax, view, weights, shown, int(frame.pale.sum()), bool(outside.any()), theme)
    settle(figure)
    chosen.sort(key=lambda unit: bool(frame.pale[unit[0]]))  # those that are determined get the best places
    _name(ax, view, chosen, points, areas, frame, theme, theme.paper if intervals else None)
    return figure


def _punctuation(name: str) -> bool:
    return all(unicodedata.category(character)[0] in "PZC" for character in name)


def _points(
    ax: Axes,
    x: Floats,
    y: Floats,
    areas: Floats,
    strength: Floats,
    pale: NDArray[np.bool_],
    colours: Floats,
    hues: Floats,
    theme: Theme,
) -> tuple[Floats, NDArray[np.bool_]]:
    """Draw the units. Return where they are drawn (n, 2), and which of them are on the edge, as they are outside."""
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    inset = _INSET * np.array([right - left, high - low])
    at = np.clip(np.stack([x, y], axis=1), np.array([left, low]), np.array([right, high]))
    sides = (("<", x < left), (">", x > right))
    outside = sides[0][1] | sides[1][1]
    at[outside] = np.clip(at[outside], np.array([left, low]) + inset, np.array([right, high]) - inset)
    faces = np.where(pale[:, None], _PALE * hues + (1 - _PALE) * np.array(theme.paper), colours)
    edges = np.where(pale[:, None], _RING * hues + (1 - _RING) * np.array(theme.paper), np.array(theme.paper))
    order = np.lexsort((strength, -areas))  # small ones on top of large ones, of equal ones the strongest
    order = order[~outside[order]]
    look: dict[str, Any] = {"linewidths": np.where(pale[order], 0.9, 0.5), "edgecolors": edges[order], "zorder": 2}
    ax.scatter(at[order, 0], at[order, 1], s=areas[order], c=faces[order], gid="units", clip_on=False, **look)
    for marker, beyond in sides:
        if beyond.any():
            look = {"linewidths": 0.9, "edgecolors": edges[beyond], "zorder": 2}
            ax.scatter(
                at[beyond, 0], at[beyond, 1], s=_OUTSIDE, c=faces[beyond], marker=marker, gid=f"outside {marker}", **look
            )
    return at, outside


def _intervals(view: View) -> tuple[Floats, Floats]:
    across, along = view.half_width("value"), view.half_width("importance")
    if across is None or along is None:
        raise InputError(
            "intervals=True needs standard errors, which this explanation does not have;"
            " explain with method='joint' or 'local' and do not merge, or leave intervals out"
        )
    return across, along


def _area(share: Floats, weights: Floats) -> Floats:
    return np.asarray(_SMALLEST + (_LARGEST - _SMALLEST) * share / max(float(weights.max()), _FULL))


def _colour(strength: float, directed: bool, theme: Theme) -> Colour:
    """Return the colour of the direction, paler where the effect is weak; the strength is in [-1, 1]."""
    return mix(theme.paper, theme.hue(strength, directed), 0.45 + 0.5 * min(abs(strength), 1.0) ** 0.5)


def _limits(
    ax: Axes,
    frame: ScatterFrame,
    x: Floats,
    y: Floats,
    spread: tuple[Floats, Floats] | None,
    background: tuple[float, float] | None,
) -> bool:
    """Set the limits: those of the frame, intervals within reason. Return whether the background is inside."""
    ranges, inside = [], background is not None
    for i, (numbers, (low, high), flat) in enumerate(((x, frame.x, 1.0), (y, frame.y, 0.5))):
        span = (high - low) or max(flat, 1.4 * abs(high))
        if spread is not None and not frame.pale.all():
            known = ~frame.pale
            low = max(low - 0.7 * span, min(low, float((numbers - spread[i])[known].min())))  # noqa: PLW2901
            high = min(high + 0.7 * span, max(high, float((numbers + spread[i])[known].max())))  # noqa: PLW2901
        ranges.append((low, high, span))
        if background is not None:
            inside &= low - _FAR * (high - low or span) <= background[i] <= high + _FAR * (high - low or span)
    for i, (low, high, span) in enumerate(ranges):
        if inside and background is not None:
            low, high = min(low, background[i]), max(high, background[i])  # noqa: PLW2901
        margin = _MARGIN * (high - low) if high > low else span / 2
        (ax.set_ylim if i else ax.set_xlim)((low - margin, high + margin))
    return inside


def _bars(ax: Axes, x: Floats, y: Floats, spread: tuple[Floats, Floats], colours: list[Colour]) -> None:
    across, along = spread
    flat = np.stack([np.stack([x - across, y], axis=1), np.stack([x + across, y], axis=1)], axis=1)
    tall = np.stack([np.stack([x, y - along], axis=1), np.stack([x, y + along], axis=1)], axis=1)
    for lines, name in ((flat, "value intervals"), (tall, "importance intervals")):
        ax.add_collection(LineCollection(list(lines), colors=colours, linewidths=0.8, zorder=1, gid=name), autolim=False)


def _key(ax: Axes, view: View, weights: Floats, shown: bool, pale: int, outside: bool, theme: Theme) -> None:
    def dot(colour: Colour, area: float, hollow: bool = False, marker: str = "o", face: Colour | str = "none") -> Line2D:
        face = face if hollow else colour
        return Line2D([], [], linestyle="", marker=marker, markersize=area**0.5, color=colour, markerfacecolor=face)

    if view.explanation.signed:
        handles = [dot(theme.positive, 60.0), dot(theme.negative, 60.0)]
        labels = [f"for “{shorten(view.target, 20)}”", view.against]
    else:
        handles, labels = [dot(theme.neutral, 60.0)], ["neither for nor against: no sign"]
    if view.background is not None:
        value, importance = view.background
        handles.append(dot(theme.ink, 40.0, hollow=True, marker="D"))
        labels.append("background" if shown else f"background outside, at ({signed(value)}, {signed(importance)})")
    for share in _shares(float(weights.max())):
        handles.append(dot(theme.muted, float(_area(np.array(share), weights)), hollow=True))
        labels.append(percent(share))
    labels[-1] += " of attention"
    ring, face = mix(theme.paper, theme.muted, _RING), mix(theme.paper, theme.muted, _PALE)
    if pale:
        handles.append(dot(ring, 60.0, hollow=True, face=face))
        labels.append(f"too uncertain to show ({pale} of {len(weights)})")
    if outside:
        handles.append(dot(ring, 50.0, hollow=True, face=face, marker=">"))
        labels.append("value further out")
    key(ax, handles, labels, theme)


def _shares(largest: float) -> list[float]:
    """Return one or two round shares, the larger one near the largest there is."""
    rounds = [m * 10.0**e for e in range(-9, 0) for m in (1, 2, 5)]
    high = max((r for r in rounds if r <= largest), default=rounds[0])
    return [high] if high < 0.01 else [high / 10, high]


def _name(
    ax: Axes,
    view: View,
    chosen: list[tuple[int, int]],
    points: Floats,
    areas: Floats,
    frame: ScatterFrame,
    theme: Theme,
    behind: Colour | None,
) -> None:
    """Write the names of the chosen units where nothing is covered."""
    names = []
    for i, times in chosen:
        name = shorten(view.explanation.units[i]) + (f" {TIMES}{times}" if times > 1 else "")
        ink = theme.muted if frame.pale[i] else theme.ink
        words = Words(0, 0, name, size=_TEXT, color=ink, zorder=5, va="center", ha="center", gid=f"name {i}", clip_on=True)
        if behind is not None:
            words.set_bbox({"facecolor": behind, "alpha": 0.75, "linewidth": 0, "pad": 0.6})
        ax.add_artist(words)
        words.set_in_layout(False)
        names.append(words)
    radii = np.sqrt(areas) / 2 + 0.5
    if any(collection.get_gid() == "background" for collection in ax.collections):
        points, radii = np.concatenate([points, np.array([view.background], dtype=float)]), np.append(radii, 7.0)
    discs = np.asarray(ax.transData.transform(points))
    write_names(ax, names, discs, radii, [i for i, _ in chosen], [theme.muted] * len(names), theme)
