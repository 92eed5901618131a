"""queries="auto", budgets that grow until the error stops falling, against fixed ones: what it spends, and its error.

Run: python benchmarks/auto.py [--model bundled] [--device cuda] [--texts 12] [--longest 508] [--budgets 200 500 1000]

near is the mean squared error of the change of the score when 1 to 10 tokens are removed, far is 1 - R2 on subsets of random
sizes; both on 100 queries, mean over the reviews.
"""

import argparse
import time
import warnings

import numpy as np

import slalom
from slalom.evaluate import fidelity

from reviews import classifier, reviews


def errors(explanations, explainer):
    """Return near and far errors (texts, 2)."""
    found = fidelity(explanations, explainer, per=10, number=100, seed=1)
    return np.array([(strict.near, strict.far) for strict in found])


def auto(explainer, texts, budgets):
    print(f"{'method':<8}{'budget':<8}{'queries':<9}{'near':<9}{'far':<9}seconds per text", flush=True)
    for method in ("joint", "local", "ridge"):
        for budget in (*budgets, "auto"):
            began = time.perf_counter()
            explanations = explainer(texts, method=method, queries=budget, check=None if budget == "auto" else 0)
            took = (time.perf_counter() - began) / len(texts)
            near, far = errors(explanations, explainer).mean(axis=0)
            spent = np.mean([e.queries for e in explanations])
            print(f"{method:<8}{budget!s:<8}{spent:<9.0f}{near:<9.4f}{far:<9.4f}{took:.2f}", flush=True)
        print(
            "        rounds:",
            *(f"{len(e)} tokens {e.queries} ({e.stopped})" for e in explanations),
            sep="\n          ",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=("bundled", "imdb-bert-2"), default="bundled")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--texts", type=int, default=12)
    parser.add_argument("--longest", type=int, default=508, help="tokens of the longest review")
    parser.add_argument("--budgets", type=int, nargs="+", default=[200, 500, 1000])
    options = parser.parse_args()
    model, tokenizer = classifier(options.device)
    texts = reviews(tokenizer, options.texts, most=options.longest)
    if options.model == "bundled":
        explainer = slalom.Explainer(device=options.device, progress=False)
    else:
        explainer = slalom.Explainer(model, tokenizer, progress=False)
    print(f"{options.model}, {len(texts)} reviews", flush=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        auto(explainer, texts, options.budgets)


if __name__ == "__main__":
    main()
