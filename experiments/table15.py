"""Table 15: SLALOM-eff on a BLOOM and on a Mamba, which is no transformer: AU-ROC for human attention on Yelp-HAT."""

from dataclasses import replace
from typing import Any

from experiments.bars import bars
from experiments.classifiers import TITLES, about, classifiers, explainer
from experiments.harness import Claim, Lab, Result, lots, mean
from experiments.real import Measured, beside, explanations
from experiments.reviews import reviews
from slalom.evaluate import human_attention

NAMES = [("yelp", "bloom"), ("yelp", "mamba")]
_SCORES = ("value", "importance", "linear")
PAPER = {
    ("yelp", "bloom"): {("eff", "value"): 0.69, ("eff", "importance"): 0.71, ("eff", "linear"): 0.70},
    ("yelp", "mamba"): {("eff", "value"): 0.69, ("eff", "importance"): 0.32, ("eff", "linear"): 0.70},
}
_LOT = 25


def run(lab: Lab) -> Result:
    """Explain the marked reviews."""
    models = classifiers(lab, NAMES)
    lab = replace(lab, settings=(("texts", lab.number("texts", 100, 12)), *lab.settings))
    samples, number = lab.number("samples", 5000, 150), len(reviews(lab, "yelp").marked)
    records: dict[tuple[str, str], list[dict[str, Any]]] = {name: [] for name in NAMES}
    plan = {
        f"{arch}-{samples}-{lot}": {"data": data, "arch": arch, "first": first, "samples": samples}
        for data, arch in NAMES
        for lot, first in lots(number, _LOT).items()
    }
    for key, part in lab.parts(marked, plan, what="lot").items():
        records["yelp", key.split("-")[0]] += part
    found = Measured(records, ())
    rows = [("eff", score) for score in _SCORES] + [("random", "removal")]
    table = beside("AU-ROC for human attention", found, rows, "human", PAPER, number)
    claims = []
    for name in NAMES:
        value, importance, linear = (mean(found.values(name, ("eff", score), "human"))[0] for score in _SCORES)
        said = f"value {value:.3f}, importance {importance:.3f}, linear {linear:.3f}"
        either = max(value, linear) > 0.5
        claims.append(Claim(f"Values or linear scores predict human attention for {TITLES[name[1]]}.", either, said))
        if name[1] == "mamba" and not lab.quick:
            worst = importance < min(value, linear)
            claims.append(Claim("For Mamba the importances predict it worse than values and linear scores.", worst, said))
    size = ", ".join(f"{TITLES[arch]} {one['parameters'] / 1e6:.1f}M" for (_, arch), one in models.items())
    remark = f"{number} texts, {samples} samples. Parameters: {size} (the paper: BLOOM-7B, Mamba-2.8B)."
    return Result((table,), tuple(claims), (remark, *about(models, lab)))


def marked(lab: Lab, data: str, arch: str, first: int, samples: int) -> list[dict[str, Any]]:
    """Return records of one lot of texts."""
    ask, people = explainer(lab, data, arch), reviews(lab, data).marked[first : first + _LOT]
    records = []
    for name, scores in (("eff", _SCORES), ("random", ("removal",))):
        for one, human in zip(explanations(ask, [p.text for p in people], name, samples), people, strict=True):
            got = {score: {"human": human_attention(one, human.words, human.maps, score=score)} for score in scores}
            records.append({"method": name, "scores": got})
    return records


def draw(result: Result, figure: Any) -> None:
    """Draw bars, with the paper's figures as strokes."""
    bars(result.tables[0], figure, "AU-ROC for human attention")
