"""Proposition 5.2: a SLALOM with |V| tokens is recovered exactly from 2 |V| - 1 queries."""

from typing import Any

import numpy as np

from experiments.harness import Claim, Lab, Result, Table
from slalom.core import Slalom, recover


def run(lab: Lab) -> Result:
    """Plant SLALOMs of several sizes, count the queries, and compare."""
    sizes = lab.of((10, 100, 1000), (10, 100))
    found = lab.parts(recovered, {f"{size}": {"size": size} for size in sizes}, what="size")
    rows = tuple((size, found[f"{size}"]["queries"], 2 * size - 1, found[f"{size}"]["error"]) for size in sizes)
    worst = max(row[-1] for row in rows)
    exact = all(queries == least for _, queries, least, _ in rows) and worst < 1e-9
    claim = Claim("A SLALOM is recovered from 2 |V| - 1 queries.", exact, f"largest error of a value or importance {worst:.0e}")
    return Result((Table("Planted SLALOMs", ("|V|", "queries asked", "2|V| - 1", "largest error"), rows),), (claim,))


def recovered(lab: Lab, size: int) -> dict[str, Any]:
    """Recover one planted SLALOM."""
    generator = np.random.default_rng((lab.seed, size))
    planted = Slalom(generator.normal(size=size), generator.normal(size=size))
    asked: list[tuple[int, ...]] = []

    def query(sequences: list[tuple[int, ...]]) -> Any:
        asked.extend(sequences)
        return planted(np.array([np.bincount(one, minlength=size) for one in sequences], dtype=float))

    found = recover(query, size).model
    errors = np.abs(np.array([found.values - planted.values, found.importances - planted.importances]))
    return {"queries": len(asked), "error": errors.max()}
