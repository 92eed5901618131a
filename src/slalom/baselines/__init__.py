"""The peers, as methods of the Explainer: `explainer(text, method=slalom.baselines.method("lime"))`.

Each gives the same Explanation as our own methods do: with a Slalom inside, or with an Additive where the method says that
effects add up; with the same held-out fidelity; asked through the same engine.
"""

from slalom.baselines.attention import AttentionMean, AttentionRollout
from slalom.baselines.attnlrp import AttnLRP
from slalom.baselines.gradients import Gradient, InputXGradient, IntegratedGradients
from slalom.baselines.inside import INSIDE
from slalom.baselines.packages import CaptumKernelShap, CaptumLime, KernelShap, Lime, PartitionShap
from slalom.baselines.simple import LeaveOneOut, NaiveBayes, Random
from slalom.core import Linear
from slalom.errors import InputError
from slalom.explainer import METHODS, Method
from slalom.text import Deletions, Scales, Whole

__all__ = [
    "BASELINES",
    "INSIDE",
    "AttentionMean",
    "AttentionRollout",
    "AttnLRP",
    "CaptumKernelShap",
    "CaptumLime",
    "Gradient",
    "InputXGradient",
    "IntegratedGradients",
    "KernelShap",
    "LeaveOneOut",
    "Lime",
    "NaiveBayes",
    "PartitionShap",
    "Random",
    "method",
]

BASELINES = {
    one.name: one
    for one in (
        Method("ridge", Deletions(), Linear()),
        Method("ridge-scales", Scales(), Linear()),
        Method("leave-one-out", Whole(), LeaveOneOut()),
        Method("lime", Whole(), Lime()),
        Method("kernel-shap", Whole(), KernelShap()),
        Method("partition-shap", Whole(), PartitionShap()),
        Method("captum-lime", Whole(), CaptumLime()),
        Method("captum-kernel-shap", Whole(), CaptumKernelShap()),
        Method("random", Whole(), Random()),
    )
} | INSIDE


def method(name: str) -> Method:
    """Return a method by its name: one of ours, or a baseline.

    >>> method("ridge").fitter
    Linear()
    """
    found = METHODS.get(name) or BASELINES.get(name)
    if found is None:
        raise InputError(f"a method must be one of {', '.join([*METHODS, *BASELINES])}; got {name!r}")
    return found
