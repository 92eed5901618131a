"""The network of the second paper (arXiv 2402.03485) with its final layer, without, and with one head; what it says of texts.

attention_training, attention_gradient, attention_final, attention_lime, attention_slalom and attention_layers share it.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from experiments.harness import Lab, lots
from experiments.reviews import reviews
from experiments.training import ATTENTION
from experiments.training import train as run
from slalom.evaluate.labelled import Labelled, read_labelled
from slalom.models import Model
from slalom.theory import attention

KINDS: dict[str, dict[str, Any]] = {"final": {}, "bare": {"final": False}, "single": {"heads": 1}}
NAMES = {"final": "as in the paper", "bare": "without the final layer", "single": "with one head"}
GROUP = "attention"
_LOT = 5  # texts in a part
# Small enough for seconds; the rate is one at which the heads do not become lists of priorities.
_QUICK = {"hidden": 32, "heads": 2, "inner": 16, "max_length": 64, "epochs": 8, "learning_rate": 3e-3, "batch": 32}


def data(lab: Lab) -> tuple[Labelled, Labelled]:
    """Return texts to train on and to judge by: all 25,000 IMDB reviews each, or made-up ones. Settings: `train`, `test`."""
    if lab.quick:
        own = reviews(lab, "imdb")
        return own.train, own.test
    train, test = (read_labelled(lab.shared("data", f"imdb_{part}.jsonl.gz")) for part in ("train", "test"))
    rng = np.random.default_rng(lab.seed)
    sizes = lab.number("train", 25_000, 0), lab.number("test", 25_000, 0)
    found = [of[rng.permutation(len(of))[:size]] for of, size in zip((train, test), sizes, strict=True)]
    return found[0], found[1]


def networks(lab: Lab, kinds: tuple[str, ...] = tuple(KINDS)) -> dict[str, dict[str, Any]]:
    """Train the networks where they are not there yet; return their accuracies, sizes and seconds."""
    return lab.parts(trained, {kind: {"kind": kind} for kind in kinds}, GROUP, "network")


def trained(lab: Lab, kind: str) -> dict[str, Any]:
    """Train one network with the paper's recipe (20,000 texts, 5,000 to choose the epoch by) and judge it."""
    train, test = data(lab)
    settings = {"seed": lab.seed, **lab.of({"epochs": lab.number("epochs", 10, 0)}, _QUICK), **KINDS[kind]}
    made = run(train, lab.place(kind, GROUP), replace(ATTENTION, **settings), test=test, device=lab.device, progress=False)
    return {
        "accuracy": made.test,
        "new": made.test_new,
        "validation": made.validation,
        "parameters": made.parameters,
        "tested": len(test),
        "seconds": made.seconds,
    }


def network(lab: Lab, kind: str) -> Model:
    """Return a trained network; the closed forms need no GPU."""
    return attention.load(lab.place(kind, GROUP), device="cpu")


def texts(lab: Lab) -> tuple[str, ...]:
    """Return test texts that the network sees whole. Settings: `texts`."""
    number = lab.number("texts", 100, 8)
    if lab.quick:
        return reviews(lab, "imdb").test.texts[:number]
    return tuple(text for text in data(lab)[1].texts if len(text.split()) <= 180)[:number]


def scored(lab: Lab, kind: str) -> list[dict[str, Any]]:
    """Return for each text the rank correlations of all closed forms, and the negative share of the exact Shapley values."""
    every = texts(lab)
    plan = {f"{kind}-{lot}": {"kind": kind, "first": first} for lot, first in lots(len(every), _LOT).items()}
    return [one for lot in lab.parts(ranked, plan, GROUP, "lot").values() for one in lot]


def ranked(lab: Lab, kind: str, first: int) -> list[dict[str, Any]]:
    """Return the records of one lot of texts."""
    model, found = network(lab, kind), []
    for text in texts(lab)[first : first + _LOT]:
        look = attention.trace(model, text)
        scores = {name: attention.form(name, look) for name in attention.FORMS}
        exact = np.abs(attention.slopes(look) - attention.Reference(model, text).gradient()).max()
        shapley = scores["exact-shapley"]
        scores["size of Shapley"] = np.abs(shapley)
        order = list(scores)
        ranks = spearmanr(np.column_stack([scores[name] for name in order])).statistic
        against = float(np.abs(shapley[shapley < 0]).sum() / np.abs(shapley).sum())
        found.append({"words": len(look.words), "names": order, "ranks": ranks, "against": against, "autograd": exact})
    return found


def correlation(records: list[dict[str, Any]], one: str, other: str) -> list[float]:
    """Return the rank correlation of two scores in each text."""
    found = [np.array(r["ranks"])[r["names"].index(one), r["names"].index(other)] for r in records]
    return [float(number) for number in found if np.isfinite(number)]
