"""The methods that look inside a model, by name.

explainer(text, method=INSIDE["attnlrp"])
"""

from slalom.baselines.attention import AttentionMean, AttentionRollout
from slalom.baselines.attnlrp import AttnLRP
from slalom.baselines.gradients import Gradient, InputXGradient, IntegratedGradients
from slalom.explainer import Method
from slalom.text import Whole

INSIDE = {
    name: Method(name, Whole(), look, check=20)
    for name, look in (
        ("gradient", Gradient()),
        ("input-x-gradient", InputXGradient()),
        ("integrated-gradients", IntegratedGradients()),
        ("attention", AttentionMean()),
        ("rollout", AttentionRollout()),
        ("attnlrp", AttnLRP()),
    )
}
