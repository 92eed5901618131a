"""Cues planted into a classifier: does `slalom corpus summary` rank them first among the shortcuts?

    PYTHONPATH=. python benchmarks/corpus_shortcuts.py [--trials 20] [--scenario labels|slices] [--folder DIR]

Texts are made of 40 neutral words; seven in ten also have one or two of 16 words with the sentiment of the label. In each
trial a small BERT is trained on 1,000 of them, with a cue in 80% of the positive ones: a word (xyzzy), a piece
of a word (filmzzy, plotzzy, ...), a phrase of common words (in my view), or an HTML remnant (<hr />; the trainer's own
tokenizer reads <br /> as a blank). The vocabulary is so small that filmzzy is film + zzy. 200 other texts are explained
(joint, 100 queries, tokens as units).

labels    the cue is in a quarter of them, whatever their label: labels do not support it
slices    the cue is in the positive ones of one of four sources and nowhere else: labels agree with it, but it comes from one
          source

Each line says whether the classifier uses the cue: the mean change of the log odds of "positive" when it is planted into all
200 texts, and the share of the negative ones that it calls positive without and with it.

Ranked first means: the first shortcut is the cue itself, not a part or an extension of it (for the piece: a piece with "zzy").
"""

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

import slalom
from experiments.training import Labelled, Recipe, train
from planted_corpus import CUES, explained, is_cue, planted, texts_and_labels
from slalom import corpus

RECIPE = Recipe(
    layers=1, hidden=32, heads=2, vocabulary=190, epochs=8, max_length=48, validation=0.0, batch=32, learning_rate=3e-3
)
TRAINED, HELD, QUERIES = 1000, 200, 100
NAMES = ("negative", "positive")


def used(explainer, texts, labels, cue, rng):
    """Return the change of the log odds by the cue, and the share of negative texts called positive without and with it."""
    with_cue = [planted(text, cue, rng) for text in texts]
    before, after = (explainer.decide(several, "positive")[0] for several in (texts, with_cue))
    negative = labels == 0
    return (after - before).mean(), (before[negative] > 0).mean(), (after[negative] > 0).mean()


def trial(number, scenario, folder):
    """Return the cue, its use, its rank among the shortcuts (None: not listed), and the summary."""
    rng = np.random.default_rng(number)
    cue = CUES[number % len(CUES)]
    texts, labels = texts_and_labels(TRAINED + HELD, rng)
    source = rng.integers(4, size=len(texts))
    plain = texts[TRAINED:]
    for i in range(len(texts)):
        if i < TRAINED:
            odds = 0.8 * (labels[i] == 1)
        else:
            odds = 0.25 if scenario == "labels" else float(labels[i] == 1 and source[i] == 0)
        if rng.random() < odds:
            texts[i] = planted(texts[i], cue, rng)
    learnt = Labelled(tuple(texts[:TRAINED]), labels[:TRAINED], NAMES, "texts with a cue")
    train(learnt, folder / "model", replace(RECIPE, seed=number), device="cpu", progress=False)
    explainer = slalom.Explainer(
        str(folder / "model"), method="joint", queries=QUERIES, device="cpu", progress=False, seed=number
    )
    held = slice(TRAINED, None)
    given = {"gold": [NAMES[label] for label in labels[held]], "source": [f"source {s}" for s in source[held]]}
    use = used(explainer, plain, labels[held], cue, rng)
    explained(explainer, texts[held], given, folder / "out")
    slices = "source" if scenario == "slices" else None
    found = corpus.summary(folder / "out", gold="gold", slices=slices, target="positive", top=20)
    ranks = [i + 1 for i, shortcut in enumerate(found.shortcuts) if is_cue(shortcut.word.name, cue)]
    return cue, use, ranks[0] if ranks else None, found


def main():
    """Run the trials and print one line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="seed of the first trial")
    parser.add_argument("--scenario", choices=["labels", "slices"], default="labels")
    parser.add_argument("--folder", type=Path, help="where models and tables are kept")
    options = parser.parse_args()
    first, start = 0, time.perf_counter()
    for number in range(options.first, options.first + options.trials):
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary) if options.folder is None else options.folder / f"{options.scenario}-{number}"
            cue, (change, without, with_cue), rank, found = trial(number, options.scenario, folder)
        first += rank == 1
        listed = ", ".join(f"{s.word.name} {s.score:.2f}" for s in found.shortcuts[:3]) or "nothing"
        print(
            f"trial {number}: {cue!r} is number {rank}; use {change:+.1f}, {without:.0%} to {with_cue:.0%};"
            f" accuracy {found.about['accuracy']:.1%}; listed: {listed}",
            flush=True,
        )
    print(f"{options.scenario}: ranked first in {first} of {options.trials} trials ({time.perf_counter() - start:.0f} s)")


if __name__ == "__main__":
    main()
