"""The mathematics: surrogates, their scores and their fitters. Arrays in, arrays out; no text, no models."""

from slalom.core.additive import Additive
from slalom.core.base import Link, Part, Surrogate
from slalom.core.conjunctions import Conjunctions
from slalom.core.fitting import Alternating, Fit, Fitter, Joint, Linear, Sgd, fit
from slalom.core.fitting.noise import Observed
from slalom.core.measures import Beta, Measure, Point
from slalom.core.neighbours import Neighbours
from slalom.core.recovery import Recovery, recover
from slalom.core.shifts import Shifts
from slalom.core.slalom import Slalom

__all__ = [
    "Additive",
    "Alternating",
    "Beta",
    "Conjunctions",
    "Fit",
    "Fitter",
    "Joint",
    "Linear",
    "Link",
    "Measure",
    "Neighbours",
    "Observed",
    "Part",
    "Point",
    "Recovery",
    "Sgd",
    "Shifts",
    "Slalom",
    "Surrogate",
    "fit",
    "recover",
]
