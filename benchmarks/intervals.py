"""How often Joint's 95% intervals hold the planted parameters.

Run: python benchmarks/intervals.py [--fits 200]

n = 12 units, values and importances drawn anew for each fit from N(0, 1), and a competition; noise in units of the scores'
standard deviation.
"""

import argparse

import numpy as np

from slalom.core import Joint, Slalom, fit

from planted import design


def covered(competition, shape, noise, m, fits):
    inside = np.zeros(2)
    for seed in range(fits):
        rng = np.random.default_rng(seed)
        truth = Slalom(rng.normal(size=12), rng.normal(size=12), competition)
        counts = design(shape, 12, m, rng)
        scores = truth(counts)
        found = fit(counts, scores + noise * scores.std() * rng.normal(size=m), Joint(link=False))
        inside[0] += np.mean(np.abs(found.model.values - truth.values) <= 1.96 * found.values_se)
        inside[1] += np.mean(np.abs(found.model.importances - truth.importances) <= 1.96 * found.importances_se)
    return inside / fits


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=200)
    fits = parser.parse_args().fits
    print(f"{'competition':<13}{'queries':<10}{'noise':<8}{'m':<7}{'values':<9}importances")
    for competition in (1.0, 0.5):
        for shape in ("sizes", "half"):
            for noise in (0.1, 0.5):
                for m in (150, 600):
                    v, s = covered(competition, shape, noise, m, fits)
                    print(f"{competition:<13}{shape:<10}{noise:<8}{m:<7}{v:<9.3f}{s:.3f}", flush=True)


if __name__ == "__main__":
    main()
