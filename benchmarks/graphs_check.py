"""Compare fits on a GPU with those on the CPU, and report CUDA graphs, fallbacks, times and released memory.

Run: python benchmarks/graphs_check.py     (needs torch and a CUDA device; exits with 1 where a check fails)

Each problem is fitted once on the CPU and several times on the GPU: first without graphs, then while they are captured, then
from them. Every repeat must give the CPU's result and diagnosis.
"""

import logging
import sys
import time

import numpy as np
import torch

from slalom.core import Joint, Slalom, fit
from slalom.core.fitting import release_memory
from slalom.core.fitting._arrays import graphs

REPEATS = 6
PROBLEMS = [  # units, rows, classes, link
    (40, 400, None, False),
    (60, 700, 3, False),
    (90, 1000, None, True),
    (200, 1000, None, False),
    (190, 900, None, False),  # padded to the shapes of the last one
    (200, 1000, 3, False),
    (500, 5000, None, False),
]


def planted(n, m, classes, link, seed):
    rng = np.random.default_rng(seed)
    shape = (n,) if classes is None else (n, classes)
    truth = Slalom(rng.normal(size=shape), rng.normal(size=n), (0.3 if classes is None else np.zeros(classes), 1.0))
    counts = (rng.random((m, n)) < rng.random((m, 1))).astype(float)
    scores = truth(counts)
    scores = np.tanh(scores) if link else scores
    return counts, scores + 0.1 * scores.std() * rng.normal(size=scores.shape)


def difference(found, expected):
    """The largest difference of values, in standard errors, and of standard errors, relative."""
    values = np.abs(found.model.values - expected.model.values) / expected.values_se
    errors = np.abs(found.importances_se / expected.importances_se - 1.0)
    return float(values.max()), float(errors.max())


def timed(run):
    start = time.perf_counter()
    result = run()
    torch.cuda.synchronize()
    return time.perf_counter() - start, result


def captured():
    return sum(graph is not None for graph in graphs._CACHE.graphs.values())


def main():
    messages = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    logging.getLogger("slalom").addHandler(handler)
    failures = []
    print(f"{'problem':<34}{'CPU s':>8}{'first':>8}{'second':>8}{'median':>8}{'values':>10}{'errors':>10}{'graphs':>8}")
    for n, m, classes, link in PROBLEMS:
        name = f"{n} units, {m} rows" + (f", {classes} classes" if classes else "") + (", link" if link else "")
        counts, scores = planted(n, m, classes, link, seed=0)
        seconds, expected = timed(lambda c=counts, y=scores: fit(c, y, Joint(device="cpu")))
        runs = [timed(lambda c=counts, y=scores: fit(c, y, Joint(device="cuda"))) for _ in range(REPEATS)]
        values, errors = map(max, zip(*(difference(found, expected) for _, found in runs), strict=True))
        times = [run for run, _ in runs]
        print(
            f"{name:<34}{seconds:>8.3f}{times[0]:>8.3f}{times[1]:>8.3f}{np.median(times[2:]):>8.3f}"
            f"{values:>10.1e}{errors:>10.1e}{captured():>8}"
        )
        if values > 1e-2 or errors > 1e-2:
            failures.append(f"{name}: the GPU's fit differs from the CPU's")
        if any(found.diagnosis != expected.diagnosis for _, found in runs):
            failures.append(f"{name}: the diagnoses differ: {runs[-1][1].diagnosis!r}")
    before = torch.cuda.memory_reserved()
    release_memory()
    after = torch.cuda.memory_reserved()
    print(f"reserved memory: {before / 2**20:.0f} MiB, after release_memory(): {after / 2**20:.0f} MiB; graphs: {captured()}")
    if captured() or not after < before:
        failures.append("release_memory() has released nothing")
    counts, scores = planted(*PROBLEMS[3], seed=1)
    again = [timed(lambda: fit(counts, scores, Joint(device="cuda")))[0] for _ in range(REPEATS)]
    print(f"after the release: {', '.join(f'{run:.3f}' for run in again)} s; graphs: {captured()}")
    print("logged:", *(messages or ["nothing"]), sep="\n  ")
    if messages or not captured():
        failures.append("CUDA graphs were not used")
    print(*(failures or ["all checks passed"]), sep="\n")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
