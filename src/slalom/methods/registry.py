"""All methods by name: ours, those of other packages, and plugins.

A plugin is a package with an entry point in the group ``slalom.methods``. Its name is that of the method, and it points to a
`Method`, or to a function without arguments that returns one.
"""

import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import final

from slalom.errors import InputError, one_line
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
_BUILT_IN = {method.name: method for method in BUILT_IN}


@final
class MethodTable(Mapping[str, Method]):
    """Methods by name. Its repr is a table of what each does and needs."""

    def __init__(self, methods: Mapping[str, Method]) -> None:
        self._methods = dict(methods)

    def __getitem__(self, name: str) -> Method:
        """Return the method of a name."""
        return self._methods[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._methods)

    def __len__(self) -> int:
        """Return the number of methods."""
        return len(self._methods)

    def __repr__(self) -> str:
        """Return one line per method."""
        rows = [("method", "needs", "extra", "sign", "what it does")]
        for name, m in self._methods.items():
            rows.append((name, ", ".join(m.needs) or "-", m.extra or "-", "yes" if m.signed else "no", m.summary))
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        return "\n".join("  ".join([*(f"{c:<{w}}" for c, w in zip(row, widths, strict=False)), row[4]]) for row in rows)


@cache
def methods() -> MethodTable:
    """Return all installed methods: ours, those of other packages, and plugins.

    A plugin that cannot be loaded, is not a method or has the name of one of ours is left out with a warning.

    Returns:
        A mapping from names to methods, printed as a table.

    Example:
        >>> methods()["lime"].needs, methods()["attention"].signed
        (('queries',), False)
    """
    table = dict(_BUILT_IN)
    for point in entry_points(group=GROUP):
        try:
            table[point.name] = _plugin(point)
        except InputError as reason:  # the other methods must stay usable
            warnings.warn(f"{reason}; it is left out", UserWarning, stacklevel=2)
    return MethodTable(table)


def _plugin(point: EntryPoint) -> Method:
    """Return the method of an entry point."""
    subject = f"the plugin {point.name!r} ({point.value})"
    try:
        loaded = point.load()
        plugin = loaded if isinstance(loaded, Method) else loaded()
    except Exception as error:  # foreign code may raise anything
        raise InputError(f"{subject} cannot be loaded: {type(error).__name__}: {one_line(error)}") from error
    if not isinstance(plugin, Method) or plugin.name != point.name:
        got = f"a method called {plugin.name!r}" if isinstance(plugin, Method) else type(plugin).__name__
        raise InputError(f"{subject} must be a Method of that name; got {got}")
    if point.name in _BUILT_IN:
        raise InputError(f"{subject} has the name of a method of slalom; rename it")
    return plugin


def method(name: object) -> Method:
    """Return a method by its name.

    Args:
        name: A name of `methods()`; a Method is returned unchanged.

    Raises:
        InputError: If there is no such method, or it is a plugin that cannot be loaded.

    Example:
        >>> method("ridge").name
        'ridge'
    """
    if isinstance(name, Method):
        return name
    if isinstance(name, str) and name in _BUILT_IN:
        return _BUILT_IN[name]
    for point in entry_points(group=GROUP):
        if point.name == name:
            return _plugin(point)
    raise InputError(f"method must be one of {', '.join(map(repr, methods()))}, or a Method; got {name!r}")
