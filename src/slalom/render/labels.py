"""Where to write the names of points so that nothing is covered.

Labels are placed one after the other, strongest first. Places are tried around the point on growing rings, then on a grid over
the axes. Of those inside the axes that touch no earlier label, the one that covers the fewest points wins (none, unless the
axes are full of points), then the one closest to its point. Crossing labels or leader lines costs extra, and so does a place
that is closer to another point. The result is deterministic. All lengths are in one unit, boxes are (left, bottom, right, top).
"""

from typing import NamedTuple

import numpy as np

from slalom.core.checks import Floats

_ANGLES = np.deg2rad([0, 180, 90, 270, 45, 135, 315, 225, 22.5, 157.5, 337.5, 202.5, 67.5, 112.5, 247.5, 292.5])
_RINGS = (0.0, 0.6, 1.4, 2.4, 3.6, 5.0, 7.0, 9.5, 12.5)  # in heights of a label
_DETOUR = 6.0  # what a crossing costs, in heights
_DOUBT = 0.5  # what another point that is nearer costs
_GRID = 24


class Place(NamedTuple):
    """A box for a label, and whether it lies so far from its point that a line must lead there."""

    box: Floats
    moved: bool


def place(anchors: Floats, radii: Floats, wanted: list[int], sizes: Floats, inside: Floats, gap: float) -> list[Place | None]:
    """Return a place for each wanted point, or None where there is no room."""
    boxes, lines = np.zeros((0, 4)), np.zeros((0, 4))
    places: list[Place | None] = []
    for point, size in zip(wanted, sizes, strict=True):
        tried = _candidates(anchors[point], radii[point], size, inside, gap)
        fits = (tried[:, :2] >= inside[:2]).all(axis=1) & (tried[:, 2:] <= inside[2:]).all(axis=1)
        tried = tried[fits & ~_touch(tried, boxes, gap).any(axis=1)]
        if not len(tried):
            places.append(None)
            continue
        ends = _nearest(tried, anchors[point])
        ways = np.concatenate([np.broadcast_to(anchors[point], ends.shape), ends], axis=1)
        length = np.maximum(np.linalg.norm(ends - anchors[point], axis=1) - radii[point], gap)
        apart = _apart(tried, anchors, radii)
        covered = (apart < gap / 2).sum(axis=1)
        apart[:, point] = np.inf
        nearer = (apart < length[:, None]).sum(axis=1)
        led = (length > 0.9 * size[1]) | ((nearer > 0) & (length > 2 * gap))
        crossed = (_cross(ways, boxes).sum(axis=1) + _meet(ways, lines).sum(axis=1)) * led + _cross(lines, tried).sum(axis=0)
        cost = length + size[1] * (_DETOUR * crossed + _DOUBT * np.minimum(nearer, 3))
        best = int(np.lexsort((cost.round(1), covered))[0])
        boxes = np.concatenate([boxes, tried[best : best + 1]])
        if led[best]:
            lines = np.concatenate([lines, ways[best : best + 1]])
        places.append(Place(tried[best], bool(led[best])))
    return places


def _candidates(anchor: Floats, radius: float, size: Floats, inside: Floats, gap: float) -> Floats:
    """Return boxes (k, 4) to try: rings around the point, then a grid over everything."""
    centres = []
    for ring in _RINGS:
        reach = radius + gap + ring * size[1]
        direction = np.stack([np.cos(_ANGLES), np.sin(_ANGLES)], axis=1)
        centres.append(anchor + direction * reach + np.sign(direction.round(9)) * size / 2)
    low, high = inside[:2] + size / 2, inside[2:] - size / 2
    grid = np.meshgrid(*(np.linspace(low[i], max(low[i], high[i]), _GRID) for i in (0, 1)))
    centres.append(np.stack([g.ravel() for g in grid], axis=1))
    centre = np.concatenate(centres)
    return np.concatenate([centre - size / 2, centre + size / 2], axis=1)


def _nearest(boxes: Floats, point: Floats) -> Floats:
    """Return the point of each box that is nearest to a point."""
    return np.clip(point, boxes[:, :2], boxes[:, 2:])


def _touch(first: Floats, second: Floats, gap: float) -> Floats:
    """Return which boxes (k, 4) and (m, 4) are closer than the gap."""
    a, b = first[:, None], second[None]
    return np.asarray((a[..., :2] < b[..., 2:] + gap).all(axis=2) & (b[..., :2] < a[..., 2:] + gap).all(axis=2))


def _apart(boxes: Floats, centres: Floats, radii: Floats) -> Floats:
    """Return how far discs (n,) are from boxes (k, 4): (k, n), negative where they overlap."""
    across, along = (
        np.maximum(boxes[:, i, None] - centres[:, i], centres[:, i] - boxes[:, i + 2, None]).clip(min=0.0) for i in (0, 1)
    )
    return np.asarray(np.hypot(across, along) - radii)


def _cross(lines: Floats, boxes: Floats) -> Floats:
    """Return which segments (k, 4) run through which boxes (m, 4), by clipping."""
    start, way = lines[:, None, :2], (lines[:, 2:] - lines[:, :2])[:, None]
    safe = np.where(way == 0.0, 1e-12, way)
    a, b = (boxes[None, :, :2] - start) / safe, (boxes[None, :, 2:] - start) / safe
    enter, leave = np.minimum(a, b).max(axis=2), np.maximum(a, b).min(axis=2)
    return np.asarray(np.maximum(enter, 0.0) < np.minimum(leave, 1.0))


def _meet(first: Floats, second: Floats) -> Floats:
    """Return which segments (k, 4) cross which segments (m, 4)."""

    def side(line: Floats, point: Floats) -> Floats:
        way, to = line[..., 2:] - line[..., :2], point - line[..., :2]
        return np.asarray(np.sign(way[..., 0] * to[..., 1] - way[..., 1] * to[..., 0]))

    a, b = first[:, None], second[None]
    apart = side(a, b[..., :2]) != side(a, b[..., 2:])
    return np.asarray(apart & (side(b, a[..., :2]) != side(b, a[..., 2:])))
