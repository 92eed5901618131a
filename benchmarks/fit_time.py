"""How long a fit takes, beside the reference package's own fitting of the same data in the same process.

Run: python benchmarks/fit_time.py [--quick]     (needs the benchmark extra for the reference; without it ours alone)

Only the fitting is timed. The reference package fits as part of explaining a model, so it is given a look-up table that
answers its queries at once, and its routines are called with the data already in memory:
- eff: its Adam loop with the defaults of its explainer (60 epochs of batches of 128, learning rate 5e-3) on the rows as
  token sequences, and the same with ten times the epochs, as its loss is far from ours after 60;
- fidel: its v step, s step, v step (scikit-learn and scipy) on the same rows.
The loss is the mean squared error on the rows that were fitted.
"""

import argparse
import statistics
import time

from slalom.core import Alternating, Joint, Sgd, fit

from planted import noisy
from reference import Reference


def timed(run, repeats):
    if repeats > 1:
        run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = run()
        times.append(time.perf_counter() - start)
    return statistics.median(times), result


def reference(counts, scores):
    """Return runs of the reference's two fitters; each gives its mean squared error on the rows."""

    def run(fitter):
        return lambda: fit(counts, scores, fitter).loss

    run(Reference(3))()  # torch's first steps are slow
    return {
        "reference eff": run(Reference()),
        "reference eff x 10": run(Reference(600)),
        "reference fidel": run(Reference(None)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="the smaller data alone")
    arguments = parser.parse_args()
    print(f"{'data':<34}{'fitter':<20}{'median s':>10}{'loss':>12}{'R2':>9}")
    for n, m, repeats in ((50, 250, arguments.repeats), (200, 1000, 1))[: 1 if arguments.quick else 2]:
        for shape in ("sizes", "half", "deletions", "pairs"):
            counts, scores = noisy("slalom", shape, n, m, 0.1, seed=0)
            fitters = {"Joint": Joint(), "Alternating": Alternating(), "Sgd": Sgd()}
            runs = {name: (lambda f=f, c=counts, y=scores: fit(c, y, f).loss) for name, f in fitters.items()}
            try:
                runs |= reference(counts, scores)
            except ImportError as missing:
                print(f"(no reference: {missing})")
            results = {name: timed(run, repeats if name == "Joint" else 1) for name, run in runs.items()}
            for name, (seconds, loss) in results.items():
                label = f"n={n}, {m} rows, {shape}"
                print(f"{label:<34}{name:<20}{seconds:>10.4f}{loss:>12.3e}{1 - loss / scores.var():>9.4f}", flush=True)
            ours = results["Joint"][0]
            for name, (seconds, _) in results.items():
                if name.startswith("reference"):
                    print(f"    Joint is {seconds / ours:.1f} x faster than {name}", flush=True)


if __name__ == "__main__":
    main()
