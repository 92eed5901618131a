"""Two ways to spend queries by the answers, measured: sequential designs, and budgets that grow until the error stops falling.

Run: python benchmarks/adaptive.py [--model bundled] [--device cuda] [--texts 12] [--longest 508] [--budgets 200 500 1000]

designs   Joint on queries of Scales and Deletions, and on those that `Adaptive` chooses from them, at equal numbers of queries
auto      queries="auto" against fixed budgets: what it spends, and its error

near is the mean squared error of the change of the score when 1 to 10 tokens are removed, far is 1 - R2 on subsets of random
sizes; both on 100 queries, mean over the reviews. ratio is the geometric mean over the reviews of the error divided by that of
the design without `Adaptive`. --part designs or auto runs one of them.
"""

import argparse
import time
import warnings

import numpy as np

import slalom
from slalom.core import Joint
from slalom.evaluate import fidelity
from slalom.text import Adaptive, Deletions, Scales

from reviews import classifier, reviews


def errors(explanations, explainer):
    """Return near and far errors (texts, 2)."""
    found = fidelity(explanations, explainer, per=10, number=100, seed=1)
    return np.array([(strict.near, strict.far) for strict in found])


def designs(explainer, texts, budgets):
    rows = {}
    for name, base, lengths in (("scales", Scales(), 1), ("deletions", Deletions(), 2)):
        samplers = {name: base}
        samplers |= {f"{name}, {criterion}": Adaptive(base, criterion=criterion) for criterion in ("mean", "largest")}
        rows |= {
            key: (name, slalom.SurrogateMethod(key, sampler, Joint(), lengths=lengths)) for key, sampler in samplers.items()
        }
    print(
        f"{'queries from':<22}{'budget':<8}{'near':<9}{'far':<9}{'near ratio':<12}{'far ratio':<11}seconds per text", flush=True
    )
    for budget in budgets:
        plain = {}
        for key, (name, method) in rows.items():
            began = time.perf_counter()
            explanations = explainer(texts, method=method, queries=budget, check=0)
            took = (time.perf_counter() - began) / len(texts)
            found = errors(explanations, explainer)
            plain.setdefault(name, found)
            near, far = np.exp(np.log(found / plain[name]).mean(axis=0))
            means = "".join(f"{number:<9.4f}" for number in found.mean(axis=0))
            print(f"{key:<22}{budget:<8}{means}{near:<12.2f}{far:<11.2f}{took:.2f}", flush=True)


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
    parser.add_argument("--part", nargs="+", choices=("designs", "auto"), default=["designs", "auto"])
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
        for part in options.part:
            {"designs": designs, "auto": auto}[part](explainer, texts, options.budgets)


if __name__ == "__main__":
    main()
