"""Explanation methods: ours, those of other packages, and the interface for new ones.

`list_methods()` lists them; `Explainer(method="lime")` and `slalom explain --method lime` take any of them.
"""

from slalom.methods.base import BlackBoxMethod, Method, MethodContext, MethodResult, WhiteBoxMethod
from slalom.methods.black_box import KernelShap, LeaveOneOut, Lime, PartitionShap
from slalom.methods.joint import OURS, JointMethod
from slalom.methods.reference import NaiveBayes, Random
from slalom.methods.registry import MethodTable, list_methods, method
from slalom.methods.surrogate import SurrogateMethod
from slalom.methods.white_box.attention import AttentionMean, AttentionRollout
from slalom.methods.white_box.attnlrp import AttnLRP
from slalom.methods.white_box.gradients import Gradient, InputXGradient, IntegratedGradients

__all__ = [
    "OURS",
    "AttentionMean",
    "AttentionRollout",
    "AttnLRP",
    "BlackBoxMethod",
    "Gradient",
    "InputXGradient",
    "IntegratedGradients",
    "JointMethod",
    "KernelShap",
    "LeaveOneOut",
    "Lime",
    "Method",
    "MethodContext",
    "MethodResult",
    "MethodTable",
    "NaiveBayes",
    "PartitionShap",
    "Random",
    "SurrogateMethod",
    "WhiteBoxMethod",
    "list_methods",
    "method",
]
