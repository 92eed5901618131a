"""The classifiers of the arena that no package ships: trained from public data, one command for all.

    python -m arena.models FOLDER [--only NAME ...] [--device cuda]

Data are looked for in the folder that SLALOM_SHARED names (benchmarks/reviews.py), the encoder that all start from in the one
that SLALOM_ENCODER names (experiments/starts.py); without an encoder weights are random and accuracies lower.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from arena.cases import FILES
from experiments.starts import begin, encoder
from experiments.training import Labelled, Recipe, train
from lexicon import of_intents

from reviews import rows

_RECIPE = Recipe(epochs=3, learning_rate=1e-4, batch=32, validation=0.02)


class Trained(NamedTuple):
    """How a classifier is made: its data, architecture, number of layers, and longest text in tokens."""

    data: str
    arch: str
    layers: int
    most: int
    recipe: Recipe = _RECIPE


MODELS = {
    "imdb-bert-6": Trained("reviews", "bert", 6, 320),
    "imdb-gpt-4": Trained("reviews", "gpt2", 4, 320, replace(_RECIPE, epochs=5, learning_rate=3e-4)),
    "sst2-distilbert-4": Trained("sentences", "distilbert", 4, 96),
    "agnews-bert-3": Trained("news", "bert", 3, 160),
    "intents-bert-2": Trained("intents", "bert", 2, 64, replace(_RECIPE, epochs=10)),
}
_TRAINING = {"reviews": "imdb_train", "sentences": "sst2_train", "news": "agnews_train10k", "intents": "banking77_train"}


def labelled(file):
    """Return texts and labels of a data file."""
    data = of_intents(rows(file)) if file.startswith("banking77") else rows(file)
    given = [str(row.get("label_name", row["label"])) for row in data]
    names = tuple(sorted(set(given)))
    return Labelled(tuple(row["text"] for row in data), np.array([names.index(name) for name in given]), names, file)


def made(name, folder, device):
    """Train a classifier into a folder of its name, if it is not there yet; return the folder."""
    out, how = Path(folder) / name, MODELS[name]
    if not (out / "README.md").exists():
        data, test = labelled(_TRAINING[how.data]), labelled(FILES[how.data])
        start = begin(out, how.arch, how.layers, data.texts, data.names, max_length=how.most, given=encoder())
        recipe = replace(how.recipe, init=start, max_length=how.most)
        print(name, train(data, out, recipe, test=test, device=device, progress=False), flush=True)
    return str(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--device")
    options = parser.parse_args()
    for name in options.only:
        made(name, options.folder, options.device)


if __name__ == "__main__":
    main()
