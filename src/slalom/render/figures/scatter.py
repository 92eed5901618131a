"""Value against importance, as in figures 5 and 12 of the paper.

    x = what a unit says (v),  y = how loudly (s),  area = its share of attention,  colour = direction of its effect

The effect is that of its removal, or its Shapley value where no single unit decides, as on the page.

The strongest units are named. Units whose value or importance is too uncertain to show are pale, and such values do not decide
the limits (`View.frame`): those outside are triangles on the edge that point to where they are. The background is a hollow
diamond where it is not far outside.
"""

import unicodedata
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from slalom.core.checks import Floats
from slalom.render.charts import TIMES, ScatterFrame, View, percent, shorten, signed
from slalom.render.figures.canvas import Words, canvas, header, key, settle
from slalom.render.figures.names import write_names
from slalom.render.figures.theme import dress
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


def scatter(view: View, label: int, ax: Axes | None, theme: Theme) -> Figure:
    """Draw the units, and name `label` of them."""
    e, background = view.explanation, view.background
    at = np.stack([view.scores("value"), e.importances], axis=1)
    by = leading_score(e)
    effect = view.rounded(view.scores(by))
    hues = np.array([theme.hue(float(x), e.signed) for x in effect])
    frame = view.frame()
    figure, ax = canvas(ax, theme, (7.4, 5.6))
    dress(ax, theme)
    ax.set(xlabel="value: what it says", ylabel="importance: how loudly it says it")
    header(ax, theme, view.title(), view.subtitle() + ("; they hardly compete: only effects count" if e.additive else ""))
    background_inside = _set_limits(ax, frame, background)
    ax.axvline(0.0, color=theme.line, linewidth=0.8, zorder=0)
    ax.axhline(0.0, color=theme.line, linewidth=0.8, zorder=0)
    top = float(np.abs(effect).max()) or 1.0
    chosen = [
        (i, times)
        for i, times in view.strongest(np.abs(effect), label, points=True)
        if not frame.pale[i] or (abs(effect[i]) >= _WEAK * top and not _punctuation(e.units[i]))
    ]
    # Full colours are mixed with paper: weak effects more, pale units nearly all of it.
    share = np.where(frame.pale, _PALE, 0.45 + 0.5 * np.minimum(np.abs(effect) / view.full_effect(by), 1.0) ** 0.5)[:, None]
    ring = np.where(frame.pale, _RING, 0.0)[:, None]
    faces, edges = (part * hues + (1 - part) * np.array(theme.paper) for part in (share, ring))
    shown, areas, outside = _points(ax, at, _areas(e.weights, e.weights), np.abs(effect), faces, edges, frame)
    radii = np.sqrt(areas) / 2 + 0.5
    if background_inside and background is not None:
        look: dict[str, Any] = {
            "marker": "D",
            "facecolors": "none",
            "edgecolors": [theme.ink],
            "zorder": 3,
            "gid": "background",
        }
        ax.scatter(*background, s=60, **look)
        shown, radii = np.concatenate([shown, [background]]), np.append(radii, 7.0)
    _key(ax, view, background_inside, int(frame.pale.sum()), outside, theme)
    settle(figure)
    chosen.sort(key=lambda unit: bool(frame.pale[unit[0]]))  # those that are determined get the best places
    names = []
    for i, times in chosen:
        name, ink = shorten(e.units[i]) + (f" {TIMES}{times}" if times > 1 else ""), theme.muted if frame.pale[i] else theme.ink
        words = Words(0, 0, name, size=_TEXT, color=ink, zorder=5, va="center", ha="center", gid=f"name {i}", clip_on=True)
        ax.add_artist(words)
        words.set_in_layout(False)
        names.append(words)
    discs = np.asarray(ax.transData.transform(shown))
    write_names(ax, names, discs, radii, [i for i, _ in chosen], theme)
    return figure


def _punctuation(name: str) -> bool:
    return all(unicodedata.category(character)[0] in "PZC" for character in name)


def _areas(shares: Floats, weights: Floats) -> Floats:
    return np.asarray(_SMALLEST + (_LARGEST - _SMALLEST) * shares / max(float(weights.max()), _FULL))


def _points(
    ax: Axes, at: Floats, areas: Floats, strength: Floats, faces: Floats, edges: Floats, frame: ScatterFrame
) -> tuple[Floats, Floats, bool]:
    """Draw the units. Return where they are drawn (n, 2), their areas, and whether some are outside, drawn on the edge."""
    limits = np.array([ax.get_xlim(), ax.get_ylim()])
    inset = _INSET * np.ptp(limits, axis=1)
    left, right = at[:, 0] < limits[0, 0], at[:, 0] > limits[0, 1]
    outside = left | right
    at = np.where(outside[:, None], np.clip(at, limits[:, 0] + inset, limits[:, 1] - inset), at)
    order = np.lexsort((strength, -areas))  # small ones on top of large ones, of equal ones the strongest
    order = order[~outside[order]]
    look: dict[str, Any] = {"linewidths": np.where(frame.pale[order], 0.9, 0.5), "zorder": 2, "gid": "units", "clip_on": False}
    ax.scatter(at[order, 0], at[order, 1], s=areas[order], c=faces[order], edgecolors=edges[order], **look)
    for marker, beyond in (("<", left), (">", right)):
        if beyond.any():
            look = {"linewidths": 0.9, "zorder": 2, "gid": f"outside {marker}"}
            look |= {"s": _OUTSIDE, "c": faces[beyond], "edgecolors": edges[beyond], "marker": marker}
            ax.scatter(at[beyond, 0], at[beyond, 1], **look)
    return at, np.where(outside, _OUTSIDE, areas), bool(outside.any())


def _set_limits(ax: Axes, frame: ScatterFrame, background: tuple[float, float] | None) -> bool:
    """Set the limits: those of the frame, and of a background that is not far outside. Return whether it is inside."""
    ranges, inside = [], background is not None
    for i, ((low, high), flat) in enumerate(((frame.x, 1.0), (frame.y, 0.5))):
        span = (high - low) or max(flat, 1.4 * abs(high))
        ranges.append((low, high, span))
        if background is not None:
            inside &= low - _FAR * (high - low or span) <= background[i] <= high + _FAR * (high - low or span)
    for i, (low, high, span) in enumerate(ranges):
        if inside and background is not None:
            low, high = min(low, background[i]), max(high, background[i])  # noqa: PLW2901
        margin = _MARGIN * (high - low) if high > low else span / 2
        (ax.set_ylim if i else ax.set_xlim)((low - margin, high + margin))
    return inside


def _key(ax: Axes, view: View, background_inside: bool, pale: int, outside: bool, theme: Theme) -> None:
    def dot(colour: Colour, area: float, face: Colour | str | None = None, marker: str = "o") -> Line2D:
        face = colour if face is None else face
        return Line2D([], [], linestyle="", marker=marker, markersize=area**0.5, color=colour, markerfacecolor=face)

    weights = view.explanation.weights
    if view.explanation.signed:
        entries = [(dot(hue, 60.0), side) for hue, side in zip((theme.positive, theme.negative), view.sides(), strict=True)]
    else:
        entries = [(dot(theme.neutral, 60.0), "neither for nor against: no sign")]
    if view.background is not None:
        where = "" if background_inside else " outside, at ({}, {})".format(*map(signed, view.background))
        entries.append((dot(theme.ink, 40.0, "none", "D"), f"background{where}"))
    rounds = [m * 10.0**e for e in range(-9, 0) for m in (1, 2, 5)]
    high = max((share for share in rounds if share <= weights.max()), default=rounds[0])
    for share in [high] if high < 0.01 else [high / 10, high]:
        of = " of attention" if share == high else ""
        entries.append((dot(theme.muted, float(_areas(np.array(share), weights)), "none"), percent(share) + of))
    ring, face = mix(theme.paper, theme.muted, _RING), mix(theme.paper, theme.muted, _PALE)
    if pale:
        entries.append((dot(ring, 60.0, face), f"too uncertain to show ({pale} of {len(weights)})"))
    if outside:
        entries.append((dot(ring, 50.0, face, ">"), "value further out"))
    key(ax, entries, theme)
