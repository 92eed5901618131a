"""Fits of hostile data: every one must give finite numbers and no exception.

Run: OMP_NUM_THREADS=1 python benchmarks/hostile.py [--fits 20000] [--seed 0] [--processes 2]     (Ctrl-C prints what there is)

Each fit draws scores, rows, weights and a fitter at random; its seed is --seed plus its number, so that `--seed S --fits 1`
repeats one of them. Exits 1 where there was an exception (a warning counts as one) or a wrong number: one that is not finite,
or an R2 that is not that of the predictions. Where Joint is drawn and scores are below 1e30, the method `joint` fits the same
scores, as those of parts of a text, with everything it has. A fit is counted once in each group of lines; a fallback is what
`Fit.diagnosis` calls one.
"""

import argparse
import signal
import sys
import traceback
import warnings
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from slalom.core import Alternating, Joint, Linear, Sgd, Slalom, fit
from slalom.methods import MethodContext
from slalom.methods import method as find_method
from slalom.text import QueryPlan, units

# How often each fitter is drawn.
FITTERS = {
    "Joint()": (Joint(), 12),
    "Joint(link=False)": (Joint(link=False), 4),
    "Linear()": (Linear(), 2),
    "Alternating()": (Alternating(max_iterations=20), 2),
    "Alternating(once=True)": (Alternating(once=True), 1),
    "Sgd()": (Sgd(max_steps=300), 2),
    "Sgd(optimizer='sgd')": (Sgd(max_steps=300, optimizer="sgd"), 1),
}
NO_EMPTY_ROW = ("Alternating()", "Alternating(once=True)", "Sgd()", "Sgd(optimizer='sgd')")
LARGEST = 1e150  # score that is fitted
ANSWER = 1e30  # beyond the largest score that a model gives a part of a text

# -- scores: from those of a planted model, y (m,) or (m, classes) of size up to 3 ---------------------------------------

SCORES = {
    "ordinary": lambda y, rng: y + 0.1 * rng.normal(size=y.shape),
    "no noise": lambda y, rng: y,
    "constant": lambda y, rng: np.full(y.shape, rng.choice([0.0, 5.4, -1e-9, 1e9])),
    "nearly constant": lambda y, rng: 5.4 + 10.0 ** rng.uniform(-9, -3) * y,
    "nearly constant, single precision": lambda y, rng: (
        (5.4 + 10.0 ** rng.uniform(-8, -5) * y).astype(np.float32).astype(float)
    ),
    "at the rounding of a large mean": lambda y, rng: 1e8 + 10.0 ** rng.uniform(-9, -5) * rng.normal(size=y.shape),
    "one outlier of 1e6": lambda y, rng: y + 1e6 * (np.arange(y.size) == rng.integers(y.size)).reshape(y.shape),
    "near 1e-120": lambda y, rng: 1e-120 * y,
    "small": lambda y, rng: 1e-100 * (y + 0.1 * rng.normal(size=y.shape)),
    "near 1e140": lambda y, rng: 1e140 * y,
    "near the largest score": lambda y, rng: LARGEST / y.ndim * (y / np.abs(y).max(initial=1e-300)),  # differences are floats
    "of all sizes": lambda y, rng: y * 10.0 ** rng.uniform(-100, 140, y.shape),
    "one of size 1e140": lambda y, rng: y + 1e140 * (np.arange(y.size) == rng.integers(y.size)).reshape(y.shape),
    "saturated at 40": lambda y, rng: 40.0 * np.tanh(10.0 ** rng.uniform(0, 3) * y),
    "two values": lambda y, rng: np.where(y > np.median(y), 2.5, -1.0),
    "all but one alike": lambda y, rng: 3.0 + (np.arange(y.size) == rng.integers(y.size)).reshape(y.shape),
    "mere noise": lambda y, rng: rng.normal(size=y.shape),
    "heavy tails": lambda y, rng: rng.standard_cauchy(y.shape) ** 3,
}


# -- rows: counts (m, n) ----------------------------------------------------------------------------------------------


def kept(sizes, n, rng):
    """Rows with so many (m,) of n units."""
    return (rng.random((len(sizes), n)).argsort(axis=1) < np.asarray(sizes)[:, None]).astype(float)


ROWS = {
    "half of the units": lambda m, n, rng: (rng.random((m, n)) < 0.5).astype(float),
    "of all sizes": lambda m, n, rng: kept(rng.integers(1, n + 1, m), n, rng),
    "deletions": lambda m, n, rng: kept(n - rng.integers(0, min(10, n - 1) + 1, m), n, rng),
    "pairs": lambda m, n, rng: kept(np.full(m, 2), n, rng),
    "counts up to 5": lambda m, n, rng: rng.integers(0, 6, (m, n)).astype(float),
    "counts from 1e-6 to 1e6": lambda m, n, rng: kept(rng.integers(1, n + 1, m), n, rng) * 10.0 ** rng.uniform(-6, 6, (m, n)),
    "counts from 1e-200 to 1e200": lambda m, n, rng: (
        kept(rng.integers(1, n + 1, m), n, rng) * 10.0 ** rng.uniform(-200, 200, (m, n))
    ),
    "ten times more units than rows": lambda m, n, rng: kept(rng.integers(1, n + 1, -(-n // 10)), n, rng),
    "all alike": lambda m, n, rng: np.tile(kept([max(n // 2, 1)], n, rng), (m, 1)),
    "one row": lambda m, n, rng: kept(rng.integers(1, n + 1, 1), n, rng),
    "two rows": lambda m, n, rng: kept(rng.integers(1, n + 1, 2), n, rng),
    "one unit": lambda m, n, rng: rng.integers(0, rng.integers(2, 4), (m, 1)).astype(float),
    "rows that repeat": lambda m, n, rng: np.repeat(kept(rng.integers(1, n + 1, -(-m // 5)), n, rng), 5, axis=0),
    "units never there, or always": lambda m, n, rng: (rng.random((m, n)) < rng.choice([0.0, 0.5, 1.0], n)).astype(float),
}

# -- weights: None or (m,) --------------------------------------------------------------------------------------------

WEIGHTS = {
    "none": lambda m, rng: None,
    "the first as much as all others": lambda m, rng: np.where(np.arange(m) == 0, max(m - 1.0, 1.0), 1.0),
    "with zeros": lambda m, rng: np.where(np.arange(m) == rng.integers(m), 1.0, rng.integers(0, 2, m)),
    "zero but for one": lambda m, rng: (np.arange(m) == rng.integers(m)).astype(float),
    "of all sizes": lambda m, rng: 10.0 ** rng.uniform(-12, 12, m),
    "near the largest float": lambda m, rng: np.finfo(float).max * rng.uniform(0.5, 1.0, m),
}


class Case(NamedTuple):
    """One fit: what was drawn of each kind, and the data."""

    kinds: dict[str, str]
    counts: np.ndarray
    scores: np.ndarray
    weights: np.ndarray | None
    fitter: object


class Result(NamedTuple):
    """What became of one fit: an exception (its trace), wrong numbers (their names), whether a fallback was said."""

    seed: int
    kinds: dict[str, str]
    exception: str
    wrong: list[str]
    fallback: bool


def drawn(seed):
    """The case of a seed."""
    rng = np.random.default_rng(seed)
    frequency = np.array([times for _, times in FITTERS.values()])
    kinds = {
        "scores": str(rng.choice(list(SCORES))),
        "rows": str(rng.choice(list(ROWS))),
        "weights": str(rng.choice(list(WEIGHTS), p=np.array([5, 2, 2, 1, 1, 1]) / 12)),
        "fitter": str(rng.choice(list(FITTERS), p=frequency / frequency.sum())),
    }
    n = int(np.exp(rng.uniform(0.0, np.log(30.0)))) if rng.random() < 0.98 else int(rng.integers(30, 401))
    m = int(rng.integers(1, 4 * n + 10)) if rng.random() < 0.7 else int(rng.integers(1, 10))
    counts = ROWS[kinds["rows"]](min(m, 400), n, rng)
    if kinds["fitter"] in NO_EMPTY_ROW or rng.random() < 0.5:
        counts[~counts.any(axis=1), 0] = 1.0
    m, n = counts.shape
    classes = None if rng.random() < 0.6 else int(rng.choice([2, 3, 5]))
    kinds["classes"] = str(classes or 1)
    shape = () if classes is None else (classes,)
    truth = Slalom(rng.normal(size=(n, *shape)), rng.normal(size=n))
    slopes, straight = rng.normal(size=(n, *shape)), rng.random() < 0.3
    y = (counts - counts.mean(axis=0)) @ slopes if straight else truth(counts)
    y = 3.0 * y / max(float(np.abs(y).max()), 1e-3)
    return Case(kinds, counts, SCORES[kinds["scores"]](y, rng), WEIGHTS[kinds["weights"]](m, rng), FITTERS[kinds["fitter"]][0])


def wrong_numbers(case, found):
    """The names of what is not finite in a fit, or not right."""
    model = found.model
    numbers = {
        "values": getattr(model, "values", None),
        "importances": getattr(model, "importances", None),
        "effects": getattr(model, "effects", None),
        "base": getattr(model, "base", None),
        "values_se": found.values_se,
        "importances_se": found.importances_se,
        "r2": found.r2,
        "predictions": model(case.counts),
        "competition": getattr(model, "competition", None),
        "bias": getattr(model, "bias", None),
        "link": getattr(model, "link", None),
    }
    wrong = [name for name, given in numbers.items() if given is not None and not np.isfinite(given).all()]
    fits = np.abs(case.scores).max() < 1e150  # where squares of the scores are floats, so is the loss
    if np.isnan(found.loss) or (fits and np.isinf(found.loss)):
        wrong.append("loss")
    if not wrong and case.kinds["fitter"].startswith("Joint") and np.abs(case.scores).max() < ANSWER:
        wrong += explained(case)
    if not wrong and not agrees(case, numbers["predictions"], found.r2):
        wrong.append("r2 is not that of the predictions")
    return wrong


def explained(case):
    """The names of what is not finite in what the method `joint` makes of the same scores, as those of parts of a text."""
    keep = np.unique(case.counts > 0, axis=0)
    keep, n = np.concatenate([np.ones((1, keep.shape[1]), dtype=bool), keep[~keep.all(axis=1)]]), keep.shape[1]
    scores = np.resize(case.scores, (len(keep), *case.scores.shape[1:]))
    ends = 2 * np.arange(n) + 1
    text = units("x " * n, "token", ["x"] * n, np.stack([ends - 1, ends], axis=1), np.arange(n) // 2)
    plan = QueryPlan(keep, np.ones(len(keep)))
    target = "all" if scores.ndim == 2 else 0
    found = find_method("joint").explain(MethodContext(None, None, text, plan, scores, scores[0], target, len(keep), 0, None))
    model = found.surrogate
    parts = {"r2": found.r2, "predictions": model(keep.astype(float)), "removal": model.removal(), "shapley": model.shapley()}
    parts |= {f"error of {name}": error for name, error in found.errors.items()}
    return [f"{name} of joint" for name, part in parts.items() if not np.isfinite(part).all()]


def agrees(case, guess, r2):
    """Whether an r2 is that of the predictions, or the scores hardly vary beside their size."""
    seen = np.ones(len(guess), dtype=bool) if case.weights is None else case.weights > 0
    weights = np.ones(len(guess)) if case.weights is None else case.weights / case.weights.max()
    y, guess, weights = (array[seen].reshape(seen.sum(), -1) for array in (case.scores, guess, weights))
    power = np.frexp(max(np.abs(y).max(), np.abs(guess).max()))[1]
    y, guess = np.ldexp(y, -power), np.ldexp(guess, -power)
    size = np.abs(y).max()
    if case.scores.ndim == 2:
        y = np.ldexp(np.ldexp(y - y.mean(axis=1, keepdims=True), power), -power)  # as floats are: the smallest are coarse
    spread = (weights * (y - (weights * y).sum(axis=0) / weights.sum()) ** 2).sum() / weights.sum()
    if spread <= 1e-20 * size**2:
        return r2 <= 1.0
    share = (weights * (guess - y) ** 2).sum() / weights.sum() / spread
    return abs(1.0 - share - r2) <= 1e-3 * (1.0 + share)


def tried(seed):
    """Fit the case of a seed; warnings count as exceptions."""
    case = drawn(seed)
    try:
        with np.errstate(all="warn", under="ignore"), warnings.catch_warnings():
            warnings.simplefilter("error")
            found = fit(case.counts, case.scores, case.fitter, case.weights)
            wrong = wrong_numbers(case, found)
    except Exception:
        return Result(seed, case.kinds, traceback.format_exc(), [], False)
    return Result(seed, case.kinds, "", wrong, "Fallback:" in found.diagnosis)


def table(results):
    """One line for each kind of scores, rows, weights, fitters and classes."""
    sums = defaultdict(Counter)
    for result in results:
        for item in (*result.kinds.items(), ("all", "")):
            sums[item] += Counter(
                fits=1, exceptions=bool(result.exception), wrong=bool(result.wrong), fallbacks=result.fallback
            )
    lines = [f"{'pattern':<46}{'fits':>8}{'exceptions':>12}{'wrong numbers':>15}{'fallbacks':>11}"]
    for kind in ("scores", "rows", "weights", "fitter", "classes", "all"):
        for (of, name), sum_ in sums.items():
            if of == kind:
                label = f"{of}: {name}" if name else of
                lines.append(f"{label:<46}{sum_['fits']:>8}{sum_['exceptions']:>12}{sum_['wrong']:>15}{sum_['fallbacks']:>11}")
    return "\n".join(lines)


def run(seeds, processes):
    """Yield the results of these seeds in their order."""
    if processes == 1:
        yield from map(tried, seeds)
        return
    with ProcessPoolExecutor(processes, initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN)) as pool:
        try:
            yield from pool.map(tried, seeds, chunksize=20)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=20_000, help="how many fits")
    parser.add_argument("--seed", type=int, default=0, help="of the first fit; each further one adds 1")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    results = []
    try:
        for result in tqdm(run(range(options.seed, options.seed + options.fits), options.processes), total=options.fits):
            results.append(result)
    except KeyboardInterrupt:
        print(f"\nstopped after {len(results)} fits", file=sys.stderr)
    print(table(results))
    bad = [result for result in results if result.exception or result.wrong]
    if bad:
        first = bad[0]
        print(f"\n{len(bad)} of {len(results)} fits went wrong; the first, repeated by --seed {first.seed} --fits 1:")
        print(", ".join(f"{kind}: {name}" for kind, name in first.kinds.items()))
        print(first.exception or "wrong: " + ", ".join(first.wrong))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
