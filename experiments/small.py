"""slalom in one file: sample, ask, fit, predict, and give Shapley values, with numpy and one optimiser of scipy.

    python experiments/small.py "A slow, beautiful film; only the ending is a disappointment."

The surrogate of the model's score F(c), where c tells which words are kept:

    F(c) ~ g(b + sum_i c_i u_i share_i(c)^kappa) + residual(c),    share_i(c) = w_i / sum_j c_j w_j,   w = exp(s)

    u_i     value: what word i says alone, on the scale of the score: F({i}) = g(b + u_i)
    s_i     importance: how much of the attention it draws
    kappa   competition: 1 averages the values (the SLALOM of arXiv 2405.13536), 0 adds them (a linear model)
    g       a link that saturates: z near its centre, bounded far from it
    residual  a Gaussian process: word orders, pairs, shifts, whatever the formula cannot say

Read it from top to bottom; each step is one function, `explain` is the whole.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

Floats = NDArray[np.float64]
Masks = NDArray[np.bool_]  # (rows, words): which words are kept
Model = Callable[[list[str]], Floats]  # texts -> one score each, for example log odds

VALUE_WIDTHS = (1.0, 3.0, 8.0)  # prior standard deviations of u to choose from, in spreads of the scores
IMPORTANCE_WIDTH = 1.5  # prior standard deviation of s: a factor of 4.5 between words is ordinary


# --8<-- [start:sample]
# 1. Sample: which parts of the text to ask about.


def sample(n: int, queries: int, rng: np.random.Generator) -> Masks:
    """Return distinct rows: the whole text, no word, words alone, deletions near the text, and subsets of all sizes.

    Args:
        n: Number of words.
        queries: Largest number of rows.
        rng: Random generator.
    """
    rows = [np.ones(n, bool), np.zeros(n, bool)]
    alone = np.eye(n, dtype=bool)[rng.permutation(n)[: queries // 4]]
    rows += [*alone, *~np.eye(n, dtype=bool)[rng.permutation(n)[: queries // 5]]]
    seen = {row.tobytes() for row in rows}
    for _ in range(20 * queries):  # a short text has few distinct rows
        if len(seen) >= min(queries, 2**n):
            break
        near = rng.random() < 0.25
        removed = rng.integers(2, min(10, n - 1) + 1) if near and n > 2 else rng.integers(1, n + 1)
        row = np.ones(n, bool)
        row[rng.permutation(n)[:removed]] = False
        if row.tobytes() not in seen:
            seen.add(row.tobytes())
            rows.append(row)
    return np.unique(np.array(rows[: max(queries, 2)]), axis=0)


# --8<-- [end:sample]
# --8<-- [start:ask]
# 2. Ask: what the model says to each part.


def ask(model: Model, words: list[str], masks: Masks) -> Floats:
    """Return the model's scores of the kept words, joined by spaces."""
    texts = [" ".join(word for word, kept in zip(words, row, strict=True) if kept) for row in masks]
    return np.asarray(model(texts), dtype=float)


# --8<-- [end:ask]
# 3. Fit: first the formula, then a Gaussian process on what it leaves.


# --8<-- [start:formula]
@dataclass(frozen=True)
class Competition:
    """F(c) = g(b + sum_i c_i u_i share_i(c)^kappa).

    Attributes:
        values: What each word says alone (n,).
        importances: Logarithm of its weight (n,).
        kappa: Competition between 0 (values add up) and 1 (values are averaged).
        bias: Score of the empty text, before the link.
        limit: How far the score can move from the centre of the link.
        centre: Centre of the link.
    """

    values: Floats
    importances: Floats
    kappa: float
    bias: float
    limit: float
    centre: float

    def predict(self, masks: Masks) -> Floats:
        """Return the predicted scores (rows,)."""
        weights = np.exp(self.importances)
        total = np.maximum(masks @ weights, 1e-300)  # of the empty text: its sum is 0 as well
        z = self.bias + (masks @ (self.values * weights**self.kappa)) / total**self.kappa
        return self.centre + self.limit * np.tanh((z - self.centre) / self.limit)


# --8<-- [end:formula]
def fit_competition(masks: Masks, scores: Floats, kinds: NDArray[np.int64], width: float) -> Competition:
    """Return the most probable parameters, by L-BFGS with exact gradients; equal words share theirs.

    Args:
        masks: Kept words (rows, n).
        scores: What the model said (rows,).
        kinds: Number of the distinct word of each place (n,).
        width: Prior standard deviation of the values, in spreads of the scores.
    """
    kept, size = masks.astype(float), kinds.max() + 1
    spread = scores.std() + 1e-9
    reach, noise = np.abs(scores).max() + spread, 0.05 * spread**2
    importance = np.where(masks.all(axis=1), 10.0, 1.0)  # of each row: the whole text is what is explained

    def unpack(x: Floats) -> Competition:
        u, s, (bias, kappa, limit, centre) = x[:size], x[size : 2 * size], x[2 * size :]
        return Competition(u[kinds], s[kinds], 1 / (1 + np.exp(-kappa)), bias, reach * np.logaddexp(0, limit), centre)

    def loss(x: Floats) -> tuple[float, Floats]:
        f = unpack(x)
        weights = np.exp(f.importances)
        total = np.maximum(kept @ weights, 1e-300)
        terms = kept * (f.values * weights**f.kappa) / (total**f.kappa)[:, None]  # of each word in each row
        mean = terms.sum(axis=1)
        t = np.tanh((f.bias + mean - f.centre) / f.limit)
        error = (f.centre + f.limit * t - scores) * importance / noise
        slope = error * (1 - t**2)  # derivative by z
        shares = kept * weights / total[:, None]
        by_value = slope @ (kept * weights**f.kappa / (total**f.kappa)[:, None])
        by_importance = f.kappa * (slope @ (terms - mean[:, None] * shares))
        by_kappa = slope @ (terms @ f.importances - mean * np.log(total)) * f.kappa * (1 - f.kappa)
        z = (f.bias + mean - f.centre) / f.limit
        by_limit = error @ (t - z * (1 - t**2)) * reach / (1 + np.exp(-x[-2]))
        gradient = np.concatenate([
            np.bincount(kinds, by_value, size) + x[:size] / (width * spread) ** 2,
            np.bincount(kinds, by_importance, size) + x[size : 2 * size] / IMPORTANCE_WIDTH**2,
            [slope.sum(), by_kappa, by_limit, (error * t**2).sum()],
        ])  # fmt: skip
        prior = (x[:size] ** 2).sum() / (width * spread) ** 2 + (x[size : 2 * size] ** 2).sum() / IMPORTANCE_WIDTH**2
        gradient[-4:] += 0.01 * x[-4:]
        squares = ((f.centre + f.limit * t - scores) ** 2 * importance).sum() / noise
        return 0.5 * (squares + prior + 0.01 * (x[-4:] ** 2).sum()), gradient

    start = np.concatenate([np.zeros(2 * size), [scores.mean(), 0.0, 1.5, 0.0]])
    return unpack(minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 400}).x)


# --8<-- [start:residual]
def kernels(a: Masks, b: Masks, weights: Floats) -> list[Floats]:
    """Return three matrices (rows of a, rows of b) of which a covariance is made.

    Distance of the kept words (by what they matter), common removed words, and how full both texts are.
    """
    x, y = a.astype(float), b.astype(float)
    distance = (x * weights) @ (1 - y).T + ((1 - x) * weights) @ y.T
    common = ((1 - x) * weights) @ (1 - y).T
    return [distance / weights.sum(), common / weights.mean(), np.log(np.outer(x.mean(axis=1) + 1e-6, y.mean(axis=1) + 1e-6))]


def covariance(h: Floats, parts: list[Floats]) -> Floats:
    """Return the covariance of residuals: similar texts have similar ones; changes fade as the text gets shorter."""
    e, (distance, common, fullness) = np.exp(h), parts
    return e[0] * np.exp(-distance / e[1]) + e[2] * common * np.exp(e[3] * fullness)


# --8<-- [end:residual]
@dataclass(frozen=True)
class Residual:
    """A Gaussian process through what the formula leaves; its hyper-parameters maximise the marginal likelihood."""

    masks: Masks
    weights: Floats
    hyper: Floats
    alpha: Floats
    scale: float

    def predict(self, masks: Masks) -> Floats:
        """Return the expected residuals (rows,)."""
        return self.scale * (covariance(self.hyper, kernels(masks, self.masks, self.weights)) @ self.alpha)


def fit_residual(masks: Masks, residuals: Floats, weights: Floats) -> Residual:
    """Fit the Gaussian process.

    Args:
        masks: Kept words (rows, n).
        residuals: Score minus the formula's prediction (rows,).
        weights: How much each word matters (n,).
    """
    scale = residuals.std() + 1e-9
    y, parts = residuals / scale, kernels(masks, masks, weights)
    removed = np.minimum((~masks).sum(axis=1), 20) / 20  # the whole text is met best

    def solved(h: Floats) -> tuple[float, Floats]:
        matrix = covariance(h, parts) + np.diag(np.exp(h[4]) * (0.05 + removed))
        try:
            factor = cho_factor(matrix + 1e-6 * np.eye(len(y)), lower=True)
        except np.linalg.LinAlgError:
            return 1e10, np.zeros(len(y))
        alpha = cho_solve(factor, y)
        return 0.5 * y @ alpha + np.log(np.diag(factor[0])).sum() + 0.05 * (h**2).sum(), alpha

    start = np.log([0.5, 0.3, 0.05, 3.0, 0.3])
    hyper = minimize(lambda h: solved(h)[0], start, method="L-BFGS-B", bounds=[(-7, 4)] * 5, options={"maxiter": 25}).x
    return Residual(masks, weights, hyper, solved(hyper)[1], scale)


# --8<-- [start:explanation]
# 4. Predict and attribute.


@dataclass(frozen=True)
class Explanation:
    """What the model relies on in one text."""

    words: list[str]
    formula: Competition
    residual: Residual

    def predict(self, masks: Masks) -> Floats:
        """Return the score that the model would give to parts of the text (rows,)."""
        return self.formula.predict(masks) + self.residual.predict(masks)

    def removal(self) -> Floats:
        """Return how much the predicted score falls when one word is removed (n,)."""
        n = len(self.words)
        return self.predict(np.ones((1, n), bool)) - self.predict(~np.eye(n, dtype=bool))

    def shapley(self, orders: int = 50, seed: int = 0) -> Floats:
        """Return Shapley values (n,): the mean effect of adding a word, over random orders and their reverses.

        They add up to the prediction of the whole text minus that of the empty one, however few orders there are.
        """
        rng, n = np.random.default_rng(seed), len(self.words)
        effects = np.zeros(n)
        for _ in range(orders):
            order = rng.permutation(n)
            for way in (order, order[::-1]):
                place = np.argsort(way)
                scores = self.predict(np.arange(n + 1)[:, None] > place)
                effects[way] += np.diff(scores)
        return effects / (2 * orders)


# --8<-- [end:explanation]
def fit(words: list[str], masks: Masks, scores: Floats, seed: int = 0) -> Explanation:
    """Fit formula and residual; the width of the prior is the one that predicts a held-out seventh best."""
    kinds = np.unique([word.lower() for word in words], return_inverse=True)[1]
    held = (np.random.default_rng(seed).random(len(masks)) < 0.15) & ~masks.all(axis=1)

    def error(width: float) -> float:
        predicted = fit_competition(masks[~held], scores[~held], kinds, width).predict(masks[held])
        return float(((predicted - scores[held]) ** 2).mean())

    width = min(VALUE_WIDTHS, key=error) if held.any() else VALUE_WIDTHS[0]
    formula = fit_competition(masks, scores, kinds, width)
    matter = np.exp(formula.importances) * np.abs(formula.values)
    residual = fit_residual(masks, scores - formula.predict(masks), matter / (matter.mean() + 1e-12) + 0.3)
    return Explanation(words, formula, residual)


def explain(model: Model, text: str, queries: int = 300, seed: int = 0) -> Explanation:
    """Explain one text: sample, ask, fit."""
    words = text.split()
    masks = sample(len(words), queries, np.random.default_rng(seed))
    return fit(words, masks, ask(model, words, masks), seed)


def main() -> None:
    """Explain a text by the classifier that ships with slalom."""
    from slalom import Explainer  # noqa: PLC0415

    text = " ".join(sys.argv[1:]) or "A slow, beautiful and utterly convincing film; only the ending is a disappointment."
    classifier = Explainer()
    e = explain(lambda texts: classifier.decide(texts, "positive")[0], text)
    print(f"competition {e.formula.kappa:.2f}\n{'word':<16}{'value':>8}{'importance':>12}{'removal':>9}{'Shapley':>9}")
    rows = zip(e.words, e.formula.values, e.formula.importances, e.removal(), e.shapley(), strict=True)
    for word, value, importance, removal, shapley in sorted(rows, key=lambda row: -abs(row[3])):
        print(f"{word:<16}{value:>+8.2f}{importance:>+12.2f}{removal:>+9.2f}{shapley:>+9.2f}")


if __name__ == "__main__":
    main()
