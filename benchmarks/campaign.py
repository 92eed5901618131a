"""Explain many reviews with every method at several budgets, and count what fails.

Run: python benchmarks/campaign.py [--device cuda] [--texts 2000] [--processes 6] [--queries 60 200 1000]

The bundled classifier on IMDB test reviews. A text fails where it has no explanation, or one with a number that is not finite.
The table has one row per method and budget; the command exits with 1 if anything failed. Ctrl-C prints what is done.
"""

import argparse
import math
import os
import signal
import sys
import time
import warnings
from collections import Counter
from multiprocessing import get_context

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the processes fill the cores already; numpy reads this when it is imported

import numpy as np
from tqdm import tqdm

from reviews import rows

METHODS = ("joint", "local", "eff", "fidel")
LOT = 50


def explained(job):
    """Return what became of some texts: the method and budget, their number, how many fell back, failures, and seconds."""
    device, (method, queries), (first, texts) = job
    explainer = _explainer(device)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = explainer(texts, method=method, queries=queries, errors="keep")
        wrong = [(first + one.number, one.error) for one in found.failures]
        wrong += [(first, f"a number is not finite: {e.text[:40]!r}") for e in found if not _finite(e)]
    return (method, queries), len(texts), sum(bool(e.diagnosis) for e in found), wrong, time.perf_counter() - began


def _finite(e):
    """Whether all numbers of an explanation are finite, fidelity included."""
    arrays = [e.values, e.importances, e.removal, e.gradient, e.score, e.fit_r2, e.predict(np.ones(len(e)))]
    arrays += [part for part in (e.errors["value"], e.errors["importance"]) if part is not None]
    numbers = [number for quality, _ in e.fidelity.known for number in (quality.mse, quality.r2) if number is not None]
    return all(np.isfinite(part).all() for part in arrays) and all(map(math.isfinite, numbers))


_OWN = {}


def _explainer(device):
    import torch  # noqa: PLC0415

    import slalom  # noqa: PLC0415

    if device not in _OWN:
        torch.set_num_threads(1)
        _OWN[device] = slalom.Explainer(device=device, progress=False)
    return _OWN[device]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--queries", type=int, nargs="+", default=[60, 200, 1000])
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    options = parser.parse_args()
    texts = [row["text"] for row in rows("imdb_test")]
    texts = [texts[i] for i in np.random.default_rng(0).permutation(len(texts))[: options.texts]]
    cells = [(method, queries) for queries in options.queries for method in options.methods]
    done, noted, seconds, wrong = Counter(), Counter(), Counter(), {cell: [] for cell in cells}
    lots = [(first, texts[first : first + LOT]) for first in range(0, len(texts), LOT)]
    jobs = [(options.device, cell, lot) for cell in cells for lot in lots]
    pool_ = get_context("spawn").Pool(options.processes, signal.signal, (signal.SIGINT, signal.SIG_IGN))  # Ctrl-C is for us
    with pool_ as pool, tqdm(total=len(cells) * len(texts), unit="text") as bar:
        try:
            for cell, number, fell, failed, took in pool.imap_unordered(explained, jobs):
                done[cell] += number
                noted[cell] += fell
                seconds[cell] += took
                wrong[cell] += failed
                for number_, error in failed:
                    tqdm.write(f"{cell[0]} {cell[1]}, text {number_}: {error}")
                bar.update(number)
        except KeyboardInterrupt:
            print("interrupted; what is done:")
    print(f"{'method':<8}{'queries':<9}{'texts':<8}{'failed':<8}{'with a diagnosis':<18}seconds per text and process")
    for cell in cells:
        if done[cell]:
            print(
                f"{cell[0]:<8}{cell[1]:<9}{done[cell]:<8}{len(wrong[cell]):<8}{noted[cell]:<18}{seconds[cell] / done[cell]:.3f}"
            )
    sys.exit(any(wrong.values()))


if __name__ == "__main__":
    main()
