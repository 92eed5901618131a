"""What changed between two corpora of explanations of the same texts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, final

from slalom.corpus.moments import Effect
from slalom.corpus.summarised import Kind
from slalom.errors import count
from slalom.files import csv_text
from slalom.result.document import Document


@final
@dataclass(frozen=True)
class Change:
    """A word, phrase or piece whose effect changed.

    Attributes:
        name: Its name.
        kind: "word", "phrase" or "piece".
        change: Effect after minus effect before over the shared texts that have it, with a paired 95% interval.
        before: Its effect in the first corpus, over the same texts.
        after: Its effect in the second.
    """

    name: str
    kind: Kind
    change: Effect
    before: Effect
    after: Effect

    def to_dict(self) -> dict[str, Any]:
        """Return everything as lists, numbers and strings."""
        parts = {name: getattr(self, name)._asdict() for name in ("change", "before", "after")}
        return {"name": self.name, "kind": self.kind, **parts}


class WordChange(NamedTuple):
    """A word of one text, with its effect there before and after."""

    word: str
    before: float
    after: float


class Flip(NamedTuple):
    """A text whose prediction changed.

    Attributes:
        number: Number of the text in the source.
        id: Its id.
        before: Predicted label in the first corpus.
        after: Predicted label in the second.
        gold: True label; None where none was given.
        change: Change of the score of the target.
        words: Words whose effects moved most in the direction of that change.
        text: The first characters of the text; None where texts were not kept.
    """

    number: int
    id: str
    before: str
    after: str
    gold: str | None
    change: float
    words: tuple[WordChange, ...]
    text: str | None


@final
@dataclass(frozen=True, eq=False)
class CorpusComparison(Document):
    """What changed between two models on the same texts, as `slalom.corpus.compare` returns it.

    Attributes:
        changes: Words, phrases and pieces, those that certainly changed most first within each kind.
        flips: Texts whose prediction changed, largest change of the score first.
        about: Models, folders, target, numbers of texts, all flips by labels, accuracies where labels were given.
    """

    changes: tuple[Change, ...]
    flips: tuple[Flip, ...]
    about: Mapping[str, Any]

    def of_kind(self, kind: str) -> list[Change]:
        """Return the changes of words, phrases or pieces.

        Args:
            kind: "word", "phrase" or "piece".
        """
        return [change for change in self.changes if change.kind == kind]

    def __getitem__(self, name: str) -> Change:
        """Return a word, phrase or piece by its name."""
        for change in self.changes:
            if change.name == name:
                return change
        raise KeyError(name)

    def __repr__(self) -> str:
        (first, second), shared = self.about["models"], count(self.about["shared"], "text")
        return f"CorpusComparison of {first} and {second} on {shared}, {self.about['flipped']} flipped"

    def to_dict(self) -> dict[str, Any]:
        flips = [{**flip._asdict(), "words": [word._asdict() for word in flip.words]} for flip in self.flips]
        return {"about": dict(self.about), "changes": [change.to_dict() for change in self.changes], "flips": flips}

    def to_csv(self) -> str:
        """Return one row per word, phrase and piece, as CSV."""
        rows: list[list[Any]] = [["name", "kind", "texts", "change", "low", "high", "before", "after"]]
        for one in self.changes:
            numbers = [one.change.texts, one.change.mean, one.change.low, one.change.high, one.before.mean, one.after.mean]
            rows.append([one.name, one.kind, *numbers])
        return csv_text(rows)

    def _page(self) -> str:
        from slalom.render.page.corpus import corpus_comparison_page  # noqa: PLC0415

        return corpus_comparison_page(self)
