"""SLALOM on one layer of attention: how its values and importances relate to W v_t and q . k_t."""

from typing import Any

from experiments.harness import Claim, Lab, Result, Table, mean
from experiments.one_layer import network, networks, texts
from slalom import attention


def run(lab: Lab) -> Result:
    """Fit, and correlate with what is in the network."""
    known = networks(lab)
    every, queries = range(lab.number("relations", 20, 3)), lab.number("queries", 2000, 400)
    plan = {f"slalom-{kind}-{i}": {"kind": kind, "number": i, "queries": queries} for kind in known for i in every}
    found = lab.parts(related, plan, "attention", "text")
    measures = ("near", "far", "effect", "value", "importance", "louder")
    named = {"final": "with the final layer", "bare": "without"}
    rows = tuple(
        (named[kind], *(mean(found[f"slalom-{kind}-{i}"][name] for i in every) for name in measures)) for kind in known
    )
    near, effect = rows[0][1][0], rows[0][3][0]
    columns = (
        "network",
        "R2 near the text",
        "R2 on all sizes",
        "r of removal",
        "r of v with W v",
        "r of s with log attention",
        "louder than [UNK]",
    )
    claims = (
        Claim(
            "One layer of attention is nearly a SLALOM.",
            near > 0.8,
            f"R2 {near:.3f} near the text, {rows[0][2][0]:.3f} on all sizes",
        ),
        Claim("Its removal scores are the network's own.", effect > 0.9, f"correlation {effect:.3f}"),
    )
    remark = "Several heads are the mean of several SLALOMs, whose words are loud in one and quiet in another; a single one is fitted."
    return Result((Table(f"SLALOM by {queries} queries, words replaced by [UNK]", columns, rows),), claims, (remark,))


def related(lab: Lab, kind: str, number: int, queries: int) -> dict[str, Any]:
    """Return the figures of one text."""
    found = attention.relate(network(lab, kind), texts(lab)[number], queries=queries, seed=lab.seed)
    near, far = found.explanation.fidelity.near, found.explanation.fidelity.far
    return {
        "near": near.r2, "far": far.r2, "effect": found.effect, "value": found.value, "importance": found.importance,
        "louder": found.louder,
    }  # fmt: skip
