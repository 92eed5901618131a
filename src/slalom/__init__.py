"""slalom: why did this transformer decide that?

>>> import slalom
>>> explainer = slalom.Explainer(lambda texts: [float("good" in text) for text in texts], output="log_odds")
>>> explainer("a good film").strongest(1)
[1]
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slalom.contexts import ContextExplainer, context
    from slalom.evaluate import Compared, compare
    from slalom.explainer import Explainer
    from slalom.lexicon import Lexicon
    from slalom.methods import Method, SurrogateMethod, list_methods
    from slalom.result import Explanation, Explanations, Fidelity, Quality, load

__version__ = "0.2.0"
__all__ = [
    "Compared",
    "ContextExplainer",
    "Explainer",
    "Explanation",
    "Explanations",
    "Fidelity",
    "Lexicon",
    "Method",
    "Quality",
    "SurrogateMethod",
    "compare",
    "context",
    "list_methods",
    "load",
]

_HOMES = {
    "contexts": ("ContextExplainer", "context"),
    "explainer": ("Explainer",),
    "lexicon": ("Lexicon",),
    "methods": ("Method", "SurrogateMethod", "list_methods"),
    "evaluate": ("Compared", "compare"),
    "result": ("Explanation", "Explanations", "Fidelity", "Quality", "load"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load a public name on first use, so that importing the package is fast."""
    if name in ("corpus", "methods", "models"):
        return import_module(f"slalom.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'slalom' has no attribute {name!r}")
    return getattr(import_module(f"slalom.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    """Return the public names, loaded or not."""
    return sorted([*globals(), *__all__])
