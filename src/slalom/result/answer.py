"""What an explanation of sources is about: a question, and the answer of a language model, sentence by sentence."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike

from slalom.core.checks import Floats
from slalom.result.fidelity import Fidelity
from slalom.result.pairs import interactions
from slalom.result.plain import NORMAL_95

if TYPE_CHECKING:
    from slalom.result.explanation import Explanation

_LEAST_NATS, _LEAST_SHARE = 1.0, 0.1  # Shapley value of a source that counts: itself, and of what all sources do
_LEAST_SIMILARITY = 0.1  # where the score is no log probability nor log odds
_ALIKE = 0.5  # of the effect of two sources together: one of them alone has less where they can replace each other
_PAIRS = 100  # pairs of sources that are looked at


class Answer(NamedTuple):
    """The answer of a language model whose log probability is explained.

    Attributes:
        question: The question; empty where the last turn of a chat asks it.
        text: The answer.
        start: First character of the part that is explained.
        stop: The character after its last one.
        generated: Whether the language model wrote it; else it was given.
        tokens: Number of tokens of the part that is explained; 0 where samples are compared with it.
    """

    question: str
    text: str
    start: int
    stop: int
    generated: bool
    tokens: int

    @property
    def part(self) -> str:
        """The part of the answer that is explained."""
        return self.text[self.start : self.stop]

    @property
    def is_whole(self) -> bool:
        """Whether the whole answer is explained."""
        return (self.start, self.stop) == (0, len(self.text))


@final
@dataclass(frozen=True, eq=False)
class AnswerSentence:
    """A sentence of an answer, or a word of one, and the sources that it rests on.

    Attributes:
        explanation: Its explanation: units are the sources, the score is the log probability of the sentence after the
            sentences before it.
    """

    explanation: "Explanation"

    def __repr__(self) -> str:
        return f"AnswerSentence({self.text!r}, sources={self.sources})"

    @property
    def _answer(self) -> Answer:
        assert self.explanation.answer is not None
        return self.explanation.answer

    @property
    def words(self) -> tuple["AnswerSentence", ...]:
        """Its words, each with its own sources, where they were asked for by ``words=True``; their scores add up to its."""
        return tuple(map(AnswerSentence, self.explanation.words))

    @property
    def text(self) -> str:
        """The sentence."""
        return self._answer.part

    @property
    def start(self) -> int:
        """Its first character in the answer."""
        return self._answer.start

    @property
    def stop(self) -> int:
        """The character after its last one."""
        return self._answer.stop

    @property
    def tokens(self) -> int:
        """Number of its tokens."""
        return self._answer.tokens

    @property
    def score(self) -> float:
        """Its log probability with all sources, in nats."""
        return float(self.explanation.score)

    @property
    def without(self) -> float:
        """Its predicted log probability without any source."""
        return float(np.asarray(self.explanation.base))

    @property
    def effects(self) -> Floats:
        """By how much its log probability falls without each source (n,)."""
        return self.explanation.removal

    def effect(self, sources: tuple[int, ...]) -> float:
        """Return by how much its log probability falls without some sources together: predicted where they are several."""
        keep = [i not in sources for i in range(len(self.explanation))]
        return float(self.effects[sources[0]] if len(sources) == 1 else self.score - self.predict(keep))

    @property
    def interval(self) -> Floats | None:
        """95% intervals of the effects (n, 2); None where they are not known."""
        return self.explanation.interval("removal")

    @property
    def fidelity(self) -> Fidelity:
        """Quality of its predictions on held-out queries."""
        return self.explanation.fidelity

    def predict(self, keep: ArrayLike) -> Floats:
        """Return its predicted log probability where some of the sources are kept, (m,) for rows (m, n)."""
        return self.explanation.predict(keep)

    @property
    def _least(self) -> float:
        return _LEAST_SIMILARITY if self.explanation.scale == "similarity" else _LEAST_NATS

    @cached_property
    def sources(self) -> tuple[int, ...]:
        """The sources that it rests on, strongest first.

        They are those with large Shapley values, so that a source counts too whose removal changes little because another one
        says the same, in the order in which their removal, one after another, lowers the predicted log probability most.
        """
        e, shares = self.explanation, self.explanation.scores("shapley")
        least = max(self._least, _LEAST_SHARE * abs(self.score - self.without))
        errors = e.standard_errors("shapley")
        sure = shares - (0.0 if errors is None else NORMAL_95 * errors) > 0.0
        return tuple(in_turn(e, np.flatnonzero((shares >= least) & sure).tolist()))

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The same sources; those that can replace each other are in one group.

        Two sources can where either alone does most of what both do.
        """
        e, group = self.explanation, {i: {i} for i in self.sources}
        for (i, j), effect, _ in interactions(e, _PAIRS, None) if len(group) > 1 else ():
            alone = float(self.effects[i]), float(self.effects[j])
            both = sum(alone) - float(np.asarray(effect))
            if i in group and j in group and both > 0.0 and max(alone) < _ALIKE * both:
                joined = group[i] | group[j]
                group |= dict.fromkeys(joined, joined)
        return tuple(dict.fromkeys(tuple(i for i in self.sources if i in group[first]) for first in self.sources))

    @property
    def from_memory(self) -> bool:
        """Whether it rests on nothing in the context: no source counts, nor do all of them together."""
        together = float(self.predict(np.ones(len(self.effects)))) - self.without  # scores may be noisy
        return not self.sources and together < self._least


def in_turn(e: "Explanation", sources: Sequence[int]) -> list[int]:
    """Return sources in the order in which their removal, one after another, lowers the predicted score most."""
    left, gone = list(sources), list[int]()
    while left:
        keep = np.ones((len(left), len(e)), dtype=bool)
        keep[:, gone] = keep[np.arange(len(left)), left] = False
        gone.append(left.pop(int(np.argmin(e.predict(keep)))))
    return gone
