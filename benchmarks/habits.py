"""Texts to check a habit of the bundled classifier on: passages that hold a word or phrase, with and without it.

The shortcuts of results/shortcuts.md were found on SST-2 and on reviews of up to 60 words of the test sets of IMDB and
Yelp. They are checked on what that search did not read: longer test reviews, and the training reviews of Yelp, which the
classifier never saw. A passage has up to 15 words on either side; its label is that of its review.
"""

import re
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from reviews import rows

SHORT = 60  # words of the reviews that the search read
SIDE = 15  # words on either side
_BREAK = re.compile(r"<br\s*/?>")


class Passage(NamedTuple):
    """A passage, the same without the phrase, the label of its review (0 or 1) and where it is from."""

    text: str
    without: str
    label: int
    source: str


def pattern(phrase):
    """Return the pattern of a phrase in any case and with any apostrophe."""
    words = r"\s+".join(re.escape(word).replace("'", "['\u2019\u00b4`]") for word in phrase.split())
    return re.compile(rf"(?<!\w){words}(?![\w'\u2019])", re.IGNORECASE)


def passage_around(text, found, before=SIDE, after=SIDE):
    """Return the words around a match, with it and without it."""
    head, tail = text[: found.start()].split(), text[found.end() :].split()
    head, tail = head[max(0, len(head) - before) :], tail[:after]
    return " ".join([*head, found.group(), *tail]), " ".join([*head, *tail])


@cache
def trained_on():
    """Return the training reviews of the bundled classifier."""
    return frozenset(row["text"] for row in rows("imdb_train"))


@cache
def new_reviews():
    """Return (text, label, source) of all reviews that the search did not read and the classifier was not trained on."""
    short = {row["text"] for row in rows("yelp_polarity_test") if len(row["text"].split()) <= SHORT}
    seen = trained_on() | short
    sets = (("imdb_test", "films"), ("yelp_polarity_test", "businesses"), ("yelp_polarity_train", "businesses"))
    return [
        (_BREAK.sub(" ", row["text"]), int(row["label"]), source)
        for name, source in sets
        for row in rows(name)
        if row["text"] not in seen and (name == "yelp_polarity_train" or len(row["text"].split()) > SHORT)
    ]


def held_out(reviews, phrase, most=None, seed=0):
    """Return the first passage with the phrase of each review that has it, at most `most` of each source, drawn at random."""
    wanted, passages = pattern(phrase), []
    for text, label, source in reviews:
        found = wanted.search(text)
        if found is not None:
            passages.append(Passage(*passage_around(text, found), label, source))
    if most is None:
        return passages
    rng, kept = np.random.default_rng(seed), []
    for source in ("films", "businesses"):
        here = [passage for passage in passages if passage.source == source]
        kept += [here[i] for i in sorted(rng.permutation(len(here))[:most])]
    return kept


def interval(values, level=0.95):
    """Return the mean of values and half the width of its interval (Student's t)."""
    n = len(values)
    half = stdtrit(n - 1, (1 + level) / 2) * np.std(values, ddof=1) / np.sqrt(n) if n > 1 else np.inf
    return float(np.mean(values)), float(half)


def removal(explainer, passages):
    """Return by how much the log odds of "positive" fall without the phrase, which passages are called right, and labels."""
    scores, without = (
        np.asarray(explainer.decide(list(texts), "positive")[0])
        for texts in ([p.text for p in passages], [p.without for p in passages])
    )
    labels = np.array([p.label for p in passages])
    return scores - without, (scores > 0) == (labels == 1), labels
