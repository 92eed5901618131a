"""One network trained on synthetic data, and everything that the tables and figures want to know of it.

Each run is a part of its own (`lab.parts`), kept as numbers, so no network is saved and all experiments share them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.linear_model import Lasso, LinearRegression

from experiments.harness import Lab
from experiments.sequence_networks import TRANSFORMERS, Recipe, trained
from experiments.synthetic import (
    GROUP,
    LONGEST,
    counted,
    cross_entropy,
    first,
    linear_sequences,
    padded,
    planted,
    repeated,
    slalom_sequences,
)
from experiments.vocabulary import WORDS
from slalom.core import Fit, Joint, Sgd, Slalom, fit

PERFECT, WORST = WORDS.index("perfect"), WORDS.index("worst")
PAIRS = ((PERFECT,), (PERFECT, PERFECT), (WORST,), (WORST, WORST), (WORST, PERFECT))  # the queries of Figure 9
LENGTHS = range(1, LONGEST + 1)
Runs: TypeAlias = dict[tuple[str, int], list[dict[str, Any]]]  # by kind and size, one entry a run
SURROGATES = ("linear", "gam", "slalom", "joint")


def layers(lab: Lab) -> tuple[int, ...]:
    """Return the depths of the transformers."""
    return lab.of((1, 2, 6, 12), (1,))


def widths(lab: Lab) -> tuple[int, ...]:
    """Return the widths of the fully connected networks."""
    return lab.of((25, 100, 400, 1600), (400,))


def runs_on_linear(lab: Lab) -> Runs:
    """Return what was measured on networks trained on the linear data."""
    sizes = {**dict.fromkeys(TRANSFORMERS, layers(lab)), "relu": widths(lab)}
    wanted = {
        f"linear-{kind}-{size}-{run}": {"kind": kind, "size": size, "run": run}
        for kind, several in sizes.items()
        for size in several
        for run in range(lab.of(5, 1))
    }
    return _by_size(lab.parts(on_linear, _longest_first(wanted), GROUP, "network"), wanted)


def runs_on_slalom(lab: Lab, how_many: Mapping[int, int]) -> dict[int, Runs]:
    """Return what was measured on transformers trained on the SLALOM data, so many runs for each number of words."""
    planted(lab)  # before the processes ask for it
    wanted = {
        n_words: {
            f"slalom{n_words}-{kind}-{size}-{run}": {"kind": kind, "size": size, "n_words": n_words, "run": run}
            for kind in lab.of(tuple(TRANSFORMERS), ("distilbert",))
            for size in layers(lab)
            for run in range(runs)
        }
        for n_words, runs in how_many.items()
    }
    every = {key: given for several in wanted.values() for key, given in several.items()}
    found = lab.parts(on_slalom, _longest_first(every), GROUP, "network")
    return {n_words: _by_size(found, several) for n_words, several in wanted.items()}


def on_linear(lab: Lab, kind: str, size: int, run: int) -> dict[str, Any]:
    """Train on the linear data; fit the surrogates to 10000 new sequences and judge them on 10000 others."""
    generator = np.random.default_rng((lab.seed, run))
    if kind == "relu":
        recipe = lab.of(Recipe(5, 20, 1e-3, 0, 0), Recipe(4, 50, 3e-3, 0, 0))
    else:
        recipe = lab.of(Recipe(5, 50, 1e-4, 768, 12), Recipe(2, 50, 3e-3, 16, 2))
    train = linear_sequences(5000, generator)
    network = trained(kind, size, train, recipe, lab.device, run)
    seen, unseen = (linear_sequences(lab.of(10_000, 3000), generator) for _ in range(2))
    scores, asked = network(seen.words), repeated(PERFECT, LENGTHS)
    shown = np.concatenate([unseen.words, asked])
    told = {name: predicted(name, seen.words, scores, shown) for name in SURROGATES}
    answers = network(unseen.words)
    return {
        "cross_entropy": cross_entropy(answers, unseen.labels),
        "least": cross_entropy(unseen.log_odds, unseen.labels),
        "variance": answers.var(),
        "repeated": network(asked),
        "empty": 0.0 if kind == "gpt2" else network(padded([[]]))[0],
        "pairs": network(padded(PAIRS)),
        "errors": {name: ((found[: len(answers)] - answers) ** 2).mean() for name, found in told.items()},
        "told": {name: found[len(answers) :] for name, found in told.items()},
    }


def predicted(
    name: str, words: NDArray[np.int64], scores: NDArray[np.float64], shown: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Fit a surrogate to the scores of sequences and return what it predicts of others.

    linear: least squares on counts. gam: a weight for every word at every place, LASSO of 0.01. slalom: the paper's, by its
    Algorithm 1. joint: ours, with a competition between adding and averaging, and a link.
    """
    if name == "gam":
        return Lasso(alpha=0.01).fit(_places(words), scores).predict(_places(shown))
    counts, others = counted(words, len(WORDS)), counted(shown, len(WORDS))
    if name == "linear":
        return LinearRegression().fit(counts, scores).predict(others)
    return (fit(counts, scores, Sgd()) if name == "slalom" else ours(counts, scores, Joint())).model(others)


def on_slalom(lab: Lab, kind: str, size: int, n_words: int, run: int) -> dict[str, Any]:
    """Train on the SLALOM data, fit SLALOMs to the answers on new sequences, and compare them with the planted one."""
    generator = np.random.default_rng((lab.seed, run, n_words))
    truth = first(planted(lab), n_words)
    recipe = lab.of(Recipe(1, 1000, 3e-4, 256, 4), Recipe(1, 100, 3e-3, 16, 2))
    train = slalom_sequences(truth, lab.of(20 * 20_000, 20_000), generator)
    chance = expit(train.log_odds)
    if lab.quick:  # the probabilities for labels: as little noise as many more sequences would leave
        train = replace(train, labels=chance)
    network = trained(kind, size, train, recipe, lab.device, run)
    seen, unseen = (slalom_sequences(truth, lab.of(10_000, 3000), generator) for _ in range(2))
    scores, answers = network(seen.words), network(unseen.words)
    found = {"slalom": fit(seen.counts, scores, Sgd()), "joint": ours(seen.counts, scores, Joint(link=False))}
    return {
        "cross_entropy": cross_entropy(answers, unseen.labels),
        "least": cross_entropy(unseen.log_odds, unseen.labels),
        "variance": unseen.log_odds.var(),
        "floor": (2 * n_words - 1) / (chance * (1 - chance)).sum(),
        "network": ((answers - unseen.log_odds) ** 2).mean(),
        "misfit": ((found["slalom"].model(unseen.counts) - answers) ** 2).mean(),
        "logits": {name: ((one.model(unseen.counts) - unseen.log_odds) ** 2).mean() for name, one in found.items()},
        "parameters": {name: _apart(truth, one) for name, one in found.items()},
        "truth": {"values": truth.values, "importances": truth.importances, "log_odds": unseen.log_odds[:200]},
        "recovered": {
            "values": found["slalom"].model.values,
            "importances": found["slalom"].model.importances,
            "log_odds": found["slalom"].model(unseen.counts[:200]),
        },
    }


def ours(counts: NDArray[np.float64], scores: NDArray[np.float64], fitter: Joint) -> Fit:
    """Fit our surrogate to the first sequences, as its time grows with the cube of their number."""
    rows = max(500, 5 * counts.shape[1])
    return fit(counts[:rows], scores[:rows], fitter)


def _apart(truth: Slalom, found: Fit) -> dict[str, float]:
    """Return the mean squared errors of the scores of single words, of importances (which sum to 0) and of all."""
    alone = np.eye(truth.n_units)
    values = ((found.model(alone) - truth(alone)) ** 2).mean()
    importances = ((found.model.importances - truth.importances) ** 2).mean()
    return {"values": values, "importances": importances, "all": (values + importances) / 2}


def _places(words: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return one column for every word at every place (m, LONGEST * 10)."""
    return (words[:, :, None] == np.arange(len(WORDS))).reshape(len(words), -1).astype(np.float64)


def _longest_first(wanted: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the parts with deep networks first, so that none is left alone at the end."""
    return dict(sorted(wanted.items(), key=lambda part: (part[1]["kind"] == "relu", -part[1]["size"])))


def _by_size(found: dict[str, Any], wanted: dict[str, dict[str, Any]]) -> Runs:
    grouped: Runs = {}
    for key, given in wanted.items():
        grouped.setdefault((given["kind"], given["size"]), []).append(found[key])
    return grouped


def over_runs(runs: Iterable[dict[str, Any]], *path: str) -> list[Any]:
    """Return one entry of each run, looked up by keys."""
    found = list(runs)
    for key in path:
        found = [one[key] for one in found]
    return found
