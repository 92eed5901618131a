"""How long the exact Shapley values take: `python benchmarks/shapley_time.py`."""

import time
from collections.abc import Callable
from statistics import median

import numpy as np

from slalom.core.checks import Floats
from slalom.core.shapley import shapley
from slalom.core.slalom import Slalom


def milliseconds(function: Callable[[Slalom], Floats], model: Slalom, runs: int) -> float:
    function(model)  # the quadrature's nodes are computed once and kept
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        function(model)
        times.append(time.perf_counter() - start)
    return 1e3 * median(times)


def model_of(n: int, spread: float, background: bool, n_classes: int | None = None) -> Slalom:
    rng = np.random.default_rng(n)
    values = rng.normal(size=n if n_classes is None else (n, n_classes))
    return Slalom(values, spread * rng.normal(size=n), background=(0.0, np.log(n)) if background else None)


def main() -> None:
    kinds: dict[str, tuple[float, bool, int | None]] = {
        "s ~ N(0, 1)": (1.0, False, None),
        "s ~ N(0, 2^2)": (2.0, False, None),
        "s ~ N(0, 1), background": (1.0, True, None),
        "s ~ N(0, 1), background, 10 classes": (1.0, True, 10),
        "s ~ N(0, 1000^2)": (1000.0, False, None),
    }
    sizes = (10, 100, 500, 2000, 5000)
    print(f"{'median ms':<38}" + "".join(f"{f'n = {n}':>10}" for n in sizes))
    for name, kind in kinds.items():
        cells = [milliseconds(shapley, model_of(n, *kind), runs=9 if n <= 500 else 3) for n in sizes]
        print(f"{name:<38}" + "".join(f"{cell:>10.2f}" for cell in cells))


if __name__ == "__main__":
    main()
