"""Human attention: are the units with the strongest scores those that people marked as important?

    AU-ROC of |score| for the consensus: units of words that every annotator marked are 1, all others 0

People mark words; a unit takes over the mark of its word (of any of its words, where it has several), found by character spans
in the text " ".join(words). Human attention has no sign, so scores are taken by their strength, importances as they are.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom.errors import InputError
from slalom.evaluate.checks import magnitude, whole
from slalom.evaluate.ranks import auroc
from slalom.result import Explanation

Marks = NDArray[np.bool_]


class Annotated(NamedTuple):
    """A text that people have marked: words joined by blanks, maps (annotators, words), and its label."""

    text: str
    words: tuple[str, ...]
    maps: Marks
    label: int


def word_spans(words: Sequence[str]) -> NDArray[np.int64]:
    """Return where each word (w, 2) is in " ".join(words).

    >>> word_spans(["so", "good"]).tolist()
    [[0, 2], [3, 7]]
    """
    if isinstance(words, str) or not all(type(word) is str and word for word in words):
        raise InputError("words must be a list of strings, none of them empty")
    ends = np.cumsum([len(word) + 1 for word in words], dtype=np.int64) - 1
    return np.column_stack([ends - np.array([len(word) for word in words], dtype=np.int64), ends])


def consensus(maps: ArrayLike) -> Marks:
    """Return which words (w,) all annotators marked; maps (annotators, w) hold zeros and ones.

    >>> consensus([[1, 1, 0], [1, 0, 0]]).tolist()
    [True, False, False]
    """
    return np.asarray(_marks(maps).all(axis=0))


def unit_marks(spans: ArrayLike, words: Sequence[str], marked: ArrayLike) -> Marks:
    """Return the marks (n,) of units at spans (n, 2) of " ".join(words), from the marks of the words (w,).

    >>> unit_marks([[0, 2], [3, 5], [5, 7]], ["so", "good"], [0, 1]).tolist()
    [False, True, True]
    """
    places, units = word_spans(words), np.asarray(spans)
    marks = _marks(np.asarray(marked)[None])[0]
    if len(marks) != len(places):
        raise InputError(f"marked must have one entry a word; got {len(marks)} for {len(places)} words")
    if units.ndim != 2 or units.shape[1] != 2 or units.dtype.kind not in "iu":
        raise InputError(f"spans must be an array of integers (n, 2); got shape {units.shape}")
    start, end = units[:, :1], np.maximum(units[:, 1:], units[:, :1] + 1)  # an empty span lies in the word around it
    return np.asarray(((start < places[:, 1]) & (end > places[:, 0]) & marks).any(axis=1))


def human_attention(explanation: Explanation, words: Sequence[str], maps: ArrayLike, *, score: str = "removal") -> float | None:
    """Return the AU-ROC of an explanation of " ".join(words) for the consensus of maps (annotators, words).

    None where no unit is marked, or all are. score: as `Explanation.scores` takes it; the paper finds "importance" best.
    """
    if explanation.text != " ".join(words):
        raise InputError("the explanation must be of the annotated text, its words joined by blanks")
    return auroc(unit_marks(explanation.spans, words, consensus(maps)), magnitude(explanation, score))


def yelp_hat(rows: Iterable[Mapping[str, Any]], *, annotators: int = 3, subset: str | None = None) -> list[Annotated]:
    """Return the texts of Yelp-HAT (Sen et al., 2020) that at least so many people have marked, and agreed on some word.

    rows: mappings with `words`, `maps` (one list of zeros and ones an annotator) and `label`; `subset` where one is asked
    for, for instance "yelp50".
    """
    least, found = whole("annotators", annotators, 1), []
    for number, row in enumerate(rows):
        try:
            words, maps, label = row["words"], row["maps"], int(row["label"])
            if subset is not None and row["subset"] != subset:
                continue
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"a row must have words, maps and a label (and a subset); row {number}: {error!r}") from error
        if len(maps) < least:
            continue
        marks = _marks(maps)
        if marks.shape[1] != len(words):
            raise InputError(f"maps must have one entry a word; row {number} has {marks.shape[1]} for {len(words)} words")
        if marks.all(axis=0).any():
            found.append(Annotated(" ".join(words), tuple(words), marks, label))
    return found


def _marks(maps: ArrayLike) -> Marks:
    """Return maps (annotators, words) as booleans."""
    try:
        given = np.asarray(maps)
    except ValueError as error:
        raise InputError("maps must have the same number of words each") from error
    if given.ndim != 2 or 0 in given.shape or given.dtype.kind not in "biuf" or not np.isin(given, (0, 1)).all():
        raise InputError(f"maps must hold zeros and ones, one row an annotator and one column a word; got shape {given.shape}")
    return given.astype(bool)
