"""The text itself, each unit on the colour of its score: shade(score_i / full_effect).

Hatched units are not distinguishable from zero.

Lines break at blanks, and inside a word only where it is wider than a line (in scripts without blanks: between units). Line
breaks of the text are kept. A paragraph that begins in a script from right to left is set from the right.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import FancyBboxPatch

from slalom.core.checks import Floats
from slalom.errors import count, plural
from slalom.render.charts import View
from slalom.render.figures.canvas import Picture, Words, families, plain, quiet
from slalom.render.figures.theme import dress
from slalom.render.palette import Theme
from slalom.result import SCORES
from slalom.text import pieces
from slalom.text.segment import Spans

_WIDTH, _EDGE = 518.0, 22.0  # of a line and around the picture, points
_SIZE, _LEADING = 11.5, 21.0
_HEAD, _FOOT = 50.0, 48.0
_HATCH = "/////"
_NO_UNIT = -1  # for characters between units
_BREAKS = "\n\r\v\f\x85\u2028\u2029"

_Width = Callable[[str], float]


class _Piece(NamedTuple):
    """Characters of one unit, or of none, within one line: either one blank or no blanks; and where they are in the line."""

    text: str
    unit: int
    left: float = 0.0
    width: float = 0.0


def highlight(view: View, name: str, max_lines: int, theme: Theme) -> Figure:
    """Draw the text, coloured by the score of this name."""
    score = view.scores(name)
    directed = view.signed(name)
    strength, ends = _strength(view, name, score, directed)
    paragraphs, unseen = _paragraphs(view.explanation.text, view.explanation.spans)
    width = _measure()
    lines = [line for paragraph in paragraphs for line in _wrapped(paragraph, width)]
    notes = _notes(lines, max_lines, unseen)
    lines = lines[:max_lines]
    size = np.array([_WIDTH + 2 * _EDGE, _HEAD + _LEADING * len(lines) + 14.0 * len(notes) + _FOOT])
    figure = Picture(figsize=tuple(size / 72), dpi=120, facecolor=theme.paper)
    ax: Any = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, size[0]), ylim=(size[1], 0), facecolor=theme.paper)
    ax.axis("off")

    def write(x: float, y: float, text: str, room: float = 0.0, **look: Any) -> None:
        words = Words(x, y, text, **({"va": "baseline"} | look))
        ax.add_artist(words)
        if room:
            words.fit(room / size[0] * figure.bbox.width)

    write(_EDGE, 24, view.title(), _WIDTH, size=12, color=theme.ink, weight="bold")
    write(_EDGE, 40, view.subtitle(), _WIDTH, size=9, color=theme.muted)
    doubtful = view.doubtful(name)
    for number, line in enumerate(lines):
        base = _HEAD + _LEADING * (number + 0.82)
        for unit, group in groupby(line, key=lambda piece: piece.unit):
            run = list(group)
            if unit != _NO_UNIT:
                left, right = min(p.left for p in run), max(p.left + p.width for p in run)
                t = float(strength[unit])
                box = FancyBboxPatch(
                    (_EDGE + left, base - 0.98 * _SIZE),
                    right - left,
                    1.34 * _SIZE,
                    boxstyle="round,pad=0.7,rounding_size=2.2",
                    facecolor=theme.shade(t, directed),
                    linewidth=0,
                    zorder=1 + abs(t) / 2,
                    gid=f"unit {unit}",
                )
                if doubtful[unit]:
                    box.set(hatch=_HATCH, edgecolor=theme.paper)
                ax.add_patch(box)
            for piece in run:
                colour = theme.muted if unit == _NO_UNIT else theme.ink
                write(_EDGE + piece.left, base, piece.text, size=_SIZE, color=colour, zorder=2)
    for number, note in enumerate(notes):
        write(
            _EDGE, _HEAD + _LEADING * len(lines) + 14.0 * (number + 1), note, _WIDTH, size=9, color=theme.muted, style="italic"
        )
    _scale(figure, view, size, ends, directed, theme)
    small: dict[str, Any] = {"size": 9, "color": theme.muted, "va": "center"}
    meaning = view.meaning(name) + (f" (blue: {view.sides()[0]})" if directed else "")
    write(_EDGE + 180, size[1] - 27, meaning, _WIDTH - 180, **small)
    if doubtful.any():
        write(_EDGE + 180, size[1] - 14, "hatched: not distinguishable from zero, its 95% interval contains it", **small)
    return figure


def _strength(view: View, name: str, score: Floats, directed: bool) -> tuple[Floats, tuple[float, float]]:
    """Return scores as [-1, 1], or [0, 1] where they have no direction, and the two ends of that scale."""
    if SCORES[name].signed:
        score, full = view.rounded(score), view.full_effect(name)
        return (np.clip(score / full, -1.0, 1.0), (-full, full)) if directed else (np.abs(score) / full, (0.0, full))
    low, high = float(score.min()), float(score.max())
    return (score - low) / ((high - low) or 1.0), (low, high)


def _paragraphs(text: str, spans: Spans) -> tuple[list[list[_Piece]], int]:
    """Return the pieces of each paragraph, and how many units have no characters of their own in the text."""
    paragraphs: list[list[_Piece]] = [[]]
    cut = pieces(text, spans)
    for characters, unit in cut:
        for part in re.findall(rf"\r\n|[{_BREAKS}]|[^\S{_BREAKS}]+|\S+", characters):
            if part[0] in _BREAKS:
                paragraphs.append([])
            else:
                paragraphs[-1].append(_Piece(" " if part.isspace() else plain(part), _NO_UNIT if unit is None else unit))
    return paragraphs, sum(piece.unit is not None and not piece.text for piece in cut)


def _measure() -> _Width:
    """Return a function from a string to its width in points."""
    agg: Any = FigureCanvasAgg(Picture(dpi=720))
    renderer, font = agg.get_renderer(), FontProperties(family=families(), size=_SIZE)

    def drawn(text: str) -> float:
        with quiet():
            return float(renderer.get_text_width_height_descent(text, font, False)[0] / 10)

    bars = drawn("||")
    return cache(lambda text: drawn(f"|{text}|") - bars)  # blanks at the ends count


def _wrapped(paragraph: list[_Piece], width: _Width) -> Iterator[list[_Piece]]:
    """Break a paragraph into lines; from right to left where it begins in such a script."""
    kinds = (unicodedata.bidirectional(character) for piece in paragraph for character in piece.text)
    from_right = next((kind for kind in kinds if kind in ("L", "R", "AL")), "L") != "L"
    line: list[_Piece] = []
    x = space = 0.0
    for is_blank, group in groupby(paragraph, key=lambda piece: piece.text == " "):
        word = list(group)
        if is_blank:
            space = width(" ") if line else 0.0
            continue
        needed = sum(width(piece.text) for piece in word)  # of the whole word, then of each piece of one that is too long
        for piece in word if needed <= _WIDTH else _cut(word, width):
            wide = width(piece.text)
            if line and x + space + (needed or wide) > _WIDTH:
                yield line
                line, x, space = [], 0.0, 0.0
            left = x + space
            line.append(piece._replace(left=_WIDTH - left - wide if from_right else left, width=wide))
            x, space, needed = left + wide, 0.0, 0.0
    yield line


def _cut(word: list[_Piece], width: _Width) -> Iterator[_Piece]:
    """Cut pieces that are wider than a line."""
    for piece in word:
        rest = piece.text
        while rest:
            fits = max(1, bisect_right(range(1, len(rest) + 1), _WIDTH, key=lambda n, rest=rest: width(rest[:n])))  # type: ignore[misc]
            yield _Piece(rest[:fits], piece.unit)
            rest = rest[fits:]


def _notes(lines: list[list[_Piece]], max_lines: int, unseen: int) -> list[str]:
    notes = []
    if len(lines) > max_lines:
        hidden = {piece.unit for line in lines[max_lines:] for piece in line} - {_NO_UNIT}
        hidden -= {piece.unit for line in lines[:max_lines] for piece in line}
        more = len(lines) - max_lines
        notes.append(
            f"… {more} more {plural(more, 'line')} with {count(len(hidden), 'unit')} {'is' if more == 1 else 'are'} not shown;"
            f" max_lines={len(lines)} shows all"
        )
    if unseen:
        share = "shares all its characters" if unseen == 1 else "share all their characters"
        notes.append(f"{count(unseen, 'unit')} {share} with other units and {'is' if unseen == 1 else 'are'} not shown")
    return notes


def _scale(figure: Any, view: View, size: Floats, ends: tuple[float, float], directed: bool, theme: Theme) -> None:
    """Draw the scale of colours at the bottom."""
    ax = figure.add_axes(((_EDGE + 10) / size[0], 24.0 / size[1], 150.0 / size[0], 7.0 / size[1]))
    dress(ax, theme)
    low, high = ends if ends[0] < ends[1] else (ends[0] - 1.0, ends[0] + 1.0)
    steps = np.linspace(-1 if directed else 0, 1, 121)
    ax.imshow([[theme.shade(float(t), directed) for t in steps]], aspect="auto", extent=(low, high, 0, 1))
    ticks = sorted({ends[0], 0.0, ends[1]} if directed else set(ends))
    ax.set_yticks([])
    ax.set_xticks(ticks, [view.write(tick) if tick else "0" for tick in ticks])
    ax.tick_params(length=0, labelsize=8)
    ax.spines[:].set_visible(False)
