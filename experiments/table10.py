"""Tables 1b and 10: do the scores predict what people look at? AU-ROC for Yelp-HAT."""

from typing import Any

from experiments.bars import bars
from experiments.classifiers import ARCHS
from experiments.harness import Lab, Result
from experiments.real import SCORES, beside, better, measured

NAMES = [("yelp", arch) for arch in ARCHS]
_LISTED = [
    *(("eff", score) for score in ("value", "importance", "linear")),
    *((name, "removal") for name in ("lime", "kernel-shap", "attnlrp")),
]
PAPER = {
    ("yelp", "bert"): dict(zip(_LISTED, (0.786, 0.807, 0.801, 0.805, 0.800, 0.813), strict=True)),
    ("yelp", "distilbert"): dict(zip(_LISTED, (0.688, 0.681, 0.686, 0.702, 0.668, 0.703), strict=True)),
    ("yelp", "gpt2"): dict(zip(_LISTED, (0.674, 0.685, 0.683, 0.632, 0.671, 0.699), strict=True)),
}
_IMPORTANCE = ("eff", "importance")
_WHY = "The paper's classifiers start from language models that know which words carry meaning, ours from a small encoder."


def run(lab: Lab) -> Result:
    """Compare with the words that all annotators have marked."""
    found = measured(lab, NAMES)
    rows = [(name, score) for name in found.methods for score in SCORES[name]]
    table = beside("AU-ROC for human attention", found, rows, "human", PAPER, lab.each("yelp", "texts", 100, 2))
    if lab.quick:
        says = "Importances of SLALOM-eff predict what people mark better than random numbers do."
        return Result((table,), (better(says, found, "human", _IMPORTANCE, [("random", "removal")]),), found.remarks)
    claims = (
        better(
            "Of the scores of SLALOM-eff the importances predict human attention best.",
            found,
            "human",
            _IMPORTANCE,
            [("eff", "value"), ("eff", "linear")],
            otherwise=_WHY,
        ),
        better(
            "They predict it better than SHAP.",
            found,
            "human",
            _IMPORTANCE,
            found.shap,
            otherwise=_WHY,
        ),
        better(
            "They are comparable to LIME (within 0.02).",
            found,
            "human",
            _IMPORTANCE,
            [("lime", "removal")],
            slack=0.02,
            otherwise=_WHY,
        ),
        better(
            "They are at most slightly below LRP (within 0.02).",
            found,
            "human",
            _IMPORTANCE,
            [("attnlrp", "removal")],
            slack=0.02,
            otherwise=_WHY,
        ),
    )
    return Result((table,), claims, found.remarks)


def draw(result: Result, figure: Any) -> None:
    """Draw bars, with the paper's figures as strokes."""
    bars(result.tables[0], figure, "AU-ROC for human attention")
