"""All methods by name: ours, those of other packages, and plugins.

A plugin is a package with an entry point in the group ``slalom.methods``. Its name is that of the method, and it points to a
`Method`, or to a function without arguments that returns one.
"""

from functools import cache
from importlib.metadata import entry_points
from typing import final

from slalom.errors import InputError, did_you_mean
from slalom.methods.base import Method
from slalom.methods.black_box import KernelShap, LeaveOneOut, Lime, PartitionShap
from slalom.methods.context_cite import LASSO, ContextCite
from slalom.methods.joint import OURS
from slalom.methods.peers import PEERS
from slalom.methods.reference import Random
from slalom.methods.surrogate import PAPER, RIDGE
from slalom.methods.white_box.attention import AttentionMean, AttentionRollout
from slalom.methods.white_box.attnlrp import AttnLRP
from slalom.methods.white_box.gradients import Gradient, InputXGradient, IntegratedGradients
from slalom.plugins import load_plugin, load_plugins, table

GROUP = "slalom.methods"
BUILT_IN: tuple[Method, ...] = (
    *(*OURS, *PAPER, *RIDGE, LeaveOneOut(), Lime(), KernelShap(), PartitionShap(), ContextCite(), LASSO, *PEERS),
    *(Gradient(), InputXGradient(), IntegratedGradients(), AttentionMean(), AttentionRollout(), AttnLRP(), Random()),
)
_BUILT_IN = {method.name: method for method in BUILT_IN}


@final
class MethodTable(dict[str, Method]):
    """Methods by name. Its repr is a table of what each does and needs."""

    def __repr__(self) -> str:
        rows = (
            (name, ", ".join(m.needs) or "-", m.extra or "-", "yes" if m.signed else "no", m.summary)
            for name, m in self.items()
        )
        return table(("method", "needs", "extra", "sign", "what it does"), rows)


@cache
def list_methods() -> MethodTable:
    """Return all installed methods: ours, those of other packages, and plugins.

    A plugin that cannot be loaded, is not a method or has the name of one of ours is left out with a warning.

    Example:
        >>> list_methods()["lime"].needs, list_methods()["attention"].signed
        (('queries',), False)
    """
    return MethodTable({**_BUILT_IN, **load_plugins(GROUP, Method, _BUILT_IN)})  # type: ignore[type-abstract]


def method(name: object) -> Method:
    """Return a method by its name in `list_methods()`; a Method is returned unchanged.

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
            return load_plugin(point, Method, _BUILT_IN)  # type: ignore[type-abstract]
    kinds = "" if isinstance(name, str) else ", or a Method"
    names = list_methods()
    raise InputError(f"a method must be one of {', '.join(map(repr, names))}{kinds}; got {name!r}{did_you_mean(name, names)}")
