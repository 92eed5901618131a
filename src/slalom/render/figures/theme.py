"""The palette in matplotlib: themes by name, applied to axes."""

from typing import Any

from slalom.errors import InputError
from slalom.render.palette import THEMES, Theme


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
