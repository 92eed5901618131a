"""What a model does in general: words, phrases and pieces with their effects over a corpus."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias, final

from slalom.corpus.moments import Difference, Effect, difference
from slalom.errors import count
from slalom.files import csv_text
from slalom.result.document import Document

Kind: TypeAlias = Literal["piece", "word", "phrase"]
KINDS: tuple[Kind, ...] = ("word", "phrase", "piece")


class Example(NamedTuple):
    """A text that has the word.

    Attributes:
        number: Number of the text in the source.
        id: Its id.
        effect: Mean effect of the word in it.
        label: The predicted label.
        gold: The true label; None where none was given.
        before: Text before the word's strongest occurrence; None where texts were not kept.
        word: The occurrence itself.
        after: Text after it.
    """

    number: int
    id: str
    effect: float
    label: str | None
    gold: str | None
    before: str | None
    word: str
    after: str | None


@final
@dataclass(frozen=True, eq=False)
class WordEffect:
    """A word, a phrase or a piece of a word, and what it does over the corpus.

    Attributes:
        name: The word in lower case; pieces with hyphens where the word goes on ("un-").
        kind: "word", "phrase" or "piece".
        effect: Its effect over the texts that have it, towards the target: mean, spread and 95% interval.
        occurrences: How often it occurs; a text may have it several times.
        strongest: Share of its texts where it is among the strongest of its kind.
        against: Texts where it acts against the sign of its mean.
        groups: Its effect in parts of the corpus: by "prediction" (correct, wrong), "predicted" and "gold" class, and "slice".
        usual: Texts where it acts most strongly in its usual direction.
        unusual: Texts where it acts most strongly against it.
        sample: Effects in texts drawn at random, for pictures; with whether the prediction was wrong, None where unknown.
    """

    name: str
    kind: Kind
    effect: Effect
    occurrences: int
    strongest: float
    against: int
    groups: Mapping[str, Mapping[str, Effect]] = field(default_factory=dict)
    usual: tuple[Example, ...] = ()
    unusual: tuple[Example, ...] = ()
    sample: tuple[tuple[float, bool | None], ...] = ()

    def contrast(self, grouping: str = "prediction", first: str = "correct", second: str = "wrong") -> Difference | None:
        """Return how its effect differs between two parts of the corpus, with a 95% interval (Welch).

        Args:
            grouping: A key of `groups`.
            first: A part.
            second: The part that is subtracted.

        Returns:
            The difference; None where one part has fewer than two texts with the word.
        """
        parts = self.groups.get(grouping, {})
        return difference(parts[first], parts[second]) if first in parts and second in parts else None

    def to_dict(self) -> dict[str, Any]:
        """Return everything as lists, numbers and strings."""
        groups = {grouping: {name: part._asdict() for name, part in parts.items()} for grouping, parts in self.groups.items()}
        gap = self.contrast()
        return {
            "name": self.name,
            "kind": self.kind,
            **self.effect._asdict(),
            "occurrences": self.occurrences,
            "strongest": self.strongest,
            "against": self.against,
            "groups": groups,
            "correct_minus_wrong": None if gap is None else gap._asdict(),
            "usual": [example._asdict() for example in self.usual],
            "unusual": [example._asdict() for example in self.unusual],
            "sample": [list(point) for point in self.sample],
        }


@final
@dataclass(frozen=True, eq=False)
class Shortcut:
    """A word or phrase that moves the model but should not; `slalom.corpus.shortcuts` has the formulas.

    Attributes:
        word: The word and its effects.
        score: Log odds that the model relies on it for, with 97.5% confidence, times the share that nothing supports.
        reliance: The former.
        unsupported: Share of the reliance that labels do not support; None without labels.
        support: Log odds of the target among labels of texts that have the word, relative to all texts; None without labels.
        concentration: How far its texts are in one slice, 0 to 1; None without slices.
        slice: The slice where it is most frequent relative to all texts; None without slices.
        reasons: Why it is listed, in words.
    """

    word: WordEffect
    score: float
    reliance: float
    unsupported: float | None
    support: float | None
    concentration: float | None
    slice: str | None
    reasons: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the word's own numbers."""
        names = ("score", "reliance", "unsupported", "support", "concentration", "slice")
        head = {"name": self.word.name, "kind": self.word.kind, "texts": self.word.effect.texts, "mean": self.word.effect.mean}
        return head | {name: getattr(self, name) for name in names} | {"reasons": list(self.reasons)}


@final
@dataclass(frozen=True, eq=False)
class CorpusSummary(Document):
    """What a model does on a corpus, as `slalom.corpus.summary` returns it.

    Attributes:
        words: Words, phrases and pieces, strongest first within each kind.
        shortcuts: Those that move the model but should not, most suspicious first.
        about: Model, folder, target, numbers of texts, and the settings.
    """

    words: tuple[WordEffect, ...]
    shortcuts: tuple[Shortcut, ...]
    about: Mapping[str, Any]

    def of_kind(self, kind: str) -> list[WordEffect]:
        """Return the words, phrases or pieces that the summary lists, strongest first.

        Args:
            kind: "word", "phrase" or "piece".
        """
        return [word for word in self.words if word.kind == kind]

    def __getitem__(self, name: str) -> WordEffect:
        """Return a word, phrase or piece by its name."""
        for word in (*self.words, *(shortcut.word for shortcut in self.shortcuts)):
            if word.name == name:
                return word
        raise KeyError(name)

    def __repr__(self) -> str:
        explained = count(self.about["explained"], "text")
        return f"CorpusSummary of {explained}, {self.about['model']}, towards {self.about['target']!r}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "about": dict(self.about),
            "words": [word.to_dict() for word in self.words],
            "shortcuts": [shortcut.to_dict() for shortcut in self.shortcuts],
        }

    def to_csv(self) -> str:
        """Return one row per word, phrase and piece, as CSV."""
        rows = list(self.words)
        rows += [shortcut.word for shortcut in self.shortcuts if shortcut.word not in rows]
        scores = {(shortcut.word.kind, shortcut.word.name): shortcut.score for shortcut in self.shortcuts}
        parts = [(grouping, name) for grouping, names in self.about["groups"].items() for name in names]
        head = ["name", "kind", "texts", "mean", "sd", "low", "high", "occurrences", "strongest", "against", "shortcut_score"]
        ends = [f"{grouping}={name} {end}" for grouping, name in parts for end in ("texts", "mean", "low", "high")]
        lines: list[list[Any]] = [[*head, *ends]]
        for word in rows:
            cells = [word.name, word.kind, *word.effect, word.occurrences, word.strongest, word.against]
            cells.append(scores.get((word.kind, word.name), 0.0))
            for grouping, name in parts:
                part = word.groups[grouping][name]
                cells += [part.texts, part.mean, part.low, part.high]
            lines.append(cells)
        return csv_text(lines)

    @property
    def plot(self) -> Any:
        """Figures: `summary.plot.bar()` and `summary.plot.beeswarm()`."""
        from slalom.render.figures import CorpusPlots  # noqa: PLC0415

        return CorpusPlots(self)

    def _page(self) -> str:
        from slalom.render.page.corpus import corpus_page  # noqa: PLC0415

        return corpus_page(self)
