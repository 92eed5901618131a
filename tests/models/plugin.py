"""A plugin package with an adapter, written into a folder with metadata of its own."""

from tests import factories

MODULE = '''
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from slalom.models import Adapter, Head, Model, StringReading, instance_of


class Lexicon:
    """What the users of the plugin have: weights of words. It cannot be called."""

    def __init__(self, weights):
        self.weights = dict(weights)


class LexiconModel(Model):
    def __init__(self, lexicon, labels):
        self.lexicon, self.name, self.size = lexicon, "lexicon", 8
        self.head = Head("score", tuple(labels or ("negative", "positive")))

    def read(self, text, long, spans):
        return StringReading(text, spans, empty=True)

    def identity(self):
        return repr(sorted(self.lexicon.weights.items()))

    def session(self):
        return nullcontext()

    def batch_rows(self, length):
        return self.size

    def shrink(self):
        self.size = max(self.size // 2, 1)

    def submit(self, inputs):
        return [sum(self.lexicon.weights.get(word, 0.0) for word in text.split()) for text in inputs]

    def collect(self, handle):
        return np.array(handle)[:, None]


@dataclass(frozen=True)
class LexiconAdapter(Adapter):
    name: str = "lexicon"
    summary: str = "weights of words"
    kind: str = "lexicons"
    takes: tuple = ("labels",)

    def matches(self, model):
        return instance_of(model, "lexicon_plugin", "Lexicon")

    def adapt(self, model, options):
        return LexiconModel(model, options.labels)


@dataclass(frozen=True)
class Greedy(LexiconAdapter):
    name: str = "callable"


class Unlisted(Adapter):
    name = "unlisted"

    def matches(self, model):
        return False

    def adapt(self, model, options):
        raise AssertionError


@dataclass(frozen=True)
class Hasty(LexiconAdapter):
    name: str = "hasty"

    def matches(self, model):
        return model.weights is not None


@dataclass(frozen=True)
class Empty(LexiconAdapter):
    name: str = "empty"

    def adapt(self, model, options):
        return None


WRONG = 7
'''


def install(folder, entries="lexicon = lexicon_plugin:LexiconAdapter"):
    """Install the package into a folder; `entries` are its entry points."""
    factories.install(folder, "lexicon_plugin", MODULE, "slalom.models", entries)
