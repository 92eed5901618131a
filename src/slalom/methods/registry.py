"""Every method by its name: ours, those of other packages, and plugins.

A plugin is a package with an entry point in the group ``slalom.methods``: its name is the method's name, and it points to a
`Method`, or to a function without arguments that returns one.
"""

import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
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
_BUILT_IN = {one.name: one for one in BUILT_IN}


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

    A plugin that cannot be loaded, is no method or has a name that is taken is left out with a warning.

    Example:
        >>> methods()["lime"].needs, methods()["attention"].signed
        (('queries',), False)
    """
    found = dict(_BUILT_IN)
    for point in entry_points(group=GROUP):
        try:
            found[point.name] = _plugin(point)
        except InputError as reason:  # the others are not to suffer
            warnings.warn(f"{reason}; it is left out", UserWarning, stacklevel=2)
    return MethodTable(found)


def _plugin(point: EntryPoint) -> Method:
    """Return the method of an entry point."""
    which = f"the plugin {point.name!r} ({point.value})"
    try:
        made = point.load()
        made = made if isinstance(made, Method) else made()
    except Exception as error:  # a plugin may raise what it likes
        raise InputError(f"{which} cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(made, Method) or made.name != point.name:
        got = f"a method called {made.name!r}" if isinstance(made, Method) else type(made).__name__
        raise InputError(f"{which} must be a Method of that name; got {got}")
    if point.name in _BUILT_IN:
        raise InputError(f"{which} has the name of a method of slalom; rename it")
    return made


def method(given: object) -> Method:
    """Return a method by its name; a Method is returned as it is.

    Raises:
        InputError: There is no such method, or it is a plugin that cannot be loaded.

    Example:
        >>> method("ridge").name
        'ridge'
    """
    if isinstance(given, Method):
        return given
    if isinstance(given, str) and given in _BUILT_IN:
        return _BUILT_IN[given]
    for point in entry_points(group=GROUP):
        if point.name == given:
            return _plugin(point)
    raise InputError(f"method must be one of {', '.join(map(repr, methods()))}, or a Method; got {given!r}")
