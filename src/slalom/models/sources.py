"""What a language model is asked: sources, a question, and the prompt that is made of those that are kept.

    Sources          a context in parts that can be removed: sentences, paragraphs, documents, or turns of a chat
    SourceTemplate   "{context}\\n\\nQuestion: {question}\\nAnswer:", or chat messages

Removing a source removes the white space after it too. The whole context is passed on unchanged.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from slalom.errors import InputError
from slalom.models.base import InputGroup, Reading
from slalom.models.callable import StringReading
from slalom.models.prompts import Message, lead_after, messages

CONTEXT, QUESTION = "{context}", "{question}"
PLAIN = "{context}\n\nQuestion: {question}\nAnswer:"
CHAT = ({"role": "user", "content": "Context: {context}\n\nQuestion: {question}"},)
Prompt: TypeAlias = str | list[dict[str, str]]


@final
@dataclass(frozen=True, eq=False)
class Sources:
    """A context in parts that can be removed.

    Attributes:
        text: The context as one text.
        spans: Where its n parts are in the text, (n, 2).
        kind: What they are: "sentence", "paragraph", "document" or "turn".
        turns: The chat messages of the parts (n,), for turns; empty for the others.
        system: Chat messages that stay, each after a number of turns; the question counts as the last turn.
    """

    text: str
    spans: NDArray[np.int64]
    kind: str
    turns: tuple[tuple[str, str], ...] = ()
    system: tuple[tuple[int, tuple[str, str]], ...] = ()


@final
@dataclass(frozen=True)
class SourceTemplate:
    """A prompt with places for the context and the question; all other braces are kept as they are.

    Args:
        content: A string, which is the prompt itself, or chat messages, which the model's chat template turns into one.

    Raises:
        InputError: The place for the context does not occur once, or a message is malformed.

    Example:
        >>> SourceTemplate("{context} Q: {question} A:").fill("It is {dark}.", "Is it?")
        'It is {dark}. Q: Is it? A:'
    """

    content: str | tuple[tuple[str, str], ...]

    def __init__(self, content: "str | Sequence[Message] | SourceTemplate") -> None:
        if isinstance(content, SourceTemplate):
            plain = content.content
        else:
            plain = content if isinstance(content, str) else messages(content, "a template")
        places = (plain if isinstance(plain, str) else "".join(part for _, part in plain)).count(CONTEXT)
        if places != 1:
            raise InputError(f"a template must contain {CONTEXT} once, where the sources go; it occurs {places} times")
        object.__setattr__(self, "content", plain)

    @property
    def lead(self) -> str:
        """What stands between the prompt and the answer, as `lead_after` says."""
        return lead_after(self.content)

    @property
    def asks(self) -> bool:
        """Whether it has a place for the question."""
        return QUESTION in (self.content if isinstance(self.content, str) else "".join(part for _, part in self.content))

    def fill(self, context: str, question: str) -> Prompt:
        """Return the prompt, or the messages, with a context and a question in their places."""
        if isinstance(self.content, str):
            return _filled(self.content, context, question)
        return [{"role": role, "content": _filled(part, context, question)} for role, part in self.content]


@final
class SourceReading(Reading):
    """Sources as a language model is asked about them: an input is a prompt with those that are kept.

    Args:
        sources: The sources.
        template: The prompt.
        question: The question.
    """

    def __init__(self, sources: Sources, template: SourceTemplate, question: str) -> None:
        self.sources, self.template, self.question = sources, template, question
        self.strings = StringReading(sources.text, sources.spans, empty=True)
        self.text, self.spans, self.names = sources.text, sources.spans, self.strings.names
        self.types, self.cut, self.empty = self.strings.types, 0, True

    def groups(self, keep: NDArray[np.bool_]) -> list[InputGroup]:
        prompts = self.prompts(keep)
        keys = [blake2b(_encoded(prompt), digest_size=16).digest() for prompt in prompts]
        return [InputGroup(np.arange(len(keep)), 1, lambda: (prompts, keys))]

    def prompts(self, keep: NDArray[np.bool_]) -> list[Prompt]:
        """Return one prompt per row of the presence of sources (m, n)."""
        if self.sources.turns:
            return [self._chat(row) for row in keep]
        contexts, _ = self.strings.groups(keep)[0].build()
        return [self.template.fill(context, self.question) for context in contexts]

    def _chat(self, row: NDArray[np.bool_]) -> Prompt:
        kept = [(i, self.sources.turns[i]) for i in np.flatnonzero(row).tolist()]
        asked = [(len(self.sources.turns), ("user", self.question))] if self.question else []
        ordered = sorted((*self.sources.system, *kept, *asked), key=lambda message: message[0])  # system messages first
        return [{"role": role, "content": content} for _, (role, content) in ordered]


def _filled(part: str, context: str, question: str) -> str:
    """Return a part of a template with its places filled; what is filled in is not searched for places."""
    before, place, after = part.partition(CONTEXT)
    return before.replace(QUESTION, question) + (context if place else "") + after.replace(QUESTION, question)


def _encoded(prompt: Prompt) -> bytes:
    return json.dumps(prompt, ensure_ascii=True).encode()
