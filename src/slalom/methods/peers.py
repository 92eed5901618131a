"""The strongest surrogates of other people: trees, sparse polynomials and Gaussian processes of masks.

    Trees        gradient-boosted trees of LightGBM (Ke et al., 2017), with the grid of ProxySPEX
    ProxySpex    ProxySPEX (Butler et al., arXiv 2505.17495, 2025): Fourier coefficients of such trees, fitted again
    HammingGP    a Gaussian process, k = s exp(-sum_i r_i 1[z_i != z'_i]): the surrogate of ShaplEIG
    PairsGP      a Gaussian process, k = a + b t + c t^2, t = x.x' / n, x = 2 z - 1: all pairs of units

z are masks. Each ends as a `Slalom` whose values add up (kappa = 0) and one part, which is the fitted function exactly: it
predicts any mask, has exact Shapley values and is saved like every other surrogate. Units with one parameter are asked about
together, and a part of them counts as its share.
"""

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations, product
from math import prod
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from slalom.core import Conjunctions, Neighbours, Part, Slalom
from slalom.core.checks import Floats
from slalom.errors import InputError, require
from slalom.methods.base import Method, MethodContext, MethodResult
from slalom.text import Halves, Mixed, QueryPlan, Sampler, Scales, Units

Keep = NDArray[np.bool_]
Terms = dict[tuple[int, ...], float]  # effects by literals, as in `Conjunctions`; of a Fourier transform by units, from 0

_DEPTHS, _ROUNDS, _RATES, _FOLDS = (3, 5), (500, 1000), (0.01, 0.1), 5  # the grid of ProxySPEX
_LEAF, _ROWS_PER_LEAF = 20, 10  # rows of a leaf, LightGBM's default; fewer where there are few rows
_ENERGY = 0.95  # of the Fourier coefficients that are kept
_RIDGES = np.logspace(-6, 6, 100)
_MOST_TERMS = 10**6
_NOISE = -4.0, 1.0  # mean and standard deviation of the logarithm of the noise, relative to the variance of the scores
_LENGTH = 2.0**0.5, 3.0**0.5  # of length scales, before log(n) / 2: with the noise's, the priors of BoTorch and ShaplEIG
_WIDE = 10.0  # standard deviation of the other logarithms
_BOUND, _LEAST_NOISE = 14.0, -9.2  # of logarithms
# Seconds of one core, measured with 200 to 2,000 rows and 20 to 400 units: of trees and of a Hamming kernel.
_TREE_ROW, _TREE_UNIT, _GP_ROW, _GP_UNIT = 3e-3, 3e-5, 1e-8, 2e-8


class Function(NamedTuple):
    """A fitted function of p features: base + values . z + part."""

    base: float
    values: Floats
    part: Conjunctions | Neighbours


class PeerMethod(Method):
    """Fits a function of masks to the scores of sampled queries. Subclasses implement `fit`.

    Attributes:
        sampler: Chooses the queries.
    """

    sampler: Sampler
    plans_all: ClassVar[bool] = True

    def plan(self, units: Units, budget: int, rng: np.random.Generator, empty: bool) -> QueryPlan:
        if self.extra:
            _packages()  # before anything is asked
        plan = self.sampler.draw(np.arange(units.n_types), budget, rng, empty)
        return plan._replace(keep=plan.keep[:, units.type_of_unit])

    def explain(self, context: MethodContext) -> MethodResult:
        context.one_class(self.name)
        types = context.units.type_of_unit
        keep, scores = context.plan.keep[:, np.unique(types, return_index=True)[1]], context.scores
        if context.observed is not None and context.observed.known.any():
            keep, scores = keep[context.observed.known], context.observed.start()[context.observed.known]
        if len(scores) < 2 or np.ptp(scores) <= 1e-12 * np.abs(scores).max():
            return MethodResult(Slalom(np.zeros(len(types)), np.zeros(len(types)), 0.0, scores.mean()), 1.0)
        base, values, part = self.fit(keep, scores, context.seed)
        times = np.bincount(types)[types]
        return MethodResult(Slalom(values[types] / times, np.zeros(len(types)), 0.0, base, parts=[_shared(part, types)]))

    @abstractmethod
    def fit(self, keep: Keep, scores: Floats, seed: int) -> Function:
        """Return the function of masks (m, p) that explains scores (m,), which are not all equal."""


class TreeMethod(PeerMethod):
    """A method that begins with gradient-boosted trees."""

    extra: ClassVar[str | None] = "peers"

    def seconds(self, n: int, rows: int) -> float:
        return rows * (_TREE_ROW + _TREE_UNIT * n)


@final
@dataclass(frozen=True)
class Trees(TreeMethod):
    """Gradient-boosted trees, written out as their leaves."""

    sampler: Sampler = field(default_factory=Scales)
    name: str = "trees"
    summary: str = "gradient-boosted trees of LightGBM on subsets of every size, tuned as in ProxySPEX"

    def fit(self, keep: Keep, scores: Floats, seed: int) -> Function:
        order = np.random.default_rng(seed).permutation(len(keep))  # rows come by size
        return _function(keep.shape[1], _leaves(boosted(keep[order], scores[order], seed)))


@final
@dataclass(frozen=True)
class ProxySpex(TreeMethod):
    """ProxySPEX: the strongest Fourier coefficients of trees, fitted again by ridge regression.

    The recipe of shapiq 1.4, whose results it reproduces for 200 rows and more; for fewer, leaves may be smaller.
    """

    sampler: Sampler = field(default_factory=Halves)
    name: str = "proxyspex"
    summary: str = "ProxySPEX of Butler et al.: sparse Fourier coefficients of trees, on random halves"

    def fit(self, keep: Keep, scores: Floats, seed: int) -> Function:
        n, support = keep.shape[1], strongest(fourier(_leaves(boosted(keep, scores, seed))))
        signs = np.array([1.0 - 2.0 * (keep[:, list(units)].sum(axis=1) % 2) for units in support]).T
        coefficients = _packages()[1].RidgeCV(alphas=_RIDGES, fit_intercept=False).fit(signs, scores).coef_
        return _function(n, polynomial(dict(zip(support, coefficients.tolist(), strict=True))))


class Process(NamedTuple):
    """A Gaussian process before the scores are known.

    Attributes:
        kernel: Function from p logarithms of hyper-parameters to the kernel (m, m), and to a function that takes
            W = d evidence / d kernel (m, m) to d evidence / d logarithms (p,).
        means, widths: Means and standard deviations of the logarithms, and of that of the noise (p + 1,).
    """

    kernel: Callable[[Floats], tuple[Floats, Callable[[Floats], Floats]]]
    means: Floats
    widths: Floats


@final
@dataclass(frozen=True)
class HammingGP(PeerMethod):
    """A Gaussian process with one rate per unit; rates, scale and noise are the most probable ones."""

    sampler: Sampler = field(default_factory=Mixed)
    name: str = "hamming-gp"
    summary: str = "a Gaussian process with a Hamming kernel, one length scale per unit: the surrogate of ShaplEIG"
    most: ClassVar[int] = 1500

    def seconds(self, n: int, rows: int) -> float:
        return rows**2 * (_GP_ROW * rows + _GP_UNIT * n)

    def process(self, keep: Keep) -> Process:
        n = keep.shape[1]
        means = np.array([*[-_LENGTH[0] - 0.5 * np.log(n)] * n, 0.0, _NOISE[0]])
        return Process(partial(_hamming, keep.astype(np.float64)), means, np.array([*[_LENGTH[1]] * n, _WIDE, _NOISE[1]]))

    def fit(self, keep: Keep, scores: Floats, seed: int) -> Function:
        n, level, spread = keep.shape[1], scores.mean(), scores.std()
        logs, pulls = most_probable(self.process(keep), (scores - level) / spread)
        return Function(level, np.zeros(n), Neighbours(keep, np.exp(logs[:n]) / n, spread * np.exp(logs[n]) * pulls))


@final
@dataclass(frozen=True)
class PairsGP(PeerMethod):
    """A Gaussian process whose kernel is a polynomial of order 2: Bayesian regression on all units and all pairs."""

    sampler: Sampler = field(default_factory=Mixed)
    name: str = "pairs-gp"
    summary: str = "a Gaussian process of all units and pairs: the model of the second-order Faith-Banzhaf index"
    most: ClassVar[int] = 1500

    def seconds(self, n: int, rows: int) -> float:
        return 0.3 * _GP_ROW * rows**3

    def process(self, keep: Keep) -> Process:
        x = 2.0 * keep - 1.0
        kernels = np.array([(x @ x.T / x.shape[1]) ** order for order in range(3)])
        return Process(partial(_weighted, kernels), np.array([0.0, 0.0, 0.0, _NOISE[0]]), np.array([*[_WIDE] * 3, _NOISE[1]]))

    def fit(self, keep: Keep, scores: Floats, seed: int) -> Function:
        x, n, level, spread = 2.0 * keep - 1.0, keep.shape[1], scores.mean(), scores.std()
        logs, pulls = most_probable(self.process(keep), (scores - level) / spread)
        a, b, c = spread * np.exp(logs[:3])
        slopes, pairs = b / n * (x.T @ pulls), c / n**2 * (x.T * pulls) @ x  # a sum of pulls + slopes . x + x . pairs . x,
        base = level + a * pulls.sum() - slopes.sum() + pairs.sum()  # and in z = (x + 1) / 2:
        values = 2.0 * slopes - 4.0 * (pairs.sum(axis=1) - np.diag(pairs))
        i, j = np.triu_indices(n, 1)
        return Function(base, values, Conjunctions(n, np.stack([i + 1, j + 1], axis=1), 8.0 * pairs[i, j]))


# -- trees ---------------------------------------------------------------------------------------------------


def boosted(keep: Keep, scores: Floats, seed: int) -> Any:
    """Return the booster of LightGBM whose depth, rate and number of trees have the highest mean R2 on five folds."""
    lightgbm = _packages()[0]

    def train(rows: NDArray[np.int64], rate: float, depth: int, rounds: int) -> Any:
        leaf = int(np.clip(len(keep) // _ROWS_PER_LEAF, 1, _LEAF))
        options: dict[str, Any] = {"learning_rate": rate, "max_depth": depth, "min_data_in_leaf": leaf}
        options |= {"objective": "regression", "verbosity": -1, "num_threads": 1, "seed": seed % 2**31, "deterministic": True}
        data = lightgbm.Dataset(keep[rows].astype(np.float64), scores[rows], params={"verbosity": -1})
        return lightgbm.train(options, data, rounds)

    everything = np.arange(len(keep))
    folds = [fold for fold in np.array_split(everything, _FOLDS) if len(fold) and np.ptp(scores[fold]) > 0.0]
    best, most = (_RATES[-1], _DEPTHS[0], _ROUNDS[0]), -np.inf
    for rate in _RATES:
        for depth in _DEPTHS:
            fits = [train(np.setdiff1d(everything, fold), rate, depth, _ROUNDS[-1]) for fold in folds]
            for rounds in _ROUNDS:  # the first trees are those of a shorter run
                pairs = zip(fits, folds, strict=True)
                r2 = [_r2(fit.predict(keep[fold], num_iteration=rounds), scores[fold]) for fit, fold in pairs]
                if r2 and np.mean(r2) > most:
                    best, most = (rate, depth, rounds), float(np.mean(r2))
    return train(everything, *best)


def _packages() -> tuple[Any, Any]:
    with require("this method", "peers"):
        import lightgbm  # noqa: PLC0415
        from sklearn import linear_model  # noqa: PLC0415
    return lightgbm, linear_model


def _r2(predicted: Floats, scores: Floats) -> float:
    return 1.0 - float(((predicted - scores) ** 2).sum() / ((scores - scores.mean()) ** 2).sum())


def _leaves(booster: Any) -> Terms:
    """Return the sums of leaves with the same conditions; a split of a unit has its absence on the left."""
    terms: Terms = defaultdict(float)
    nodes: list[tuple[Any, tuple[int, ...]]] = [(tree["tree_structure"], ()) for tree in booster.dump_model()["tree_info"]]
    while nodes:
        node, path = nodes.pop()
        if "split_feature" in node:
            unit = node["split_feature"] + 1
            nodes += [(node["left_child"], (*path, -unit)), (node["right_child"], (*path, unit))]
        else:
            terms[tuple(sorted(path))] += node["leaf_value"]
    return terms


def fourier(leaves: Mapping[tuple[int, ...], float]) -> Terms:
    """Return the Fourier coefficients F[S] of leaves: f(z) = sum_S F[S] prod_(i in S) (-1)^z_i.

    Example:
        >>> fourier({(1,): 3.0, (-1,): 1.0})  # 3 where unit 0 is there, else 1
        {(): 2.0, (0,): -1.0}
    """
    result: Terms = defaultdict(float)
    for literals, effect in leaves.items():
        for subset in _subsets(literals):
            sign = (-1) ** sum(literal > 0 for literal in subset)
            result[tuple(sorted(abs(literal) - 1 for literal in subset))] += sign * effect / 2 ** len(literals)
    return dict(result)


def strongest(coefficients: Terms) -> list[tuple[int, ...]]:
    """Return the units of the coefficients that hold most of the energy; the constant one counts, but not as energy."""
    sizes = np.sort([value**2 for units, value in coefficients.items() if units])[::-1]
    enough = int(np.argmax(np.cumsum(sizes) >= _ENERGY * sizes.sum())) + 1 if len(sizes) else 0
    least = np.sqrt(sizes[enough]) if enough < len(sizes) else 0.0
    return [units for units, value in coefficients.items() if abs(value) > least] or [()]


def polynomial(coefficients: Terms) -> Terms:
    """Return the effects of units that are present together, as conjunctions, from Fourier coefficients.

    Example:
        >>> polynomial({(): 2.0, (0,): -1.0})
        {(): 1.0, (1,): 2.0}
    """
    result: Terms = defaultdict(float)
    for units, value in coefficients.items():
        for subset in _subsets(units):
            result[tuple(unit + 1 for unit in subset)] += (-2.0) ** len(subset) * value
    return dict(result)


def _subsets(items: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [subset for size in range(len(items) + 1) for subset in combinations(items, size)]


def _function(n: int, terms: Terms) -> Function:
    length = max(map(len, terms), default=0)
    literals = [(*term, *[0] * (length - len(term))) for term in terms if term]
    effects = [effect for term, effect in terms.items() if term]
    return Function(terms.get((), 0.0), np.zeros(n), Conjunctions(n, np.reshape(literals, (len(effects), length)), effects))


# -- Gaussian processes --------------------------------------------------------------------------------------


def most_probable(process: Process, scores: Floats) -> tuple[Floats, Floats]:
    """Return the most probable logarithms (p + 1,) for scores (m,) of variance 1, and the weights K^-1 y of the rows (m,)."""
    from scipy.optimize import minimize  # noqa: PLC0415

    bounds = [*[(-_BOUND, _BOUND)] * (len(process.means) - 1), (_LEAST_NOISE, _BOUND)]
    best = minimize(loss, process.means, args=(process, scores), jac=True, method="L-BFGS-B", bounds=bounds)
    return best.x, _solved(best.x, process, scores)[1]


def loss(logs: Floats, process: Process, scores: Floats) -> tuple[float, Floats]:
    """Return minus the logarithm of the posterior of hyper-parameters, but for a constant, and its slopes (p + 1,)."""
    factor, pulls, slopes = _solved(logs, process, scores)
    W = 0.5 * (np.outer(pulls, pulls) - cho_solve(factor, np.eye(len(scores))))
    away = (logs - process.means) / process.widths
    value = 0.5 * (scores @ pulls + away @ away) + np.log(np.diag(factor[0])).sum()
    return value, away / process.widths - np.append(slopes(W), np.exp(logs[-1]) * np.trace(W))


def _solved(logs: Floats, process: Process, scores: Floats) -> tuple[Any, Floats, Callable[[Floats], Floats]]:
    matrix, slopes = process.kernel(logs[:-1])
    factor = cho_factor(matrix + np.exp(logs[-1]) * np.eye(len(scores)), lower=True)
    return factor, cho_solve(factor, scores), slopes


def _hamming(z: Floats, logs: Floats) -> tuple[Floats, Callable[[Floats], Floats]]:
    """Return s exp(-(1/n) sum_i r_i 1[z_i != z'_i]) for the logarithms of r (n,) and s."""
    rates = np.exp(logs[:-1]) / z.shape[1]
    distances = (z * rates) @ (1.0 - z).T
    kernel = np.exp(logs[-1] - distances - distances.T)

    def slopes(W: Floats) -> Floats:
        weighted = W * kernel
        return np.append(-2.0 * rates * (z * (weighted @ (1.0 - z))).sum(axis=0), weighted.sum())

    return kernel, slopes


def _weighted(kernels: Floats, logs: Floats) -> tuple[Floats, Callable[[Floats], Floats]]:
    """Return the sum of kernels (k, m, m), weighted by the exponentials of logarithms (k,)."""
    return np.tensordot(np.exp(logs), kernels, 1), lambda W: np.exp(logs) * np.tensordot(kernels, W, 2)


# -- units with one parameter --------------------------------------------------------------------------------


def _shared(part: Conjunctions | Neighbours, types: NDArray[np.int64]) -> Part:
    """Return the part for units of these types: the presence of a type is the mean of that of its units."""
    n, times = len(types), np.bincount(types)
    if len(times) == n:
        return part.merged(np.argsort(types))
    if isinstance(part, Neighbours):
        return Neighbours(part.rows[:, types], (part.rates / times)[types], part.pulls)
    members = [(np.flatnonzero(types == unit) + 1).tolist() for unit in range(len(times))]
    literals, effects = list[tuple[int, ...]](), list[float]()
    for term, effect in zip(part.literals.tolist(), part.effects.tolist(), strict=True):
        choices = [[int(np.sign(i)) * member for member in members[abs(i) - 1]] if i else [0] for i in term]
        copies = prod(map(len, choices))
        if len(literals) + copies > _MOST_TERMS:
            raise InputError("words are repeated too often for this method; give each its own score: unit='word' or 'token'")
        literals += product(*choices)
        effects += [effect / copies] * copies
    return Conjunctions(n, literals, effects)


PEERS = (Trees(), ProxySpex(), HammingGP(), PairsGP())
