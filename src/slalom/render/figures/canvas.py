"""What all figures are made of: a figure outside pyplot, and text that is never read as a formula.

`Picture` is a matplotlib Figure that pyplot does not know: nothing stays open, no window appears, and a notebook shows it. Its
text stays text in SVG files.

`Words` are drawn as they are ("$5", "a_b", backslashes), and a character that no installed font has becomes a box without a
warning. Fonts with many scripts are used where they are installed; SVG files keep the characters regardless of fonts.
"""

import io
import re
import unicodedata
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, cast, final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, fontManager
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.legend import Legend
from matplotlib.text import Text
from matplotlib.transforms import ScaledTranslation

from slalom.errors import InputError
from slalom.render.palette import THEMES, Theme

_WIDE_FONTS = [  # with many scripts
    "Noto Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK KR", "Noto Sans CJK TC", "Noto Sans SC", "Noto Sans JP",
    "PingFang SC", "Hiragino Sans", "Apple SD Gothic Neo", "Microsoft YaHei", "Yu Gothic", "Malgun Gothic", "WenQuanYi Zen Hei",
    "Droid Sans Fallback", "Noto Sans Arabic", "Noto Sans Hebrew", "Noto Sans Devanagari", "Nirmala UI", "Arial Unicode MS",
    "Noto Emoji", "Segoe UI Emoji", "Segoe UI Symbol", "Symbola", "DejaVu Sans",
]  # fmt: skip
_HEADER = 0.86  # of the width of a figure: room for its title
_LEAST = 6  # characters of a text that are left where there is no room


@final
class Picture(Figure):
    """A figure outside pyplot, with text that stays text in SVG files."""

    def draw(self, renderer: Any) -> None:
        with mpl.rc_context({"svg.fonttype": "none"}):
            super().draw(renderer)

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png", bbox_inches="tight")
        return file.getvalue()


class _Quiet:
    """Draws and measures text without warnings about characters that no font has."""

    def draw(self, *where: Any) -> None:
        with quiet():
            super().draw(*where)  # type: ignore[misc]

    def get_window_extent(self, *where: Any, **more: Any) -> Any:
        with quiet():
            return super().get_window_extent(*where, **more)  # type: ignore[misc]

    def get_tightbbox(self, *where: Any) -> Any:
        with quiet():
            return super().get_tightbbox(*where)  # type: ignore[misc]


@final
class Words(_Quiet, Text):
    """Text of the user: no formulas, no warnings about missing characters."""

    def __init__(self, x: float, y: float, text: str, **look: Any) -> None:
        super().__init__(x, y, plain(text), parse_math=False, usetex=False, fontfamily=families(), **look)

    def fit(self, room: float) -> None:
        """Cut it with … where it is wider than so many pixels: labels in “ ” first, then its end."""
        while self.get_window_extent().width > room and len(text := self.get_text()) > _LEAST:
            label = max(re.findall("“[^”]*”", text), key=len, default="")
            shorter = f"{label[:-1].removesuffix('…')[:-1].rstrip()}…”" if len(label) > _LEAST else ""
            self.set_text(text.replace(label, shorter) if shorter else f"{text.removesuffix('…')[:-1].rstrip()}…")


@final
class Key(_Quiet, Legend):
    """A legend."""


def theme_of(name: object) -> Theme:
    """Return the theme of this name."""
    if not isinstance(name, str) or name not in THEMES:
        raise InputError(f"theme must be one of {', '.join(map(repr, THEMES))}; got {name!r}")
    return THEMES[name]


def dress(ax: Any, theme: Theme) -> None:
    """Give axes the look of the theme: two muted spines, no grid."""
    ax.set_facecolor(theme.paper)
    ax.grid(False)
    for side, spine in ax.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(theme.line)
    ax.tick_params(which="both", color=theme.line, labelcolor=theme.muted, labelsize=9, length=3)
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set(color=theme.ink, fontsize=10)


def canvas(ax: Axes | None, theme: Theme, size: tuple[float, float]) -> tuple[Figure, Axes]:
    """Return the user's axes and their figure, or new ones of this size in inches."""
    if ax is not None:
        if not isinstance(ax, Axes):
            raise InputError(f"ax must be matplotlib axes (such as those of plt.subplots()) or None; got {type(ax).__name__}")
        return cast(Figure, ax.get_figure(root=True)), ax
    figure = Picture(figsize=size, dpi=120, facecolor=theme.paper, layout=ConstrainedLayoutEngine(w_pad=0.14, h_pad=0.14))
    return figure, figure.add_subplot()


def header(ax: Axes, theme: Theme, title: str, subtitle: str = "") -> None:
    """Write a title and a muted line below it, above the axes and flush with their left edge."""
    figure = cast(Figure, ax.get_figure(root=True))
    room = _HEADER * figure.bbox.width if isinstance(figure, Picture) else figure.bbox.x1 - ax.get_window_extent().x0
    for text, up, size, colour, weight in ((title, 26, 12, theme.ink, "bold"), (subtitle, 10, 9, theme.muted, "normal")):
        if text:
            at = ax.transAxes + moved(ax, 0, up if subtitle else 10)
            words = Words(0, 1, text, transform=at, size=size, color=colour, weight=weight, va="baseline", clip_on=False)
            ax.add_artist(words)
            words.fit(room)


def key(ax: Axes, entries: list[tuple[Any, str]], theme: Theme, beside: bool = False) -> None:
    """Write a legend of handles and labels beside the axes, or below them in as few rows as their width allows."""
    handles, labels = [handle for handle, _ in entries], [plain(label) for _, label in entries]
    figure = ax.get_figure(root=True)
    room = 0.84 * figure.bbox.width if isinstance(figure, Picture) else ax.get_window_extent().width
    corner, away = ((1, 1), moved(ax, 10, 0)) if beside else ((0, 0), moved(ax, 0, -44))
    look: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": corner, "bbox_transform": ax.transAxes + away}
    look |= {"frameon": False, "borderpad": 0, "borderaxespad": 0, "handletextpad": 0.4, "columnspacing": 1.4}
    look |= {"prop": FontProperties(family=families(), size=9), "labelcolor": theme.ink if beside else theme.muted}
    for rows in range(len(entries) if beside else 1, len(entries) + 1):
        legend = Key(ax, handles, labels, ncols=-(-len(entries) // rows), **look)
        for text in legend.get_texts():
            text.set(parse_math=False, usetex=False)
        ax.add_artist(legend)
        legend.set_clip_on(False)
        if rows == len(entries) or legend.get_window_extent().width <= room:
            return
        legend.remove()


def settle(figure: Any) -> None:
    """Lay the figure out, so that boxes can be measured; nothing moves afterwards in a figure of ours."""
    figure.draw_without_rendering()
    if isinstance(figure, Picture):
        figure.set_layout_engine("none")


def moved(ax: Axes, right: float, up: float) -> Any:
    """Return a transform that moves by a number of points, independent of the resolution."""
    figure: Any = ax.get_figure(root=True)
    return ScaledTranslation(right / 72, up / 72, figure.dpi_scale_trans)


def plain(text: str) -> str:
    """Return the text in one line, without characters that no font or file format can show."""
    line = " ".join(text.split()) or ("␣" if text else "")
    odd = {c for c in line if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") or ord(c) & 0xFFFE == 0xFFFE}
    return "".join("\ufffd" if c in odd else c for c in line)


def families() -> list[str]:
    """Return the font families to try in turn: the user's own, then installed ones with many scripts."""
    return [*mpl.rcParams["font.family"], *_installed()]


@cache
def _installed() -> tuple[str, ...]:
    names = {font.name for font in fontManager.ttflist}
    return tuple(name for name in _WIDE_FONTS if name in names)


@contextmanager
def quiet() -> Iterator[None]:
    """Leave out the warnings that a font lacks a character, and no others."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph .* missing from", UserWarning)
        warnings.filterwarnings("ignore", r"Matplotlib currently does not support", UserWarning)
        yield
