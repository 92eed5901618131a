"""What an explanation of sources is about: a question, and the answer of a language model."""

from typing import NamedTuple


class Answer(NamedTuple):
    """The answer of a language model whose log probability is explained.

    Attributes:
        question: The question; empty where the last turn of a chat asks it.
        text: The answer.
        start: First character of the part that is explained.
        stop: The character after its last one.
        generated: Whether the language model wrote it; else it was given.
        tokens: Number of tokens of the part that is explained.
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
