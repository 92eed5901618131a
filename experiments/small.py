"""slalom in one file: sample, ask, fit, predict, and give Shapley values, with numpy and scipy's linear algebra.

    python -m experiments.small "A slow, beautiful film; only the ending is a disappointment."

The surrogate of the model's score F(c), where c tells which words are kept:

    F(c) ~ g(b + sum_i c_i u_i share_i(c)^kappa) + residual(c),    share_i(c) = w_i / sum_j c_j w_j,   w = exp(s)

    u_i     value: what word i says alone, on the scale of the score: F({i}) = g(b + u_i)
    s_i     importance: how much of the attention it draws
    kappa   competition: 1 averages the values (the SLALOM of arXiv 2405.13536), 0 adds them (a linear model)
    g       a link that saturates: z near its centre, bounded far from it
    residual  a Gaussian process of two small kernels, for what the formula cannot say: words that act together, and
              words that move to another place because others before them are gone

Read it from top to bottom; each step is one function, `explain` is the whole.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular

Floats = NDArray[np.float64]
Masks = NDArray[np.bool_]  # (rows, words): which words are kept
Model = Callable[[list[str]], Floats]  # texts -> one score each, for example log odds

STEPS = 14  # of the fit; it mostly settles after eight
FORGET = 0.3  # share of all (weighted) words by which two texts differ when their residuals have a correlation of 1/e
KNOTS, REACH, FURTHEST = 24, 1.5, 40  # places of the text; words after which a shift is another one; and has no effect


# --8<-- [start:sample]
# 1. Sample: which parts of the text to ask about.


def sample(n: int, queries: int, rng: np.random.Generator) -> Masks:
    """Return distinct rows: the whole text, no word, words alone, deletions near the text, and subsets of all sizes."""
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
# 3. The surrogate: the formula, and a Gaussian process for what it leaves.


# --8<-- [start:formula]
@dataclass(frozen=True)
class Competition:
    """F(c) = g(b + sum_i c_i u_i share_i(c)^kappa)."""

    values: Floats  # what each word says alone (n,)
    importances: Floats  # logarithm of its weight (n,)
    kappa: float  # competition, between 0 (values add up) and 1 (values are averaged)
    bias: float  # score of the empty text, before the link
    limit: float  # how far the score can move
    centre: float  # from here

    def evidence(self, kept: Floats) -> Floats:
        """Return the sum over the words, for how often each is kept (rows, n)."""
        weights = np.exp(self.importances)
        total = np.maximum(kept @ weights, 1e-300)  # of the empty text: its sum is 0 as well
        return (kept @ (self.values * weights**self.kappa)) / total**self.kappa

    def predict(self, kept: Floats | Masks) -> Floats:
        """Return the predicted scores (rows,)."""
        z = self.bias + self.evidence(np.asarray(kept, dtype=float))
        return self.centre + self.limit * np.tanh((z - self.centre) / self.limit)


# --8<-- [end:formula]
def slopes(f: Competition, kept: Floats) -> Floats:
    """Return the derivatives of the predictions (rows, 2 n + 4): by u, s, bias, logit of kappa, centre and log of the limit."""
    weights = np.exp(f.importances)
    total = np.maximum(kept @ weights, 1e-300)
    by_value = kept * weights**f.kappa / total[:, None] ** f.kappa
    evidence = by_value @ f.values
    by_importance = f.kappa * (by_value * f.values - kept * weights * (evidence / total)[:, None])
    by_kappa = (by_value @ (f.values * f.importances) - evidence * np.log(total)) * f.kappa * (1 - f.kappa)
    x = (f.bias + evidence - f.centre) / f.limit
    bound = np.tanh(x)
    link = 1 - bound**2
    others = [link, link * by_kappa, bound**2, f.limit * (bound - x * link)]
    return np.column_stack([link[:, None] * by_value, link[:, None] * by_importance, *others])


# --8<-- [start:residual]
def shifts(masks: Masks, matter: Floats) -> Floats:
    """Return features (rows, q) whose products are the covariance of effects of place.

    A knot is a place in the text. That r words before it are missing has an effect h(r), which begins at h(0) = 0 and forgets
    where it was after a few words; its variance is in proportion to how much the words around the knot matter.
    """
    n = masks.shape[1]
    knots = np.unique(np.linspace(1, max(n - 1, 1), min(KNOTS, max(n - 1, 1))).round().astype(int))
    around = np.array([matter[max(knot - 2, 0) : knot + 3].mean() for knot in knots])
    r = np.arange(1, FURTHEST + 1) / REACH
    variances, basis = np.linalg.eigh(np.exp(-np.abs(r[:, None] - r)) - np.exp(-(r[:, None] + r)))
    main = variances > 0.01 * variances[-1]
    nothing = np.zeros((1, main.sum()))
    by_number = np.concatenate([nothing, basis[:, main] * np.sqrt(variances[main]), nothing])
    missing = np.cumsum(~masks, axis=1)[:, knots - 1]
    features = by_number[np.minimum(missing, FURTHEST + 1)] * np.sqrt(around / around.sum())[:, None]
    return features.reshape(len(masks), len(knots) * by_number.shape[1])


def kernels(a: Masks, b: Masks, matter: Floats) -> list[Floats]:
    """Return the covariances (rows of a, rows of b) of the residual: of parts with nearly the same words, and of places."""
    x, y = a.astype(float), b.astype(float)
    differ = ((x * matter) @ (1 - y).T + ((1 - x) * matter) @ y.T) / matter.sum()  # from 0 to 1
    return [np.exp(-differ / FORGET), shifts(a, matter) @ shifts(b, matter).T]


# --8<-- [end:residual]
# --8<-- [start:explanation]
@dataclass(frozen=True)
class Explanation:
    """What the model relies on in one text."""

    words: list[str]
    formula: Competition
    rows: Masks  # that were asked
    matter: Floats  # how much each word matters to the residual
    variances: Floats  # of the two kernels
    weights: Floats  # of each row in the residual

    def predict(self, masks: Masks) -> Floats:
        """Return the score that the model would give to parts of the text (rows,)."""
        parts = zip(self.variances, kernels(masks, self.rows, self.matter), strict=True)
        return self.formula.predict(masks) + sum(variance * kernel for variance, kernel in parts) @ self.weights

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
# --8<-- [start:fit]
# 4. Fit: parameters and variances in turn, in one evidence.


class Fit:
    """Formula and residual as they are fitted.

    In each step the formula is replaced by its tangent. Scores are then a sum of Gaussian parts: values, importances, the other
    parameters, the two kernels, and noise that grows with the number of removed words. Their covariance tells where to move the
    parameters, and their evidence which variances are likelier (one step of average information).
    """

    def __init__(self, kinds: NDArray[np.int64], masks: Masks, scores: Floats) -> None:
        self.kinds, self.masks, self.scores, self.size = kinds, masks, scores, int(kinds.max()) + 1
        self.counts = masks @ np.eye(self.size)[kinds]  # how often each distinct word is kept
        self.spread, middle = scores.std() + 1e-9, scores.mean()
        limit = 2 * np.abs(scores - middle).max() + 1e-9
        self.start = np.concatenate([np.zeros(2 * self.size), [middle, -1.0, middle, np.log(limit)]])
        self.theta, self.matter = self.start, np.ones(len(kinds))
        gone = np.minimum((~masks).sum(axis=1), 20) / 20
        self.noise = np.where(gone == 0, 1e-3, 0.02 + 0.98 * gone)  # the whole text is met best
        self.kernels = kernels(masks, masks, self.matter)
        self.log_variances = np.log(self.expected(0.05, 0.1))

    def expected(self, kernel: float, noise: float) -> Floats:
        """Return variances of values, importances, the two kernels and noise; these three as shares of that of the scores."""
        sizes = [max(float(np.trace(part)) / len(self.scores), 1e-12) for part in self.kernels]
        shares = np.array([9.0, *(kernel / size for size in sizes), noise])
        return np.insert(shares * self.spread**2, 1, 1.5**2)  # importances have a scale of their own

    def formula(self, theta: Floats, of: NDArray[np.int64] | slice = slice(None)) -> Competition:
        """Return the formula with some parameters, for the distinct words or for words of the given kinds."""
        values, importances, (bias, logit, centre, log_limit) = np.split(theta, [self.size, 2 * self.size])
        return Competition(values[of], importances[of], 1 / (1 + np.exp(-logit)), bias, np.exp(log_limit), centre)

    def residual_covariance(self) -> Floats:
        """Return the covariance (rows, rows) of what the formula leaves."""
        both = zip(np.exp(self.log_variances[2:4]), self.kernels, strict=True)
        return sum(v * part for v, part in both) + np.diag(np.exp(self.log_variances[4]) * self.noise + 1e-8 * self.spread**2)

    def step(self) -> None:
        """Move the parameters and the variances."""
        f, s = self.formula(self.theta), self.size
        variances, by = np.exp(self.log_variances), slopes(f, self.counts)
        prior = np.concatenate([np.repeat(variances[:2], s), [9 * self.spread**2, 1.5**2, self.spread**2, 1.0]])
        residual = self.residual_covariance()
        factor = cho_factor(residual + (by * prior) @ by.T, lower=True)
        pull = cho_solve(factor, self.scores - f.predict(self.counts) + by @ (self.theta - self.start))
        self.theta = self.damped(self.start + prior * (by.T @ pull), prior, residual)
        inverse = cho_solve(factor, np.eye(len(pull)))
        parts = [by[:, :s] @ by[:, :s].T, by[:, s : 2 * s] @ by[:, s : 2 * s].T, *self.kernels, np.diag(self.noise)]
        moved = variances * np.stack([part @ pull for part in parts], axis=1)
        trace = variances * np.array([np.vdot(inverse, part) for part in parts])
        certain = 1 / np.array([1.0, 0.5, 6.0, 6.0, 6.0])  # of the log variances before any score is known
        slope = 0.5 * (pull @ moved - trace) - certain * (self.log_variances - np.log(self.expected(0.03, 0.03)))
        bend = 0.5 * moved.T @ inverse @ moved + np.diag(certain + 0.25 * np.minimum(trace, 4.0))
        self.log_variances = self.log_variances + np.clip(np.linalg.solve(bend, slope), -1.5, 1.5)
        self.log_variances[4] = max(self.log_variances[4], np.log(0.003 * self.spread**2))

    def damped(self, goal: Floats, prior: Floats, residual: Floats) -> Floats:
        """Return the parameters on the way to a goal: as far as the tangent holds, and the posterior is higher there."""
        factor, way = np.linalg.cholesky(residual), goal - self.theta

        def cost(theta: Floats) -> float:
            left = solve_triangular(factor, self.scores - self.formula(theta).predict(self.counts), lower=True)
            return float(left @ left + ((theta - self.start) ** 2 / prior).sum())

        furthest = np.abs(way[self.size : 2 * self.size]).max(), *np.abs(way[[-3, -1]])
        share = min(1.0, *(most / max(size, 1e-9) for most, size in zip((2.0, 1.5, 1.0), furthest, strict=True)))
        now = cost(self.theta)
        for trial in share * 0.4 ** np.arange(6):
            if cost(self.theta + trial * way) < now:
                return self.theta + trial * way
        return self.theta

    def weigh(self) -> None:
        """Let words that matter to the formula matter to the residual."""
        f, whole = self.formula(self.theta), np.bincount(self.kinds).astype(float)
        effects = np.abs(f.evidence(whole[None]) - f.evidence(whole - np.eye(self.size)))[self.kinds]
        self.matter = 0.3 + effects / (effects.mean() + 1e-12)
        self.kernels = kernels(self.masks, self.masks, self.matter)


def fit(words: list[str], masks: Masks, scores: Floats) -> Explanation:
    """Fit the surrogate to the scores of parts of a text; equal words share value and importance."""
    kinds = np.unique([word.lower() for word in words], return_inverse=True)[1]
    search = Fit(kinds, masks, scores)
    for step in range(STEPS):
        if step in (2, 5):
            search.weigh()
        search.step()
    formula = search.formula(search.theta, kinds)
    weights = np.linalg.solve(search.residual_covariance(), scores - formula.predict(masks))
    return Explanation(words, formula, masks, search.matter, np.exp(search.log_variances[2:4]), weights)


# --8<-- [end:fit]
def explain(model: Model, text: str, queries: int = 300, seed: int = 0) -> Explanation:
    """Explain one text: sample, ask, fit."""
    words = text.split()
    masks = sample(len(words), queries, np.random.default_rng(seed))
    return fit(words, masks, ask(model, words, masks))


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
