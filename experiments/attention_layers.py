"""Deeper networks and sub-words: do the correlations of one layer survive residuals, several layers and another tokenizer?"""

from typing import Any

import numpy as np
from scipy.stats import spearmanr

from experiments.classifiers import classifiers, explainer
from experiments.harness import Claim, Lab, Result, Table, mean
from experiments.one_layer import network, networks, texts
from experiments.real import explanations
from experiments.reviews import reviews
from slalom import Explainer
from slalom.theory.attention import METHODS

_PAIRS = (
    ("attention", "gradient"),
    ("attention", "lime"),
    ("attention", "joint"),
    ("gradient", "joint"),
    ("lime", "joint"),
)
_METHODS = ("attention", "gradient", "lime", "joint")
_UNSIGNED = ("attention", "gradient")
_CLOSED = {"attention": METHODS["attention-mean"], "gradient": METHODS["gradient-l2"]}  # of one layer


def run(lab: Lab) -> Result:
    """Explain the same texts by the library's baselines, in words and in tokens."""
    networks(lab, ("final",))
    deep = [("imdb", "bert")] if lab.quick else [("imdb", "bert"), ("yelp", "bert")]
    known = classifiers(lab, deep)
    names = ["one layer", *(f"{known[name]['layers']} layers, {name[0]}" for name in deep)]
    number, queries = lab.number("deeper", 30, 2), lab.number("queries", 1000, 150)
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
    last = {row[0]: row[-2][0] for row in rows}
    slope, weight = last["gradient / joint"], last["attention / joint"]
    both = last["attention / gradient"]
    claims = [
        Claim(
            "In deeper networks too, the size of the gradient follows the attention.",
            both > 0.3,
            f"rank correlation {both:.2f} ({names[-1]}, tokens)",
        )
    ]
    if not lab.quick:
        says = "In deeper networks too, the gradient says more of what removals do than attention does."
        said = f"rank correlation with the size of joint's scores: gradient {slope:.2f}, attention {weight:.2f} ({names[-1]})"
        claims.append(Claim(says, slope > weight, said))
    remark = "Signed scores (lime, joint) by their size. Words are sums of their tokens where a method looks inside."
    return Result((Table("Rank correlations over the units of a text", columns, rows),), tuple(claims), (remark,))


def agreement(lab: Lab, data: str, arch: str, unit: str, number: int, queries: int) -> dict[str, list[float]]:
    """Return the rank correlations of the methods in each text of one network."""
    if arch == "attention":
        ask = Explainer(network(lab, "final"), seed=lab.seed, check=0, progress=False)
        chosen, looking = list(texts(lab)[:number]), _CLOSED
    else:
        ask, chosen, looking = explainer(lab, data, arch), list(reviews(lab, data).explained[:number]), {}
    scores: dict[str, list[Any]] = {}
    for name in _METHODS:
        found = explanations(ask, chosen, looking.get(name, name), queries, unit)
        scores[name] = [one.removal if name in _UNSIGNED else np.abs(one.removal) for one in found]
    return {
        f"{one} {other}": [float(spearmanr(a, b).statistic) for a, b in zip(scores[one], scores[other], strict=True)]
        for one, other in _PAIRS
    }
