"""How good an explanation is: numbers from arrays, and from explanations with the model that they explain.

fidelity     does it predict the model?            strict_fidelity, fidelity_profile, unexplained; fidelity
aopc         does it rank what decides first?      aopc; perturbation
naive_bayes  does it rank as word counts do?       NaiveBayes, rank_correlation; naive_bayes_correlation
human        does it rank as people do?            consensus, auroc; human_attention
stability    does it come out the same again?      instability; seed_instability
summary      what do many texts say together?      summarize, compare, holm
"""

from slalom.evaluate.aopc import (
    ERASER,
    Perturbation,
    aopc,
    deletion_masks,
    fractions_of,
    insertion_masks,
    perturbation,
    steps_of,
)
from slalom.evaluate.checks import magnitude
from slalom.evaluate.fidelity import (
    Strict,
    fidelity,
    fidelity_profile,
    masks,
    removals,
    strict_fidelity,
    subsets,
    unexplained,
)
from slalom.evaluate.human import Annotated, consensus, human_attention, unit_marks, word_spans, yelp_hat
from slalom.evaluate.naive_bayes import NaiveBayes, naive_bayes_correlation
from slalom.evaluate.ranks import auroc, rank_correlation
from slalom.evaluate.stability import Instability, instability, seed_instability
from slalom.evaluate.summary import Comparison, Summary, compare, holm, summarize

__all__ = [
    "ERASER",
    "Annotated",
    "Comparison",
    "Instability",
    "NaiveBayes",
    "Perturbation",
    "Strict",
    "Summary",
    "aopc",
    "auroc",
    "compare",
    "consensus",
    "deletion_masks",
    "fidelity",
    "fidelity_profile",
    "fractions_of",
    "holm",
    "human_attention",
    "insertion_masks",
    "instability",
    "magnitude",
    "masks",
    "naive_bayes_correlation",
    "perturbation",
    "rank_correlation",
    "removals",
    "seed_instability",
    "steps_of",
    "strict_fidelity",
    "subsets",
    "summarize",
    "unexplained",
    "unit_marks",
    "word_spans",
    "yelp_hat",
]
