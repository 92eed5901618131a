"""Two measures that look at ranks alone, ties at the mean of their ranks.

Spearman   the correlation of the ranks
AU-ROC     P(score of a marked unit > score of another) + P(equal) / 2 = (R - m (m + 1) / 2) / (m (n - m)),
           R the sum of the ranks of the m marked ones among n
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from slalom.core.checks import real_array
from slalom.errors import InputError
from slalom.evaluate.checks import paired


def rank_correlation(scores: ArrayLike, reference: ArrayLike) -> float | None:
    """Return Spearman's rank correlation of scores (n,) and a reference (n,); None where one of them does not vary.

    >>> rank_correlation([1.0, 2.0, 30.0], [3.0, 5.0, 4.0])
    0.5
    """
    a, b = (rankdata(part) - (np.size(part) + 1) / 2 for part in paired(("scores", scores), ("reference", reference), (1,)))
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(np.clip(a @ b / size, -1.0, 1.0)) if size else None


def auroc(marked: ArrayLike, scores: ArrayLike) -> float | None:
    """Return the area under the ROC curve of scores (n,) that predict marks (n,) of 0 and 1; None where all are alike.

    >>> auroc([0, 1, 1, 0], [0.1, 0.9, 0.4, 0.4])
    0.875
    """
    marks = real_array("marked", marked, (1,))
    if not np.isin(marks, (0.0, 1.0)).all():
        raise InputError("marked must hold zeros and ones only")
    marks, given = paired(("marked", marks), ("scores", scores), (1,))
    n, m = len(marks), int(marks.sum())
    if m in (0, n):
        return None
    return float((rankdata(given)[marks == 1.0].sum() - m * (m + 1) / 2) / (m * (n - m)))
