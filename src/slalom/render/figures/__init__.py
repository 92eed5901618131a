"""Figures of explanations (`Plots`) and of comparisons (`ComparedPlots`), by matplotlib; see docs/plots.md."""

from slalom.errors import require

with require("drawing pictures", "plots"):
    import matplotlib as _  # noqa: F401

from slalom.render.figures.compared import ComparedPlots
from slalom.render.figures.plots import Plots

__all__ = ["ComparedPlots", "Plots"]
