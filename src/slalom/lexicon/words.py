"""The words of a lexicon as rows that people read, and what differs between two lexica.

All numbers of a word are of the class that is asked about, in units of its score, less the score of the empty text:

alone     the model's own answer to the word alone
in texts  what its effects in texts say that this answer would be, with a 95% interval by the differences between texts
context   in texts minus alone: what the word means in company and not by itself
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np

from slalom.core.checks import Floats
from slalom.errors import InputError, count, did_you_mean
from slalom.files import csv_text, write_text
from slalom.lexicon.lexicon import Lexicon
from slalom.result import NORMAL_95
from slalom.text import printable


@final
@dataclass(frozen=True, eq=False)
class Words:
    """The words of a lexicon for one class, or the changes from one lexicon to another."""

    title: str
    target: str  # the class
    words: tuple[str, ...]  # (n,)
    columns: Mapping[str, Floats]  # (n,) by name
    sure: Mapping[str, Floats]  # of some columns, how far the 95% interval is from zero (n,); negative where it holds zero
    picture: tuple[str, str]  # columns of the scatter: across, upwards

    def __len__(self) -> int:
        return len(self.words)

    def by(self, column: str, least_texts: int = 0) -> "Words":
        """Return the words of enough texts, by how far the 95% interval of a column is from zero."""
        order = np.argsort(-self.sure[column], kind="stable")
        order = order[self.columns["texts"][order] >= least_texts]
        columns, sure = ({name: part[order] for name, part in parts.items()} for parts in (self.columns, self.sure))
        return replace(self, words=tuple(self.words[i] for i in order.tolist()), columns=columns, sure=sure)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return a row per word."""
        columns = {name: part.tolist() for name, part in self.columns.items()}
        return [{"word": word, **{name: columns[name][i] for name in columns}} for i, word in enumerate(self.words)]

    def to_json(self) -> str:
        """Return the title, the class and a row per word as JSON."""
        return json.dumps({"title": self.title, "target": self.target, "words": self.to_dicts()}, ensure_ascii=False)

    def to_csv(self) -> str:
        """Return a row per word as CSV."""
        return csv_text([["word", *self.columns], *([row[name] for name in row] for row in self.to_dicts())])

    def to_html(self, path: str | Path) -> None:
        """Write a self-contained page: a picture, and a table with search and filter."""
        from slalom.render.page.lexicon import lexicon_page  # noqa: PLC0415

        write_text(Path(path), lexicon_page(self))


def words_of(lexicon: Lexicon, target: str | None = None) -> Words:
    """Return the words of a lexicon for one class; default: the second of two, else the first."""
    name, k, sign = _class(lexicon, target)
    a = lexicon.across
    start = a.after_link(np.zeros_like(a.in_texts[:1]))

    def score(values: Floats) -> Floats:
        return np.asarray(sign * (a.after_link(values) - start)[:, k])

    ends = [score(a.in_texts + side * NORMAL_95 * a.in_texts_se) for side in (-1.0, 1.0)]
    in_texts, alone = score(a.in_texts), sign * lexicon.alone[:, k]
    error = np.abs(ends[1] - ends[0]) / (2.0 * NORMAL_95)
    columns: dict[str, Any] = {
        "texts": lexicon.texts, "alone": alone, "in_texts": in_texts, "in_texts_se": error, "context": in_texts - alone,
        "context_se": error, "importance": a.importances, "importance_se": a.importances_se,
    }  # fmt: skip
    title = f"{printable(lexicon.about['model'])}: what it says of {count(len(lexicon), 'word')}"
    sure = {  # before the link, which brings all strong words together
        "in_texts": _sure(a.in_texts[:, k], a.in_texts_se[:, k]), "context": _sure(columns["context"], error),
        "importance": _sure(a.importances, a.importances_se),
    }  # fmt: skip
    return Words(title, name, lexicon.words, columns, sure, ("in_texts", "importance"))


def changes_of(before: Lexicon, after: Lexicon, target: str | None = None) -> Words:
    """Return what differs between the words that two lexica have in common; each counts with the spelling of most texts."""
    if target is None:
        target = words_of(before).target
    first, second = (words_of(lexicon, target) for lexicon in (before, after))
    places = [_most_frequent(part) for part in (first, second)]
    common = [word for word in places[0] if word in places[1]]
    if not common:
        raise InputError("the lexica must have words in common; got none")
    i, j = (np.array([place[word] for word in common]) for place in places)
    columns: dict[str, Floats] = {"texts": np.minimum(first.columns["texts"][i], second.columns["texts"][j])}
    for name in ("alone", "in_texts"):
        columns |= {f"{name}_before": first.columns[name][i], f"{name}_after": second.columns[name][j]}
    columns["change"] = columns["in_texts_after"] - columns["in_texts_before"]
    columns["change_se"] = np.hypot(first.columns["in_texts_se"][i], second.columns["in_texts_se"][j])
    names = [printable(lexicon.about["model"]) for lexicon in (before, after)]
    title = f"{names[1]} against {names[0]}: {count(len(common), 'word')}"
    sure = {"change": _sure(columns["change"], columns["change_se"])}
    return Words(title, target, tuple(common), columns, sure, ("in_texts_before", "in_texts_after"))


def _sure(numbers: Floats, errors: Floats) -> Floats:
    return np.asarray(np.abs(numbers) - NORMAL_95 * errors)


def _most_frequent(words: Words) -> dict[str, int]:
    """Return the place of each word, of several spellings that look alike that of most texts."""
    order = np.argsort(words.columns["texts"], kind="stable").tolist()
    return {words.words[i]: i for i in order}


def _class(lexicon: Lexicon, target: str | None) -> tuple[str, int, float]:
    """Return the name of a class, its column, and the sign of its scores."""
    labels = list(lexicon.about["labels"])
    mirrored = lexicon.alone.shape[1] < len(labels)
    if target is None:
        target = labels[1] if len(labels) == 2 else labels[0]
    if target not in labels:
        raise InputError(
            f"target must be one of {', '.join(map(repr, labels))}; got {target!r}{did_you_mean(target, labels)}", "target"
        )
    number = labels.index(target)
    return (target, 0, 1.0 if number else -1.0) if mirrored else (target, number, 1.0)
