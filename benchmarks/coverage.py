"""How often Joint's 95% intervals hold the estimate of very many queries, on real classifiers.

Run: python benchmarks/coverage.py [--device cuda] [--reviews 6] [--seeds 10] [--queries 500] [--reference 20000]

For the bundled classifier and imdb-bert-2: IMDB reviews of 20 to 400 tokens are explained with `joint` at --queries under
several seeds, and once at --reference. A 95% interval of a value or importance should hold the reference estimate for about 95%
of the units; the ten with the largest removal effect are counted apart, as they are what people quote.
"""

import argparse
import warnings

import numpy as np
from tqdm import tqdm

import slalom

from reviews import SHARED, rows

LIMITS = ((20, 40), (60, 90), (90, 130), (130, 200), (200, 300), (300, 400))


def held(fitted, reference, name, units):
    """Return the share of units whose interval holds the reference estimate."""
    errors = getattr(fitted, f"{name}_se")
    inside = np.abs(getattr(fitted, name) - getattr(reference, name)) <= 1.96 * errors
    return float(inside[units].mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--reviews", type=int, default=len(LIMITS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--reference", type=int, default=20_000)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    texts = [row["text"] for row in rows("imdb_test")]
    order = np.random.default_rng(0).permutation(len(texts))[:3000]
    print(
        f"{'classifier':<20}{'tokens':<8}{'values':<9}{'ten':<7}{'importances':<13}{'ten':<7}median se, then at the reference"
    )
    for path in (None, SHARED / "models" / "imdb-bert-2"):
        explainer = slalom.Explainer(path, device=options.device, progress=False)
        found = []
        for low, high in tqdm(LIMITS[: options.reviews], leave=False):
            text = next(texts[i] for i in order if low <= len(explainer.tokens(texts[i])) <= high)
            reference = explainer(text, queries=options.reference, check=0)
            ten = np.argsort(-np.abs(reference.removal))[:10]
            fits = [explainer(text, queries=options.queries, seed=seed, check=0) for seed in range(1, options.seeds + 1)]
            cells = [
                np.mean([held(e, reference, name, units) for e in fits])
                for name in ("values", "importances")
                for units in (slice(None), ten)
            ]
            spread = np.median([np.median(e.values_se) for e in fits]), np.median(reference.values_se)
            found.append(cells)
            print(
                f"{explainer.model.name:<20}{len(reference):<8}" + _line(cells) + f"{spread[0]:.3g}, {spread[1]:.3g}",
                flush=True,
            )
        print(f"{explainer.model.name:<20}{'mean':<8}" + _line(np.mean(found, axis=0)))


def _line(cells):
    return "".join(f"{cell:<{width}.3f}" for cell, width in zip(cells, (9, 7, 13, 7), strict=True))


if __name__ == "__main__":
    main()
