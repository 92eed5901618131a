"""Pictures of an explanation. Each method of `Plots` returns a matplotlib Figure; see docs/plots.md."""

from slalom.errors import MissingExtra

try:
    import matplotlib as _  # noqa: F401
except ImportError as error:
    raise MissingExtra("pictures need matplotlib; install it with: pip install 'slalom[plots]'") from error

from slalom.plots.pictures import Plots

__all__ = ["Plots"]
