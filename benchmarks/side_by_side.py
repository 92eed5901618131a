"""Every method beside ours on imdb-bert-2: the tables of results/compare.md.

    python benchmarks/side_by_side.py imdb      --out FOLDER [--texts 100] [--queries 500 1500] [--device cuda] [--jobs 12]
    python benchmarks/side_by_side.py yelp-hat  --out FOLDER     human attention, on Yelp-HAT reviews that all annotators marked

What `slalom compare` does, with the authors' package among the methods (benchmarks/reference.py, where it is installed), and
the texts shared out over processes. With several jobs the card is shared too, so that times mean little: benchmarks/speed.py
has those. Stopped, it goes on with the same command. Writes FOLDER/NAME.json and .html, and prints the table.
"""

import argparse
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import final

import numpy as np
import torch

from slalom.errors import SlalomError
from slalom.evaluate import Compared, compare, yelp_hat
from slalom.methods import BlackBoxMethod, KernelShap

from reference import REFERENCE
from reviews import classifier, reviews, rows

SAMPLING = ["joint", "local", "eff", "fidel", "ridge", "ridge-scales", "lime", "kernel-shap", "partition-shap"]
LOOKING = ["leave-one-out", "integrated-gradients", "input-x-gradient", "gradient", "attention", "rollout", "attnlrp", "random"]
MEASURES = {"imdb": ["near", "far", "deletion", "insertion", "naive_bayes"], "yelp-hat": ["human"]}


@final
@dataclass(frozen=True)
class AutoShap(BlackBoxMethod):
    """KernelSHAP with as many samples as shap takes by itself, 2 n + 2048, whatever the budget."""

    name: str = "kernel-shap-auto"
    summary: str = "KernelSHAP with the samples that shap takes by itself"

    def attribute(self, context):
        return KernelShap().attribute(replace(context, budget=2 * len(context.units) + 2050))


def marked(number):
    """Return Yelp-HAT reviews of at least three annotators who agree on something: words and maps."""
    fit = yelp_hat(rows("yelp_hat"))
    return [(fit[i].words, fit[i].maps) for i in np.random.default_rng(0).permutation(len(fit))[:number]]


def methods(budget, budgets, chosen):
    """Return the methods of a budget; those that take none come with the first. chosen: only these."""
    if chosen:
        return chosen
    known = [*SAMPLING, *(REFERENCE.values() if find_spec("slalom_explanations") else ())]
    once = [*LOOKING, AutoShap()] if budget == budgets[0] else []
    return [*known, *once]


def shard(options, job):
    """Compare on every `jobs`-th text; return the parts, their texts numbered as in the whole."""
    torch.set_num_threads(max(1, torch.get_num_threads() // options.jobs))
    warnings.simplefilter("ignore")
    model, tokenizer = classifier(options.device)
    human = marked(options.texts)[job :: options.jobs] if options.what == "yelp-hat" else None
    texts = (
        reviews(tokenizer, options.texts, most=options.most)[job :: options.jobs]
        if human is None
        else [" ".join(words) for words, _ in human]
    )
    corpus = None
    if options.what == "imdb":
        labelled = rows("imdb_train")[:: max(1, 25_000 // options.corpus)]
        corpus = ([row["text"] for row in labelled], [row["label"] for row in labelled])
    parts = []
    for budget in options.queries:
        found = compare(
            model, texts, tokenizer, methods=methods(budget, options.queries, options.methods), queries=(budget,), seed=0,
            progress=job == 0,
            measures=MEASURES[options.what], corpus=corpus, human=human,
            out=options.out / f"{options.what}-{budget}-{job}-of-{options.jobs}.jsonl",
        )  # fmt: skip
        moved = [{**record, "text": job + options.jobs * record["text"]} for record in found.records]
        parts.append(Compared(tuple(moved), found.measures, found.skipped, {**found.about, "texts": options.texts}))
    return parts


def whole(parts):
    """Return one comparison of many parts; a method without a budget that came with each of them is taken once."""
    records = {(r["method"], r["budget"], r["text"]): r for part in parts for r in part.records}
    skipped = {name: why for part in parts for name, why in part.skipped.items()}
    return Compared(tuple(records.values()), parts[0].measures, skipped, parts[0].about)


def show(found):
    names = [name for name in found.measures if name not in ("queries", "tokens")]
    print(f"\n| method | queries | {' | '.join(names)} |\n|---|---|{'---|' * len(names)}")
    for row in found.rows:
        cells = [found.summary(row, name) for name in names]
        shown = ["" if c.mean is None else f"{c.mean:.3f} ± {c.se or 0:.3f}" for c in cells]
        print(f"| {row[0]} | {row[1] or ''} | {' | '.join(shown)} |")
    for name, why in found.skipped.items():
        print(f"({name} left out: {why})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=list(MEASURES))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--texts", type=int, default=100)
    parser.add_argument("--queries", type=int, nargs="+", default=[500])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--most", type=int, default=508, help="tokens of the longest review")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--methods", nargs="+", help="only these")
    parser.add_argument("--corpus", type=int, default=2500, help="training reviews for Naive Bayes")
    options = parser.parse_args()
    if not 1 <= options.jobs <= options.texts:
        parser.error(f"--jobs must be from 1 to the number of texts; got {options.jobs} for {options.texts}")
    options.out.mkdir(parents=True, exist_ok=True)
    if options.jobs == 1:
        parts = shard(options, 0)
    else:
        with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
            given = [options] * options.jobs
            parts = [part for some in pool.map(shard, given, range(options.jobs)) for part in some]
    found = whole(parts)
    (options.out / f"{options.what}.json").write_text(found.to_json(), encoding="utf-8")
    found.to_html(options.out / f"{options.what}.html")
    show(found)


if __name__ == "__main__":
    try:
        main()
    except SlalomError as error:
        raise SystemExit(f"error: {error}") from None
