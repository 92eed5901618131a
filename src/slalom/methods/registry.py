"""Every method by its name: ours, those of other packages, and plugins.

A plugin is a package with an entry point in the group ``slalom.methods``: its name is the method's name, and it points to a
`Method`, or to a function without arguments that returns one.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import final

from slalom.errors import InputError
from slalom.methods.base import Method
from slalom.methods.black_box import CaptumKernelShap, CaptumLime, KernelShap, LeaveOneOut, Lime, PartitionShap
from slalom.methods.reference import Random
from slalom.methods.surrogate import OURS, RIDGE
from slalom.methods.white_box.attention import AttentionMean, AttentionRollout
from slalom.methods.white_box.attnlrp import AttnLRP
from slalom.methods.white_box.gradients import Gradient, InputXGradient, IntegratedGradients

GROUP = "slalom.methods"
BUILT_IN: tuple[Method, ...] = (
    *OURS,
    *RIDGE,
    LeaveOneOut(),
    Lime(),
    KernelShap(),
    PartitionShap(),
    CaptumLime(),
    CaptumKernelShap(),
    Gradient(),
    InputXGradient(),
    IntegratedGradients(),
    AttentionMean(),
    AttentionRollout(),
    AttnLRP(),
    Random(),
)


@final
class MethodTable(Mapping[str, Method]):
    """Methods by name; printed, it is a table of what each does and needs."""

    def __init__(self, methods: Mapping[str, Method]) -> None:
        self._methods = dict(methods)

    def __getitem__(self, name: str) -> Method:
        """Return a method."""
        return self._methods[name]

    def __iter__(self) -> Iterator[str]:
        """Go through the names."""
        return iter(self._methods)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._methods)

    def __repr__(self) -> str:
        """Return one line per method."""
        rows = [("method", "needs", "extra", "sign", "what it does")]
        for name, one in self._methods.items():
            rows.append((name, ", ".join(one.needs) or "-", one.extra or "-", "yes" if one.signed else "no", one.summary))
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        return "\n".join("  ".join([*(f"{c:<{w}}" for c, w in zip(row, widths, strict=False)), row[4]]) for row in rows)


@cache
def methods() -> MethodTable:
    """Return every method that is installed: ours, those of other packages, and plugins.

    Returns:
        A mapping from names to methods. Printed, it is a table.

    Raises:
        InputError: A plugin cannot be loaded, is no method, or has a name that is taken.

    Example:
        >>> methods()["lime"].needs, methods()["attention"].signed
        (('queries',), False)
    """
    found = {method.name: method for method in BUILT_IN}
    for point in entry_points(group=GROUP):
        try:
            made = point.load()
            made = made if isinstance(made, Method) else made()
        except Exception as error:  # a plugin may raise what it likes
            reason = f"{type(error).__name__}: {error}"
            raise InputError(
                f"the plugin {point.name!r} ({point.value}) cannot be loaded: {reason}; mend or uninstall it"
            ) from error
        if not isinstance(made, Method) or made.name != point.name:
            got = f"a method called {made.name!r}" if isinstance(made, Method) else type(made).__name__
            raise InputError(f"the plugin {point.name!r} ({point.value}) must be a Method of that name; got {got}")
        if point.name in found:
            raise InputError(f"the plugin {point.name!r} ({point.value}) has the name of another method; rename it")
        found[point.name] = made
    return MethodTable(found)


def method(given: object) -> Method:
    """Return a method by its name; a Method is returned as it is.

    Raises:
        InputError: There is no such method.

    Example:
        >>> method("ridge").name
        'ridge'
    """
    if isinstance(given, Method):
        return given
    if not isinstance(given, str) or given not in methods():
        raise InputError(f"method must be one of {', '.join(map(repr, methods()))}, or a Method; got {given!r}")
    return methods()[given]
