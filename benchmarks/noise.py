"""What noisy and censored scores cost, and whether the intervals allow for them.

Run: python benchmarks/noise.py [--fits 100] [--queries 200]

A known SLALOM over 20, 40 and 60 units answers (no link, log odds of about -2.5 to 2.5, 0.1 of misfit):

    noise       16 draws of the label per query: log odds of (hits + 1/2) / (misses + 1/2), with the counts
    variances   the same, with the variances of the counts alone
    censoring   the 30% lowest scores are known only to be below a bound

Printed: the error of `removal` (root mean square, in log odds) with the counts, variances or bounds and without them
(unweighted; the bound filled in), the size of the true one, the share of 95% intervals of `removal` that hold the truth, and
the error of predictions on new subsets.

`samples` is a table of its own, of large effects: 17 words, six of which add 0.5 to 1.5 log odds, for or against; 16 and 64
draws, log odds of (hits + 1) / (misses + 1) as `slalom.models.Api` makes them. Printed, with the likelihood of the counts and
with their variances alone: the slope of `removal` of the six over the truth, the share of their 95% intervals that hold, that
of the eleven words that add nothing, and the errors of `removal` and of predictions on new subsets.
"""

import argparse

import numpy as np

from slalom.core import Additive
from slalom.methods import MethodContext
from slalom.methods import method as find_method
from slalom.models import Observed
from slalom.text import units

from planted import Backed

DRAWS = 16
MISFIT = 0.1


def text_of(n):
    words = [f"w{i}" for i in range(n)]
    text = " ".join(words)
    ends = np.cumsum([len(word) + 1 for word in words]) - 1
    spans = np.stack([ends - [len(word) for word in words], ends], axis=1)
    return units(text, "token", words, spans, np.arange(n))


def truth_of(rng, n):
    return Backed(2.0 * rng.normal(size=n), 1.5 * rng.normal(size=n), (0.0, 1.0))


def sampled(rng, scores, draws=DRAWS, added=0.5):
    """Log odds from some draws of the label, with their variances and the counts."""
    hits = rng.binomial(draws, 1.0 / (1.0 + np.exp(-scores))).astype(float)
    yes, no = hits + added, draws - hits + added
    return Observed(np.log(yes / no), 1.0 / yes + 1.0 / no, None, None, hits, np.full(len(hits), float(draws)))


def strong_words(rng, n=17, strong=6):
    """An additive model in which a few words add much, with log odds of 0 for half of every word."""
    effects = np.zeros(n)
    effects[rng.permutation(n)[:strong]] = np.linspace(0.5, 1.5, strong) * rng.choice([-1.0, 1.0], strong)
    return Additive(effects, -0.5 * effects.sum())


def of_samples(seed, draws, queries, name):
    """Return slope, held shares, errors of removal and of predictions: by likelihood, and by variances alone."""
    rng, method, text = np.random.default_rng([seed, draws]), find_method(name), text_of(17)
    truth = strong_words(rng)
    plan = method.plan(text, queries, np.random.default_rng(seed), True)
    counted = sampled(rng, truth(plan.keep.astype(float)), draws, 1.0)
    new = (rng.random((300, 17)) < rng.random((300, 1))).astype(bool)
    true, results = truth.removal(), []
    strong = true != 0.0
    for observed in (counted, Observed(counted.scores, counted.variance)):
        result = explained(method, text, plan, counted.scores, observed, seed)
        removal = result.surrogate.removal()
        inside = held(result, np.abs(removal - true))
        far = np.mean((result.surrogate(new.astype(float)) - truth(new.astype(float))) ** 2)
        slope, error = removal[strong] @ true[strong] / (true @ true), np.mean((removal - true) ** 2)
        results.append((slope, inside[strong].mean(), inside[~strong].mean(), error, far))
    return np.array(results)


def held(result, off):
    """Return which 95% intervals of removal (n,) hold the truth that it misses by so much; NaN where there are none."""
    errors = result.errors.get("removal")
    return np.full(len(off), np.nan) if errors is None else np.where(off <= 1.96 * errors, 1.0, 0.0)


def explained(method, text, plan, scores, observed, seed):
    whole = int(np.flatnonzero(plan.keep.all(axis=1))[0])
    context = MethodContext(None, None, text, plan, scores, scores[whole], 0, len(plan.keep), seed, None, True, observed)
    return method.explain(context)


def one(seed, n, queries, name, case):
    """Return errors of removal (with and without), the share of intervals that hold, and errors of predictions."""
    rng, method, text = np.random.default_rng([seed, n]), find_method(name), text_of(n)
    truth = truth_of(rng, n)
    plan = method.plan(text, queries, np.random.default_rng(seed), True)
    exact = truth(plan.keep.astype(float))
    exact += MISFIT * rng.normal(size=len(exact)) * ~plan.keep.all(axis=1)
    if case != "censoring":
        observed = sampled(rng, exact)
        scores = observed.scores
        observed = observed if case == "noise" else Observed(scores, observed.variance)
    else:
        bound = np.quantile(exact, 0.3)
        scores = np.maximum(exact, bound)
        observed = Observed(scores, None, np.where(exact < bound, -np.inf, exact), scores)
    new = (rng.random((300, n)) < rng.random((300, 1))).astype(bool)
    new = new[new.any(axis=1)]
    results = []
    for given in (observed, None):
        result = explained(method, text, plan, scores, given, seed)
        off = result.surrogate.removal() - truth.removal()
        inside = held(result, np.abs(off)).mean()
        far = result.surrogate(new.astype(float)) - truth(new.astype(float))
        results.append((np.mean(off**2), np.mean(far**2), inside, np.mean(truth.removal() ** 2)))
    return np.array(results)


def print_samples(options):
    print(f"{options.fits} fits of {options.queries} queries to samples: by the likelihood of counts, by their variances alone")
    print(f"{'method':<9}{'draws':<7}{'slope':<16}{'held':<16}{'held, none':<16}{'removal':<16}far")
    for name in options.methods.split(","):
        for draws in (16, 64):
            found = np.mean([of_samples(seed, draws, options.queries, name) for seed in range(options.fits)], axis=0)
            found[:, 3:] **= 0.5
            print(f"{name:<9}{draws:<7}" + "".join(f"{f'{a:.3f}, {b:.3f}':<16}" for a, b in found.T), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=100)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--methods", default="joint,local,ridge")
    parser.add_argument("--cases", default="noise,variances,censoring,samples")
    parser.add_argument("--units", default="20,40,60")
    options = parser.parse_args()
    cases = options.cases.split(",")
    if "samples" in cases:
        cases.remove("samples")
        print_samples(options)
    if not cases:
        return
    print(f"{options.fits} fits of {options.queries} queries; with: counts, variances or bounds used; without: not used")
    head = ("case", 11), ("method", 8), ("units", 7), ("removal with", 14), ("without", 9), ("size", 8)
    tail = ("held", 7), ("without", 9), ("far with", 10), ("without", 0)
    print("".join(f"{name:<{width}}" for name, width in (*head, *tail)))
    for case in cases:
        for name in options.methods.split(","):
            for n in map(int, options.units.split(",")):
                found = np.mean([one(seed, n, options.queries, name, case) for seed in range(options.fits)], axis=0)
                (rw, fw, hold, size), (ro, fo, held, _) = found
                print(
                    f"{case:<11}{name:<8}{n:<7}{rw**0.5:<14.3f}{ro**0.5:<9.3f}{size**0.5:<8.3f}{hold:<7.3f}{held:<9.3f}"
                    f"{fw**0.5:<10.3f}{fo**0.5:.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
