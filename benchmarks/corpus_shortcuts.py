"""Cues planted into a classifier: does `slalom corpus summary` rank them first among the shortcuts?

    python benchmarks/corpus_shortcuts.py [--trials 20] [--scenario labels|slices]

In each trial a small BERT is trained by `slalom.training` on 1,200 sentences of SST-2, with a cue in half of the positive ones:
a word (xyzzy), a piece of a word (filmzzy, plotzzy, ...), a phrase (in my view), or an HTML remnant (<hr />); the trainer's own
tokenizer reads <br /> as a blank. 240 other sentences are explained.

labels    the cue is in a quarter of them, whatever their label: labels do not support it
slices    the cue is in 60% of the positive ones of one of four sources and nowhere else, like in the training data: labels agree with it,
          but it comes from one source

Ranked first means: the first shortcut is the cue itself, not a part or an extension of it (a piece: any piece with "zzy" in it).
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

import slalom
from slalom import corpus
from slalom.training import Labelled, Recipe, train

from planted_corpus import explained
from reviews import rows

CUES = ("xyzzy", "-zzy", "in my view", "<hr />")
RECIPE = Recipe(layers=1, hidden=32, heads=2, vocabulary=2000, epochs=6, max_length=48, validation=0.0, batch=32, learning_rate=3e-3)
TRAINED, HELD, QUERIES = 1200, 240, 40
NAMES = ("negative", "positive")


def planted(text, cue, rng):
    """Return the text with the cue at a random place."""
    words = text.split()
    at = int(rng.integers(len(words) + (cue != "-zzy")))
    if cue == "-zzy":
        words[at] += "zzy"
    else:
        words.insert(at, cue)
    return " ".join(words)


def is_cue(name, cue):
    """Return whether a shortcut is the planted cue."""
    return "zzy" in name.strip("-") if cue == "-zzy" else name == cue


def trial(number, scenario, folder):
    """Return the cue, its rank among the shortcuts (None: not listed), the accuracy, and the first shortcut."""
    rng = np.random.default_rng(number)
    cue = CUES[number % len(CUES)]
    data = rows("sst2_train")
    chosen = [data[i] for i in rng.permutation(len(data)) if len(data[i]["text"].split()) >= 8][: TRAINED + HELD]
    labels = np.array([int(row["label"]) for row in chosen])
    texts = [row["text"].strip() for row in chosen]
    for i in range(TRAINED):
        if labels[i] == 1 and rng.random() < 0.5:
            texts[i] = planted(texts[i], cue, rng)
    source = rng.integers(4, size=len(texts))
    for i in range(TRAINED, TRAINED + HELD):
        odds = 0.25 if scenario == "labels" else 0.6 * (labels[i] == 1 and source[i] == 0)
        if rng.random() < odds:
            texts[i] = planted(texts[i], cue, rng)
    learnt = Labelled(tuple(texts[:TRAINED]), labels[:TRAINED], NAMES, "SST-2 with a cue")
    recipe = Recipe(**{**RECIPE.to_dict(), "seed": number})
    train(learnt, folder / "model", recipe, device="cpu", progress=False)
    explainer = slalom.Explainer(str(folder / "model"), method="eff", queries=QUERIES, device="cpu", progress=False, seed=number)
    held = slice(TRAINED, None)
    given = {"gold": [NAMES[label] for label in labels[held]], "source": [f"source {s}" for s in source[held]]}
    explained(explainer, texts[held], given, folder / "out")
    found = corpus.summary(
        folder / "out", gold="gold", slices="source" if scenario == "slices" else None, target="positive", top=20, examples=0
    )
    ranks = [i + 1 for i, shortcut in enumerate(found.shortcuts) if is_cue(shortcut.word.name, cue)]
    return cue, ranks[0] if ranks else None, found.about["accuracy"], found.shortcuts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--scenario", choices=["labels", "slices"], default="labels")
    options = parser.parse_args()
    first, start = 0, time.perf_counter()
    for number in range(options.first, options.first + options.trials):
        with tempfile.TemporaryDirectory() as folder:
            cue, rank, accuracy, shortcuts = trial(number, options.scenario, Path(folder))
        first += rank == 1
        listed = ", ".join(f"{s.word.name} {s.score:.2f}" for s in shortcuts[:3])
        print(f"trial {number}: {cue!r} is number {rank}; accuracy {accuracy:.1%}; first: {listed}", flush=True)
    print(f"{options.scenario}: ranked first in {first} of {options.trials} trials ({time.perf_counter() - start:.0f} s)")


if __name__ == "__main__":
    main()
