"""Where to write the names of points so that nothing is covered.

Names are placed one after the other, the first of them best. Places are tried around the point on growing rings, then on a grid
over the axes. Of those inside the axes that touch no earlier name, the one that covers the fewest points and leader lines wins,
then the one closest to its point; a place that is closer to another point costs extra. The result is deterministic.
Boxes are (left, bottom, right, top) in pixels.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from slalom.core.checks import Floats
from slalom.render.figures.canvas import Words
from slalom.render.palette import Theme

_ANGLES = np.deg2rad([0, 180, 90, 270, 45, 135, 315, 225, 22.5, 157.5, 337.5, 202.5, 67.5, 112.5, 247.5, 292.5])
_RINGS = (0.0, 0.6, 1.4, 2.4, 3.6, 5.0, 7.0, 9.5, 12.5)  # in heights of a name
_DOUBT = 0.5  # what another point that is nearer costs, in heights
_GRID = 24
_STEPS = np.linspace(0.0, 1.0, 9)  # places along a leader line


class Place(NamedTuple):
    """A box for a name, and whether it lies so far from its point that a line must lead there."""

    box: Floats
    moved: bool


def write_names(ax: Axes, names: Sequence[Words], discs: Floats, radii: Floats, named: list[int], theme: Theme) -> None:
    """Move names beside their points, with lines to those that are further away; say how many have no room.

    The layout must be settled. The discs (n, 2) must not be covered; `named` are those of the names, the most important first.
    """
    if not names:
        return
    figure: Any = ax.get_figure(root=True)
    pixels = figure.dpi / 72
    frame = ax.get_window_extent()
    inside = np.array([frame.x0, frame.y0, frame.x1, frame.y1]) + np.array([1, 1, -1, -1]) * 2 * pixels
    boxes = [name.get_window_extent() for name in names]
    sizes = np.array([[box.width + 2 * pixels, box.height + pixels] for box in boxes])
    places = place(discs, radii * pixels, named, sizes, inside, 1.5 * pixels)
    across = ax.transAxes.inverted()
    for name, spot, i in zip(names, places, named, strict=True):
        if spot is None:
            name.remove()
            continue
        x, y = across.transform((spot.box[:2] + spot.box[2:]) / 2)
        name.set(x=x, y=y, transform=ax.transAxes, ha="center", va="center")
        if spot.moved:
            way = _nearest(spot.box, discs[i]) - discs[i]
            ends = across.transform(discs[i] + np.array([radii[i] * pixels * way / np.linalg.norm(way), way]))
            gid = f"leader {str(name.get_gid()).removeprefix('name ')}"
            look: dict[str, Any] = {"linewidth": 0.6, "zorder": 1.5, "gid": gid}
            ax.add_artist(Line2D(*ends.T, transform=ax.transAxes, color=theme.muted, **look))
    if missing := places.count(None):
        note = f"no room for {missing} of {len(places)} names"
        look = {"size": 8, "color": theme.muted, "ha": "right", "va": "bottom", "clip_on": False, "gid": "room"}
        ax.add_artist(Words(1, 1, note, transform=ax.transAxes, **look))


def place(discs: Floats, radii: Floats, named: list[int], sizes: Floats, inside: Floats, gap: float) -> list[Place | None]:
    """Return a place for the name of each named disc, or None where there is no room."""
    boxes, places = np.zeros((0, 4)), list[Place | None]()
    covers, reach = discs, radii
    for point, size in zip(named, sizes, strict=True):
        tried = _candidates(discs[point], radii[point], size, inside, gap)
        fits = (tried[:, :2] >= inside[:2]).all(axis=1) & (tried[:, 2:] <= inside[2:]).all(axis=1)
        tried = tried[fits & ~_touch(tried, boxes, gap).any(axis=1)]
        if not len(tried):
            places.append(None)
            continue
        ways = discs[point] + (_nearest(tried, discs[point]) - discs[point])[:, None] * _STEPS[:, None]  # (k, steps, 2)
        length = np.maximum(np.linalg.norm(ways[:, -1] - discs[point], axis=1) - radii[point], gap)
        apart = _apart(tried, covers, reach)
        covered = (apart < gap / 2).sum(axis=1)
        apart[:, point] = np.inf
        nearer = (apart[:, : len(discs)] < length[:, None]).sum(axis=1)
        moved = (length > 0.9 * size[1]) | ((nearer > 0) & (length > 2 * gap))
        cost = length + size[1] * _DOUBT * np.minimum(nearer, 3)
        best = int(np.lexsort((cost.round(1), covered))[0])
        boxes = np.concatenate([boxes, tried[best : best + 1]])
        if moved[best]:
            covers, reach = np.concatenate([covers, ways[best]]), np.append(reach, np.zeros(len(_STEPS)))
        places.append(Place(tried[best], bool(moved[best])))
    return places


def _candidates(anchor: Floats, radius: float, size: Floats, inside: Floats, gap: float) -> Floats:
    direction = np.stack([np.cos(_ANGLES), np.sin(_ANGLES)], axis=1)
    centres = [anchor + direction * (radius + gap + ring * size[1]) + np.sign(direction.round(9)) * size / 2 for ring in _RINGS]
    low, high = inside[:2] + size / 2, inside[2:] - size / 2
    grid = np.meshgrid(*(np.linspace(low[i], max(low[i], high[i]), _GRID) for i in (0, 1)))
    centre = np.concatenate([*centres, np.stack([part.ravel() for part in grid], axis=1)])
    return np.concatenate([centre - size / 2, centre + size / 2], axis=1)


def _nearest(boxes: Floats, point: Floats) -> Floats:
    """Return the point of each box that is nearest to a point."""
    return np.clip(point, boxes[..., :2], boxes[..., 2:])


def _touch(first: Floats, second: Floats, gap: float) -> Floats:
    a, b = first[:, None], second[None]
    return np.asarray((a[..., :2] < b[..., 2:] + gap).all(axis=2) & (b[..., :2] < a[..., 2:] + gap).all(axis=2))


def _apart(boxes: Floats, centres: Floats, radii: Floats) -> Floats:
    """Return how far discs (n,) are from boxes (k, 4): (k, n), negative where they overlap."""
    away = np.maximum(boxes[:, None, :2] - centres, centres - boxes[:, None, 2:]).clip(min=0.0)
    return np.asarray(np.hypot(away[..., 0], away[..., 1]) - radii)
