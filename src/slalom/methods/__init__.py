"""Explanation methods: ours, those of other packages, and the interface for new ones.

`methods()` lists them; `Explainer(method="lime")` and `slalom explain --method lime` take any of them.
"""

import sys
from types import ModuleType

from slalom.methods.base import BlackBoxMethod, Method, MethodContext, MethodResult, QueryContext, WhiteBoxMethod
from slalom.methods.black_box import CaptumKernelShap, CaptumLime, KernelShap, LeaveOneOut, Lime, PartitionShap
from slalom.methods.reference import NaiveBayes, Random
from slalom.methods.registry import MethodTable, method, methods
from slalom.methods.surrogate import OURS, SurrogateMethod
from slalom.methods.white_box.attention import AttentionMean, AttentionRollout
from slalom.methods.white_box.attnlrp import AttnLRP
from slalom.methods.white_box.gradients import Gradient, InputXGradient, IntegratedGradients

__all__ = [
    "OURS",
    "AttentionMean",
    "AttentionRollout",
    "AttnLRP",
    "BlackBoxMethod",
    "CaptumKernelShap",
    "CaptumLime",
    "Gradient",
    "InputXGradient",
    "IntegratedGradients",
    "KernelShap",
    "LeaveOneOut",
    "Lime",
    "Method",
    "MethodContext",
    "MethodResult",
    "MethodTable",
    "NaiveBayes",
    "PartitionShap",
    "QueryContext",
    "Random",
    "SurrogateMethod",
    "WhiteBoxMethod",
    "method",
    "methods",
]


class _CallableModule(ModuleType):
    """Makes `slalom.methods()` list the methods, although the package has the name of the function."""

    def __call__(self) -> MethodTable:
        return methods()


sys.modules[__name__].__class__ = _CallableModule
