"""Which sources a language model needs for an answer, where it gives no log probabilities: samples are compared with it.

    agree         k of m samples agree with the answer: the score is the log odds of it, fitted by the likelihood of k
    similarity    the score is the mean similarity of m samples to the answer, its noise the variance of that mean

Labels are the answer and each of its sentences, which is compared with the sentence of a sample that is most like it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal, final

import numpy as np

from slalom.core import Observed
from slalom.core.checks import Floats, is_number, whole_number
from slalom.errors import InputError, ModelError
from slalom.models.base import Report
from slalom.models.continuation import ANSWER, SENTENCE, AnswerModel, LanguageModel, Part, prompt_tokens
from slalom.models.costs import about_tokens
from slalom.models.head import Head
from slalom.models.judges import QUESTION, VERDICT, Pair, Score, judge_of
from slalom.models.sources import Prompt, Sources, SourceTemplate
from slalom.text import sentences

SIMILARITY = "similarity"
_POOLED = 4.0  # samples that the mean variance of all queries counts as, beside those of one query


@final
@dataclass(frozen=True)
class Sampling:
    """How a language model is sampled, and how samples are compared with the answer; as in `ContextExplainer`."""

    samples: int = 8
    score: Score = "agree"
    judge: Any = None
    temperature: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        whole_number("samples", self.samples, 1 if self.score == "agree" else 2)
        if not is_number(self.temperature) or not 0.0 < self.temperature < np.inf:
            raise InputError(f"temperature must be a number above 0; got {self.temperature!r}")
        judge_of(self.judge, self.score, None, "")


@final
class SampledAnswer(AnswerModel):
    """An answer whose score says how samples of the language model, of `most` tokens at most, agree with it."""

    batch_tokens = 16  # prompts

    def __init__(
        self,
        language_model: LanguageModel,
        sources: Sources,
        template: SourceTemplate,
        question: str,
        answer: str,
        sampling: Sampling,
        most: int,
    ) -> None:
        super().__init__(language_model, sources, template, question, answer)
        self.sampling, self.most = sampling, most
        self.judge = judge_of(sampling.judge, sampling.score, language_model, question)
        how = (sampling.samples, sampling.score, sampling.temperature, sampling.seed, self.most, self.judge.name)
        self.variant += f" {blake2b(repr(how).encode(), digest_size=8).hexdigest()}"
        self._known = dict[Pair, float]()
        self.select(0, len(answer), ANSWER)

    def select(self, start: int, stop: int, name: str) -> str:
        if name != ANSWER and not name.startswith(SENTENCE):
            raise InputError("samples are compared with the answer and its sentences; use part= in place of span=")
        self.parts[name] = Part(start, stop, np.zeros(0, dtype=bool))
        agree = self.sampling.score == "agree"
        self.head = Head("labels", tuple(self.parts), probabilistic=agree, measure="" if agree else SIMILARITY)
        return name

    @property
    def n_columns(self) -> int:
        return 2 * len(self.parts) + 1  # sums of numbers and of their squares for each label; empty samples

    def tokens_of(self, text: Prompt) -> tuple[int, int]:
        m, labels = self.sampling.samples, len(self.parts)
        read, written = self.language_model.times_read(m) * prompt_tokens(text), m * self.most
        if self.judge.asks:
            asked = about_tokens(len(QUESTION) + len(self.question) + len(self.said) + 4 * self.most)
            read, written = read + m * labels * asked, written + m * labels * VERDICT
        return read, written

    def submit(self, inputs: list[Prompt]) -> Floats:
        way, m = self.sampling, self.sampling.samples
        drawn = self.language_model.sample(inputs, self.most, m, way.temperature, way.seed)
        if len(drawn) != len(inputs) or any(len(texts) != m for texts in drawn):
            raise ModelError(f"{self.name} must give {m} samples for each of {len(inputs)} prompts; it gave others")
        pairs = {(name, text): self._pairs(name, text) for name in self.parts for texts in drawn for text in set(texts)}
        self._learn(pair for several in pairs.values() for pair in several)
        best = {key: max(self._known[pair] for pair in several) for key, several in pairs.items()}
        numbers = np.array([[[best[name, text] for text in texts] for name in self.parts] for texts in drawn])
        empty = [[sum(not text for text in texts)] for texts in drawn]
        return np.concatenate([numbers.sum(axis=2), (numbers**2).sum(axis=2), empty], axis=1)

    def collect(self, handle: Floats) -> Floats:
        return handle

    def _pairs(self, label: str, sample: str) -> list[Pair]:
        """Return what is compared for a label: the answer with the sample, a sentence with each of those of the sample."""
        said = self.answer[self.parts[label].start : self.parts[label].stop]
        whole = label == ANSWER or self.judge.asks or not sample
        return [(said, text) for text in ([sample] if whole else [sample[a:b] for a, b in sentences(sample)])]

    def _learn(self, pairs: Iterable[Pair]) -> None:
        """Judge pairs that are not known; an empty sample says nothing."""
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._known]
        self._known |= {pair: 0.0 for pair in new if not pair[1]}
        asked = [pair for pair in new if pair[1]]
        if asked:
            self._known |= dict(zip(asked, self.judge(asked).tolist(), strict=True))

    def observe(self, outputs: Floats, target: int | Literal["all"]) -> Observed:
        assert target != "all"  # the head has independent labels
        m, total, squares = self.sampling.samples, outputs[:, target], outputs[:, target + len(self.parts)]
        if self.sampling.score == "agree":
            k, rest = total + 1.0, m - total + 1.0
            return Observed(np.log(k / rest), 1.0 / k + 1.0 / rest, hits=total, draws=np.full(len(total), float(m)))
        inner = np.maximum(squares - total**2 / m, 0.0)  # each has m - 1 degrees of freedom; few samples may be equal by chance
        variance = (inner + _POOLED * inner.mean() / (m - 1)) / (m - 1 + _POOLED)
        return Observed(total / m, variance / m)

    def report(self, outputs: Floats) -> Report:
        m, hits, empty = self.sampling.samples, outputs[:, 0], int(outputs[:, -1].sum())
        notes = [f"The scores are those of {m} samples per query, with their noise."]
        if self.sampling.score == "agree":
            notes.append(f"With all sources {hits[0]:.0f} of {m} samples agree with the answer.")
            if hits.min() == hits.max() and hits[0] in (0.0, m):
                notes.append(
                    'It agrees alike in all queries, which tells no effect; use more samples=, judge= or score="similarity".'
                )
            elif 2 * hits[0] < m:
                notes.append(
                    'The model seldom gives this answer, so that little can be told; use more samples=, or score="similarity".'
                )
        if empty:
            notes.append(f"{empty} of {m * len(outputs)} samples are empty (refused, filtered or cut) and do not agree.")
        return Report({"samples per query": float(m)}, tuple(notes))
