"""How good an explanation is: metrics of arrays, metrics of explanations with their model, and comparisons of methods.

fidelity     does it predict the model?                 strict_fidelity, fidelity_profile, unexplained; fidelity
aopc         does it rank the decisive units first?     aopc; perturbation
naive_bayes  does it rank like word counts?             NaiveBayes, rank_correlation; naive_bayes_correlation
human        does it rank like people?                  consensus, auroc; human_attention
summary      statistics over texts                      summarize, compare_paired, holm
comparison   methods side by side                       compare, comparison_estimate, Compared
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
from slalom.evaluate.compared import MEASURES, Compared, Measure
from slalom.evaluate.comparison import DEFAULT_METHODS, CompareOptions, compare, comparison_estimate
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
from slalom.evaluate.summary import PairedComparison, Summary, compare_paired, holm, summarize

__all__ = [
    "DEFAULT_METHODS",
    "ERASER",
    "MEASURES",
    "Annotated",
    "CompareOptions",
    "Compared",
    "Measure",
    "NaiveBayes",
    "PairedComparison",
    "Perturbation",
    "Strict",
    "Summary",
    "aopc",
    "auroc",
    "compare",
    "compare_paired",
    "comparison_estimate",
    "consensus",
    "deletion_masks",
    "fidelity",
    "fidelity_profile",
    "fractions_of",
    "holm",
    "human_attention",
    "insertion_masks",
    "magnitude",
    "masks",
    "naive_bayes_correlation",
    "perturbation",
    "rank_correlation",
    "removals",
    "steps_of",
    "strict_fidelity",
    "subsets",
    "summarize",
    "unexplained",
    "unit_marks",
    "word_spans",
    "yelp_hat",
]
