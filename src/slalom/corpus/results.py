"""What a summary and a comparison return: words, phrases and pieces with their mean effects over texts.

mean = s1 / n,   var = (s2 - s1^2 / n) / (n - 1),   interval: mean +- t_{0.975, n-1} sqrt(var / n)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, final

import numpy as np
from scipy.special import stdtrit

from slalom.errors import count
from slalom.files import csv_text
from slalom.result.document import Document

LEVEL = 0.975  # both ends of a 95% interval
Kind: TypeAlias = Literal["piece", "word", "phrase"]
KINDS: tuple[Kind, ...] = ("word", "phrase", "piece")
Named = TypeVar("Named", "WordEffect", "Change")


class Effect(NamedTuple):
    """Mean effect over texts."""

    texts: int
    mean: float | None = None  # None without a text
    sd: float | None = None  # standard deviation over texts; None for fewer than two, as are the next
    low: float | None = None  # lower end of the 95% interval of the mean (Student's t)
    high: float | None = None


class Difference(NamedTuple):
    """The difference of two mean effects, with its 95% interval (Welch)."""

    difference: float
    low: float
    high: float


class Example(NamedTuple):
    """A text that has a word; labels and surrounding text are None where they are not known."""

    number: int  # in the source
    id: str
    effect: float  # mean effect of the word in it
    label: str | None  # predicted
    gold: str | None
    before: str | None  # text before the word's strongest occurrence
    word: str  # the occurrence itself
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

    def contrast(self) -> Difference | None:
        """Return its effect in correct predictions minus that in wrong ones; None for fewer than two texts in one of them."""
        parts = self.groups.get("prediction")
        return None if parts is None else difference(parts["correct"], parts["wrong"])

    def to_dict(self) -> dict[str, Any]:
        """Return everything as lists, numbers and strings."""
        content = _plain(self)
        effect, gap = content.pop("effect"), self.contrast()
        return {**content, **effect, "correct_minus_wrong": _plain(gap)}


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
        effect = self.word.effect
        word = {"name": self.word.name, "kind": self.word.kind, "texts": effect.texts, "mean": effect.mean}
        return word | {name: value for name, value in _plain(self).items() if name != "word"}


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
        """Return the words, phrases or pieces that the summary lists, strongest first."""
        return [word for word in self.words if word.kind == kind]

    def __getitem__(self, name: str) -> WordEffect:
        """Return a word, phrase or piece by its name."""
        return _first([*self.words, *(shortcut.word for shortcut in self.shortcuts)], name)

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
        rows = dict.fromkeys([*self.words, *(shortcut.word for shortcut in self.shortcuts)])
        scores = {shortcut.word: shortcut.score for shortcut in self.shortcuts}
        parts = [(grouping, name) for grouping, names in self.about["groups"].items() for name in names]
        head = ["name", "kind", *Effect._fields, "occurrences", "strongest", "against", "shortcut_score"]
        ends = [f"{grouping}={name} {end}" for grouping, name in parts for end in ("texts", "mean", "low", "high")]
        lines: list[list[Any]] = [[*head, *ends]]
        for word in rows:
            effects = [word.groups[grouping][name] for grouping, name in parts]
            own = [*word.effect, word.occurrences, word.strongest, word.against, scores.get(word, 0.0)]
            of_parts = [number for effect in effects for number in (effect.texts, effect.mean, effect.low, effect.high)]
            lines.append([word.name, word.kind, *own, *of_parts])
        return csv_text(lines)

    @property
    def plot(self) -> Any:
        """Figures: `summary.plot.bar()` and `summary.plot.beeswarm()`."""
        from slalom.render.figures import CorpusPlots  # noqa: PLC0415

        return CorpusPlots(self)

    def _page(self) -> str:
        from slalom.render.page.corpus import corpus_page  # noqa: PLC0415

        return corpus_page(self)


@final
@dataclass(frozen=True)
class Change:
    """A word, phrase or piece whose effect changed, with its effects over the shared texts that have it."""

    name: str
    kind: Kind
    change: Effect  # effect after minus effect before, with a paired 95% interval
    before: Effect
    after: Effect


class WordChange(NamedTuple):
    """A word of one text, with its effect there before and after."""

    word: str
    before: float
    after: float


class Flip(NamedTuple):
    """A text whose prediction changed."""

    number: int  # in the source
    id: str
    before: str  # predicted label in the first corpus
    after: str
    gold: str | None
    change: float  # of the score of the target
    words: tuple[WordChange, ...]  # whose effects moved most in the direction of that change
    text: str | None  # its first characters


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
        """Return the changes of words, phrases or pieces."""
        return [change for change in self.changes if change.kind == kind]

    def __getitem__(self, name: str) -> Change:
        """Return a word, phrase or piece by its name."""
        return _first(self.changes, name)

    def __repr__(self) -> str:
        (first, second), shared = self.about["models"], count(self.about["shared"], "text")
        return f"CorpusComparison of {first} and {second} on {shared}, {self.about['flipped']} flipped"

    def to_dict(self) -> dict[str, Any]:
        return dict(_plain(self))

    def to_csv(self) -> str:
        """Return one row per word, phrase and piece, as CSV."""
        rows: list[list[Any]] = [["name", "kind", "texts", "change", "low", "high", "before", "after"]]
        for word in self.changes:
            change = word.change
            numbers = [change.texts, change.mean, change.low, change.high, word.before.mean, word.after.mean]
            rows.append([word.name, word.kind, *numbers])
        return csv_text(rows)

    def _page(self) -> str:
        from slalom.render.page.corpus import corpus_comparison_page  # noqa: PLC0415

        return corpus_comparison_page(self)


def effect_of(n: float, s1: float, s2: float) -> Effect:
    """Return the mean effect from the number of texts, the sum and the sum of squares."""
    if n < 2:
        return Effect(int(n), s1 if n else None)
    mean = s1 / n
    variance = max(s2 - s1 * mean, 0.0) / (n - 1)
    half = float(interval_half(n, variance))
    return Effect(int(n), mean, variance**0.5, mean - half, mean + half)


def interval_half(n: Any, variance: Any) -> Any:
    """Return half the width of the 95% interval of a mean over n texts; infinite for fewer than two."""
    return np.where(n > 1, stdtrit(np.maximum(n - 1, 1), LEVEL) * np.sqrt(variance / np.maximum(n, 1)), np.inf)


def difference(a: Effect, b: Effect) -> Difference | None:
    """Return the difference of two means over disjoint texts, by Welch's method; None for fewer than two texts in one."""
    if a.mean is None or b.mean is None or a.sd is None or b.sd is None:
        return None
    first, second = a.sd**2 / a.texts, b.sd**2 / b.texts
    variance, gap = first + second, a.mean - b.mean
    if variance == 0.0:
        return Difference(gap, gap, gap)
    freedom = variance**2 / (first**2 / (a.texts - 1) + second**2 / (b.texts - 1))
    half = float(stdtrit(freedom, LEVEL)) * variance**0.5
    return Difference(gap, gap - half, gap + half)


def _first(words: Sequence[Named], name: str) -> Named:
    """Return the first word of a name."""
    return {word.name: word for word in reversed(words)}[name]


def _plain(value: Any) -> Any:
    """Return named tuples and dataclasses as dictionaries, other tuples as lists."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    elif is_dataclass(value):
        value = {part.name: getattr(value, part.name) for part in fields(value)}
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, (tuple, list)) else value
