"""What a language model is asked: sources, a question, and the prompt that is made of those that are kept.

    Sources          a context in parts that can be removed: sentences, paragraphs, documents, or turns of a chat
    SourceTemplate   "{context}\\n\\nQuestion: {question}\\nAnswer:", or chat messages

Removing a source removes the white space after it too. The whole context is passed on unchanged.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from slalom.models.base import InputGroup, Reading
from slalom.models.prompts import PromptTemplate
from slalom.models.strings import StringReading

CONTEXT, QUESTION = "{context}", "{question}"
PLAIN = "{context}\n\nQuestion: {question}\nAnswer:"
CHAT = ({"role": "user", "content": "Context: {context}\n\nQuestion: {question}"},)
Messages: TypeAlias = tuple[Mapping[str, Any], ...]
Prompt: TypeAlias = str | list[dict[str, Any]]


@final
@dataclass(frozen=True, eq=False)
class Sources:
    """A context in parts that can be removed."""

    text: str  # the context as one text
    spans: NDArray[np.int64]  # where its n parts are in the text, (n, 2)
    kind: str  # "word", "sentence", "paragraph", "document" or "turn"
    turns: tuple[Messages, ...] = ()  # the chat messages of the parts (n,), for turns; calls of tools go with their answers
    fixed: tuple[tuple[int, Mapping[str, Any]], ...] = ()  # messages that stay, each after a number of turns
    question: str = ""  # that of a chat, which is fixed
    levels: tuple[NDArray[np.int64], ...] = ()  # the first parts of coarser ones, such as documents, from coarse to fine


@final
class SourceTemplate(PromptTemplate):
    """A prompt with places for the context and the question.

    Example:
        >>> SourceTemplate("{context} Q: {question} A:").fill("It is {dark}.", "Is it?")
        'It is {dark}. Q: Is it? A:'
    """

    place = CONTEXT
    goes_there = "the sources go"

    @property
    def asks(self) -> bool:
        """Whether it has a place for the question."""
        return QUESTION in self.characters

    def fill(self, context: str, question: str) -> Prompt:
        """Return the prompt, or the messages, with a context and a question in their places."""
        if isinstance(self.content, str):
            return _filled(self.content, context, question)
        return [{"role": role, "content": _filled(part, context, question)} for role, part in self.content]


@final
class SourceReading(Reading):
    """Sources as a language model is asked about them: an input is a prompt with those that are kept."""

    def __init__(self, sources: Sources, template: SourceTemplate, question: str) -> None:
        self.sources, self.template, self.question = sources, template, question
        self.strings = StringReading(sources.text, sources.spans, empty=True)
        self.text, self.spans, self.names = sources.text, sources.spans, self.strings.names
        self.types, self.cut, self.empty = self.strings.types, 0, True

    def groups(self, keep: NDArray[np.bool_]) -> list[InputGroup]:
        prompts = self.prompts(keep)
        keys = [blake2b(json.dumps(prompt).encode(), digest_size=16).digest() for prompt in prompts]
        return [InputGroup(np.arange(len(keep)), 1, lambda: (prompts, keys))]

    def prompts(self, keep: NDArray[np.bool_]) -> list[Prompt]:
        """Return one prompt per row of the presence of sources (m, n)."""
        if self.sources.turns:
            return [self._chat(row) for row in keep]
        contexts, _ = self.strings.groups(keep)[0].build()
        return [self.template.fill(context, self.question) for context in contexts]

    def _chat(self, row: NDArray[np.bool_]) -> Prompt:
        turns, asked = self.sources.turns, {"role": "user", "content": self.question}
        kept = [(i, message) for i in np.flatnonzero(row).tolist() for message in turns[i]]
        last = [] if self.sources.question else [(len(turns), asked)]
        ordered = sorted((*self.sources.fixed, *kept, *last), key=lambda message: message[0])  # what stays comes first
        return [dict(message) for _, message in ordered]


def _filled(part: str, context: str, question: str) -> str:
    """Return a part of a template with its places filled; what is filled in is not searched for places."""
    before, place, after = part.partition(CONTEXT)
    return before.replace(QUESTION, question) + (context if place else "") + after.replace(QUESTION, question)
