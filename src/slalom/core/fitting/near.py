"""What a surrogate of all sizes misses next to the whole text, fitted to its residuals.

    e = x^p (r_0 + sum_{i removed} d_i) + b(r) + sum_g h_g(r_g) + noise,        d_i ~ N(mu + alpha rho_i, tau^2 g_i^2)

e is the residual of the surrogate, x the share of the text that is kept, r_0 the residual at the whole text, so that the text
itself is met exactly. rho_i is the surrogate's own change by the removal of unit i: where a score saturates at the whole text,
all these changes are too large by the same factor, and alpha is near -1. mu is what the removal of any unit does. Units that
matter to the surrogate are more likely to matter here: g_i^2 = (1 + |rho_i| / mean) / 2. The variance of the noise grows with
the root of the number of missing units; where every unit was removed alone, in proportion to it: little of what is left of such
a removal is noise.

b is an effect of the number r of missing atoms, h_g of those that are missing before a knot g (`core.shifts`). Both are
Gaussian processes that begin at 0 and are forgotten over a few atoms; the variances of the h_g are in proportion to the g_i^2
of the units around the knot: a shift matters where the units do.

mu and alpha are fitted first, by least squares, then d, b and h together to what they leave of the rows near the text. The
variances and the noise maximise the evidence; b and h are there only if they raise it by a nat. The power p maximises the
evidence without b and h (`_evidence.ridge`) plus the log likelihood of the far rows, on which the correction must not harm the
surrogate.

Where scores have a noise of their own, rows have weights and the whole text is one of them: r_0 is then fitted together with d,
with a prior that is wide beside that of d, and has a standard error. Powers are then those that leave most of the correction in
all of these rows, and the noise is at least what is known of it: few samples of a saturated score are all alike.
"""

from contextlib import suppress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import helmert

from slalom.core.checks import Floats
from slalom.core.fitting._evidence.process import Process, Ratios, search
from slalom.core.fitting._evidence.ridge import ridge
from slalom.core.fitting.problem import all_finite
from slalom.core.lengths import Lengths
from slalom.core.shifts import Shifts

_POWERS = (8, 2, 32)  # the strength of the first serves all
_LEAST_ROWS = 8
_WIDE = 50.0  # prior standard deviation of r_0, in units of that of d, where it is not known exactly
_LEAST_LEFT = 0.8  # of the correction in the near rows with most units removed, where scores are noisy
_CLEAR = 2.0  # squared standard errors by which mu and alpha are shrunk where scores are noisy
_MAX_SHRINKAGE = 0.5  # share of a change that the standard errors take the prior to remove
_KNOTS = 32
_REACH = 1.5  # atoms after which b and h have forgotten most of what they were, in units of the usual size of a unit
_MOST_LEVELS = 64  # numbers of missing atoms: where there are more, units are long, and shifts hide behind them
_SEARCHED = 160  # rows from which the variances are chosen
_GROWTH = 0.5  # the variance of the noise of exact scores grows with this power of the number of missing units,
_GROWTH_ALONE = 1.0  # and with this one where every unit is removed alone in a row
_STARTS = (0.3, 10.0)  # variances of b and h in units of the noise, where the search begins: mostly it ends near them
_MARGIN = 1.0  # nats of evidence that b, and h, must add


class NearFit(NamedTuple):
    """The correction next to the whole text.

    Attributes:
        offset: r_0, () or (n_classes,).
        changes: d (n,) or (n, n_classes).
        power: p.
        lengths: b; None where there is none.
        shifts: h; None where there are none.
        removal_se: Standard errors of what all of it does to the removal of each unit, shaped as d.
        gradient_se: Likewise of what it does to the gradient.
        free: Share of the near rows that it leaves free.
        told: Share (n,) of each of these changes that the near rows tell, from 0 to 1; the prior removes the rest.
    """

    offset: Floats
    changes: Floats
    power: int
    lengths: Lengths | None
    shifts: Shifts | None
    removal_se: Floats
    gradient_se: Floats
    free: float
    told: Floats


def fit_near(
    keep: NDArray[np.bool_],
    residual: Floats,
    near: NDArray[np.bool_],
    rho: Floats,
    types: NDArray[np.int64],
    sizes: NDArray[np.int64],
    weights: Floats | None = None,
    noise: float = 0.0,
) -> NearFit | None:
    """Fit the correction to the residuals of a surrogate."""
    with suppress(ArithmeticError, np.linalg.LinAlgError), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        fit = _fit(keep, residual, near, rho, types, sizes, weights, noise)
        if fit is not None and all_finite(fit.offset, fit.changes, fit.removal_se, fit.gradient_se):
            return fit
    return None


def _fit(
    keep: NDArray[np.bool_],
    residual: Floats,
    near: NDArray[np.bool_],
    rho: Floats,
    types: NDArray[np.int64],
    sizes: NDArray[np.int64],
    weights: Floats | None,
    noise: float,
) -> NearFit | None:
    several = residual.ndim == 2
    basis = helmert(residual.shape[1]).T if several else np.ones((1, 1))  # (C, K), orthonormal
    e, own = (part.reshape(len(part), -1) @ basis for part in (residual, rho))
    near = near & (np.arange(len(near)) > 0)
    if near.sum() < _LEAST_ROWS:
        return _met(~keep, residual, near, sizes) if weights is None else None
    rows = _Rows(~keep, near, types, sizes, own, weights, noise)
    # A power must not fade so fast that rows of a few removals say nothing about single ones. Noisy rows do not tell powers
    # apart: what all rows say about a unit must then not be extrapolated to its removal alone.
    least, furthest = 0.0 if weights is None else _LEAST_LEFT, float(rows.kept[rows.rows].min())
    powers = [p for p in _POWERS if p == min(_POWERS) or (4 * p <= keep.shape[1] and furthest**p >= least)]
    strength = rows.strength(e, powers[0])
    power = max(powers, key=lambda power: rows.log_probability(e, power, strength))
    found = rows.fitted(e, power, strength)

    def classes(outputs: Floats) -> Floats:
        return outputs @ basis.T if several else outputs[..., 0]

    lengths = shifts = None
    if found.lengths is not None:
        lengths = Lengths(classes(found.lengths))
    if found.shifts is not None:
        shifts = Shifts(len(types), *rows.places, classes(found.shifts))
    spread = np.sqrt((basis**2).sum(axis=1))
    removal_se, gradient_se = (np.outer(part, spread) if several else part for part in found.errors)
    return NearFit(
        classes(found.offset), classes(found.changes), power, lengths, shifts, removal_se, gradient_se, found.free, found.told
    )


def _met(gone: NDArray[np.bool_], residual: Floats, near: NDArray[np.bool_], sizes: NDArray[np.int64]) -> NearFit | None:
    """Return the correction of a short text that meets the removal of each unit exactly; None where one of them is missing.

    What it leaves of shorter inputs on average, such as the empty one, is an effect of their lengths.
    """
    single = np.flatnonzero(near & (gone.sum(axis=1) == 1))
    units, first = np.unique(gone[single].argmax(axis=1), return_index=True)
    if len(units) < max(len(sizes), 2):
        return None
    power, longest, lengths = min(_POWERS), int(sizes.sum()), (~gone) @ sizes
    alone = residual[single[first]]
    changes = (alone.T / (1.0 - sizes / longest) ** power).T - residual[0]
    left = residual - ((residual[0] + gone @ changes).T * (lengths / longest) ** power).T
    offsets = np.zeros((longest + 1, *residual.shape[1:]))
    for length in np.setdiff1d(lengths, [longest, *longest - sizes]):
        offsets[length] = left[lengths == length].mean(axis=0)
    nothing = np.zeros_like(alone)
    parts = np.asarray(residual[0]), changes, power, Lengths(offsets) if offsets.any() else None, None
    return NearFit(*parts, nothing, nothing, 1.0, np.ones(len(sizes)))


class _Found(NamedTuple):
    """r_0 (K,), d (n, K), b (L + 1, K) and h (n_knots, R + 1, K) at one power, and errors (2, n), free, told of `NearFit`."""

    offset: Floats
    changes: Floats
    lengths: Floats | None
    shifts: Floats | None
    errors: Floats
    free: float
    told: Floats


class _Rows:
    """The rows: which units are gone (m, n), which rows are near (m,), and rho (n, K) of the units.

    With weights (m,) the whole text is one of the fitted rows, and r_0 the first column of the design. `noise` is the least
    variance of a row of weight 1.
    """

    def __init__(
        self,
        gone: NDArray[np.bool_],
        near: NDArray[np.bool_],
        types: NDArray[np.int64],
        sizes: NDArray[np.int64],
        rho: Floats,
        weights: Floats | None,
        noise: float,
    ) -> None:
        self.gone, self.types, self.rho, self.sizes = gone.astype(np.float64), types, rho, sizes
        self.longest, self.weights = int(sizes.sum()), weights
        missing = (self.gone @ sizes.astype(np.float64)).astype(np.int64)  # integers are multiplied without BLAS
        self.kept = 1.0 - missing[:, None] / self.longest
        self.far = ~near & (np.arange(len(near)) > 0)
        self.rows = near if weights is None else near | (np.arange(len(near)) == 0)
        self.missing = missing[self.rows]
        self.removed = self.gone[self.rows]
        self.own, self.number = (self.gone @ rho)[self.rows], self.removed.sum(axis=1)
        growth = _GROWTH_ALONE if self.removed[self.number == 1].any(axis=0).all() else _GROWTH
        certainty = np.maximum(self.number, 1.0) ** -growth if weights is None else weights[self.rows]
        usual = float(certainty[near[self.rows]].mean())
        self.root, self.noise = np.sqrt(certainty / usual)[:, None], noise / usual
        self.scale = _prior_scale(rho, types)
        n_types = len(self.scale)
        own = np.array_equal(types, np.arange(n_types))
        self.design = (self.removed if own else self.removed @ np.eye(n_types)[types]) * self.scale
        if weights is not None:
            self.design = np.concatenate([np.full((len(self.design), 1), _WIDE), self.design], axis=1)

    def strength(self, e: Floats, power: int) -> float:
        """Return the strength of the ridge regression of d on residuals (m, K), relative to the size of its design."""
        fade, target, *_ = self._left(e, power)
        design = fade * self.design
        found = ridge(design, target, np.ones(len(target)), intercept=False)
        return max(found.noise, self.noise) / found.prior / (float((design**2).sum()) or 1.0)

    def log_probability(self, e: Floats, power: int, strength: float) -> float:
        """Return that of all rows with d alone, up to a constant that is the same for all powers."""
        fade, target, common, _ = self._left(e, power)
        design = fade * self.design
        ratio = 1.0 / (strength * (float((design**2).sum()) or 1.0))
        process = Process(np.sqrt(ratio) * design, target)
        offset, changes = self._changes(e, common, np.sqrt(ratio) * process.weights)
        weights = np.ones(1) if self.weights is None else self.weights[self.far][:, None]
        noise = float((weights * e[self.far] ** 2).mean()) if self.far.any() else 0.0
        if not noise:
            return process.evidence
        left = e[self.far] - self.kept[self.far] ** power * (offset + (self.gone @ changes)[self.far])
        return process.evidence - 0.5 * float((weights * left**2).sum()) / noise

    def fitted(self, e: Floats, power: int, strength: float) -> _Found:
        """Return the correction of residuals (m, K), with the effects of lengths and shifts that the rows tell."""
        fade, target, common, variance = self._left(e, power)
        kinds, kind = self._kinds()
        alone = _Part(fade * self.design, np.zeros((len(kinds), self.design.shape[1])))
        parts, ratios, total = [alone], [1.0 / (strength * (alone.size or 1.0))], None
        levels = np.unique(np.concatenate([self.missing, self.sizes]))
        if len(levels) <= _MOST_LEVELS and len(np.unique(self.missing)) > 2:
            walk, sizes = _Walk(levels, _REACH * float(np.median(self.sizes))), self.sizes[kinds]
            total = _Part(self.root * walk(self.missing), walk(sizes))
            before, each = self._before(self.removed), sizes[:, None] * (kinds[:, None] < self._middles)
            root = np.sqrt(self.spread / self.spread.sum())[:, None]
            moved = _Part(
                self.root * (root * walk(before)).reshape(len(before), -1), (root * walk(each)).reshape(len(each), -1)
            )
            parts, ratios = _supported(target, alone, ratios[0], total, moved)
        features = np.concatenate([np.sqrt(r) * part.rows for part, r in zip(parts, ratios, strict=True)], axis=1)
        process = Process(features, target, self.noise if len(parts) == 1 else 0.0)  # the strength of d alone allows for it
        if process.noise < self.noise:
            share = process.noise / self.noise
            ratios, process = [share * ratio for ratio in ratios], Process(np.sqrt(share) * features, target, self.noise)
        weights = np.split(process.weights, np.cumsum([part.rows.shape[1] for part in parts])[:-1])
        weights = [np.sqrt(r) * part for r, part in zip(ratios, weights, strict=True)]
        offset, changes = self._changes(e, common, weights[0])
        lengths = shifts = None
        for part, found in zip(parts[1:], weights[1:], strict=True):
            if part is total:
                reach = min(int(levels[-1]) + walk.tail, self.longest)
                lengths = np.zeros((self.longest + 1, e.shape[1]))
                lengths[self.longest - np.arange(reach + 1)] = walk.extended(np.arange(reach + 1)) @ found
            else:
                by_knot = root[..., None] * found.reshape(len(root), -1, e.shape[1])
                shifts = np.einsum("rq,gqk->grk", walk.extended(np.arange(int(levels[-1]) + walk.tail + 1)), by_knot)
        widths = np.sqrt(ratios[0]) * (self.scale if self.weights is None else np.append(_WIDE, self.scale))
        of_kinds = np.concatenate([np.sqrt(r) * part.single for part, r in zip(parts, ratios, strict=True)], axis=1)
        missed = self._missed(process, target) if self.weights is None else 0.0
        errors, told = self._errors(process, widths, of_kinds, kind, power, variance, missed)
        return _Found(offset, changes, lengths, shifts, errors, max(float(process.free.mean()), 0.02), told)

    def _errors(
        self,
        process: Process,
        widths: Floats,
        of_kinds: Floats,
        kind: NDArray[np.int64],
        power: int,
        variance: Floats,
        missed: float,
    ) -> tuple[Floats, Floats]:
        """Return errors (2, n) of removals and gradients, and how much of the removals the rows tell (n,).

        The removal of a unit has a feature of its type, of a width times a factor, one of r_0 with weights, and those of its
        kind. What is linear in features is computed for types and kinds, which are fewer than units.
        """
        first, left = int(self.weights is not None), 1.0 - self.sizes / self.longest
        column, width, weight = self.types + first, widths[first:][self.types], process.weights[first:][self.types]
        by_type, by_kind = widths * process.coordinates_of_weights(len(widths)), process.coordinates(of_kinds)
        means, squares = of_kinds @ process.weights, (of_kinds**2).sum(axis=1)
        errors, told = list[Floats](), 0.0 * left
        # The removal is (1 - x^p) r_0 - x^p d_i, with the x of the text without the unit, the gradient p t_i r_0 - d_i.
        for fall, whole in ((left**power, left**power - 1.0), (0.0 * left + 1.0, -power * self.sizes / self.longest)):
            at, square = fall * by_type[:, column] + by_kind[:, kind], (fall * width) ** 2 + squares[kind]
            change = (fall * width)[:, None] * weight + means[kind]
            prior = process.noise * square
            if first:
                at, square = at + whole * by_type[:, :1], square + (whole * widths[0]) ** 2
            unknown = process.variance(at, square)
            if not errors:
                told = np.clip(1.0 - unknown / np.maximum(prior, 1e-300), 0.0, 1.0)
            share = np.minimum(1.0 - told, _MAX_SHRINKAGE)
            shrunk = (change**2).mean(axis=1) * (share / (1.0 - share)) ** 2
            errors.append(np.sqrt(unknown + shrunk + fall**2 * variance + missed))
        return np.stack(errors), told

    def _missed(self, process: Process, target: Floats) -> float:
        """Return the variance of what the correction misses of a single removal: by how much misfits grow with their number."""
        number, misfit = self.number - self.number.mean(), process.misfit(target) / self.root[:, 0] ** 2
        slope = float(number @ misfit) / max(float(number @ number), 1e-300)
        return min(max(slope, 0.0), float(misfit.mean()) / float(self.number.mean()))

    def _left(self, e: Floats, power: int) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the factors (m, 1) of the fitted rows, what r_0, mu and alpha leave of them, and the rest of `_common`."""
        fade = self.root * self.kept[self.rows] ** power
        left = self.root * e[self.rows]
        return fade, *self._common(fade, left - fade * e[0] if self.weights is None else left)

    def _changes(self, e: Floats, common: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """Return r_0 (K,) and d (n, K) from the weights of the design."""
        offset, slopes = (e[0], weights) if self.weights is None else (_WIDE * weights[0], weights[1:])
        return offset, common + (slopes * self.scale[:, None])[self.types]

    def _common(self, fade: Floats, left: Floats) -> tuple[Floats, Floats, Floats]:
        """Return what mu + alpha rho leaves of the rows `left` (m, K), and this for each unit (n, K) with its variance (n,)."""
        target, common, variance = np.empty_like(left), np.empty_like(self.rho), np.zeros(len(self.rho))
        for k, rho in enumerate(self.rho.T):
            columns = fade * np.stack([self.number, self.own[:, k]], axis=1)
            slopes, covariance = _least_squares(columns, left[:, k], None if self.weights is None else fade)
            unit = np.stack([np.ones_like(rho), rho], axis=1)
            target[:, k], common[:, k] = left[:, k] - columns @ slopes, unit @ slopes
            variance = np.maximum(variance, ((unit @ covariance) * unit).sum(axis=1))
        return target, common, variance

    @property
    def _edges(self) -> NDArray[np.int64]:
        """Bounds of groups of adjacent units; in the middle of each is a knot."""
        n = len(self.types)
        return np.unique(np.linspace(0, n, min(_KNOTS, n) + 1).astype(np.int64))

    @property
    def spread(self) -> Floats:
        """The variances of h at the knots, up to a factor."""
        return np.add.reduceat(self.scale[self.types] ** 2, self._edges[:-1])

    @property
    def _middles(self) -> NDArray[np.int64]:
        """The first unit that is not before each knot."""
        return np.asarray((self._edges[:-1] + self._edges[1:]) // 2)

    @property
    def _knots(self) -> NDArray[np.int64]:
        """The number of knots that are not after each unit (n,)."""
        return np.searchsorted(self._middles, np.arange(len(self.types)), side="right")

    def _kinds(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return one unit of each kind, and the kind of each unit (n,): of one size, with as many knots before them."""
        number = self._knots * (self.longest + 1) + self.sizes
        _, firsts, kind = np.unique(number, return_index=True, return_inverse=True)
        return firsts, kind

    @property
    def places(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Units, knots and sizes of `Shifts`; units after the last knot have no entry."""
        knots = self._knots
        units = np.flatnonzero(knots < len(self._middles))
        return units, knots[units], self.sizes[units]

    def _before(self, gone: Floats) -> NDArray[np.int64]:
        """Return the number of missing atoms before each knot, (m, n_knots)."""
        atoms = np.cumsum(gone * self.sizes, axis=1)
        return np.concatenate([np.zeros((len(gone), 1)), atoms], axis=1)[:, self._middles].astype(np.int64)


class _Part(NamedTuple):
    """Features of one part of the correction: of the fitted rows (m, q), and of the removal of a unit of each kind (k, q).

    Of r_0 and d, which do not depend on the kind, the latter are 0.
    """

    rows: Floats
    single: Floats

    @property
    def size(self) -> float:
        """The sum of their squares."""
        return float((self.rows**2).sum())


def _supported(target: Floats, alone: _Part, ratio: float, total: _Part, moved: _Part) -> tuple[list[_Part], list[float]]:
    """Return the parts that raise the evidence enough, of d, b and h, with the ratios of their variances to the noise."""
    some = np.sort(np.random.default_rng(0).permutation(len(target))[:_SEARCHED])

    def searched(parts: list[_Part], start: list[float]) -> Ratios:
        return search([part.rows[some] for part in parts], target[some], np.array(start))

    parts = [alone]
    best = searched(parts, [ratio])
    for part, start in zip((total, moved), _STARTS, strict=True):
        trial = searched([*parts, part], [*best.ratios, start])
        if trial.evidence > best.evidence + _MARGIN:
            parts, best = [*parts, part], trial
    return parts, best.ratios.tolist() if len(parts) > 1 else [ratio]  # d alone: the ratio of all rows


class _Walk:
    """A process that begins at 0 and forgets where it was: k(r, r') = exp(-|r - r'| / reach) - exp(-(r + r') / reach).

    Args:
        levels: The numbers r at which it is needed, in ascending order.
        reach: In atoms.

    Attributes:
        tail: Atoms beyond the last level after which it is back at 0, to 5%.
    """

    def __init__(self, levels: NDArray[np.int64], reach: float) -> None:
        self.levels, self.reach, self.tail = levels, reach, int(np.ceil(3.0 * reach))
        values, basis = np.linalg.eigh(self._kernel(levels, levels))
        keep = values > 1e-10 * values[-1]
        self.basis, self.root = basis[:, keep], np.sqrt(values[keep])

    def _kernel(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> Floats:
        a, b = first[:, None] / self.reach, second / self.reach
        return np.asarray(np.exp(-np.abs(a - b)) - np.exp(-(a + b)))

    def __call__(self, missing: NDArray[np.int64]) -> Floats:
        """Return features (..., q) of numbers of missing atoms, which are among the levels or 0."""
        features = np.concatenate([np.zeros((1, len(self.root))), self.basis * self.root])
        return features[np.where(missing > 0, np.searchsorted(self.levels, missing) + 1, 0)]

    def extended(self, missing: NDArray[np.int64]) -> Floats:
        """Return the features of any numbers of missing atoms (k, q): the mean given the process at the levels."""
        return np.asarray(self._kernel(missing, self.levels) @ (self.basis / self.root))


def _least_squares(x: Floats, y: Floats, beside: Floats | None) -> tuple[Floats, Floats]:
    """Return the slopes (q,) of y (m,) on columns x (m, q) and their covariance; columns that say the same share a slope.

    Beside a further column (m, 1), where scores are noisy, the slopes are shrunk towards 0 by their noise.
    """
    size = np.sqrt((x**2).sum(axis=0))
    x = x / np.where(size > 0.0, size, 1.0)
    if beside is not None:
        beside = beside / np.sqrt((beside**2).sum())
        x, y = x - beside @ (beside.T @ x), y - beside[:, 0] * float(beside[:, 0] @ y)
    values, basis = np.linalg.eigh(x.T @ x)
    told = values > 1e-10 * values[-1]
    inverse = (basis[:, told] / values[told]) @ basis[:, told].T
    slopes = inverse @ (x.T @ y)
    left = y - x @ slopes
    noise = float(left @ left) / max(len(y) - x.shape[1] - int(beside is not None), 1)
    if beside is not None:
        along = x @ slopes
        shrunk = max(1.0 - _CLEAR * x.shape[1] * noise / max(float(along @ along), 1e-300), 0.0)
        slopes, inverse = shrunk * slopes, shrunk * inverse
    scale = np.where(size > 0.0, 1.0 / np.where(size > 0.0, size, 1.0), 0.0)
    return scale * slopes, noise * inverse * np.outer(scale, scale)


def _prior_scale(rho: Floats, types: NDArray[np.int64]) -> Floats:
    """Return g of each type: how large a change is before it is measured, beside that of others."""
    size = np.bincount(types, np.sqrt((rho**2).sum(axis=1))) / np.bincount(types)
    mean = float(size.mean())
    return np.sqrt(0.5 + 0.5 * size / mean) if mean > 0.0 else np.ones_like(size)
