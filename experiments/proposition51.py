"""Proposition 5.1: a transformer whose log odds are exactly a SLALOM, by architecture, layers, heads and length.

The networks are those of transformers, unchanged: BERT, DistilBERT, GPT-2 with LayerNorm, residuals and position embeddings;
`slalom.theory.slalom_transformer` only chooses their weights.
"""

from typing import Any

import numpy as np
import torch

from experiments.harness import Claim, Lab, Result, Table
from slalom.core import Slalom
from slalom.theory import slalom_transformer

NAMES = {"bert": "BERT", "distilbert": "DistilBERT", "gpt2": "GPT-2"}
PRECISE = {"float32": 1e-5, "float64": 1e-11}  # the error that rounding may leave, as a share of the largest value
_FIRST = 3  # ids before the first word: padding, unknown, start


def run(lab: Lab) -> Result:
    """Compare networks of several sizes with the SLALOMs that they were made from."""
    sizes = lab.of(((1, 1), (1, 12), (2, 2), (6, 4), (12, 12)), ((1, 1), (2, 4)))
    lengths = lab.of((1, 2, 10, 100, 500), (1, 2, 10, 100))
    wanted = {
        f"{arch}-{layers}-{heads}-{dtype}": {"arch": arch, "layers": layers, "heads": heads, "dtype": dtype, "lengths": lengths}
        for arch in NAMES
        for layers, heads in sizes
        for dtype in PRECISE
    }
    found = lab.parts(errors, wanted, what="network")
    rows = tuple((NAMES[w["arch"]], w["layers"], w["heads"], w["dtype"], *found[key]) for key, w in wanted.items())
    claims = []
    for dtype, bound in PRECISE.items():
        worst = max(max(row[4:]) for row in rows if row[3] == dtype)
        says = (
            f"A transformer's log odds are a given SLALOM, with one layer and head or several; in {dtype}, to {bound:.0e} of"
            " the largest value."
        )
        claims.append(Claim(says, worst < bound, f"largest error {worst:.0e} in {len(rows) // 2} networks"))
    columns = ("network", "layers", "heads", "precision", *(f"length {n}" for n in lengths))
    remark = (
        "Largest difference of log odds, divided by the largest value, over random sequences with repetitions of 100 words, one"
        " of them the same word all along; values and importances are normal. What is left does not grow with the layers: it is"
        " rounding where attention adds up hundreds of terms."
    )
    series = {"lengths": lengths, "errors": {key: found[key] for key in wanted}}
    return Result((Table("Largest errors", columns, rows),), tuple(claims), (remark,), series)


def errors(lab: Lab, arch: str, layers: int, heads: int, dtype: str, lengths: list[int]) -> list[float]:
    """Return the largest error of one network for each length."""
    generator = np.random.default_rng((lab.seed, layers, heads))
    planted = Slalom(generator.normal(size=100), generator.normal(size=100))
    model = network(planted, arch, layers, heads, dtype).to(lab.device)
    largest = []
    for length in lengths:
        words = generator.integers(0, 100, (lab.of(50, 20), length))
        words[0] = words[0, 0]  # one word all along
        counts = np.array([np.bincount(row, minlength=100) for row in words])
        largest.append(np.abs(asked(model, words, lab.device) - planted(counts)).max() / np.abs(planted.values).max())
    return largest


def network(planted: Slalom, arch: str, layers: int, heads: int, dtype: Any) -> Any:
    """Return the transformer of a SLALOM; its words are called 0, 1, ..."""
    names = [str(i) for i in range(planted.n_units)]
    values, importances = (dict(zip(names, one.tolist(), strict=True)) for one in (planted.values, planted.importances))
    return slalom_transformer(values, importances, layers, heads, arch=arch, dtype=dtype)[0]


@torch.no_grad()
def asked(model: Any, words: Any, device: str) -> Any:
    """Return the log odds (m,) of words (m, length)."""
    parts = torch.as_tensor(words, device=device).add(_FIRST).split(2048)
    logits = torch.cat([model(part).logits for part in parts]).double().cpu().numpy()
    return logits[:, 1] - logits[:, 0]


def draw(result: Result, figure: Any) -> None:
    """Errors against the length of the sequence, by architecture and precision."""
    panel = figure.subplots()
    seen = set()
    for key, found in result.series["errors"].items():
        arch, *_, dtype = key.split("-")
        label = f"{NAMES[arch]}, {dtype}"
        order = list(NAMES).index(arch)  # the first are drawn large, as others may hide them
        style = {"color": f"C{order}", "marker": "o" if dtype == "float32" else "s", "markersize": 12 - 4 * order, "alpha": 0.7}
        panel.loglog(result.series["lengths"], np.maximum(found, 1e-17), label=None if label in seen else label, **style)
        seen.add(label)
    for bound in PRECISE.values():
        panel.axhline(bound, color="grey", linestyle=":")
    panel.set(xlabel="length of the sequence", ylabel="largest error / largest value", title="A transformer that is a SLALOM")
    panel.legend(frameon=False, ncols=2, loc="center", bbox_to_anchor=(0.5, 0.64))
