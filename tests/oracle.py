"""Models with a known answer: an exact SLALOM of words, and one that fails.

log odds(text) = (w_0 v_0 + sum_words w v) / (w_0 + sum_words w),    w = exp(s)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from slalom.core import Slalom


@dataclass
class Oracle:
    """A callable ``list[str] -> log odds (n,)`` that is exactly a SLALOM of the words between blanks.

    It records what it receives. Words without a value or importance have 0; `background` is the value and importance
    of a word in every text, the last one.

    Example:
        >>> oracle = Oracle({"good": 4.0}, {"good": 1.0}, background=(0.0, 0.0))
        >>> [round(x, 3) for x in oracle(["good", "a good film", ""])]
        [2.924, 1.901, 0.0]
    """

    values: Mapping[str, float]
    importances: Mapping[str, float]
    background: tuple[float, float] | None = None
    bias: float = 0.0
    competition: float = 1.0
    received: list[str] = field(default_factory=list)

    def surrogate(self, words: list[str]) -> Slalom:
        values = [self.values.get(word, 0.0) for word in words]
        importances = [self.importances.get(word, 0.0) for word in words]
        if self.background is not None:
            values, importances = [*values, self.background[0]], [*importances, self.background[1]]
        return Slalom(values, importances, self.competition, self.bias)

    def __call__(self, texts: list[str]) -> list[float]:
        self.received += texts
        answers = []
        for text in texts:
            words = text.split()
            known = len(words) + (self.background is not None)
            answers.append(float(self.surrogate(words)(np.ones((1, known)))[0]) if known else self.bias)
        return answers


@dataclass
class Failing:
    """A callable that answers as another one, up to a number of strings; then it raises an error."""

    function: Oracle
    after: int
    error: BaseException
    answered: int = 0

    def __call__(self, texts: list[str]) -> list[float]:
        if self.answered + len(texts) > self.after:
            raise self.error
        self.answered += len(texts)
        return self.function(texts)
