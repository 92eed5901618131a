"""Held-out queries: rows that the fit has not seen, near the text and of all sizes."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import row_keys
from slalom.text.samplers import QueryPlan, spread

_MOST_UNITS = 12  # of texts whose subsets are enumerated
_SHARE = 8  # one of so many subsets of a short text may be held out, in each of the two places
LEAST = 8  # rows of a place: fewer say nothing about an explanation


def held_out(
    fitted: NDArray[np.bool_], names: Sequence[str], check: int, rng: np.random.Generator
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return up to `check` queries that test an explanation and are not in its fit, rows `fitted` (m, n) of named units.

    They are near the text (1 to 10 units removed) and of all sizes, ten different ones at most, so that batches are full. Two
    rows are the same query where they leave the same names: of "very very" either word may go.
    """
    n = fitted.shape[1]
    near = n - np.array([k for k in (1, 2, 4, 7, 10) if k <= n // 2], dtype=np.int64)
    far = np.unique(np.linspace(1, n - 1, min(10, n - 1)).round().astype(np.int64)) if n > 1 else near
    same_size = np.isin(fitted.sum(axis=1, dtype=np.int32), [*near, *far])  # only rows of equal size can be equal
    used, chosen = set(query_keys(fitted[same_size], names)), []
    for sizes, budget in ((near, check // 2), (far, check - check // 2)):
        drawn = spread(n, sizes, 2 * budget, rng) if len(sizes) and budget else np.zeros((0, n), dtype=bool)
        fresh = {query: i for i, query in enumerate(query_keys(drawn, names)) if query not in used}
        left = drawn[sorted(fresh.values())]
        # `spread` sorts rows by size: thin out evenly to keep all sizes.
        chosen.append(left[np.unique(np.linspace(0, len(left) - 1, min(budget, len(left))).round().astype(np.int64))])
        used |= set(query_keys(chosen[-1], names))
    return chosen[0], chosen[1]


def reserved(
    plan: QueryPlan, names: Sequence[str], check: int, rng: np.random.Generator, known: NDArray[np.bool_] | None = None
) -> tuple[QueryPlan, NDArray[np.bool_], NDArray[np.bool_]]:
    """Return queries that test an explanation; of a short text, some that were planned for the fit.

    Where the plan has nearly all subsets of a short text, what it leaves tells nothing: up to an eighth of all subsets is
    then reserved for each of the two places. A text of so few subsets that this is less than `LEAST` keeps its plan. Rows
    that are `known` (k, n) without a query test nothing.

    Returns:
        The plan without the reserved rows, then rows near the text and of all sizes as `held_out` returns them.
    """
    n = plan.keep.shape[1]
    known = np.zeros((0, n), dtype=bool) if known is None else known
    near, far = held_out(np.concatenate([plan.keep, known]), names, check, rng)
    if n > _MOST_UNITS or min(len(near), len(far)) >= check // 2:
        return plan, near, far
    subsets = (np.arange(1, 2**n - 1)[:, None] >> np.arange(n)) & 1 == 1
    keys, planned = query_keys(subsets, names), query_keys(plan.keep, names)
    excluded = set(query_keys(known, names))
    first = {key: i for i, key in reversed(list(enumerate(keys))) if key not in excluded}
    wanted = min(check // 2, (len(first) + 2) // _SHARE)
    if wanted < max(LEAST, min(len(near), len(far))):
        return plan, near, far
    several = (~subsets).sum(axis=1) > 1  # the removals of single units are for the fit
    order = rng.permutation(np.array(sorted(i for i in first.values() if several[i]), dtype=np.int64))
    used = set(planned)
    order = order[np.argsort([keys[i] in used for i in order], kind="stable")]  # those that the plan has come last
    close = (~subsets[order]).sum(axis=1) <= max(min(10, n // 2), 1)
    chosen = order[close][:wanted]
    others = order[~np.isin(order, chosen)][:wanted]
    taken = {keys[i] for i in (*chosen, *others)}
    left = np.array([key not in taken for key in planned], dtype=bool)
    return QueryPlan(plan.keep[left], plan.weights[left]), subsets[chosen], subsets[others]


def query_keys(keep: NDArray[np.bool_], names: Sequence[str]) -> list[bytes]:
    """Return a key for each row (m, n); rows that leave the same names have the same one."""
    kinds = _kinds(tuple(names))
    if kinds is None:
        return row_keys(keep)
    left = np.broadcast_to(kinds, keep.shape)[keep].tobytes()
    ends = [0, *(kinds.itemsize * keep.sum(axis=1, dtype=np.int32).cumsum(dtype=np.int64)).tolist()]
    return [left[start:end] for start, end in pairwise(ends)]


@lru_cache(maxsize=1)  # the rows of one text come in several calls
def _kinds(names: tuple[str, ...]) -> NDArray[np.int32] | None:
    """Return a number for each name, equal names having equal numbers; None where all are different."""
    numbers = {name: i for i, name in enumerate(names)}
    return None if len(numbers) == len(names) else np.array([numbers[name] for name in names], dtype=np.int32)
