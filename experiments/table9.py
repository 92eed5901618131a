"""Tables 1a and 9: rank correlation of the scores with Naive Bayes (50 texts of IMDB)."""

from typing import Any

from experiments.bars import bars
from experiments.classifiers import ARCHS
from experiments.harness import Lab, Result
from experiments.real import SCORES, beside, better, measured

NAMES = [("imdb", arch) for arch in ARCHS]
_LISTED = [
    *((method, score) for method in ("fidel", "eff") for score in ("value", "importance", "linear")),
    *((name, "removal") for name in ("lime", "kernel-shap", "integrated-gradients", "gradient", "attnlrp")),
]
PAPER = {
    ("imdb", "distilbert"): dict(
        zip(_LISTED, (0.602, 0.020, 0.602, 0.692, 0.373, 0.693, 0.691, 0.619, -0.285, -0.215, 0.706), strict=True)
    ),
    ("imdb", "bert"): dict(
        zip(_LISTED, (0.475, 0.031, 0.474, 0.619, 0.349, 0.626, 0.616, 0.554, -0.125, -0.123, 0.639), strict=True)
    ),
    ("imdb", "gpt2"): dict(
        zip(_LISTED, (0.467, 0.017, 0.468, 0.618, 0.292, 0.619, 0.213, 0.560, 0.033, 0.031, 0.615), strict=True)
    ),
}
_LINEAR, _RANDOM = ("eff", "linear"), ("random", "removal")


def run(lab: Lab) -> Result:
    """Compare with the word counts of the training texts."""
    found = measured(lab, NAMES)
    rows = [(name, score) for name in found.methods for score in SCORES[name]]
    table = beside("Spearman correlation with Naive Bayes", found, rows, "bayes", PAPER, lab.number("correlated", 50, 2))
    if lab.quick:
        claims = (
            better(
                "The linear scores of SLALOM-eff follow Naive Bayes, random ones do not.", found, "bayes", _LINEAR, [_RANDOM]
            ),
        )
    else:
        peers = [("lime", "removal"), *found.shap]
        claims = (
            better(
                "Of the scores of SLALOM-eff the linear ones correlate best.",
                found,
                "bayes",
                _LINEAR,
                [("eff", "value"), ("eff", "importance")],
            ),
            better("They correlate better than LIME and SHAP.", found, "bayes", _LINEAR, peers),
            better("They are comparable to LRP (within 0.05).", found, "bayes", _LINEAR, [("attnlrp", "removal")], slack=0.05),
        )
    remark = "Importances and Grad, which have no sign, are compared with |Naive Bayes|."
    return Result((table,), claims, (*found.remarks, remark))


def draw(result: Result, figure: Any) -> None:
    """Draw bars, with the paper's figures as lines."""
    bars(result.tables[0], figure, "Spearman correlation with Naive Bayes")
