"""Film and restaurant reviews to train on, to judge by and to explain: IMDB and Yelp, or our own small ones in a quick run.

No text that is tested or explained is trained on: texts are the same where their first hundred letters are.
"""

import re
from dataclasses import dataclass
from functools import cache

import numpy as np

from experiments.harness import Lab
from experiments.texts import FILMS, RESTAURANTS, made_of_phrases
from slalom.evaluate import Annotated, yelp_hat
from slalom.evaluate.labelled import Labelled, read_labelled
from slalom.files import read_rows

NAMES = ("0", "1")
_WORDS = 200  # of the longest review that is explained


@dataclass(frozen=True, eq=False)
class Reviews:
    """Texts to train on and to judge by, those that are explained, and what people have marked in these (IMDB: nothing)."""

    train: Labelled
    test: Labelled
    explained: tuple[str, ...]
    marked: tuple[Annotated, ...] = ()


@cache
def reviews(lab: Lab, data: str) -> Reviews:
    """Return the reviews called "imdb" or "yelp". Settings: `train` and `test` texts, `texts` that are explained.

    With more `texts` the same ones come first, and the others stay as they are: what is kept of a smaller run holds.
    """
    if lab.quick:
        return _own(lab, data)
    rng = np.random.default_rng((lab.seed, len(data)))
    sizes = lab.number("train", 20_000, 0), lab.number("test", 2000, 0), lab.each(data, "texts", 100, 0)
    if data == "imdb":
        train, test = (read_labelled(lab.shared("data", f"imdb_{part}.jsonl.gz")) for part in ("train", "test"))
        test = _some(_without(test, _known(train.texts)), len(test), rng)
        short = [text for text in test.texts if len(text.split()) <= _WORDS]
        return Reviews(_some(train, sizes[0], rng), test[np.arange(len(test)) < sizes[1]], tuple(short[: sizes[2]]))
    rows = list(read_rows(lab.shared("data", "yelp_hat.jsonl.gz")))
    people = yelp_hat([row for row in rows if row["subset"] in ("yelp50", "yelp100", "yelp200")])
    people = [people[i] for i in rng.permutation(len(people))[: sizes[2]]]
    test = _some(read_labelled(lab.shared("data", "yelp_polarity_test.jsonl.gz")), sizes[1], rng)
    asked = _known([*test.texts, *(" ".join(row["words"]) for row in rows)])
    train = _without(read_labelled(lab.shared("data", "yelp_polarity_train.jsonl.gz")), asked)
    return Reviews(_some(train, sizes[0], rng), test, tuple(one.text for one in people), tuple(people))


def _own(lab: Lab, data: str) -> Reviews:
    """Return reviews made of phrases, both kinds to train on, and some that were written by hand to explain."""
    train, test = (_phrases(number, seed) for number, seed in ((320, lab.seed), (50, lab.seed + 1)))
    written = {"imdb": FILMS, "yelp": RESTAURANTS}[data][: lab.each(data, "texts", 0, 2)]
    marked = tuple(Annotated(one.text, one.words, one.marks[None]) for one in written)
    return Reviews(train, test, tuple(one.text for one in written), marked if data == "yelp" else ())


def _phrases(number: int, seed: int) -> Labelled:
    films, restaurants = (made_of_phrases(kind, number, seed) for kind in ("films", "restaurants"))
    return Labelled(films[0] + restaurants[0], np.concatenate([films[1], restaurants[1]]), NAMES, "phrases")


def _known(texts: tuple[str, ...] | list[str]) -> set[str]:
    return {_letters(text) for text in texts}


def _letters(text: str) -> str:
    return "".join(re.findall(r"[a-z]+", text[:300].lower()))[:100]


def _without(given: Labelled, known: set[str]) -> Labelled:
    return given[np.array([_letters(text) not in known for text in given.texts])]


def _some(given: Labelled, number: int, rng: np.random.Generator) -> Labelled:
    return given[rng.permutation(len(given))[:number]]
