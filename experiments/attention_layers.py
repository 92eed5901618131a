"""Deeper networks and sub-words: do the correlations of one layer survive residuals, several layers and another tokenizer?"""

from typing import Any

import numpy as np
from scipy.stats import spearmanr

from experiments.classifiers import classifiers, explainer
from experiments.harness import Claim, Lab, Result, Table, mean
from experiments.one_layer import networks
from experiments.one_layer import texts as seen_whole
from experiments.real import explanations
from experiments.reviews import reviews
from slalom import Explainer

_PAIRS = (
    ("attention", "gradient"),
    ("attention", "rollout"),
    ("attention", "lime"),
    ("attention", "joint"),
    ("gradient", "joint"),
    ("lime", "joint"),
)
_METHODS = ("attention", "rollout", "gradient", "lime", "joint")
_UNSIGNED = ("attention", "rollout", "gradient")


def run(lab: Lab) -> Result:
    """Explain the same texts by the library's baselines, in words and in tokens."""
    networks(lab, ("final",))
    deep = [("imdb", "bert")] if lab.quick else [("imdb", "bert"), ("yelp", "bert")]
    known = classifiers(lab, deep)
    names = ["one layer", *(f"{known[name]['layers']} layers, {name[0]}" for name in deep)]
    number, queries = lab.number("deeper", 30, 3), lab.number("queries", 1000, 150)
    plan = {
        f"{data}-{arch}-{unit}-{queries}-{number}": {
            "data": data,
            "arch": arch,
            "unit": unit,
            "number": number,
            "queries": queries,
        }
        for data, arch in (("imdb", "attention"), *deep)
        for unit in ("token", "word")
    }
    found = list(lab.parts(agreement, plan, "attention-layers", "network").values())
    columns = ("scores", *(f"{name}, {unit}s" for name in names for unit in ("token", "word")))
    rows = tuple((f"{one} / {other}", *(mean(part[f"{one} {other}"]) for part in found)) for one, other in _PAIRS)
    deepest = rows[0][-2][0], rows[4][-2][0], rows[3][-2][0]
    claims = (
        Claim(
            "In deeper networks too, the gradient says more of what removals do than attention does.",
            deepest[1] > deepest[2],
            f"rank correlation with the size of joint's scores: gradient {deepest[1]:.2f}, attention {deepest[2]:.2f} ({names[-1]}, tokens)",
        ),
    )
    remark = "Signed scores (lime, joint) by their size. Words are sums of their tokens where a method looks inside."
    return Result((Table("Rank correlations over the units of a text", columns, rows),), claims, (remark,))


def agreement(lab: Lab, data: str, arch: str, unit: str, number: int, queries: int) -> dict[str, list[float]]:
    """Return the rank correlations of the methods in each text of one network."""
    if arch == "attention":
        ask = Explainer(
            str(lab.place("final", "attention")), device=lab.device, unit=unit, seed=lab.seed, check=0, progress=False
        )
        chosen = list(seen_whole(lab)[:number])
    else:
        ask, chosen = explainer(lab, data, arch), list(reviews(lab, data).explained[:number])
    scores: dict[str, list[Any]] = {}
    for name in _METHODS:
        found = explanations(ask, chosen, name, queries, unit=unit)
        scores[name] = [one.removal if name in _UNSIGNED else np.abs(one.removal) for one in found]
    return {
        f"{one} {other}": [float(spearmanr(a, b).statistic) for a, b in zip(scores[one], scores[other], strict=True)]
        for one, other in _PAIRS
    }
