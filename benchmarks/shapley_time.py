"""How long the Shapley values of a Slalom take: `python benchmarks/shapley_time.py [--most 500]`."""

import argparse
import time
from statistics import median

import numpy as np

from slalom.core import Link, Slalom


def milliseconds(model: Slalom, runs: int) -> float:
    model.shapley()  # the quadrature's nodes are computed once and kept
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        model.shapley()
        times.append(time.perf_counter() - start)
    return 1e3 * median(times)


def model_of(n: int, spread: float, competition: float, n_classes: int | None = None, link: Link | None = None) -> Slalom:
    rng = np.random.default_rng(n)
    values = rng.normal(size=n if n_classes is None else (n, n_classes))
    return Slalom(values, spread * rng.normal(size=n), competition, link=link)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=500, help="units, at most")
    kinds: dict[str, tuple[float, float, int | None, Link | None]] = {
        "s ~ N(0, 1)": (1.0, 1.0, None, None),
        "s ~ N(0, 2^2)": (2.0, 1.0, None, None),
        "s ~ N(0, 10^2)": (10.0, 1.0, None, None),
        "s ~ N(0, 1), competition 0.3": (1.0, 0.3, None, None),
        "the same, 10 classes": (1.0, 0.3, 10, None),
        "the same, one class, a link": (1.0, 0.3, None, Link(0.0, 2.0)),
    }
    most = parser.parse_args().most
    sizes = [n for n in (10, 100, 500, 2000, 5000) if n <= most]
    print(f"{'median ms':<38}" + "".join(f"{f'n = {n}':>10}" for n in sizes))
    for name, kind in kinds.items():
        cells = [milliseconds(model_of(n, *kind), runs=9 if n <= 100 else 3) for n in sizes]
        print(f"{name:<38}" + "".join(f"{cell:>10.2f}" for cell in cells))


if __name__ == "__main__":
    main()
