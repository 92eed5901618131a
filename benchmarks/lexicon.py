"""Errors with a lexicon and without one, at equal budgets; and how they fall with the texts that it was learnt from.

Run: python benchmarks/lexicon.py [--device cuda] [--models bundled imdb-bert-2 words FOLDER ...] [--learn 10 30 100 300 1000]
       [--texts 24] [--budgets 0 50 100 200 500] [--without 200 500] [--sentences | --intents]
       [--explain yelp_polarity_test] [--deletion] [--least 30 --most 508] [--keep FOLDER]

Models and errors are those of near_and_far.py; smollm2 is the prompted classifier of prompted.py, for --sentences. The lexicon
is learnt from training reviews (sentences of SST-2's training set, intents of banking77), 120 queries each.
held: how often 95% intervals of single removals that were not asked hold the model's own answer. R2: of held-out queries, as
explanations say it (mean). unlike: texts that are unlike the lexicon's, as explanations say it. deletion: mean drop of the
probability without the top units (AttnLRP's comes first).
"""

import argparse
from itertools import islice
from pathlib import Path
from time import perf_counter

import numpy as np

from slalom import Explainer, Lexicon
from slalom.evaluate import fidelity, perturbation
from slalom.models import Prompted

from near_and_far import named
from prompted import FEW_SHOT, LABELS, language_model
from reviews import add_text_options, chosen_texts, rows, tokenizer


def learnt_from(options, number):
    """Return texts of the training set."""
    name = "banking77_train" if options.intents else "sst2_train" if options.sentences else options.learn_from
    data = rows(name)
    if options.intents:
        data = of_intents(data)
    if options.sentences:
        data = [row for row in data if len(row["text"].split()) >= 8]
    return [data[i]["text"] for i in np.random.default_rng(1).permutation(len(data))[:number]]


def of_intents(data):
    """Return the rows of the six most frequent intents of banking77's training set."""
    names, numbers = np.unique([row["label_name"] for row in rows("banking77_train")], return_counts=True)
    chosen = set(names[np.argsort(-numbers, kind="stable")[:6]].tolist())
    return [row for row in data if row["label_name"] in chosen]


def texts_of(options):
    """Return the texts that are explained."""
    if options.explain:
        data, short = rows(options.explain), tokenizer()
        fit = (data[i]["text"] for i in np.random.default_rng(0).permutation(len(data)))
        chosen = (text for text in fit if options.least <= len(short(text, verbose=False)["input_ids"]) - 2 <= options.most)
        return list(islice(chosen, options.texts))
    if not options.intents:
        return chosen_texts(options)
    data = of_intents(rows("banking77_test"))
    return [data[i]["text"] for i in np.random.default_rng(0).permutation(len(data))[: options.texts]]


def prompted(device):
    """Return a language model with a prompt of four examples, as `named` returns models."""
    network, tokenizer = language_model(None, device)
    return (Prompted(network, tokenizer, FEW_SHOT, LABELS), None), None


def held(explainer, explained):
    """Return the share of removals that were not asked whose 95% interval holds the model's own answer."""
    inside = []
    for e in explained:
        asked = 1 - np.eye(len(e))
        true = e.score - explainer.ask(e, asked)
        low, high = e.removal - 1.96 * e.errors["removal"], e.removal + 1.96 * e.errors["removal"]
        guessed = np.isnan(e.measured["removal"]) if "removal" in e.measured else np.ones(len(e), dtype=bool)
        inside.extend(((low <= true) & (true <= high))[guessed])
    return np.mean(inside) if inside else np.nan


def deletion(explained, explainer):
    """Return the mean drop of the probability without the top units."""
    return np.mean([found.deletion for found in perturbation(explained, explainer) if found is not None])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    add_text_options(parser)
    parser.add_argument("--intents", action="store_true", help="six intents of banking77 instead of reviews")
    parser.add_argument("--budgets", type=int, nargs="+", default=[0, 50, 100, 200, 500])
    parser.add_argument("--without", type=int, nargs="*", default=[200, 500])
    parser.add_argument("--learn", type=int, nargs="+", default=[1000])
    parser.add_argument("--learn-from", default="imdb_train")
    parser.add_argument("--explain", help="data set whose texts are explained instead of IMDB test reviews")
    parser.add_argument("--deletion", action="store_true")
    parser.add_argument("--models", nargs="+", default=["imdb-bert-2", "bundled"])
    parser.add_argument("--number", type=int, default=400, help="rows by which each error is measured")
    parser.add_argument("--keep", type=Path, help="folder where lexica are kept")
    options = parser.parse_args()
    texts = texts_of(options)
    for name in options.models:
        model, device = prompted(options.device) if name == "smollm2" else named(name, options.device)
        unit = {"unit": "word"} if name in ("words", "phrases") else {}
        new = {"device": device, "progress": False, **unit}
        print(f"\n{name}: {len(texts)} texts", flush=True)
        cases = [(None, budget) for budget in options.without]
        for number in options.learn:
            cases += [(lexicon_of(model, new, options, name, number), budget) for budget in options.budgets]
        if options.deletion:
            explainer = Explainer(*model, method="attnlrp", **new)
            print(f"deletion of AttnLRP {deletion(explainer(texts), explainer):.3f}", flush=True)
        print(
            f"{'learnt from':>12}{'queries':>9}{'near':>10}{'far':>9}{'median':>9}{'held':>7}{'R2':>7}{'asked':>7}{'time':>8}"
            f"{'unlike':>8}{'deletion':>10}"
        )
        for lexicon, budget in cases:
            explainer = Explainer(*model, prior=lexicon, queries=budget, **new)
            began = perf_counter()
            explained = explainer(texts)
            seconds = perf_counter() - began
            errors = np.array([(e.near, e.far) for e in fidelity(explained, explainer, per=40, number=options.number)])
            near, far = np.nanmean(errors, axis=0)
            tested = [e.fidelity.far.r2 for e in explained if e.fidelity.far and e.fidelity.far.r2 is not None] or [np.nan]
            learnt = "-" if lexicon is None else lexicon.about["texts"]
            inside = held(explainer, explained)
            print(
                f"{learnt:>12}{budget:>9}{near:>10.5f}{far:>9.4f}{np.nanmedian(errors[:, 1]):>9.4f}{inside:>7.2f}"
                f"{np.mean(tested):>7.2f}{np.mean([e.queries for e in explained]):>7.0f}{seconds:>8.1f}"
                f"{sum('unlike' in note for e in explained for note in e.notes):>8}"
                f"{deletion(explained, explainer) if options.deletion else np.nan:>10.3f}",
                flush=True,
            )


def lexicon_of(model, new, options, name, number):
    """Learn a lexicon, or read it where it was kept."""
    kind = "intents" if options.intents else "sentences" if options.sentences else options.learn_from
    file = options.keep and options.keep / f"{Path(name).name}-{kind}-{number}.parquet"
    if file and file.exists():
        return Lexicon.load(file)
    explainer, began = Explainer(*model, **new), perf_counter()
    found = Lexicon.learn(explainer, learnt_from(options, number))
    cost = explainer.engine.cost
    print(f"{found!r}: {cost.inputs:,} queries, {perf_counter() - began:.0f} s, alone {found.about['held_out']}", flush=True)
    if file:
        options.keep.mkdir(exist_ok=True, parents=True)
        found.save(file)
    return found


if __name__ == "__main__":
    main()
