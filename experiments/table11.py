"""Tables 1c and 11: area over the perturbation curve, insertion (lower is better) and deletion (higher is better)."""

from typing import Any

from experiments.bars import bars
from experiments.classifiers import ARCHS, TITLES
from experiments.harness import Lab, Result, mean
from experiments.real import SCORES, Measured, Row, beside, better, measured

NAMES = [(data, arch) for data in ("imdb", "yelp") for arch in ARCHS]
_LISTED = [
    *((method, score) for method in ("fidel", "eff") for score in ("value", "linear")),
    *((name, "removal") for name in ("lime", "kernel-shap", "integrated-gradients", "gradient", "attnlrp")),
]
_PRINTED = """
insertion imdb bert 0.025 0.023 0.031 0.031 0.024 0.026 0.557 0.611 0.030
insertion imdb distilbert 0.028 0.024 0.027 0.027 0.027 0.029 0.495 0.508 0.023
insertion imdb gpt2 0.052 0.050 0.089 0.089 0.230 0.042 0.454 0.493 0.069
deletion imdb bert 0.893 0.901 0.881 0.885 0.875 0.881 0.084 0.069 0.852
deletion imdb distilbert 0.841 0.854 0.888 0.886 0.838 0.864 0.143 0.131 0.865
deletion imdb gpt2 0.837 0.844 0.782 0.784 0.479 0.859 0.289 0.269 0.833
insertion yelp bert 0.015 0.011 0.011 0.011 0.017 0.012 0.224 0.214 0.010
insertion yelp distilbert 0.018 0.019 0.032 0.032 0.014 0.020 0.250 0.249 0.017
insertion yelp gpt2 0.033 0.032 0.045 0.045 0.129 0.021 0.251 0.244 0.039
deletion yelp bert 0.657 0.667 0.865 0.863 0.797 0.859 0.249 0.281 0.855
deletion yelp distilbert 0.645 0.642 0.813 0.813 0.746 0.854 0.201 0.243 0.768
deletion yelp gpt2 0.747 0.753 0.726 0.727 0.444 0.849 0.292 0.290 0.740
"""  # one figure for each of _LISTED
_WHY = "All keep more than the whole text has, and differ by about a hundredth; other weights."
_LIME, _LRP, _RANDOM = (("lime", "removal"), ("attnlrp", "removal"), ("random", "removal"))


def run(lab: Lab) -> Result:
    """Insert and delete the tokens that matter most first."""
    found, most = measured(lab, NAMES), max(lab.each(data, "texts", 100, 2) for data, _ in NAMES)
    rows = [(name, score) for name in found.methods for score in SCORES[name] if score != "importance"]
    tables = []
    for what, better_is in (("insertion", "lower"), ("deletion", "higher")):
        paper = {(data, arch): row for (kind, data, arch), row in printed().items() if kind == what}
        tables.append(beside(f"AOPC, {what} ({better_is} is better)", found, rows, what, paper, most))
    fidel, eff = ("fidel", "linear"), ("eff", "linear")
    if lab.quick:
        claims = (
            better("Deleting what SLALOM-eff ranks first does more than chance.", found, "deletion", eff, [_RANDOM]),
            better("Inserting it keeps more than chance.", found, "insertion", eff, [_RANDOM], more=False),
        )
    else:
        claims = (
            better(
                "Linear SLALOM-fidel inserts better than LIME and LRP.",
                found,
                "insertion",
                fidel,
                [_LIME, _LRP],
                more=False,
                otherwise=_WHY,
            ),
            better(
                "It inserts on par with SHAP (within 0.01).",
                found,
                "insertion",
                fidel,
                found.shap,
                more=False,
                slack=0.01,
                otherwise=_WHY,
            ),
            better(
                "Linear SLALOM-eff deletes better than LIME.", found, "deletion", eff, [_LIME], otherwise=_where(found, eff)
            ),
            better("It deletes on par with SHAP (within 0.06).", found, "deletion", eff, found.shap, slack=0.06),
        )
    remark = "Curves at every 5th number of tokens, for the probability of the predicted class."
    return Result(tuple(tables), claims, (*found.remarks, remark))


def _where(found: Measured, ours: Row) -> str:
    """Say for which classifiers a score deletes better than LIME, and why not for the encoders where those are the others."""
    ahead, behind = [], []
    for name in NAMES:
        own, lime = (found.values(name, row, "deletion") for row in (ours, _LIME))
        if own and lime:
            (ahead if mean(own)[0] > mean(lime)[0] else behind).append(name)
    said = f"It does for {', '.join(f'{TITLES[arch]} on {data}' for data, arch in ahead) or 'none'}."
    encoders = all(arch != "gpt2" for _, arch in behind)
    return said + (" An encoder reads a token in the light of all others; a pair shows one." if encoders else "")


def printed() -> dict[tuple[str, str, str], dict[tuple[str, str], float]]:
    """Return the paper's figures by measure, data, architecture, and method with its score."""
    lines = [line.split() for line in _PRINTED.strip().splitlines()]
    return {(what, data, arch): dict(zip(_LISTED, map(float, row), strict=True)) for what, data, arch, *row in lines}


def draw(result: Result, figure: Any) -> None:
    """Draw the deletion as bars, with the paper's figures as strokes."""
    bars(result.tables[1], figure, "AOPC of deletion")
