"""How good an explanation is: metrics of explanations with their model, and comparisons of methods.

fidelity     does it predict the model?                 fidelity
aopc         does it rank the decisive units first?     perturbation
naive_bayes  does it rank like word counts?             NaiveBayes, naive_bayes_correlation, rank_correlation
human        does it rank like people?                  human_attention, unit_marks, auroc
summary      statistics over texts                      summarize, compare_paired, holm
comparison   methods side by side                       compare, comparison_estimate, Compared
"""

from slalom.evaluate.aopc import Perturbation, perturbation
from slalom.evaluate.checks import magnitude
from slalom.evaluate.compared import MEASURES, Compared, Measure
from slalom.evaluate.comparison import DEFAULT_METHODS, CompareOptions, compare, comparison_estimate
from slalom.evaluate.fidelity import Strict, fidelity, masks
from slalom.evaluate.human import Annotated, auroc, human_attention, unit_marks, word_spans, yelp_hat
from slalom.evaluate.naive_bayes import NaiveBayes, naive_bayes_correlation, rank_correlation
from slalom.evaluate.summary import PairedComparison, Summary, compare_paired, holm, summarize

__all__ = [
    "DEFAULT_METHODS",
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
    "auroc",
    "compare",
    "compare_paired",
    "comparison_estimate",
    "fidelity",
    "holm",
    "human_attention",
    "magnitude",
    "masks",
    "naive_bayes_correlation",
    "perturbation",
    "rank_correlation",
    "summarize",
    "unit_marks",
    "word_spans",
    "yelp_hat",
]
