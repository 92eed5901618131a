"""The mathematics: surrogates, their scores and their fitters. Arrays in, arrays out; no text, no models."""

from slalom.core.additive import Additive
from slalom.core.base import Background, Link, Surrogate
from slalom.core.fitting import Alternating, Fit, Fitter, Joint, Linear, Sgd, fit
from slalom.core.lengths import Lengths, fit_lengths
from slalom.core.measures import Beta, Measure, Point
from slalom.core.recovery import Recovery, recover
from slalom.core.shapley import banzhaf, leave_one_out, semivalue, shapley
from slalom.core.shifts import Shifts
from slalom.core.slalom import Slalom
from slalom.core.two_scale import TwoScale

__all__ = [
    "Additive",
    "Alternating",
    "Background",
    "Beta",
    "Fit",
    "Fitter",
    "Joint",
    "Lengths",
    "Linear",
    "Link",
    "Measure",
    "Point",
    "Recovery",
    "Sgd",
    "Shifts",
    "Slalom",
    "Surrogate",
    "TwoScale",
    "banzhaf",
    "fit",
    "fit_lengths",
    "leave_one_out",
    "recover",
    "semivalue",
    "shapley",
]
