"""Prompts and labels: how a language model is asked to classify a text.

    Template    "Review: {text}\\nSentiment:", or chat messages, one of which contains {text}
    LabelSet    label -> the continuations that stand for it: " positive", or several spellings

The template is never taken apart: what it adds to the text is in every query.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from slalom.errors import InputError

PLACE = "{text}"
LOW_SHARE = 0.5  # of the probability on the labels: below it, a note says so
Message = Mapping[str, str]


@final
@dataclass(frozen=True)
class Template:
    """A prompt with one place for the text, written {text}; all other braces are kept as they are.

    Args:
        content: A string, or chat messages ``[{"role": "user", "content": "Review: {text}"}]``.

    Raises:
        InputError: The place for the text is missing or occurs twice, or a message is malformed.

    Example:
        >>> Template("Review: {text}\\nSentiment:").fill("A fine film.")
        'Review: A fine film.\\nSentiment:'
    """

    content: str | tuple[tuple[str, str], ...]

    def __init__(self, content: "str | Sequence[Message] | Template") -> None:
        if isinstance(content, Template):
            content = content.content  # type: ignore[assignment]
        plain = content if isinstance(content, str) else messages(content, "a template")
        places = (plain if isinstance(plain, str) else "".join(part for _, part in plain)).count(PLACE)
        if places != 1:
            raise InputError(f"a template must contain {PLACE} once, where the text goes; it occurs {places} times")
        object.__setattr__(self, "content", plain)

    @property
    def is_chat(self) -> bool:
        """Whether it consists of chat messages."""
        return not isinstance(self.content, str)

    @property
    def n_characters(self) -> int:
        """Number of characters, those of the place among them."""
        return len(self.content) if isinstance(self.content, str) else sum(len(part) for _, part in self.content)

    @property
    def lead(self) -> str:
        """What comes before a label, as `lead_after` says."""
        return lead_after(self.content)

    def fill(self, text: str) -> str | list[dict[str, str]]:
        """Return the prompt, or the messages, with a text in its place.

        Args:
            text: The text; braces in it mean nothing.
        """
        if isinstance(self.content, str):
            return self.content.replace(PLACE, text)
        return [{"role": role, "content": part.replace(PLACE, text)} for role, part in self.content]


def lead_after(content: str | tuple[tuple[str, str], ...]) -> str:
    """Return what comes between a prompt and its continuation: a space after words, nothing after white space.

    An answer that begins a turn of a chat has nothing before it; one that continues the assistant's words does.

    Example:
        >>> lead_after("It is"), lead_after("It is\\n"), lead_after((("user", "Is it?"),))
        (' ', '', '')
        >>> lead_after((("user", "Is it?"), ("assistant", "It is")))
        ' '
    """
    last = content if isinstance(content, str) else content[-1][1] if content[-1][0] == "assistant" else "\n"
    return " " if last and not last[-1].isspace() else ""


def messages(content: Any, what: str) -> tuple[tuple[str, str], ...]:
    """Return chat messages as pairs of role and content.

    Example:
        >>> messages([{"role": "user", "content": "Hello"}], "a chat")
        (('user', 'Hello'),)
    """
    try:
        found = tuple(
            (part["role"], part["content"]) if isinstance(part, Mapping) else () if isinstance(part, str) else tuple(part)
            for part in content
        )
    except (TypeError, KeyError):
        found = ()
    if found and all(len(pair) == 2 and all(isinstance(part, str) for part in pair) for pair in found):
        return found
    raise InputError(
        f'{what} must be a string or a list of messages such as {{"role": "user", "content": "..."}}; got'
        f" {type(content).__name__}"
    )


@final
@dataclass(frozen=True)
class LabelSet:
    """Labels and the continuations of the prompt that stand for them.

    Args:
        names: The labels, at least two, all different.
        continuations: For each label, the strings that stand for it; their probabilities are added.

    Example:
        >>> label_set(["good", "bad"], lead=" ").continuations
        ((' good',), (' bad',))
        >>> label_set([" good", " bad"], lead=" ").continuations
        ((' good',), (' bad',))
        >>> label_set(["good", "bad"], lead=" ", spellings=True).continuations[0]
        (' good', 'good', ' Good', 'Good')
        >>> label_set({"good": ["yes", "+"], "bad": ["no"]}).continuations
        (('yes', '+'), ('no',))
    """

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
    labels: "Iterable[str] | Mapping[str, str | Iterable[str]] | LabelSet", lead: str = "", spellings: bool = False
) -> LabelSet:
    """Return labels with the continuations that stand for them.

    Args:
        labels: Their names, which are the continuations too, or a mapping from names to one or several continuations.
        lead: What comes before a name in the continuation: a space after a prompt that ends without one.
        spellings: Whether to add each name without the lead and with a capital letter.
    """
    if isinstance(labels, LabelSet):
        return labels
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise InputError(f"labels must be a list of strings, or a mapping to continuations; got {labels!r}")
    if isinstance(labels, Mapping):
        given = {
            str(name): list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
            for name, value in labels.items()
        }
        for name, value in given.items():
            if not all(isinstance(spelling, str) for spelling in value):
                raise InputError(f"the label {name!r} must have continuations that are strings; got {value!r}")
        return LabelSet(tuple(given), tuple(tuple(dict.fromkeys(value)) for value in given.values()))
    listed: list[Any] = list(labels)
    wrong = [name for name in listed if not isinstance(name, (str, int)) or isinstance(name, bool)]
    if wrong:
        raise InputError(f"labels must be strings; got {wrong[0]!r}; write what the model would answer")
    names = tuple(map(str, listed))
    return LabelSet(names, tuple(_spelled(name, lead) if spellings else (_led(name, lead),) for name in names))


def _led(name: str, lead: str) -> str:
    """Return a label with its lead; one that begins with white space brings its own."""
    return name if name[:1].isspace() else lead + name


def _spelled(name: str, lead: str) -> tuple[str, ...]:
    lead = name[: len(name) - len(name.lstrip())] or lead
    name = name.lstrip()
    capital = name[:1].upper() + name[1:]
    return tuple(dict.fromkeys((lead + name, name, lead + capital, capital)))
