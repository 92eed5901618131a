"""The colours of every figure and page, in one place.

Blue is for the target, orange against it; violet has no direction (importances, scores without a sign). The three can be told
apart with any kind of colour blindness. A score t in [-1, 1] lies behind its text as

    colour(t) = (1 - a) paper + a hue,    a = wash |t|

and `wash` is so small that ink is readable on all of them (contrast of at least 4.5, WCAG AA).

Methods side by side: ours, as the registry lists them, in strong colours; every other method in a muted one that depends on
nothing but its name.
"""

import colorsys
from dataclasses import dataclass
from typing import TypeAlias, final
from zlib import crc32

import numpy as np

from slalom.core.checks import Floats
from slalom.methods.joint import OURS
from slalom.methods.registry import BUILT_IN
from slalom.methods.surrogate import PAPER

Colour: TypeAlias = tuple[float, float, float]  # red, green, blue, 0 to 1

_READABLE = 5.0  # contrast of coloured text; 4.5 on paper and a little more for tinted rows
_OUR_NAMES = tuple(method.name for method in (*OURS, *PAPER))
_OTHER_NAMES = tuple(method.name for method in BUILT_IN if method.name not in _OUR_NAMES)
_GOLDEN = (5**0.5 - 1) / 2  # its multiples modulo 1 are far apart


def _rgb(hexadecimal: str) -> Colour:
    red, green, blue = bytes.fromhex(hexadecimal)
    return red / 255, green / 255, blue / 255


@final
@dataclass(frozen=True)
class Theme:
    """The colours of one theme."""

    name: str
    page: Colour  # behind the cards of a page
    paper: Colour  # behind text and charts
    faint: Colour  # stripes and grids
    line: Colour  # axes and borders
    ink: Colour  # main text
    muted: Colour  # other text
    positive: Colour  # for the target
    negative: Colour  # against the target
    neutral: Colour  # without a direction
    strong: tuple[Colour, ...]  # of our methods, in the order of the registry
    wash: float  # share of the hue behind the text with the strongest score
    quiet: tuple[float, float]  # lightness and saturation of all other methods

    def hue(self, score: float, signed: bool = True) -> Colour:
        """Return the full colour of a score's direction."""
        if not signed:
            return self.neutral
        return self.muted if score == 0 else self.positive if score > 0 else self.negative

    def text(self, hue: Colour) -> Colour:
        """Return a hue with as much ink as makes it readable on paper and on rows that are marked."""
        mixed = (mix(hue, self.ink, float(share)) for share in np.linspace(0, 1, 41))
        return next(c for c in mixed if min(contrast(c, self.paper), contrast(c, self.faint)) >= _READABLE)

    def method(self, name: str) -> Colour:
        """Return the colour of a method."""
        if is_ours(name):
            return self.strong[_OUR_NAMES.index(name) % len(self.strong)]
        return colorsys.hls_to_rgb(method_number(name) * _GOLDEN % 1.0, *self.quiet)

    def css(self) -> str:
        """Return the colours as declarations of CSS variables."""
        plain = {name: hexadecimal(getattr(self, name)) for name in ("page", "paper", "faint", "line", "ink", "muted")}
        hues = {name: getattr(self, name) for name in ("positive", "negative", "neutral")}
        parts = {name: " ".join(map(str, _bytes(hue))) for name, hue in hues.items()}  # for rgb(var(--positive) / alpha)
        texts = {f"{name}-text": hexadecimal(self.text(hue)) for name, hue in hues.items()}
        variables = plain | parts | texts | {"wash": f"{self.wash:g}"}
        return f"color-scheme:{self.name};" + "".join(f"--{name}:{value};" for name, value in variables.items())


_NAMES = "page   paper  faint  line   ink    muted  positive negative neutral"
_LIGHT = "f6f6f4 ffffff eeeff0 d6dade 1c2026 5d6570 2166ac   d95f02   7651a0"
_DARK = " 121417 1a1d21 23272c 3a414a e8ebef 9ca5b0 5aa0e1   f38e3e   b191d6"


def _theme(name: str, colours: str, more: str, wash: float, quiet: tuple[float, float]) -> Theme:
    named = dict(zip(_NAMES.split(), map(_rgb, colours.split()), strict=True))
    strong = (named["positive"], named["negative"], *map(_rgb, more.split()))
    return Theme(name=name, **named, strong=strong, wash=wash, quiet=quiet)


LIGHT = _theme("light", _LIGHT, "b02a7a 007c6c", 0.6, (0.48, 0.2))
DARK = _theme("dark", _DARK, "ec7cbe 42bea6", 0.5, (0.62, 0.22))
THEMES = {theme.name: theme for theme in (LIGHT, DARK)}


def is_ours(method: str) -> bool:
    """Return whether a method is one of ours."""
    return method in _OUR_NAMES


def method_number(method: str) -> int:
    """Return a number that tells a method that is not ours from the others: its place in the registry, or one by its name."""
    known = method in _OTHER_NAMES
    return _OTHER_NAMES.index(method) if known else len(_OTHER_NAMES) + crc32(method.encode("utf-8", "surrogatepass"))


def mix(first: Colour, second: Colour, share: float) -> Colour:
    """Return a colour between two: `share` of the second."""
    red, green, blue = ((1 - share) * a + share * b for a, b in zip(first, second, strict=True))
    return red, green, blue


def contrast(first: Colour, second: Colour) -> float:
    """Return the contrast ratio of WCAG 2, 1 to 21."""
    c = np.array([first, second])
    luminances = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4) @ (0.2126, 0.7152, 0.0722)
    return float((luminances.max() + 0.05) / (luminances.min() + 0.05))


def _bytes(colour: Colour) -> tuple[int, ...]:
    return tuple(round(255 * part) for part in colour)


def hexadecimal(colour: Colour) -> str:
    """Return a colour as CSS and terminals write it."""
    return "#" + bytes(_bytes(colour)).hex()


def strengths(scores: Floats, full: float) -> Floats:
    """Return the colour strengths of scores (n,) in [-1, 1]."""
    return np.zeros_like(scores) if full == 0.0 else np.asarray(np.clip(scores / full, -1.0, 1.0))


def wash(strength: float, signed: bool = True) -> str:
    """Return the CSS colour behind a score of this strength in [-1, 1], for paper of any colour.

    >>> wash(1.0), wash(-0.5), wash(0.5, signed=False)
    ('rgba(33,102,172,0.600)', 'rgba(217,95,2,0.300)', 'rgba(118,81,160,0.300)')
    """
    red, green, blue = _bytes(LIGHT.hue(strength or 1.0, signed))
    return f"rgba({red},{green},{blue},{LIGHT.wash * abs(strength):.3f})"
