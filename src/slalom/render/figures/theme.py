"""The colours of all pictures, in one place.

Blue speaks for the target, orange against it (a pair that the colour-blind can tell apart); violet has no side. A score t in
[-1, 1] is shown as

    colour(t) = (1 - a) paper + a hue,    a = 0.75 |t|

and text on a colour is written in ink where the contrast is at least 4.5 (WCAG AA), else in black or white, of which one
always has it.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np

from slalom.errors import InputError
from slalom.render.palette import AGAINST, FOR

Colour: TypeAlias = tuple[float, float, float]

_DEEPEST = 0.75  # share of the hue in the strongest colour
_READABLE = 4.5


@final
@dataclass(frozen=True)
class Theme:
    """paper: behind everything; ink: main text; muted: other text; line: axes and guides; then the three hues."""

    name: str
    paper: Colour
    ink: Colour
    muted: Colour
    line: Colour
    positive: Colour
    negative: Colour
    neutral: Colour

    def hue(self, score: float, signed: bool = True) -> Colour:
        """Return the full colour of a score's side."""
        if not signed or score == 0:
            return self.neutral if not signed else self.muted
        return self.positive if score > 0 else self.negative

    def shade(self, t: float, signed: bool = True) -> Colour:
        """Return the colour behind a text whose score is t in [-1, 1], or in [0, 1] where it has no sign."""
        return mix(self.paper, self.hue(t, signed), _DEEPEST * min(abs(t), 1.0))

    def ink_on(self, colour: Colour) -> Colour:
        """Return a colour for text that can be read on this one."""
        choices: tuple[Colour, ...] = (self.ink, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
        return next((c for c in choices if contrast(c, colour) >= _READABLE), self.ink)


def _rgb(red: int, green: int, blue: int) -> Colour:
    return red / 255, green / 255, blue / 255


THEMES = {
    theme.name: theme
    for theme in (
        Theme(
            name="light",
            paper=_rgb(255, 255, 255),
            ink=_rgb(28, 32, 38),
            muted=_rgb(94, 102, 112),
            line=_rgb(210, 215, 221),
            positive=_rgb(*FOR),
            negative=_rgb(*AGAINST),
            neutral=_rgb(118, 81, 160),
        ),
        Theme(
            name="dark",
            paper=_rgb(20, 23, 28),
            ink=_rgb(232, 235, 239),
            muted=_rgb(156, 165, 176),
            line=_rgb(58, 65, 74),
            positive=_rgb(90, 160, 225),
            negative=_rgb(243, 142, 62),
            neutral=_rgb(177, 145, 214),
        ),
    )
}


def theme_of(given: object) -> Theme:
    """Return the theme of this name."""
    if not isinstance(given, str) or given not in THEMES:
        raise InputError(f"theme must be one of {', '.join(map(repr, THEMES))}; got {given!r}")
    return THEMES[given]


def mix(one: Colour, other: Colour, share: float) -> Colour:
    """Return a colour between two: `share` of the other."""
    red, green, blue = ((1 - share) * a + share * b for a, b in zip(one, other, strict=True))
    return red, green, blue


def contrast(one: Colour, other: Colour) -> float:
    """Return the contrast ratio of WCAG 2, 1 to 21."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: Colour) -> float:
    c = np.asarray(colour)
    return float(np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4) @ (0.2126, 0.7152, 0.0722))


def dress(ax: Any, theme: Theme) -> None:
    """Give axes the look of the theme: two quiet spines, no grid."""
    ax.set_facecolor(theme.paper)
    ax.grid(False)
    for side, spine in ax.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(theme.line)
    ax.tick_params(which="both", color=theme.line, labelcolor=theme.muted, labelsize=9, length=3)
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set(color=theme.ink, fontsize=10)
