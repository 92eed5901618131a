"""Which sources a language model needs for an answer: the score is the log probability of the answer.

    score(sources) = log p(answer | prompt with these sources) = sum_t log p(answer_t | prompt, answer_<t)

The outputs are the log probabilities of all tokens of the answer, so that every part of it is a label of the head (the answer,
each of its sentences, any span of characters), and the answers of the language model are the same for all of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import count
from typing import Literal, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from slalom.core import Observed
from slalom.core.checks import Floats
from slalom.errors import InputError, ModelError
from slalom.models.base import Model
from slalom.models.costs import Charged, Usage, about_tokens
from slalom.models.head import Decision, Head
from slalom.models.prompts import said
from slalom.models.removal import Removal
from slalom.models.sources import Prompt, SourceReading, Sources, SourceTemplate
from slalom.text import words
from slalom.text.segment import UNSPACED

SCALE = "log probability"
ANSWER, SENTENCE, WORD = "answer", "sentence ", "word "  # labels: of the whole answer; of a sentence, a word before a number


class LanguageModel(Charged, ABC):
    """A language model that continues prompts: a local one, or a server. Concrete ones are final.

    It gives log probabilities (`tokens`, `log_probs`), or samples (`sample`), or both.
    """

    name: str  # in messages and results
    chats: bool  # whether it takes chat messages

    def tokens(self, answer: str, lead: str) -> NDArray[np.int64]:
        """Return the character spans (t, 2) of the tokens of an answer."""
        raise ModelError(f'{self.name} gives no log probabilities; use mode="sample"')

    def log_probs(self, prompts: Sequence[Prompt], answer: str, lead: str) -> Floats:
        """Return the log probabilities (n_prompts, t) of the tokens of an answer after each prompt."""
        raise ModelError(f'{self.name} gives no log probabilities; use mode="sample"')

    def sample(
        self, prompts: Sequence[Prompt], most: int, count: int, temperature: float = 1.0, seed: int = 0
    ) -> list[list[str]]:
        """Return samples of answers to each prompt, of so many tokens at most, without white space at their ends."""
        raise ModelError(f'{self.name} gives no samples; use mode="logprobs"')

    @abstractmethod
    def generate(self, prompt: Prompt, most: int) -> str:
        """Return the most probable answer, token by token, without white space at its ends."""

    def write(self, prompt: Prompt, most: int, on_text: Callable[[str], None]) -> str:
        """Return the answer of `generate`; `on_text` gets what is written so far, again and again, where that can be known."""
        return self.generate(prompt, most)

    @abstractmethod
    def identity(self) -> str | None:
        """Return a string that changes whenever the answers may change; None where that is unknown."""

    @property
    def samples_chats(self) -> bool:
        """Whether it takes chat messages where it samples."""
        return self.chats

    def times_read(self, count: int) -> int:
        """Return how often a prompt is read, at most, for so many samples."""
        return count


class Part(NamedTuple):
    """A part of an answer: its characters, and which tokens of the answer (t,) overlap them."""

    start: int
    stop: int
    tokens: NDArray[np.bool_]

    @property
    def n_tokens(self) -> int:
        """Number of tokens that overlap it; 0 where they are not known."""
        return int(self.tokens.sum())


class AnswerModel(Model, ABC):
    """An answer of a language model to a question about sources, as a model of the sources. Concrete ones are final.

    Its labels are parts of the answer, all from the same queries.
    """

    parts: dict[str, Part]

    def __init__(
        self, language_model: LanguageModel, sources: Sources, template: SourceTemplate, question: str, answer: str
    ) -> None:
        if not answer.strip():
            raise InputError(f"an answer must not be empty; got {answer!r}")
        self.language_model, self.sources, self.template = language_model, sources, template
        self.name, self.question, self.answer, self.parts = language_model.name, question, answer, {}
        self.said = answer.lstrip()  # the template says what stands before an answer
        content = (template.content, sources.fixed, question, self.said)
        self.variant = blake2b(repr(content).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

    @abstractmethod
    def select(self, start: int, stop: int, name: str) -> str:
        """Make a part of the answer a label, and return its name."""

    @property
    def details(self) -> tuple[str, ...]:
        return tuple(name for name in self.parts if name.startswith(SENTENCE))

    @property
    def usage(self) -> Usage | None:
        return self.language_model.usage

    def decisions(self, texts: Sequence[str], outputs: Floats) -> list[Decision]:
        return [Decision(None, None)] * len(texts)

    def removing(self, removal: Removal) -> Model:
        if removal != "drop":
            raise InputError(f"sources are removed by removal='drop' only; got {removal!r}", "removal")
        return self

    def given_units(self, text: str, kind: str) -> NDArray[np.int64] | None:
        if text != self.sources.text or kind != self.sources.kind:
            raise InputError(f"this model answers about {len(self.sources.spans)} {self.sources.kind}s; ask with their text")
        return self.sources.spans

    def read(self, text: str, long: str, spans: NDArray[np.int64] | None) -> SourceReading:
        return SourceReading(self.sources, self.template, self.question)

    def identity(self) -> str | None:
        return self.language_model.identity()


@final
class Continuation(AnswerModel):
    """An answer whose score is its log probability.

    Args:
        guess: Whether to ask nothing, for an estimate: a token of the answer then has four characters.
    """

    batch_tokens = 64

    def __init__(
        self,
        language_model: LanguageModel,
        sources: Sources,
        template: SourceTemplate,
        question: str,
        answer: str,
        guess: bool = False,
    ) -> None:
        super().__init__(language_model, sources, template, question, answer)
        self.lead = "" if sources.turns else template.lead
        ends = np.arange(0, len(self.said), 4)
        tokens = np.stack([ends, ends + 4], axis=1) if guess else language_model.tokens(self.said, self.lead)
        self.spans = _at_least_one(tokens, len(self.said)) + len(answer) - len(self.said)
        self.spans[:1, 0] = 0
        self.word_labels = dict[str, tuple[str, ...]]()  # those that are explained, by the label of their sentence
        self.select(0, len(answer), ANSWER)

    def select(self, start: int, stop: int, name: str) -> str:
        tokens = (self.spans[:, 0] < stop) & (self.spans[:, 1] > start)
        if not 0 <= start < stop <= len(self.answer) or not tokens.any():
            raise InputError(
                f"a span of the answer must be two numbers 0 <= start < stop <= {len(self.answer)}; got {start} and {stop}"
            )
        self.parts[name] = Part(start, stop, tokens)
        self.head = Head("labels", tuple(self.parts), probabilistic=False, measure=SCALE)
        return name

    def select_words(self) -> dict[str, tuple[str, ...]]:
        """Make each word of the sentences a label, and return these by the label of the sentence.

        A token belongs to the first word that ends after its start.
        """
        # Words begin after white space, and where a script has none; punctuation is part of a word.
        answer, selected, numbers = self.answer, dict[str, tuple[str, ...]](), count(1)
        starts = [a for a, _ in words(answer).tolist() if answer[a - 1].isspace() or UNSPACED.match(answer, a)]
        for label in self.details or (ANSWER,):
            part, names = self.parts[label], list[str]()
            edges = [part.start, *(start for start in starts if part.start < start < part.stop), part.stop]
            ends = [part.start + len(answer[part.start : edge].rstrip()) for edge in edges[1:]]
            word_of = np.searchsorted(ends, self.spans[:, 0], side="right").clip(max=len(ends) - 1)
            kept = np.unique(word_of[part.tokens]).tolist()  # a word whose tokens are all of others joins the one before
            for word, following in zip(kept, [*kept[1:], len(ends)], strict=True):
                names.append(f"{WORD}{next(numbers)}")
                self.parts[names[-1]] = Part(edges[word], ends[following - 1], part.tokens & (word_of == word))
            selected[label] = tuple(names)
        self.head = Head("labels", tuple(self.parts), probabilistic=False, measure=SCALE)
        return selected

    def words(self, label: str) -> tuple[str, ...]:
        return self.word_labels.get(label, ())

    @property
    def n_columns(self) -> int:
        return len(self.spans)

    def tokens_of(self, text: Prompt) -> tuple[int, int]:
        read = prompt_tokens(text) + about_tokens(len(self.lead + self.said))
        return read, 0 if self.usage is None else len(self.spans)

    @property
    def start_tokens(self) -> tuple[int, int]:
        read, written = self.language_model.start_tokens
        return (read + about_tokens(len(self.said)), written) if read else (0, 0)

    def observe(self, outputs: Floats, target: int | Literal["all"]) -> Observed:
        assert target != "all"  # the head has independent labels
        return Observed(outputs[:, self.parts[self.head.labels[target]].tokens].sum(axis=1))

    def submit(self, inputs: list[Prompt]) -> Floats:
        return self.language_model.log_probs(inputs, self.said, self.lead)

    def collect(self, handle: Floats) -> Floats:
        if (most := handle.max(initial=0.0)) > 1e-3:
            raise ModelError(f"{self.name} answered with a log probability of {most:.3g}; it must not be above 0")
        return np.minimum(handle, 0.0)


def prompt_tokens(prompt: Prompt) -> int:
    """Return about how many tokens a prompt has."""
    return about_tokens(len(prompt) if isinstance(prompt, str) else sum(len(said(message)) for message in prompt))


def finished(text: str, prompt: Prompt) -> str:
    """Return an answer without white space at its ends; after a string only its first line, where the answer ends."""
    return text.strip().partition("\n")[0].strip() if isinstance(prompt, str) else text.strip()


def _at_least_one(spans: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Return spans (t, 2) that each have a character: a token of the lead, or of a part of a character, belongs to the next."""
    starts = spans[:, 0].clip(0, n - 1)
    return np.stack([starts, np.maximum(spans[:, 1], starts + 1)], axis=1)
