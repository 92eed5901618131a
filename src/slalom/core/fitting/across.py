"""One fit of the formula across many texts: a value and an importance for every word, and what all texts have in common.

Words have the same value and importance in every text, rows are answers about parts of any text:

    score = g( b + sum_w c_w u_w share_w(c)^kappa ) + noise,      word alone = g( b + u_w ) + noise

Several columns of scores (classes) have values, bias and link of their own; importances and competition are shared. Counts are
sparse, so one step costs a few products with them, and L-BFGS needs a few hundred steps.
"""

from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from slalom.core.checks import Floats
from slalom.core.fitting.joint import COMPETITION_PRIOR
from slalom.interrupt import check

if TYPE_CHECKING:
    from scipy.sparse import csr_array  # it and scipy.optimize take longer to import than slalom

_STEPS = 400
# What the formula leaves of a row and of a word alone, in standard deviations of the scores; of rows three times that of each,
# as those of one text are alike.
_NOISE, _NOISE_ALONE = 1.0, 0.15
_VALUES, _IMPORTANCES = 3.0, 1.0  # prior deviations: in those of the scores; of logarithms
_REACH = 1.0  # prior deviation of the logarithm of the link's reach
_NEAREST = 0.999  # share of the link's reach within which a score is brought back


@final
class Across(NamedTuple):
    """What V words say in all texts, for K columns of scores."""

    values: Floats  # of words in texts and alone together (V, K)
    importances: Floats  # (V,)
    importances_se: Floats
    in_texts: Floats  # values that the answers to parts of texts alone tell, all else as fitted (V, K)
    in_texts_se: Floats  # their errors between texts
    logit: float  # of the competition
    bias: Floats  # of each column (K,), as are the next
    middle: Floats  # of the link
    reach: Floats
    spread: Floats  # standard deviation of the scores

    def after_link(self, values: Floats) -> Floats:
        """Return the scores of words alone (..., K) that have these values."""
        return self.middle + self.reach * np.tanh((self.bias + values - self.middle) / self.reach)

    def before_link(self, scores: Floats) -> Floats:
        """Return the values of words alone (..., K) that have these scores."""
        inside = np.clip((scores - self.middle) / self.reach, -_NEAREST, _NEAREST)
        return self.middle + self.reach * np.arctanh(inside) - self.bias


def fitted_across(counts: "csr_array", scores: Floats, alone: Floats, texts: NDArray[np.int64]) -> Across:
    """Fit words to rows of all texts.

    Args:
        counts: How often each word is in each row (m, V).
        scores: Scores of the rows (m, K).
        alone: Scores of the words alone (V, K).
        texts: The text of each row (m,).
    """
    from scipy.optimize import minimize  # noqa: PLC0415

    n = counts.shape[1]
    spread = scores.std(axis=0)
    spread = np.where(spread > 0.0, spread, 1.0)
    unit, centre = scores / spread, scores.mean(axis=0) / spread
    widest = np.maximum(2.0 * np.abs(unit - centre).max(axis=0), 1.0)
    problem = _Problem(counts, counts.T.tocsr(), unit, alone / spread, centre, widest)
    common = [COMPETITION_PRIOR[0], *centre, *centre, *np.log(problem.widest)]
    start = np.concatenate([(alone / spread - centre).ravel(), np.zeros(n), common])
    found = minimize(problem.cost, start, jac=True, method="L-BFGS-B", options={"maxiter": _STEPS, "maxcor": 20})
    u, s, logit, bias, middle, log_reach = problem.parts(found.x)
    others = problem.errors(found.x, texts)
    bias, middle, reach = bias * spread, middle * spread, np.exp(log_reach) * spread
    of_words = u * spread, s - s.mean(), others[0], others[1] * spread, others[2] * spread
    return Across(*of_words, logit, bias, middle, reach, spread)


class _Problem(NamedTuple):
    """Scores in their standard deviations, and the posterior's negative logarithm with its slopes."""

    counts: "csr_array"
    turned: "csr_array"  # counts transposed
    scores: Floats
    alone: Floats
    centre: Floats
    widest: Floats

    def parts(self, x: Floats) -> tuple[Floats, Floats, float, Floats, Floats, Floats]:
        n, k = self.alone.shape
        u, s, logit, *others = np.split(x, np.cumsum([n * k, n, 1, k, k]))
        return (u.reshape(n, k), s, float(logit[0]), *others)  # type: ignore[return-value]

    def total(self, w: Floats) -> Floats:
        """Return the weight of all words of each row, 1 where there are none."""
        total = self.counts @ w
        return np.where(total > 0.0, total, 1.0)

    def cost(self, x: Floats) -> tuple[float, Floats]:
        check()
        u, s, logit, bias, middle, log_reach = self.parts(x)
        kappa, w = float(expit(logit)), np.exp(s)
        said = w[:, None] ** kappa * u
        total = self.total(w)
        shared = total[:, None] ** kappa
        evidence = (self.counts @ said) / shared
        cost, slopes, reach = 0.0, [np.zeros_like(bias) for _ in range(3)], np.exp(log_reach)
        by: list[Floats] = []
        for z, scores, noise in ((evidence, self.scores, _NOISE), (u, self.alone, _NOISE_ALONE)):
            inside = (bias + z - middle) / reach
            bound = np.tanh(inside)
            off = (middle + reach * bound - scores) / noise**2
            cost += 0.5 * float((off**2).sum()) * noise**2
            by.append(off * (1.0 - bound**2))
            others = by[-1], off * bound**2, off * reach * (bound - inside * (1.0 - bound**2))
            slopes = [slope + part.sum(axis=0) for slope, part in zip(slopes, others, strict=True)]
        rows, words = by
        pulled = self.turned @ (rows / shared)
        by_s = kappa * ((said * pulled).sum(axis=1) - w * (self.turned @ ((rows * evidence).sum(axis=1) / total)))
        logs = (self.counts @ (said * s[:, None])) / shared - evidence * np.log(total)[:, None]
        by_logit = kappa * (1.0 - kappa) * float((rows * logs).sum())
        prior = [
            (u, 0.0, _VALUES), (s, 0.0, _IMPORTANCES), (np.array([logit]), *COMPETITION_PRIOR), (bias, self.centre, _VALUES),
            (middle, self.centre, 1.0), (log_reach, np.log(self.widest), _REACH),
        ]  # fmt: skip
        given = [w[:, None] ** kappa * pulled + words, by_s, np.array([by_logit]), *slopes]
        cost += sum(0.5 * float((((part - mean) / sd) ** 2).sum()) for part, mean, sd in prior)
        return cost, np.concatenate(
            [(own + (part - mean) / sd**2).ravel() for own, (part, mean, sd) in zip(given, prior, strict=True)]
        )

    def errors(self, x: Floats, texts: NDArray[np.int64]) -> tuple[Floats, Floats, Floats]:
        """Return errors of importances, and the values that rows alone tell, with errors; each word for itself.

        One step of Newton leads from a value, with all else as it is, to the one that rows alone would have.
        """
        from scipy.sparse import csr_array  # noqa: PLC0415

        u, s, logit, bias, middle, log_reach = self.parts(x)
        kappa, w, reach = float(expit(logit)), np.exp(s), np.exp(log_reach)
        total = self.total(w)[:, None]
        evidence = (self.counts @ (w[:, None] ** kappa * u)) / total**kappa
        bound = np.tanh((bias + evidence - middle) / reach)
        off, slope = middle + reach * bound - self.scores, (1.0 - bound**2) / total**kappa
        groups = csr_array((np.ones(len(texts)), (texts, np.arange(len(texts)))))
        squares, by = self.turned.power(2), w**kappa
        moved, errors, bent = np.zeros_like(u), np.zeros_like(u), np.zeros(len(s))
        for k in range(u.shape[1]):
            rest = max(float((off[:, k] ** 2).mean()), 1e-12)
            own, common = slope[:, k], slope[:, k] * (total**kappa)[:, 0] * evidence[:, k] / total[:, 0]
            certain = np.maximum(by**2 * (squares @ own**2), 1e-12)
            pulls = by * (groups @ self.counts.multiply((off[:, k] * own)[:, None]).tocsr())  # of each word in each text
            moved[:, k] = u[:, k] - pulls.sum(axis=0) / certain
            errors[:, k] = np.sqrt(np.maximum(pulls.power(2).sum(axis=0), rest * certain)) / certain
            # An importance acts through the word's own part, and through what it takes from the others.
            said = by * u[:, k]
            bent += (
                kappa**2
                / rest
                * (said**2 * (squares @ own**2) - 2.0 * said * w * (squares @ (own * common)) + w**2 * (squares @ common**2))
            )
        return 1.0 / np.sqrt(np.maximum(bent, 0.0) + _IMPORTANCES**-2), moved, errors


def word_counts(rows: list[tuple[NDArray[np.bool_], NDArray[np.int64]]], n_words: int) -> "csr_array":
    """Return how often each word is in each row of several texts, whose units are words by their numbers (n,)."""
    from scipy.sparse import csr_array  # noqa: PLC0415

    indices = [np.broadcast_to(words, keep.shape)[keep] for keep, words in rows]
    ends = np.cumsum(np.concatenate([[0], *(keep.sum(axis=1) for keep, _ in rows)]))
    found = csr_array((np.ones(int(ends[-1])), np.concatenate(indices), ends), (len(ends) - 1, n_words))
    found.sum_duplicates()
    return found
