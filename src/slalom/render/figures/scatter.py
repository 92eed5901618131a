"""Value against importance, as in figures 5 and 12 of the paper.

    x = what a unit says (v),  y = how loudly (s),  area = its share of attention,  colour = direction of its effect

The effect is that of its removal, or its Shapley value where no single unit decides, as on the page.

The strongest units are named.
"""

import unicodedata
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from slalom.core.checks import Floats
from slalom.render.charts import TIMES, ScatterFrame, View, percent, shorten
from slalom.render.figures.canvas import Words, canvas, dress, header, key, settle
from slalom.render.figures.names import write_names
from slalom.render.palette import Colour, Theme
from slalom.result.scale import leading_score

_SMALLEST, _LARGEST = 14.0, 300.0  # area of a marker, square points
_FULL = 0.1  # a share of attention that is drawn at the largest area, unless there are larger ones
_MARGIN = 0.09
_TEXT = 9.0
_WEAK = 0.05  # of the strongest effect: punctuation below it has no name


def scatter(view: View, label: int, ax: Axes | None, theme: Theme) -> Figure:
    """Draw the units, and name `label` of them."""
    e = view.explanation
    at = np.stack([view.scores("value"), e.importances], axis=1)
    by = leading_score(e)
    effect = view.rounded(view.scores(by))
    hues = np.array([theme.hue(float(x), e.signed) for x in effect])
    frame = view.frame()
    figure, ax = canvas(ax, theme, (7.4, 5.6))
    dress(ax, theme)
    ax.set(xlabel="value: what it says", ylabel="importance: how loudly it says it")
    header(ax, theme, view.title(), view.subtitle() + ("; values add up" if e.additive else ""))
    _set_limits(ax, frame)
    ax.axvline(0.0, color=theme.line, linewidth=0.8, zorder=0)
    ax.axhline(0.0, color=theme.line, linewidth=0.8, zorder=0)
    top = float(np.abs(effect).max()) or 1.0
    chosen = [
        (i, times)
        for i, times in view.strongest(np.abs(effect), label, points=True)
        if abs(effect[i]) >= _WEAK * top or not _punctuation(e.units[i])
    ]
    # Full colours are mixed with paper: weak effects more.
    share = (0.45 + 0.5 * np.minimum(np.abs(effect) / view.full_effect(by), 1.0) ** 0.5)[:, None]
    faces = share * hues + (1 - share) * np.array(theme.paper)
    areas = _areas(e.weights, e.weights)
    order = np.lexsort((np.abs(effect), -areas))  # small ones on top of large ones, of equal ones the strongest
    look: dict[str, Any] = {"linewidths": 0.5, "zorder": 2, "gid": "units", "clip_on": False}
    ax.scatter(at[order, 0], at[order, 1], s=areas[order], c=faces[order], edgecolors=[theme.paper], **look)
    radii = np.sqrt(areas) / 2 + 0.5
    _key(ax, view, theme)
    settle(figure)
    names = []
    for i, times in chosen:
        name = shorten(e.units[i]) + (f" {TIMES}{times}" if times > 1 else "")
        look = {"size": _TEXT, "color": theme.ink, "zorder": 5, "va": "center", "ha": "center", "clip_on": True}
        words = Words(0, 0, name, gid=f"name {i}", **look)
        ax.add_artist(words)
        words.set_in_layout(False)
        names.append(words)
    discs = np.asarray(ax.transData.transform(at))
    write_names(ax, names, discs, radii, [i for i, _ in chosen], theme)
    return figure


def _punctuation(name: str) -> bool:
    return all(unicodedata.category(character)[0] in "PZC" for character in name)


def _areas(shares: Floats, weights: Floats) -> Floats:
    return np.asarray(_SMALLEST + (_LARGEST - _SMALLEST) * shares / max(float(weights.max()), _FULL))


def _set_limits(ax: Axes, frame: ScatterFrame) -> None:
    """Set the limits: those of the frame."""
    for i, ((low, high), flat) in enumerate(((frame.x, 1.0), (frame.y, 0.5))):
        span = (high - low) or max(flat, 1.4 * abs(high))
        margin = _MARGIN * (high - low) if high > low else span / 2
        (ax.set_ylim if i else ax.set_xlim)((low - margin, high + margin))


def _key(ax: Axes, view: View, theme: Theme) -> None:
    def dot(colour: Colour, area: float, filled: bool = True) -> Line2D:
        face = colour if filled else "none"
        return Line2D([], [], linestyle="", marker="o", markersize=area**0.5, color=colour, markerfacecolor=face)

    weights = view.explanation.weights
    if view.explanation.signed:
        entries = [(dot(hue, 60.0), side) for hue, side in zip((theme.positive, theme.negative), view.sides(), strict=True)]
    else:
        entries = [(dot(theme.neutral, 60.0), "neither for nor against: no sign")]
    rounds = [m * 10.0**e for e in range(-9, 0) for m in (1, 2, 5)]
    high = max((share for share in rounds if share <= weights.max()), default=rounds[0])
    for share in [high] if high < 0.01 else [high / 10, high]:
        of = " of attention" if share == high else ""
        entries.append((dot(theme.muted, float(_areas(np.array(share), weights)), filled=False), percent(share) + of))
    key(ax, entries, theme)
