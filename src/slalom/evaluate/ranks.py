"""Two measures of ranks; ties get the mean of their ranks.

Spearman   correlation of the ranks
AU-ROC     P(score of a marked unit > score of another) + P(equal) / 2 = (R - m (m + 1) / 2) / (m (n - m)),
           R the sum of the ranks of the m marked units among n
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from slalom.core.checks import real_array
from slalom.errors import InputError
from slalom.evaluate.checks import paired


def rank_correlation(scores: ArrayLike, reference: ArrayLike) -> float | None:
    """Return Spearman's rank correlation.

    Args:
        scores: Scores (n,).
        reference: Values (n,) to compare with.

    Returns:
        A number from -1 to 1; None where one of the two is constant.

    Raises:
        InputError: If the arrays are empty or differ in shape.

    Example:
        >>> rank_correlation([1.0, 2.0, 30.0], [3.0, 5.0, 4.0])
        0.5
    """
    a, b = (rankdata(part) - (np.size(part) + 1) / 2 for part in paired(("scores", scores), ("reference", reference), (1,)))
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(np.clip(a @ b / size, -1.0, 1.0)) if size else None


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
    marks = real_array("marked", marked, (1,))
    if not np.isin(marks, (0.0, 1.0)).all():
        raise InputError("marked must hold zeros and ones only")
    marks, values = paired(("marked", marks), ("scores", scores), (1,))
    n, m = len(marks), int(marks.sum())
    if m in (0, n):
        return None
    return float((rankdata(values)[marks == 1.0].sum() - m * (m + 1) / 2) / (m * (n - m)))
