"""Prompts and labels: how a language model is asked to classify a text.

    Template    "Review: {text}\\nSentiment:", or chat messages, one of which contains {text}
    LabelSet    label -> the continuations that stand for it: " positive", or several spellings

The template is never taken apart: what it adds to the text is in every query.
"""

import json
import re
from abc import ABC
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

from slalom.errors import InputError
from slalom.text import Record

PLACE = "{text}"
_FIELD = re.compile(r"\{(\w[\w -]*)\}")
LOW_SHARE = 0.5  # of the probability on the labels: below it, a note says so
Message = Mapping[str, str]


@dataclass(frozen=True)
class PromptTemplate(ABC):
    """A prompt with one place for what is explained: a string, or chat messages; other braces are kept as they are."""

    place: ClassVar[str]
    goes_there: ClassVar[str]
    content: str | tuple[tuple[str, str], ...]

    def __init__(self, content: "str | Sequence[Message] | PromptTemplate") -> None:
        plain: Any = content.content if isinstance(content, type(self)) else content
        object.__setattr__(self, "content", plain if isinstance(plain, str) else messages(plain, "a template"))
        self.check()

    def check(self) -> None:
        """Check that there is one place.

        Raises:
            InputError: There is none, or several.
        """
        n = self.characters.count(self.place)
        if n != 1:
            raise InputError(f"a template must contain {self.place} once, where {self.goes_there}; it occurs {n} times")

    @property
    def is_chat(self) -> bool:
        """Whether it consists of chat messages."""
        return not isinstance(self.content, str)

    @property
    def characters(self) -> str:
        """The string, or the contents of all messages."""
        return self.content if isinstance(self.content, str) else "".join(part for _, part in self.content)

    @property
    def lead(self) -> str:
        """What stands between the prompt and its continuation: a space after words, nothing after white space.

        An answer that begins a turn of a chat has nothing before it; one that continues the assistant's words does.
        """
        role, last = ("assistant", self.content) if isinstance(self.content, str) else self.content[-1]
        return " " if role == "assistant" and last and not last[-1].isspace() else ""


@final
class Template(PromptTemplate):
    """A prompt with one place for the text, written {text}, or one for each field of a record: a string, or chat messages.

    Example:
        >>> Template("Review: {text}\\nSentiment:").fill("A fine film.")
        'Review: A fine film.\\nSentiment:'
        >>> Template("{title}: {body}\\nTopic:").fill({"title": "Rain", "body": "It pours."})
        'Rain: It pours.\\nTopic:'
        >>> [Template(content).lead for content in ("{text} is", "{text} is\\n", [{"role": "user", "content": "{text}?"}])]
        [' ', '', '']
    """

    place = PLACE
    goes_there = "the text goes"

    def check(self) -> None:
        if PLACE in self.characters or not self.fields:
            super().check()
        elif len(set(self.fields)) < len(self.fields):
            raise InputError(f"a template must contain each field once; got {', '.join(self.fields)}")

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of the records that go there; none where it has a place for a text."""
        return () if PLACE in self.characters else tuple(_FIELD.findall(self.characters))

    def example(self, text: str) -> Any:
        """Return a text, or a record with it in every field."""
        return Record(dict.fromkeys(self.fields, text)) if self.fields else text

    def values(self, text: Any) -> dict[str, str]:
        """Return what goes to each place, for a text or a record.

        Raises:
            InputError: It has other places.
        """
        if not self.fields and isinstance(text, str) and not isinstance(text, Record):
            return {"text": text}
        example = text.example() if isinstance(text, Record) else text
        if isinstance(example, tuple) and len(example) == len(self.fields):
            return dict(zip(self.fields, example, strict=True))
        if isinstance(example, Mapping) and set(example) == set(self.fields):
            return dict(example)
        given = (
            "a text" if isinstance(example, str) else f"the fields {', '.join(text.names if isinstance(text, Record) else ())}"
        )
        raise InputError(f"the template has the places {', '.join(self.fields) or 'text'}; got {given}")

    def fill(self, text: Any) -> str | list[dict[str, str]]:
        """Return the prompt, or the messages, with a text or the values of a record; braces in these mean nothing."""
        values = self.values(text)
        parts = [self.content] if isinstance(self.content, str) else [part for _, part in self.content]
        filled = [_places(values).sub(lambda found: values[found[1]], part) for part in parts]
        if isinstance(self.content, str):
            return filled[0]
        return [{"role": role, "content": part} for (role, _), part in zip(self.content, filled, strict=True)]


def _places(values: Mapping[str, str]) -> re.Pattern[str]:
    return re.compile(rf"\{{({'|'.join(map(re.escape, values))})\}}")


def messages(content: Any, what: str) -> tuple[tuple[str, str], ...]:
    """Return chat messages as pairs of role and content."""
    try:
        pairs = tuple(
            (part["role"], part["content"]) if isinstance(part, Mapping) else () if isinstance(part, str) else tuple(part)
            for part in content
        )
    except (TypeError, KeyError):
        pairs = ()
    if pairs and all(len(pair) == 2 and all(isinstance(part, str) for part in pair) for pair in pairs):
        return pairs
    raise InputError(
        f'{what} must be a string or a list of messages such as {{"role": "user", "content": "..."}}; got'
        f" {type(content).__name__}"
    )


def said(message: Mapping[str, Any]) -> str:
    """Return the text of a chat message: its content, and the calls of tools.

    Example:
        >>> said({"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "add", "arguments": "{}"}}]})
        'add({})'
        >>> said({"role": "user", "content": [{"type": "text", "text": "Is"}, {"type": "text", "text": "it?"}]})
        'Is\\nit?'
    """
    content = message.get("content") or ""
    parts = [content] if isinstance(content, str) else [part["text"] for part in content]
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    return "\n".join([*filter(None, parts), *(f"{call['name']}({_plain(call.get('arguments', ''))})" for call in calls)])


def _plain(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def chat_messages(content: Sequence[Any]) -> list[Mapping[str, Any]]:
    """Return the messages of a chat as they came: with contents of text parts, calls of tools and further keys.

    Raises:
        InputError: One of them is no message, or has other contents than text.
    """
    chat = list[Mapping[str, Any]]()
    for message in content:
        rich = isinstance(message, Mapping) and (bool(message.get("tool_calls")) or isinstance(message.get("content"), list))
        ((role, text),) = messages([{"role": message.get("role"), "content": ""} if rich else message], "a context")
        chat.append(message if isinstance(message, Mapping) else {"role": role, "content": text})
        for part in message["content"] if rich and isinstance(message.get("content"), list) else ():
            if not isinstance(part, Mapping) or part.get("type") != "text" or not isinstance(part.get("text"), str):
                kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
                raise InputError(f'a part of a message must be {{"type": "text", "text": "..."}}; got {kind!r}; leave it out')
    try:
        json.dumps([chat, *map(said, chat)])
    except (AttributeError, KeyError, TypeError, ValueError):
        expected = '{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}'
        raise InputError(f"messages of a chat must be JSON, and calls of tools such as {expected}") from None
    return chat


@final
@dataclass(frozen=True)
class LabelSet:
    """Labels and, for each, the continuations of the prompt that stand for it; their probabilities are added."""

    names: tuple[str, ...]
    continuations: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        if len(self.names) < 2 or len(set(self.names)) != len(self.names):
            raise InputError(f"labels must be at least two different strings; got {list(self.names)!r}")
        owner: dict[str, str] = {}
        for name, spellings in zip(self.names, self.continuations, strict=True):
            if not spellings or not all(str(spelling).strip() for spelling in spellings):
                raise InputError(f"the label {name!r} must have a continuation that is not blank; got {list(spellings)!r}")
            for spelling in spellings:
                if owner.setdefault(spelling, name) != name:
                    raise InputError(
                        f"the labels {owner[spelling]!r} and {name!r} have the continuation {spelling!r} in common"
                    )


def label_set(
    labels: Iterable[str] | Mapping[str, str | Iterable[str]] | LabelSet, lead: str = "", spellings: bool = False
) -> LabelSet:
    """Return labels with the continuations that stand for them: their names after the lead, or what a mapping says.

    With `spellings` each name also counts without the lead and with a capital letter.

    Example:
        >>> label_set(["good", " bad"], lead=" ").continuations
        ((' good',), (' bad',))
        >>> label_set(["good", "bad"], lead=" ", spellings=True).continuations[0]
        (' good', 'good', ' Good', 'Good')
        >>> label_set({"good": ["yes", "+"], "bad": ["no"]}).continuations
        (('yes', '+'), ('no',))
    """
    if isinstance(labels, LabelSet):
        return labels
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise InputError(f"labels must be a list of strings, or a mapping to continuations; got {labels!r}")
    if isinstance(labels, Mapping):
        said: dict[str, tuple[Any, ...]] = {}
        for name, value in labels.items():
            several = isinstance(value, Iterable) and not isinstance(value, str)
            said[str(name)] = tuple(dict.fromkeys(value if several else [value]))
            if not all(isinstance(spelling, str) for spelling in said[str(name)]):
                raise InputError(f"the label {name!r} must have continuations that are strings; got {value!r}")
        return LabelSet(tuple(said), tuple(said.values()))
    listed: list[Any] = list(labels)
    wrong = [name for name in listed if not isinstance(name, (str, int)) or isinstance(name, bool)]
    if wrong:
        raise InputError(f"labels must be strings; got {wrong[0]!r}; write what the model would answer")
    names = tuple(map(str, listed))
    return LabelSet(names, tuple(_spelled(name, lead, spellings) for name in names))


def _spelled(name: str, lead: str, all_spellings: bool) -> tuple[str, ...]:
    """Return a label with its lead, and other spellings; one that begins with white space brings its own lead."""
    bare = name.lstrip()
    lead = name[: len(name) - len(bare)] or lead
    capital = bare[:1].upper() + bare[1:]
    return tuple(dict.fromkeys((lead + bare, bare, lead + capital, capital))) if all_spellings else (lead + bare,)
