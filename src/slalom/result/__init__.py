"""Results: explanations, their fidelity, and how they are saved."""

from slalom.result.answer import Answer, AnswerSentence
from slalom.result.certified import CertifiedShapley
from slalom.result.collection import Explanations, Failure, load, restored
from slalom.result.explanation import Explanation
from slalom.result.fidelity import Fidelity, HeldOut, Quality, quality
from slalom.result.flip import Flip
from slalom.result.pairs import Pair
from slalom.result.plain import NORMAL_95, presence, versions
from slalom.result.scores import SCORES, Score, Scored, listed
from slalom.result.spread import Spread, spread_of

__all__ = [
    "NORMAL_95",
    "SCORES",
    "Answer",
    "AnswerSentence",
    "CertifiedShapley",
    "Explanation",
    "Explanations",
    "Failure",
    "Fidelity",
    "Flip",
    "HeldOut",
    "Pair",
    "Quality",
    "Score",
    "Scored",
    "Spread",
    "listed",
    "load",
    "presence",
    "quality",
    "restored",
    "spread_of",
    "versions",
]
