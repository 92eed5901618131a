"""Pictures of explanations (`Plots`) and comparisons (`ComparedPlots`), each a matplotlib Figure; see docs/plots.md."""

from slalom.errors import require

with require("drawing pictures", "plots"):
    import matplotlib as _  # noqa: F401

from slalom.render.figures.compared import ComparedPlots
from slalom.render.figures.pictures import Plots

__all__ = ["ComparedPlots", "Plots"]
