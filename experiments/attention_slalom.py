"""SLALOM on one layer of attention: how its values and importances relate to W v_t and q . k_t."""

from typing import Any

from experiments.harness import Claim, Lab, Result, Table, mean
from experiments.one_layer import NAMES, network, networks, texts
from slalom import Explainer
from slalom.theory import attention


def run(lab: Lab) -> Result:
    """Fit, and correlate with what is in the network."""
    known = networks(lab)
    every, queries = range(lab.number("relations", 20, 2)), lab.number("queries", 2000, 250)
    plan = {f"slalom-{kind}-{queries}-{i}": {"kind": kind, "number": i, "queries": queries} for kind in known for i in every}
    found = lab.parts(related, plan, "attention", "text")
    measures = ("near", "far", "effect", "value", "importance", "louder")
    rows = tuple(
        (NAMES[kind], *(mean(found[f"slalom-{kind}-{queries}-{i}"][name] for i in every) for name in measures))
        for kind in known
    )
    heads = {kind: dict(zip(measures, row[1:], strict=True)) for kind, row in zip(known, rows, strict=True)}
    one, six = ({name: cell[0] for name, cell in heads[kind].items()} for kind in ("single", "final"))
    columns = ("network", "R2 near the text", "R2 on all sizes", "r of removal")
    columns += ("r of v with W v", "r of s with log attention", "louder than [UNK]")
    said = "R2 {near:.3f} near the text, {far:.3f} on all sizes; correlations of v {value:.2f}, of s {importance:.2f}"
    remark = "Several heads are the mean of several SLALOMs, whose words are loud in one and quiet in another; one is fitted."
    claims = [
        Claim("One head of attention is a SLALOM.", min(one["near"], one["far"]) > 0.9, said.format(**one)),
        Claim("Its removal scores are the network's own.", one["effect"] > 0.9, f"correlation {one['effect']:.3f}"),
    ]
    if not lab.quick:
        claims.append(Claim("Six heads are nearly a SLALOM.", min(six["near"], six["far"]) > 0.9, said.format(**six), remark))
    return Result((Table(f"SLALOM by {queries} queries, words replaced by [UNK]", columns, rows),), tuple(claims), (remark,))


def related(lab: Lab, kind: str, number: int, queries: int) -> dict[str, Any]:
    """Return the figures of one text."""
    model = network(lab, kind)
    explainer = Explainer(model, queries=queries, check=200, seed=lab.seed, progress=False)
    found = attention.relate(model, explainer(texts(lab)[number]))
    near, far = found.explanation.fidelity.near, found.explanation.fidelity.far
    return {
        "near": near.r2, "far": far.r2, "effect": found.effect, "value": found.value, "importance": found.importance,
        "louder": found.louder,
    }  # fmt: skip
