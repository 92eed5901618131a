"""Other ways to explain the same models, as the same `Explanation`: the peers of slalom."""

from slalom.baselines.attention import AttentionMean, AttentionRollout
from slalom.baselines.attnlrp import AttnLRP
from slalom.baselines.gradients import Gradient, InputXGradient, IntegratedGradients
from slalom.baselines.inside import INSIDE

__all__ = [
    "INSIDE",
    "AttentionMean",
    "AttentionRollout",
    "AttnLRP",
    "Gradient",
    "InputXGradient",
    "IntegratedGradients",
]
