"""Naive Bayes as a reference: do the scores of units rank like the word statistics of the training texts?

    r(t) = log (n_1(t) + alpha) / (N_1 + alpha V) - log (n_0(t) + alpha) / (N_0 + alpha V)

n_c(t): count of token t in class c, N_c: number of tokens, V: number of distinct tokens, alpha: Laplace smoothing (40 in
the SLALOM paper). The paper leaves out N_c + alpha V, the same for all tokens, and the logarithm: signed ranks are the same.
Unknown tokens have r = 0.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import final

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from slalom.core.checks import Floats, real_array
from slalom.errors import InputError
from slalom.evaluate.checks import paired, unsigned
from slalom.result import SCORES, Explanation


@final
@dataclass(frozen=True)
class NaiveBayes:
    """Log ratios of tokens: positive for tokens of class 1, negative for class 0.

    Attributes:
        ratios: Log ratio of each known token.

    Example:
        >>> bayes = NaiveBayes.fit(["good good film", "bad film"], [1, 0], str.split, alpha=1)
        >>> bayes(["good", "bad", "never"]).round(3).tolist()
        [0.916, -0.875, 0.0]
    """

    ratios: Mapping[Hashable, float]

    @classmethod
    def fit(
        cls, texts: Iterable[str], labels: Iterable[int], tokenize: Callable[[str], Iterable[Hashable]], alpha: float = 40.0
    ) -> "NaiveBayes":
        """Count the tokens of labelled texts.

        Args:
            labels: One label per text, 0 or 1; both must occur.
            tokenize: Function from a text to its tokens, strings or ids; the units of explanations are looked up by them.
            alpha: Laplace smoothing.

        Raises:
            InputError: If an argument is out of range, or a class has no token.
        """
        smoothing = float(real_array("alpha", alpha, (0,)))
        if smoothing <= 0:
            raise InputError(f"alpha must be a number above 0; got {alpha!r}")
        no, yes = counts = Counter[Hashable](), Counter[Hashable]()
        texts, labels = list(texts), list(labels)
        if len(texts) != len(labels):
            raise InputError(f"there must be one label per text; got {len(labels)} labels for {len(texts)} texts")
        for text, label in zip(texts, labels, strict=True):
            if label not in (0, 1):
                raise InputError(f"labels must be 0 or 1; got {label!r}")
            counts[int(label)].update(tokenize(text))
        if not all(counts):
            raise InputError("both classes need at least one text with a token")
        vocabulary = no.keys() | yes.keys()
        shift = log(no.total() + smoothing * len(vocabulary)) - log(yes.total() + smoothing * len(vocabulary))
        return cls({token: log(yes[token] + smoothing) - log(no[token] + smoothing) + shift for token in vocabulary})

    def __call__(self, tokens: Sequence[Hashable]) -> Floats:
        """Return the log ratios (n,) of tokens; 0 for unknown ones."""
        return np.array([self.ratios.get(token, 0.0) for token in tokens], dtype=np.float64)


def naive_bayes_correlation(
    explanation: Explanation,
    bayes: NaiveBayes,
    *,
    score: str = "linear",
    tokens: Sequence[Hashable] | None = None,
    distinct: bool = False,
) -> float | None:
    """Return the rank correlation of an explanation's scores with the log ratios of its units.

    Args:
        explanation: An explanation of a model with two classes, the second of which is class 1.
        score: Name of a score, as `Explanation.scores` takes it. Scores without a sign (importances, attention) are compared
            with the absolute ratios, as in the paper.
        tokens: Keys (n,) of the units in `bayes`, for instance token ids. Default: the names of the units.
        distinct: Count repeated tokens once, at their first occurrence, as the code of the paper does.

    Returns:
        A number from -1 to 1; None where scores or ratios are constant.

    Raises:
        InputError: If the explanation has more than two classes, or `tokens` do not fit its units.
    """
    if len(explanation.labels) != 2 or explanation.target not in explanation.labels:
        raise InputError(f"Naive Bayes compares two classes; the explanation has the labels {explanation.labels[:20]}")
    keys = explanation.units if tokens is None else tokens
    if len(keys) != len(explanation):
        raise InputError(f"tokens must be one per unit; got {len(keys)} for {len(explanation)} units")
    scores, reference = explanation.scores(score), bayes(keys)
    if unsigned(explanation, score):
        reference = np.abs(reference)
        scores = np.abs(scores) if SCORES[score].signed else scores
    elif explanation.target == explanation.labels[0]:
        scores = -scores
    if distinct:
        first = list({token: i for i, token in reversed(list(enumerate(keys)))}.values())
        scores, reference = scores[first], reference[first]
    return rank_correlation(scores, reference)


def rank_correlation(scores: ArrayLike, reference: ArrayLike) -> float | None:
    """Return Spearman's rank correlation of two arrays (n,); ties get the mean of their ranks.

    Returns:
        A number from -1 to 1; None where one of the two is constant.

    Raises:
        InputError: If the arrays are empty or differ in shape.

    Example:
        >>> rank_correlation([1.0, 2.0, 30.0], [3.0, 5.0, 4.0])
        0.5
    """
    a, b = (rankdata(part) - (part.size + 1) / 2 for part in paired(("scores", scores), ("reference", reference)))
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(np.clip(a @ b / size, -1.0, 1.0)) if size else None
