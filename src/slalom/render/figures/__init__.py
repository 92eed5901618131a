"""Figures of explanations (`Plots`), comparisons (`ComparedPlots`) and corpora (`CorpusPlots`), by matplotlib."""

from slalom.errors import require

with require("drawing pictures", "plots"):
    import matplotlib as _  # noqa: F401

from slalom.render.figures.compared import ComparedPlots
from slalom.render.figures.corpus import CorpusPlots
from slalom.render.figures.plots import Plots

__all__ = ["ComparedPlots", "CorpusPlots", "Plots"]
