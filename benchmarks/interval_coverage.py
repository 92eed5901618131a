"""How often 95% intervals contain the truth: planted models, real classifiers against very many queries or the model itself.

Run: OMP_NUM_THREADS=1 python benchmarks/interval_coverage.py planted [--fits 200] [--processes 2]
     python benchmarks/interval_coverage.py real [--device cuda] [--method joint] [--reviews 6] [--seeds 10] [--queries 500]
         [--classifiers bundled,imdb-bert-2]
     python benchmarks/interval_coverage.py removals [--device cuda] [--method joint] [--texts 24] [--queries 500]
         [--classifiers bundled,imdb-bert-2] [--sentences]

planted: SLALOMs of 20 and 100 units with values and importances from N(0, 1), alone or with a background, which the formula
does not have; explained from subsets of every size or from 1 to 5 deletions; the noise is in units of the scores' standard
deviation.

real: the bundled classifier and imdb-bert-2. IMDB reviews of 20 to 400 tokens are explained at --queries under several seeds,
and once at --reference. A 95% interval should contain the reference's estimate for about 95% of the units.

removals: 24 reviews of 30 to 508 tokens, or SST-2 sentences of 8 words and more; does the interval of a removal hold what the
model itself says of the text without the unit, and does that of its prediction (`predict_interval`)? `unexplained` is the share
of the squares of these removals that is left. --classifiers takes folders, too.

Units that the model was asked about are left out, as their intervals are points. The strongest units are counted apart (top):
the ten with the largest removal effect, or with 20 planted units the five. Chosen by the truth, they are mostly underestimated;
`shown` are the ten that the explanation takes for the strongest, whose removals are all asked.
"""

import argparse
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from tqdm import tqdm

import slalom
from slalom.core import Slalom
from slalom.methods import method as find_method
from slalom.text import QueryPlan

from noise import explained, text_of
from planted import Backed, design

LIMITS = ((20, 40), (60, 90), (90, 130), (130, 200), (200, 300), (300, 400))
SCORES = ("removal", "value")
SIZES = ((20, 200), (100, 500))


def planted(options):
    """Print the coverage on planted data."""
    print(f"{'units':<7}{'rows':<7}{'design':<11}{'background':<12}{'noise':<7}" + _heads(SCORES))
    with ProcessPoolExecutor(options.processes) as pool:
        for n, m in SIZES:
            for shape in ("sizes", "deletions"):
                for name, background in {"none": None, "weak": (0.3, np.log(n / 4)), "strong": (0.3, np.log(4 * n))}.items():
                    for noise in (0.1, 0.5):
                        fits = pool.map(partial(_fit, n, m, shape, background, noise), range(options.fits), chunksize=2)
                        cells = np.nanmean(list(fits), axis=0)
                        print(f"{n:<7}{m:<7}{shape:<11}{name:<12}{noise:<7}" + _line(cells), flush=True)


def _fit(n, m, shape, background, noise, seed):
    """Return the shares of intervals that contain the truth, for each score of all units and of the strongest."""
    rng = np.random.default_rng(seed)
    values, importances = rng.normal(size=(2, n))
    truth = Slalom(values, importances) if background is None else Backed(values, importances, background)
    counts = design(shape, n, m, rng)
    counts[0] = 1.0
    scores = truth(counts)
    scores += noise * scores.std() * rng.normal(size=m)
    plan = QueryPlan(counts > 0.0, np.ones(m))
    found = explained(find_method("joint"), text_of(n), plan, scores, None, seed)
    removal, value = truth.removal(), truth.alone()
    strongest, cells = np.argsort(-np.abs(removal))[: min(10, n // 4)], []
    for name, true, predicted in zip(
        SCORES, (removal, value), (found.surrogate.removal(), found.surrogate.alone()), strict=True
    ):
        errors = found.errors[name]
        inside = np.where(errors > 0.0, np.abs(true - predicted) <= 1.96 * errors, np.nan)
        cells += [np.nanmean(inside), np.nanmean(inside[strongest])]
    return cells


def real(options):
    """Print the coverage on real classifiers."""
    from reviews import rows  # noqa: PLC0415  (imports torch)

    names = ("removal", "shapley", "value", "importance")
    texts = [row["text"] for row in rows("imdb_test")]
    order = np.random.default_rng(0).permutation(len(texts))[:3000]
    print(f"{'classifier':<20}{'tokens':<8}" + _heads(names) + "median error of removal, then at the reference")
    for explainer in _explainers(options):
        found = []
        for low, high in tqdm(LIMITS[: options.reviews], leave=False):
            text = next(texts[i] for i in order if low <= len(explainer.tokens(texts[i])) <= high)
            reference = explainer(text, queries=options.reference, check=0)
            ten = np.argsort(-np.abs(reference.removal))[:10]
            fits = [explainer(text, queries=options.queries, seed=seed, check=0) for seed in range(1, options.seeds + 1)]
            cells = np.nanmean(
                [[_inside(e, name, reference.scores(name), ten) for name in names] for e in fits], axis=0
            ).ravel()
            found.append(cells)
            spread = np.median([np.median(e.errors["removal"]) for e in fits]), np.median(reference.errors["removal"])
            print(
                f"{explainer.model.name:<20}{len(reference):<8}" + _line(cells) + f"{spread[0]:.3g}, {spread[1]:.3g}",
                flush=True,
            )
        print(f"{explainer.model.name:<20}{'mean':<8}" + _line(np.nanmean(found, axis=0)))


def removals(options):
    """Print the coverage of what real classifiers say of the text without each unit."""
    from reviews import reviews, sentences, tokenizer  # noqa: PLC0415  (imports torch)

    texts = sentences(options.texts) if options.sentences else reviews(tokenizer(), options.texts)
    print(
        f"{'classifier':<20}{'queries':<9}{'removal':<12}{'top':<7}{'prediction':<12}{'top':<7}{'shown':<7}"
        f"{'median error':<14}"
        f"{'rms difference (medians)':<26}unexplained (mean)"
    )
    for explainer in _explainers(options):
        found = []
        for text in tqdm(texts, leave=False):
            e = explainer(text, queries=options.queries)
            whole = np.ones((1, len(e)), dtype=bool)
            full, *without = explainer.ask_many([e], [np.concatenate([whole, ~np.eye(len(e), dtype=bool)])])[0]
            removed = full - np.array(without)
            strongest = [np.argsort(-np.abs(effects))[:10] for effects in (removed, e.removal)]
            apart = np.sqrt(np.mean((e.removal - removed) ** 2))
            left = apart**2 / np.mean(removed**2)
            low, high = e.predict_interval(~np.eye(len(e), dtype=bool)).T
            held = (low <= without) & (without <= high)
            held_shares = [held.mean(), *(held[group].mean() for group in strongest)]
            error = np.median([error for error in e.errors["removal"] if error > 0.0] or [np.nan])
            found.append([*_inside(e, "removal", removed, strongest[0]), *held_shares, left, error, apart])
        *cells, left = np.nanmean(found, axis=0)[:6]
        error, apart = np.nanmedian(found, axis=0)[6:]
        shares = "".join(f"{cell:<{width}.3f}" for cell, width in zip(cells, (12, 7, 12, 7, 7), strict=True))
        print(
            f"{explainer.model.name:<20}{options.queries:<9}{shares}{error:<14.3g}{apart:<26.3g}{left:.3f}",
            flush=True,
        )


def _explainers(options):
    """Yield an explainer of each classifier."""
    from reviews import SHARED  # noqa: PLC0415  (imports torch)

    for name in options.classifiers.split(","):
        path = None if name == "bundled" else Path(name) if "/" in name else SHARED / "models" / name
        yield slalom.Explainer(path, device=options.device, progress=False, method=options.method)


def _inside(e, name, truth, *groups):
    """Return the shares of all units, and of groups of them, whose interval contains the truth; without those asked."""
    low, high = e.interval(name).T
    inside = np.where(low < high, (low <= truth) & (truth <= high), np.nan)
    return [np.nanmean(inside), *(np.nanmean(inside[group]) for group in groups)]


def _heads(names):
    return "".join(f"{name:<12}{'top':<7}" for name in names)


def _line(cells):
    return "".join(f"{cell:<{width}.3f}" for cell, width in zip(cells, (12, 7) * (len(cells) // 2), strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", choices=("planted", "real", "removals"))
    parser.add_argument("--fits", type=int, default=200)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--method", default="joint")
    parser.add_argument("--reviews", type=int, default=len(LIMITS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--texts", type=int, default=24)
    parser.add_argument("--sentences", action="store_true")
    parser.add_argument("--classifiers", default="bundled,imdb-bert-2")
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--reference", type=int, default=1500)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    {"planted": planted, "real": real, "removals": removals}[options.data](options)


if __name__ == "__main__":
    main()
