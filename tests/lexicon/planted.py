"""A model that is the formula itself, with words that say the same in every text, and a lexicon of it."""

from functools import cache
from itertools import pairwise

import numpy as np

import slalom
from slalom.core import Slalom

WORDS = [f"w{i}" for i in range(60)]
NUMBERS = {word: i for i, word in enumerate(WORDS)}
KAPPA = 0.3


def truth(seed=0):
    """Values and importances of the words."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=60) * rng.random(60) * 2.0, 0.6 * rng.normal(size=60)


class Planted:
    """Log odds by the formula, with what contexts add: of words next to each other."""

    def __init__(self, seed=0, context=0.0, others=None):
        self.values, self.importances = truth(seed)
        self.context, self.asked = context, []
        added = np.array([(others or {}).get(word, 0.0) for word in WORDS])
        self.alone, self.together = (
            Slalom(values, self.importances, KAPPA, 0.3) for values in (self.values, self.values + added)
        )

    def score(self, text):
        return self.scores([text])[0]

    def scores(self, texts):
        words = [[NUMBERS[word] for word in text.split() if word in NUMBERS] for text in texts]
        counts = np.zeros((len(texts), len(WORDS)))
        for row, present in zip(counts, words, strict=True):
            np.add.at(row, present, 1.0)
        several = counts.sum(axis=1) > 1
        scores = np.where(several, self.together(counts), self.alone(counts))
        return [float(s) + self.context * sum(a == b + 1 for a, b in pairwise(w)) for s, w in zip(scores, words, strict=True)]

    def __call__(self, texts):
        self.asked += texts
        return self.scores(texts)


def texts(number, seed=0, length=25):
    """Texts of distinct words."""
    rng = np.random.default_rng(seed)
    return [" ".join(WORDS[i] for i in rng.permutation(60)[:length]) for _ in range(number)]


def explainer(model, prior=None, **options):
    """An Explainer of a planted model."""
    options = {"unit": "word", "identity": "planted", "progress": False, "pairs": False, **options}
    made = slalom.Explainer(model, output="log_odds", labels=["no", "yes"], prior=prior, **options)
    model.asked.clear()  # what finds out the number of outputs
    return made


@cache
def lexicon():
    """A lexicon of 40 texts."""
    return slalom.Lexicon.learn(explainer(Planted()), texts(40), queries=40)
