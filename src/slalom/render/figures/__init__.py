"""Pictures of explanations (`Plots`) and comparisons (`ComparedPlots`), each a matplotlib Figure; see docs/plots.md."""

from slalom.errors import MissingExtra

try:
    import matplotlib as _  # noqa: F401
except ImportError as error:
    raise MissingExtra("pictures need matplotlib; install it with: pip install 'slalom-xai[plots]'") from error

from slalom.render.figures.compared import ComparedPlots
from slalom.render.figures.pictures import Plots

__all__ = ["ComparedPlots", "Plots"]
