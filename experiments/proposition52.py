"""Proposition 5.2: a SLALOM with |V| tokens is recovered exactly from 2 |V| - 1 queries."""

from typing import Any

import numpy as np

from experiments.harness import Claim, Lab, Result, Table
from slalom.core import Slalom, recover


def run(lab: Lab) -> Result:
    """Plant SLALOMs of several sizes, as formulas and as transformers, count the queries, and compare."""
    sizes = lab.of((10, 100, 1000), (10, 100))
    wanted: dict[str, dict[str, Any]] = {f"{size}": {"size": size} for size in sizes}
    wanted |= {f"{arch}-{size}": {"size": size, "arch": arch} for arch in ("bert", "gpt2") for size in sizes}
    found = lab.parts(recovered, wanted, what="SLALOM")
    named = {"bert": "BERT, 2 layers, 2 heads", "gpt2": "GPT-2, 2 layers, 2 heads"}
    rows = tuple(
        (named.get(given.get("arch", ""), "the formula"), given["size"], found[key]["queries"], 2 * given["size"] - 1,
         found[key]["error"])
        for key, given in wanted.items()
    )  # fmt: skip
    least = all(row[2] == row[3] for row in rows)
    claims = []
    for says, own in (
        ("A SLALOM is recovered from 2 |V| - 1 queries.", [row for row in rows if row[0] == "the formula"]),
        ("So is one that is a transformer.", [row for row in rows if row[0] != "the formula"]),
    ):
        worst = max(row[-1] for row in own)
        claims.append(Claim(says, least and worst < 1e-9, f"largest error of a value or importance {worst:.0e}"))
    columns = ("asked", "|V|", "queries asked", "2|V| - 1", "largest error")
    remark = "The transformers are those of Proposition 5.1, in double precision."
    return Result((Table("Planted SLALOMs", columns, rows),), tuple(claims), (remark,))


def recovered(lab: Lab, size: int, arch: str | None = None) -> dict[str, Any]:
    """Recover one planted SLALOM, from the formula or from a transformer."""
    generator = np.random.default_rng((lab.seed, size))
    planted = Slalom(generator.normal(size=size), generator.normal(size=size))
    queried: list[tuple[int, ...]] = []
    if arch is not None:
        from experiments.proposition51 import asked, network  # noqa: PLC0415

        model = network(planted, arch, layers=2, heads=2, dtype="float64").to(lab.device)

    def query(sequences: list[tuple[int, ...]]) -> Any:
        queried.extend(sequences)  # all of one length
        if arch is not None:
            return asked(model, sequences, lab.device)
        return planted(np.array([np.bincount(one, minlength=size) for one in sequences], dtype=float))

    found = recover(query, size).model
    errors = np.abs(np.array([found.values - planted.values, found.importances - planted.importances]))
    return {"queries": len(queried), "error": errors.max()}
