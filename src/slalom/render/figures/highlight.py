"""The text itself, each unit on the colour of its score: shade(score_i / full_effect).

Hatched units are not distinguishable from zero.

Lines break at blanks, and inside a word only where it is wider than a line (in scripts without blanks: between units). Line
breaks of the text are kept. A paragraph that begins in a script from right to left is set from the right.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import FancyBboxPatch
from numpy.typing import NDArray

from slalom.core.checks import Floats
from slalom.errors import count, plural
from slalom.render.figures.canvas import Picture, Words, families, plain, quiet, shorten
from slalom.render.figures.theme import dress
from slalom.render.figures.view import View
from slalom.render.palette import Theme
from slalom.result import SCORES
from slalom.text import pieces
from slalom.text.segment import Spans

_WIDTH, _EDGE = 518.0, 22.0  # of a line and around the picture, points
_SIZE, _LEADING = 11.5, 21.0
_HEAD, _FOOT = 50.0, 44.0
_HATCH = "/////"
_NO_UNIT = -1  # for characters between units
_BREAKS = "\n\r\v\f\x85\u2028\u2029"


class _Piece(NamedTuple):
    """Characters of one unit, or of none, within one line: either one blank or no blanks."""

    text: str
    unit: int


@dataclass
class _Run:
    """Pieces of one unit that follow each other in a line, drawn as one text."""

    text: str
    unit: int
    left: float
    width: float


def highlight(view: View, name: str, score: Floats, max_lines: int, theme: Theme) -> Figure:
    """Draw the text, coloured by the score of this name."""
    directed = view.signed(name)
    strength, ends = _strength(view, view.rounded(score) if SCORES[name].signed else score, name, directed)
    paragraphs, unseen = _paragraphs(view.explanation.text, view.explanation.spans)
    width = _measure()
    lines = [line for paragraph in paragraphs for line in _wrapped(paragraph, width)]
    shown = lines[:max_lines]
    notes = _notes(lines, max_lines, unseen)
    size = np.array([_WIDTH + 2 * _EDGE, _HEAD + _LEADING * len(shown) + 14.0 * len(notes) + _FOOT + 4.0])
    figure = Picture(figsize=tuple(size / 72), dpi=120, facecolor=theme.paper)
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, size[0]), ylim=(size[1], 0), facecolor=theme.paper)
    ax.axis("off")
    _write(ax, 24, view.title(), size=12, color=theme.ink, weight="bold")
    _write(ax, 40, view.subtitle(), size=9, color=theme.muted)
    doubtful = view.doubtful(name)
    for number, line in enumerate(shown):
        base = _HEAD + _LEADING * (number + 0.82)
        for run in line:
            _draw(ax, run, base, strength, doubtful, directed, theme)
    for number, note in enumerate(notes):
        _write(ax, _HEAD + _LEADING * len(shown) + 14.0 * number + 14.0, note, size=9, color=theme.muted, style="italic")
    _scale(figure, view, size, name, ends, directed, theme)
    return figure


def _strength(view: View, score: Floats, name: str, directed: bool) -> tuple[Floats, tuple[float, float]]:
    """Return scores as [-1, 1], or [0, 1] where they have no direction, and the two ends of that scale."""
    full = view.full_effect(name)
    if directed:
        return np.clip(score / full, -1.0, 1.0), (-full, full)
    if SCORES[name].signed:
        return np.abs(score) / full, (0.0, full)
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


def _measure() -> Any:
    """Return a function from a string to its width in points."""
    agg: Any = FigureCanvasAgg(Picture(dpi=720))
    renderer, font = agg.get_renderer(), FontProperties(family=families(), size=_SIZE)
    known: dict[str, float] = {}

    def width(text: str) -> float:
        if text not in known:
            with quiet():
                known[text] = float(renderer.get_text_width_height_descent(f"|{text}|", font, False)[0] / 10)
        return known[text]

    bars = width("")
    return lambda text: width(text) - bars


def _wrapped(paragraph: list[_Piece], width: Any) -> Iterator[list[_Run]]:
    """Break a paragraph into lines of runs."""
    line: list[_Run] = []
    x, blank = 0.0, _Piece("", _NO_UNIT)
    for is_blank, group in groupby(paragraph, key=lambda piece: piece.text == " "):
        word = list(group)
        if is_blank:
            blank = word[-1]
            continue
        whole = sum(width(piece.text) for piece in word)
        space = width(" ") if line and blank.text else 0.0
        if line and x + space + whole > _WIDTH:
            yield _turned(line, paragraph)
            line, x, space = [], 0.0, 0.0
        for piece in word if whole <= _WIDTH else _cut(word, width):
            wide = width(piece.text)
            if line and x + space + wide > _WIDTH:
                yield _turned(line, paragraph)
                line, x, space = [], 0.0, 0.0
            last = line[-1] if line else None
            if last is not None and last.unit == piece.unit and (not space or blank.unit in (piece.unit, _NO_UNIT)):
                last.text += (" " if space else "") + piece.text
                last.width = width(last.text)
                x = last.left + last.width
            else:
                line.append(_Run(piece.text, piece.unit, x + space, wide))
                x += space + wide
            space = 0.0
        blank = _Piece("", _NO_UNIT)
    yield _turned(line, paragraph)


def _cut(word: list[_Piece], width: Any) -> Iterator[_Piece]:
    """Cut pieces that are wider than a line."""
    for piece in word:
        rest = piece.text
        while rest:
            fits = max(1, bisect_right(range(1, len(rest) + 1), _WIDTH, key=lambda n, rest=rest: width(rest[:n])))  # type: ignore[misc]
            yield _Piece(rest[:fits], piece.unit)
            rest = rest[fits:]


def _turned(line: list[_Run], paragraph: list[_Piece]) -> list[_Run]:
    """Return the line, from right to left where its paragraph begins in such a script."""
    kinds = (unicodedata.bidirectional(character) for piece in paragraph for character in piece.text)
    if next((kind for kind in kinds if kind in ("L", "R", "AL")), "L") != "L":
        for run in line:
            run.left = _WIDTH - run.left - run.width
    return line


def _notes(lines: list[list[_Run]], max_lines: int, unseen: int) -> list[str]:
    notes = []
    if len(lines) > max_lines:
        hidden = {run.unit for line in lines[max_lines:] for run in line} - {_NO_UNIT}
        hidden -= {run.unit for line in lines[:max_lines] for run in line}
        more = len(lines) - max_lines
        are = "is" if more == 1 else "are"
        notes.append(
            f"… {more} more {plural(more, 'line')} with {count(len(hidden), 'unit')} {are} not shown;"
            f" max_lines={len(lines)} shows all"
        )
    if unseen:
        share = "shares all its characters" if unseen == 1 else "share all their characters"
        notes.append(f"{count(unseen, 'unit')} {share} with other units and {'is' if unseen == 1 else 'are'} not shown")
    return notes


def _draw(ax: Any, run: _Run, base: float, strength: Floats, doubtful: NDArray[np.bool_], directed: bool, theme: Theme) -> None:
    colour = theme.muted
    if run.unit != _NO_UNIT:
        colour = theme.ink
        corner = (_EDGE + run.left, base - 0.98 * _SIZE)
        box = FancyBboxPatch(
            corner,
            run.width,
            1.34 * _SIZE,
            boxstyle="round,pad=0.7,rounding_size=2.2",
            facecolor=theme.shade(float(strength[run.unit]), directed),
            linewidth=0,
            zorder=1 + abs(float(strength[run.unit])) / 2,
        )
        if doubtful[run.unit]:
            box.set(hatch=_HATCH, edgecolor=theme.paper)
        box.set_gid(f"unit {run.unit}")
        ax.add_patch(box)
    ax.add_artist(Words(_EDGE + run.left, base, run.text, size=_SIZE, color=colour, va="baseline", zorder=2))


def _write(ax: Any, down: float, text: str, **look: Any) -> None:
    words = Words(_EDGE, down, text, va="baseline", **look)
    ax.add_artist(words)
    words.fit(_WIDTH / (_WIDTH + 2 * _EDGE) * ax.bbox.width)


def _scale(figure: Any, view: View, size: Floats, name: str, ends: tuple[float, float], directed: bool, theme: Theme) -> None:
    """Draw the scale of colours at the bottom."""
    ax = figure.add_axes(((_EDGE + 10) / size[0], 24.0 / size[1], 150.0 / size[0], 7.0 / size[1]))
    dress(ax, theme)
    low, high = ends if ends[0] < ends[1] else (ends[0] - 1.0, ends[0] + 1.0)
    steps = np.linspace(-1 if directed else 0, 1, 121)
    ax.imshow([[theme.shade(float(t), directed) for t in steps]], aspect="auto", extent=(low, high, 0, 1))
    ticks = sorted({ends[0], 0.0, ends[1]} if directed else set(ends))
    ax.set_yticks([])
    ax.set_xticks(ticks, [view.write(tick) if tick else "0" for tick in ticks], fontsize=8)
    ax.tick_params(length=0, labelsize=8)
    for spine in ax.spines.values():
        spine.set_visible(False)
    meaning = view.meaning(name) + (f" (blue: for “{shorten(view.target, 20)}”)" if directed else "")
    if view.doubtful(name).any():
        note = "hatched: not distinguishable from zero, its 95% interval contains it"
        figure.add_artist(Words((_EDGE + 180.0) / size[0], 14.0 / size[1], note, size=9, color=theme.muted, va="center"))
    words = Words((_EDGE + 180.0) / size[0], 27.0 / size[1], meaning, size=9, color=theme.muted, va="center")
    figure.add_artist(words)
    words.fit((_WIDTH - 180.0) / size[0] * figure.bbox.width)
