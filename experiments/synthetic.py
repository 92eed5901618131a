"""The two synthetic data sets: labels y with P(y = 1) = 1 / (1 + exp(-F)) of sequences whose log odds F are known.

linear:  F = sum_i w(t_i),      ten words (Table 3), lengths Bin(30, 1/2)              (appendix E.1)
SLALOM:  F = SLALOM(v, s),      words alike in probability, lengths uniform on 1..30   (appendix E.2)
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from experiments.harness import Lab
from experiments.vocabulary import PROBABILITIES, WEIGHTS
from slalom.core import Additive, Slalom, Surrogate

LONGEST = 30  # tokens
GROUP = "synthetic"  # of the parts that the experiments on these data share
_PIECES = 30_000  # as many words as BERT has word pieces, about
_TOKENS = 200


@dataclass(frozen=True)
class Sequences:
    """Words (m, LONGEST) by number, -1 after the end, log odds (m,) of a known model, and labels drawn from them."""

    words: NDArray[np.int64]
    log_odds: NDArray[np.float64]
    labels: NDArray[np.float64]
    n_words: int

    @property
    def counts(self) -> NDArray[np.float64]:
        """How often each word comes (m, n_words)."""
        return counted(self.words, self.n_words)


def linear_sequences(size: int, generator: np.random.Generator) -> Sequences:
    """Sample the linear data set; a sequence has at least one word."""
    lengths = generator.binomial(LONGEST, 0.5, size).clip(1)
    return _sequences(Additive(WEIGHTS), lengths, PROBABILITIES, generator)


def slalom_sequences(truth: Slalom, size: int, generator: np.random.Generator) -> Sequences:
    """Sample sequences of the words of a SLALOM."""
    lengths = generator.integers(1, LONGEST + 1, size)
    return _sequences(truth, lengths, np.full(len(truth.values), 1 / len(truth.values)), generator)


def repeated(word: int, lengths: Iterable[int]) -> NDArray[np.int64]:
    """Return one word, repeated: [t], [t, t], ..."""
    return padded([[word] * length for length in lengths])


def padded(sequences: Iterable[Iterable[int]]) -> NDArray[np.int64]:
    """Return sequences as rows of LONGEST, filled up with -1."""
    rows = [list(sequence) for sequence in sequences]
    return np.array([row + [-1] * (LONGEST - len(row)) for row in rows], dtype=np.int64)


def counted(words: NDArray[np.int64], n_words: int) -> NDArray[np.float64]:
    """Return how often each word comes in each row."""
    there = words >= 0
    places = (np.arange(len(words))[:, None] * n_words + words)[there]
    return np.bincount(places, minlength=len(words) * n_words).reshape(len(words), n_words).astype(np.float64)


def cross_entropy(log_odds: NDArray[np.float64], labels: NDArray[np.float64]) -> float:
    """Return mean log(1 + exp F) - y F."""
    return float((np.logaddexp(0.0, log_odds) - labels * log_odds).mean())


def planted(lab: Lab) -> Slalom:
    """Return the SLALOM of 200 words: v = 2 Naive Bayes score, s = 5 |v|^(3/2) + N(0, 1) / 2 (equation 81).

    The scores are those of words of IMDB; a quick run takes uniform draws from [-0.4, 0.4] for them.
    """
    kept = lab.part("planted", lambda: _planted(lab), GROUP)
    return Slalom(kept["values"], kept["importances"])


def first(truth: Slalom, n_words: int) -> Slalom:
    """Return the SLALOM of the first words."""
    return Slalom(truth.values[:n_words], truth.importances[:n_words])


def _planted(lab: Lab) -> dict[str, NDArray[np.float64]]:
    generator = np.random.default_rng((lab.seed, 81))
    values = 2 * (generator.uniform(-0.4, 0.4, _TOKENS) if lab.quick else _naive_bayes(lab, generator))
    return {"values": values, "importances": 5 * np.abs(values) ** 1.5 + generator.normal(size=_TOKENS) / 2}


def _naive_bayes(lab: Lab, generator: np.random.Generator) -> NDArray[np.float64]:
    from slalom.evaluate import NaiveBayes  # noqa: PLC0415
    from slalom.evaluate.labelled import read_labelled  # noqa: PLC0415
    from slalom.text.segment import simple_words  # noqa: PLC0415

    reviews = read_labelled(lab.shared("data", "imdb_train.jsonl.gz"))
    tokens = [[text[a:b] for a, b in simple_words(text)] for text in map(str.lower, lab.steps(reviews.texts, "counting words"))]
    bayes = NaiveBayes.fit(map("\n".join, tokens), reviews.labels, str.splitlines)
    known = [word for word, _ in Counter(word for review in tokens for word in review).most_common(_PIECES)]
    return bayes(generator.choice(known, _TOKENS, replace=False))


def _sequences(
    truth: Surrogate, lengths: NDArray[np.int64], probabilities: Iterable[float], generator: np.random.Generator
) -> Sequences:
    weights = np.asarray(list(probabilities))
    words = generator.choice(len(weights), (len(lengths), LONGEST), p=weights / weights.sum())
    words = np.where(np.arange(LONGEST) < lengths[:, None], words, -1)
    log_odds = truth(counted(words, len(weights)))
    return Sequences(words, log_odds, (generator.random(len(words)) < expit(log_odds)).astype(np.float64), len(weights))
