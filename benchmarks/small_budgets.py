"""Held-out error of Joint against ridge regression (strength by GCV) when there are few queries.

Run: python benchmarks/small_budgets.py [--seeds 50] [--units 40]

Each cell is the mean over seeds of Joint's error divided by that of ridge, on 500 fresh queries without noise; below 1 is
better than ridge. m is the number of queries.
"""

import argparse

import numpy as np

from slalom.core import fit

from planted import DESIGNS, design, truth


def gcv_ridge(counts, scores):
    mean, level = counts.mean(axis=0), scores.mean()
    left, values, right = np.linalg.svd(counts - mean, full_matrices=False)
    along = left.T @ (scores - level)
    outside = max(float(((scores - level) ** 2).sum() - (along**2).sum()), 0.0)
    best = (np.inf, 1.0)
    for strength in np.geomspace(1e-8, 1e4, 61) * values[0] ** 2:
        keep = values**2 / (values**2 + strength)
        free = 1.0 - (1.0 + keep.sum()) / len(scores)
        if free > 1e-9:
            best = min(best, ((outside + (((1 - keep) * along) ** 2).sum()) / free**2, strength))
    slopes = right.T @ (values / (values**2 + best[1]) * along)
    return lambda c: level + (c - mean) @ slopes


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--units", type=int, default=40)
    options = parser.parse_args()
    seeds, n = options.seeds, options.units
    budgets = (n // 2, n, 2 * n, 5 * n)
    print(f"{'truth':<12}{'queries':<12}{'noise':<7}" + "".join(f"m = {m:<8}" for m in budgets))
    worst = 0.0
    for kind in ("slalom", "linear", "background"):
        for shape in DESIGNS:
            for noise in (0.1, 0.5):
                cells = []
                for m in budgets:
                    errors = np.zeros(2)
                    for seed in range(seeds):
                        rng = np.random.default_rng(seed)
                        model = truth(kind, n, rng)
                        counts, fresh = design(shape, n, m, rng), design(shape, n, 500, rng)
                        clean = model(fresh)
                        scores = model(counts) + noise * clean.std() * rng.normal(size=m)
                        for i, found in enumerate((fit(counts, scores).model, gcv_ridge(counts, scores))):
                            errors[i] += np.mean((found(fresh) - clean) ** 2) / clean.var() / seeds
                    cells.append(errors[0] / errors[1])
                worst = max(worst, *cells)
                print(f"{kind:<12}{shape:<12}{noise:<7}" + "".join(f"{c:<12.2f}" for c in cells), flush=True)
    print(f"largest ratio: {worst:.3f}")


if __name__ == "__main__":
    main()
