"""Shapley values of the model at equal total queries: `Explainer.shapley` against the estimators of shapiq, and its intervals.

Run: python benchmarks/certified.py [--models bundled words imdb-bert-2 FOLDER ...] [--budgets 100 200 500] [--texts 8]
       [--seeds 5] [--peers] [--long]

`--peers` needs shapiq 1.6 or later with xgboost and lightgbm. Texts are SST-2 sentences of 9 to 13 units, whose true values
come from all their parts; with --long, reviews of 100 to 200 units, whose true values come from 200,000 queries (their own
standard error is printed). RMSE is over units, texts and seeds.

`noise` corrects the model's answers in a random order, a surrogate that is only noise, without any fit.
"""

import argparse
import warnings
from functools import partial
from time import perf_counter

import numpy as np

from slalom import Explainer
from slalom.core.certified import Control, corrected, draw_pairs

from near_and_far import named
from reviews import reviews, sentences, tokenizer

_MANY = 200_000  # queries for the true values of long texts


def peers(n, seed):
    """Return the estimators of shapiq, by name."""
    from shapiq import approximator as estimators  # noqa: PLC0415

    proxy = {"index": "SV", "max_order": 1, "random_state": seed}
    return {
        "OddSHAP": estimators.OddSHAP(n, random_state=seed),
        "ProxySHAP": estimators.ProxySHAP(n, **proxy),
        "ProxySHAP, adjusted": estimators.ProxySHAP(n, **proxy, adjustment=True),
        "ProxySHAP, cross-fitted": estimators.ProxySHAP(n, **proxy, adjustment=True, k_folds=5),
        "RegressionMSR": estimators.RegressionMSR(n, index="SV", random_state=seed),
        "RegressionMSR, linear": estimators.RegressionMSR(n, index="SV", proxy_model="linear", random_state=seed),
        "KernelSHAP, paired": estimators.KernelSHAP(n, pairing_trick=True, random_state=seed),
        "SVARM": estimators.SVARM(n, random_state=seed),
        "PermutationSampling": estimators.PermutationSamplingSV(n, random_state=seed),
    }


def answers(table, n, sets):
    """Return the model's answers about sets (m, n) from those about all of them."""
    return table[np.atleast_2d(sets).astype(int) @ (1 << np.arange(n))]


def asked(explainer, e, sets):
    """Return the model's answers about sets (m, n)."""
    return explainer.ask(e, np.atleast_2d(sets).astype(bool))


def noise(table, n, budget, seed):
    """Return values and intervals with the model's own answers in a random order as surrogate, whose values are exact."""
    rng, full = np.random.default_rng([seed, 7]), 2**n - 1
    shuffled = rng.permutation(table)
    every = draw_pairs(n, 2 ** (n - 1) - 1, rng)

    def differences(scores, pairs):
        rows = pairs.keep @ (1 << np.arange(n))
        return (scores[rows] - scores[full - rows])[:, None]

    whole = np.array([shuffled[full] - shuffled[0]])
    nothing = Control(np.zeros((n, 1)), 0.0 * differences(table, every), np.zeros(1))
    zeros = np.zeros(len(every.keep), dtype=int)
    phi = corrected(every, differences(shuffled, every), whole, [nothing], zeros)[0]
    pairs = draw_pairs(n, budget // 2 - 1, rng)
    control = Control(phi, differences(shuffled, pairs), whole)
    top = np.array([table[full] - table[0]])
    values, _, half = (
        part[:, 0] for part in corrected(pairs, differences(table, pairs), top, [control], zeros[: len(pairs.keep)])
    )
    return values, np.stack([values - half, values + half], axis=1)


def measured(explainer, texts, budget, seeds, with_peers, truths):
    """Return errors, whether intervals hold, and seconds, by estimator. truths: of long texts."""
    found = {}

    def add(name, values, interval, began):
        holds = None if interval is None else (interval[:, 0] - 1e-9 <= truth) & (truth <= interval[:, 1] + 1e-9)
        found.setdefault(name, []).append((values - truth, holds, perf_counter() - began))

    for text in texts:
        least = explainer(text, queries=2)
        n = len(least)
        if text in truths:
            truth, game = truths[text], partial(asked, explainer, least)
        else:
            truth = explainer.shapley(least, queries=2**n).values
            table = explainer.ask(least, np.arange(2**n)[:, None] >> np.arange(n) & 1)
            game = partial(answers, table, n)
        for seed in range(seeds):
            began = perf_counter()
            c = explainer.shapley(least, queries=budget, seed=seed)
            add("slalom", c.values, c.interval, began)
            own = explainer(text, queries=budget, seed=seed)
            add("surrogate alone", own.shapley(), None, perf_counter())
            if text not in truths:
                add("noise", *noise(table, n, budget, seed), perf_counter())
            for name, estimator in (peers(n, seed) if with_peers else {}).items():
                began = perf_counter()
                guess = estimator.approximate(budget, game)
                add(name, guess.get_n_order_values(1), None, began)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=["bundled", "words", "imdb-bert-2"])
    parser.add_argument("--budgets", type=int, nargs="+", default=[100, 200, 500])
    parser.add_argument("--texts", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--long", action="store_true", help="reviews of 100 to 200 units")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    for name in options.models:
        model, device = named(name, "cpu")
        explainer = Explainer(*model, device=device, check=0, pairs=False, progress=False)
        texts, truths = [text for text in sentences(872) if 9 <= len(explainer.tokens(text)) <= 13][: options.texts], {}
        if options.long:
            for text in reviews(tokenizer(), options.texts, 100, 190):
                true = explainer.shapley(explainer(text, queries=500), queries=_MANY)
                print(f"{len(true.units)} units, standard error of the true values {np.mean(true.errors):.5f}", flush=True)
                truths[text] = true.values
            texts = list(truths)
        for budget in options.budgets:
            runs_of = measured(explainer, texts, budget, options.seeds, options.peers, truths)
            print(
                f"\n{name}, {len(texts)} texts, {budget} queries\n{'':<26}{'RMSE':>8}{'coverage':>10}{'seconds':>9}", flush=True
            )
            for estimator, runs in runs_of.items():
                errors, holds, seconds = zip(*runs, strict=True)
                covered = "" if holds[0] is None else f"{np.concatenate(holds).mean():.3f}"
                rmse = np.sqrt((np.concatenate(errors) ** 2).mean())
                print(f"{estimator:<26}{rmse:>8.4f}{covered:>10}{np.mean(seconds):>9.2f}", flush=True)


if __name__ == "__main__":
    main()
