"""slalom: why did this transformer decide that?

>>> import slalom
>>> explainer = slalom.Explainer(lambda texts: [float("good" in text) for text in texts], output="log_odds")
>>> explainer("a good film").strongest(1)
[1]
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slalom.comparison import Compared, compare
    from slalom.explainer import METHODS, Explainer, Method
    from slalom.explanation import Explanation, Explanations, Fidelity, Quality, load

__version__ = "0.2.0"
__all__ = [
    "METHODS",
    "Compared",
    "Explainer",
    "Explanation",
    "Explanations",
    "Fidelity",
    "Method",
    "Quality",
    "compare",
    "load",
]

_HOME = {"METHODS": "explainer", "Explainer": "explainer", "Method": "explainer"} | dict.fromkeys(
    ("Compared", "compare"), "comparison"
)


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that importing the package is quick."""
    if name not in __all__:
        raise AttributeError(f"module 'slalom' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    return getattr(import_module(f"slalom.{_HOME.get(name, 'explanation')}"), name)


def __dir__() -> list[str]:
    """Name the public names, loaded or not."""
    return sorted([*globals(), *__all__])
