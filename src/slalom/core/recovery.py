"""Exact recovery of a SLALOM from 2n - 1 queries (Proposition 5.2 of the paper, with its signs corrected).

    v(t) = G([t]),    g = (G([t, r]) - v(r)) / (v(t) - v(r)) = 1 / (1 + exp(s(r) - s(t)))
    s(t) - s(r) = log(g / (1 - g)) = log (G([t, r]) - v(r)) / (v(t) - G([t, r]))

n queries of single units give the values; n - 1 queries of pairs (t, r) give the importances relative to a
reference r with v(r) != v(t); sum s = 0 fixes the rest. The last form loses no digits for g near 0 or 1.

The choice of references makes ties harmless: theta is the unit with the most outlying value, theta' the one farthest from it. A
unit is paired with theta, or with theta' where its value lies within a quarter of the spread of the values of that of theta. So
|v(t) - v(r)| is never less than a quarter of the spread, and all pairs can be queried in one call.

It holds for a SLALOM without background and link. A model that sees something besides the units ([CLS], a prompt) has no pure
single queries, and the result explains it roughly at best: fit such a model instead.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom.core.checks import Floats, whole_number
from slalom.core.slalom import Slalom
from slalom.errors import InputError, ModelError

Query: TypeAlias = Callable[[list[tuple[int, ...]]], ArrayLike]

_NEAR = 0.25  # share of the spread of the values within which a unit is paired with theta' instead of theta

_MEANING = {
    "constant": "all units have one value: the model is constant and importances are arbitrary (set equal)",
    "saturated": "one unit decides its pair alone, to the precision of the answers: importances are bounds",
    "inexplicable": "the answer to a pair lies outside those to its two units, which no SLALOM explains,"
    " so importances are set to the nearest extreme",
}


@dataclass(frozen=True, eq=False)
class Recovery:
    """The result of `recover`.

    The status of a unit is one of

    - "recovered": exact up to rounding;
    - "saturated": g is 0 or 1 to the precision of the answers; the importance is the bound that this gives;
    - "inexplicable": g < 0 or g > 1, so no SLALOM explains the answer to its pair; the importance is set to the lowest (g < 0)
      or highest (g > 1) recovered one. Units that were paired with an inexplicable theta' have the same status: their
      importance is correct relative to theta' only;
    - "constant": all units have the same value, so any importances explain the answers; they are set equal.

    Attributes:
        model: The SLALOM; always finite.
        queries: Number of queries.
        status: One of the words above for each unit (n_units,).
        g: Measured share of the unit in its pair (n_units,); 1/2 for theta and in a constant model.
        diagnosis: What is not exact, in plain words; empty when every unit is recovered.
    """

    model: Slalom
    queries: int
    status: NDArray[np.str_]
    g: Floats
    diagnosis: str = ""


def recover(query: Query, n_units: int, tolerance: float = 1e-12) -> Recovery:
    """Recover values and importances with n + (n - 1) queries, in two calls of `query`.

    Args:
        query: Takes a list of index tuples, (i,) or (i, j) with i < j, and returns an array of as many log odds.
        n_units: Number of units.
        tolerance: Precision of the answers relative to the largest value: 1e-12 suits double, 1e-5 single precision. Values
            that differ by less count as constant, and then no pairs are queried.

    Returns:
        The model, and how each unit was recovered.

    Raises:
        InputError: An argument is out of range.
        ModelError: `query` returns something else than finite log odds.

    Example:
        >>> truth = Slalom(values=[1.0, -2.0, 0.5], importances=[0.3, 0.7, -1.0])
        >>> def query(rows):
        ...     return [truth(np.bincount(row, minlength=3)[None])[0] for row in rows]
        >>> recovery = recover(query, n_units=3)
        >>> recovery.queries, recovery.status.tolist()
        (5, ['recovered', 'recovered', 'recovered'])
        >>> recovery.model.importances.round(12).tolist()
        [0.3, 0.7, -1.0]
    """
    n = whole_number("n_units", n_units, 1)
    if not 0 <= tolerance < _NEAR:
        raise InputError(f"tolerance must lie in [0, {_NEAR}); got {tolerance!r}")
    values = _ask(query, [(i,) for i in range(n)])
    noise = tolerance * float(np.abs(values).max())
    if np.ptp(values) <= noise:
        return _result(Slalom(values, np.zeros(n)), n, np.full(n, "constant"), np.full(n, 0.5))
    theta, far, partner = _references(values)
    below, above = _sides(query, values, theta, partner)
    narrow = np.minimum(below, above)
    status = np.where(narrow > noise, "recovered", np.where(narrow >= -noise, "saturated", "inexplicable"))
    floor = max(noise, np.finfo(float).eps * float(np.abs(values).max()), np.finfo(float).tiny)
    relative = np.log(np.maximum(below, floor) / np.maximum(above, floor))
    importances = _relative_to_theta(relative, below < 0, status, far, partner == far)
    return _result(Slalom(values, importances), 2 * n - 1, status, below / (below + above))


def _ask(query: Query, rows: list[tuple[int, ...]]) -> Floats:
    """Return the checked answers (n_rows,)."""
    outputs = query(rows)
    try:
        answers = np.asarray(outputs, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ModelError(f"query must return an array of log odds for {_first_rows(rows)}; got {error}") from None
    if answers.shape != (len(rows),):
        raise ModelError(
            f"query must return one log odds for each of the {len(rows)} sequences {_first_rows(rows)},"
            f" shape ({len(rows)},); got shape {answers.shape}"
        )
    if not np.isfinite(answers).all():
        k = int(np.flatnonzero(~np.isfinite(answers))[0])
        raise ModelError(f"query must return finite log odds; got {answers[k]} for the sequence {rows[k]}")
    return answers


def _first_rows(rows: list[tuple[int, ...]]) -> str:
    return f"[{', '.join(map(str, rows[:3]))}{', ...' if len(rows) > 3 else ''}]"


def _references(values: Floats) -> tuple[int, int, NDArray[np.intp]]:
    """Return theta, theta' and the reference of every unit (theta its own)."""
    theta = int(np.abs(values - np.median(values)).argmax())
    distance = np.abs(values - values[theta])
    far = int(distance.argmax())
    partner = np.where(distance < _NEAR * distance[far], far, theta)
    partner[theta] = theta
    return theta, far, partner


def _sides(query: Query, values: Floats, theta: int, partner: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Query the pairs; return g |v(t) - v(r)| and (1 - g) |v(t) - v(r)|, each (n_units,), and 1 for theta."""
    others = np.flatnonzero(np.arange(len(values)) != theta)
    pairs = [(min(t, r), max(t, r)) for t, r in zip(others.tolist(), partner[others].tolist(), strict=True)]
    answers = _ask(query, list(pairs))
    below, above = np.ones((2, len(values)))
    sign = np.sign(values - values[partner])[others]
    below[others] = sign * (answers - values[partner[others]])
    above[others] = sign * (values[others] - answers)
    return below, above


def _relative_to_theta(
    relative: Floats, low: NDArray[np.bool_], status: NDArray[np.str_], far: int, linked: NDArray[np.bool_]
) -> Floats:
    """Return importances relative to theta, from those relative to the reference of each unit.

    linked: the units with reference theta'. Inexplicable importances are clipped; where that of theta' is one, the
    status of the linked units follows.
    """
    eta, out = relative.copy(), status == "inexplicable"
    if out[far]:
        status[linked] = "inexplicable"
        known = eta[status == "recovered"]
        eta[far] = known.min() if low[far] else known.max()
    eta[linked] += eta[far]
    known = eta[status == "recovered"]
    eta[out] = np.where(low[out], known.min(), known.max())
    return eta


def _result(model: Slalom, queries: int, status: NDArray[np.str_], g: Floats) -> Recovery:
    """Return the result, with a note on what is not exact."""
    words = []
    for name, meaning in _MEANING.items():
        units = np.flatnonzero(status == name)
        if len(units):
            shown = ", ".join(map(str, units[:5])) + (", ..." if len(units) > 5 else "")
            words.append(f"{len(units)} of {len(status)} units ({shown}) {name}: {meaning}.")
    status.flags.writeable = g.flags.writeable = False
    return Recovery(model, queries, status, g, " ".join(words))
