"""Human attention: are the units with the strongest scores those that people marked as important?

    AU-ROC of |score| for the consensus: units of words that every annotator marked are 1, all others 0
    AU-ROC = P(score of a marked unit > score of another) + P(equal) / 2 = (R - m (m + 1) / 2) / (m (n - m)),
             R the sum of the ranks of the m marked units among n; ties get the mean of their ranks

People mark words; a unit is marked if any of its words is, by character spans in the text " ".join(words). Human attention has
no sign, so scores are taken by magnitude, importances unchanged.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from slalom.errors import InputError
from slalom.evaluate.checks import magnitude, paired
from slalom.result import Explanation

Marks = NDArray[np.bool_]
_ANNOTATORS = 3  # of a text of Yelp-HAT, at least


class Annotated(NamedTuple):
    """A text, its words, and the marks (annotators, words) of people."""

    text: str
    words: tuple[str, ...]
    maps: Marks


def auroc(marked: ArrayLike, scores: ArrayLike) -> float | None:
    """Return the area under the ROC curve of scores that predict marks.

    Args:
        marked: Marks (n,), 0 or 1.
        scores: Scores (n,).

    Returns:
        A number from 0 to 1, 0.5 for chance; None where all marks are equal.

    Raises:
        InputError: If the arrays are empty, differ in shape, or a mark is neither 0 nor 1.

    Example:
        >>> auroc([0, 1, 1, 0], [0.1, 0.9, 0.4, 0.4])
        0.875
    """
    marks, values = paired(("marked", marked), ("scores", scores))
    if not np.isin(marks, (0.0, 1.0)).all():
        raise InputError("marked must hold zeros and ones only")
    n, m = len(marks), int(marks.sum())
    if m in (0, n):
        return None
    return float((rankdata(values)[marks == 1.0].sum() - m * (m + 1) / 2) / (m * (n - m)))


def word_spans(words: Sequence[str]) -> NDArray[np.int64]:
    """Return the character spans (w, 2) of words in ``" ".join(words)``.

    Raises:
        InputError: If `words` is not a list of non-empty strings.

    Example:
        >>> word_spans(["so", "good"]).tolist()
        [[0, 2], [3, 7]]
    """
    if isinstance(words, str) or not all(type(word) is str and word for word in words):
        raise InputError("words must be a list of strings, none of them empty")
    sizes = np.array([len(word) for word in words], dtype=np.int64)
    ends = np.cumsum(sizes + 1) - 1
    return np.column_stack([ends - sizes, ends])


def unit_marks(spans: ArrayLike, words: Sequence[str], marked: ArrayLike) -> Marks:
    """Return which units (n,) lie in marked words.

    Args:
        spans: Spans (n, 2) of the units in ``" ".join(words)``.
        words: Words (w,).
        marked: Marks of the words (w,), 0 or 1, or of several annotators (annotators, w): then a word counts that all marked.

    Raises:
        InputError: If the arguments do not fit together.

    Example:
        >>> unit_marks([[0, 2], [3, 5], [5, 7]], ["so", "good"], [0, 1]).tolist()
        [False, True, True]
    """
    word_places, units = word_spans(words), np.asarray(spans)
    marks: Marks = np.asarray(_marks(marked).all(axis=0))
    if len(marks) != len(word_places):
        raise InputError(f"marked must have one entry per word; got {len(marks)} for {len(word_places)} words")
    if units.ndim != 2 or units.shape[1] != 2 or units.dtype.kind not in "iu":
        raise InputError(f"spans must be an array of integers (n, 2); got shape {units.shape}")
    start, end = units[:, :1], np.maximum(units[:, 1:], units[:, :1] + 1)  # an empty span lies in the word around it
    return np.asarray(((start < word_places[:, 1]) & (end > word_places[:, 0]) & marks).any(axis=1))


def human_attention(explanation: Explanation, words: Sequence[str], maps: ArrayLike, *, score: str = "removal") -> float | None:
    """Return the AU-ROC of an explanation for the words that all annotators marked.

    Args:
        explanation: An explanation of ``" ".join(words)``.
        words: The words (w,).
        maps: Marks (annotators, w), 0 or 1.
        score: Name of a score, as `Explanation.scores` takes it; the paper finds "importance" best.

    Returns:
        A number from 0 to 1, 0.5 for chance; None where no unit is marked, or all are.

    Raises:
        InputError: If the explanation is of another text, or the maps do not fit.
    """
    if explanation.text != " ".join(words):
        raise InputError("the explanation must be of the annotated text, its words joined by blanks")
    return auroc(unit_marks(explanation.spans, words, maps), magnitude(explanation, score))


def yelp_hat(rows: Iterable[Mapping[str, Any]]) -> list[Annotated]:
    """Return the texts of Yelp-HAT (Sen et al., 2020) that have three annotators who agree about at least one word.

    Args:
        rows: Mappings with `words` and `maps` (one list of zeros and ones per annotator).

    Raises:
        InputError: If a row lacks a field, or its maps do not fit its words.
    """
    texts = []
    for number, row in enumerate(rows):
        try:
            words, maps = row["words"], row["maps"]
        except (KeyError, TypeError) as error:
            raise InputError(f"a row must have words and maps; row {number}: {error!r}") from error
        if len(maps) < _ANNOTATORS:
            continue
        marks = _marks(maps)
        if marks.shape[1] != len(words):
            raise InputError(f"maps must have one entry per word; row {number} has {marks.shape[1]} for {len(words)} words")
        if marks.all(axis=0).any():
            texts.append(Annotated(" ".join(words), tuple(words), marks))
    return texts


def _marks(maps: ArrayLike) -> Marks:
    """Return marks of words (w,) or maps (annotators, w) as booleans (annotators, w)."""
    try:
        marks = np.atleast_2d(np.asarray(maps))
    except ValueError as error:
        raise InputError("maps must have the same number of words each") from error
    if marks.ndim != 2 or 0 in marks.shape or marks.dtype.kind not in "biuf" or not np.isin(marks, (0, 1)).all():
        raise InputError(
            f"maps must hold zeros and ones, one row per annotator and one column per word; got shape {marks.shape}"
        )
    return marks.astype(bool)
