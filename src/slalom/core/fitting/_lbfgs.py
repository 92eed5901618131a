"""The two-loop recursion of limited-memory BFGS (Nocedal, 1980).

    H_new^-1 = (1 - r s y') H^-1 (1 - r y s') + r s s',    r = 1 / s'y,    s = a move,    y = how the gradient changed by it

`Joint` uses it with the inverse Gauss-Newton Hessian as the first H^-1.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

V = TypeVar("V")


def two_loop(
    pairs: Sequence[tuple[V, V, Any]],
    gradient: V,
    first_guess: Callable[[V], V],
    share: Callable[[V, V, Any], Any],
    plus: Callable[[V, V, Any], V],
) -> V:
    """Return H^-1 gradient."""
    shares: list[Any] = []
    for move, change, curvature in reversed(pairs):
        part = share(move, gradient, curvature)
        gradient = plus(gradient, change, -part)
        shares.append(part)
    step = first_guess(gradient)
    for (move, change, curvature), part in zip(pairs, reversed(shares), strict=True):
        step = plus(step, move, part - share(change, step, curvature))
    return step
