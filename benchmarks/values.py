"""Values against what the model says of each word alone, and how often 95% intervals hold its answers.

Run: python benchmarks/values.py [--device cuda] [--texts 24] [--budgets 200 500 1000] [--models bundled words FOLDER ...]
       [--sentences | --least 30 --most 508]

Each text is explained with two seeds, and the model is asked about every word alone and about the text without each word.

1 - R2      error of the predicted values, beside the squares of the answers about their mean in each text
seeds       rank correlation of the values of the two seeds, mean over the texts
spread      standard deviation of the predicted values over that of the answers
held        share of 95% intervals that hold the answer: of values, of removals, and of the ten removals that the model says
            are the largest
asked       share of each of these three that the explanation had asked about

1 - R2, spread and held are those of the words that were not asked about: the others have the model's own answers.
"""

import argparse
from typing import NamedTuple

import numpy as np
from scipy.stats import spearmanr

from slalom import Explainer

from near_and_far import named
from reviews import add_text_options, chosen_texts


class Judged(NamedTuple):
    """Predictions of one score of the units of a text (n,), and the answers: which were asked, which intervals hold."""

    predicted: np.ndarray
    answers: np.ndarray
    asked: np.ndarray
    held: np.ndarray

    def of(self, chosen):
        return Judged(*(part[chosen] for part in self))


def judged(e, name, answers):
    """Compare a score of an explanation with the model's own answers."""
    low, high = e.interval(name).T
    asked = ~np.isnan(e.measured[name]) if name in e.measured else np.zeros(len(e), dtype=bool)
    return Judged(e.scores(name), answers, asked, (low <= answers) & (answers <= high))


def compared(explainer, e):
    """Return what an explanation says of values, of removals, and of the ten largest removals."""
    n = len(e)
    alone = np.eye(n, dtype=bool)
    scores = explainer.ask(e, np.concatenate([np.zeros((1, n)), np.ones((1, n)), alone, ~alone]).astype(bool))
    value = judged(e, "value", scores[2 : n + 2] - scores[0])
    removal = judged(e, "removal", scores[1] - scores[n + 2 :])
    return value, removal, removal.of(np.argsort(-np.abs(removal.answers))[:10])


def held(several):
    """Return the share of intervals that hold the answer, of units that were not asked about."""
    inside = np.concatenate([one.held[~one.asked] for one in several])
    return inside.mean() if len(inside) else np.nan


def row(explainer, texts, budget):
    """Return the figures of one budget."""
    first, second = (explainer(texts, queries=budget, seed=seed) for seed in (0, 1))
    ranks = [spearmanr(a.values, b.values).statistic for a, b in zip(first, second, strict=True)]
    groups = list(zip(*(compared(explainer, e) for e in (*first, *second)), strict=True))
    new = [one.of(~one.asked) for one in groups[0] if not one.asked.all()]
    squares = np.zeros(3)  # of errors, of predictions about their mean, of answers about theirs
    for one in new:
        deviations = one.predicted - one.answers, one.predicted - one.predicted.mean(), one.answers - one.answers.mean()
        squares += [(part**2).sum() for part in deviations]
    error, spread = (squares[0] / squares[2], np.sqrt(squares[1] / squares[2])) if squares[2] else (np.nan, np.nan)
    asked = [np.concatenate([one.asked for one in several]).mean() for several in groups]
    return [error, np.mean(ranks), spread, *map(held, groups), *asked]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    add_text_options(parser)
    parser.add_argument("--budgets", type=int, nargs="+", default=[200, 500, 1000])
    parser.add_argument("--models", nargs="+", default=["bundled"])
    options = parser.parse_args()
    texts = chosen_texts(options)
    columns = (
        "1 - R2",
        "seeds",
        "spread",
        *(f"{what}: {of}" for what in ("held", "asked") for of in ("values", "removals", "ten")),
    )
    print(f"| model | queries | {' | '.join(columns)} |\n|---|---|{'---|' * len(columns)}")
    for name in options.models:
        model, device = named(name, options.device)
        for budget in options.budgets:
            found = row(Explainer(*model, device=device, check=0, progress=False), texts, budget)
            print(f"| {name} | {budget} | {' | '.join(f'{number:.3f}' for number in found)} |", flush=True)


if __name__ == "__main__":
    main()
