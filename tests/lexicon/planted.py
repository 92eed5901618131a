"""A model that is the formula itself, with words that say the same in every text, and a lexicon of it."""

from functools import cache
from itertools import pairwise

import numpy as np

import slalom
from slalom.core import Slalom

WORDS = [f"w{i}" for i in range(60)]
KAPPA = 0.3


def truth(seed=0):
    """Values and importances of the words."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=60) * rng.random(60) * 2.0, 0.6 * rng.normal(size=60)


class Planted:
    """Log odds by the formula, with what contexts add: of words next to each other."""

    def __init__(self, seed=0, context=0.0, others=None):
        self.values, self.importances = truth(seed)
        self.context, self.others, self.asked = context, others, []

    def score(self, text):
        words = [WORDS.index(word) for word in text.split() if word in WORDS]
        values = np.array([self.values[word] + (self.others or {}).get(WORDS[word], 0.0) * (len(words) > 1) for word in words])
        score = float(Slalom(values, self.importances[words], KAPPA, 0.3)(np.ones((1, len(words))))[0]) if words else 0.3
        return score + self.context * sum(a == b + 1 for a, b in pairwise(words))

    def __call__(self, texts):
        self.asked += texts
        return [self.score(text) for text in texts]


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
