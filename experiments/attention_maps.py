"""One review by every explanation of one layer of attention: what each paints, and in which colour (Figure 1 in kind).

The review is our own, as the texts of IMDB are not ours to print; the network has not seen it.
"""

from typing import Any

import numpy as np

from experiments.harness import Claim, Lab, Result, Table
from experiments.one_layer import GROUP, network, networks
from experiments.texts import MIXED
from slalom.theory import attention

_GOOD = ("fun", "great", "brilliant", "wonderful")
_BAD = ("bad", "stupid", "awful", "bored", "weak")


def run(lab: Lab) -> Result:
    """Compute all closed forms of the review."""
    networks(lab, ("final",))
    found = lab.part("maps", lambda: painted(lab), GROUP)
    words = [word.lower() for word in found["words"]]
    good, bad = ([i for i, word in enumerate(words) if word in some] for some in (_GOOD, _BAD))
    rows = []
    for name, scores in found["scores"].items():
        share = np.array(scores) / np.abs(scores).max()
        rows.append((name, float(share[good].mean()), float(share[bad].mean()), float((share < 0).mean())))
    apart = {name: up - down for name, up, down, _ in rows}
    least = min(apart[name] for name in ("lime-limit", "exact-shapley"))
    claims = (
        Claim(
            "Attention does not tell words that speak for a class from those that speak against; LIME and Shapley values do.",
            least > 2 * abs(apart["attention-mean"]) and least > 0,
            f"good less bad words, as shares of the largest score: LIME {apart['lime-limit']:.2f}, Shapley"
            f" {apart['exact-shapley']:.2f}, attention {apart['attention-mean']:.2f}",
        ),
    )
    columns = ("explanation", "mean of the good words", "mean of the bad words", "share of negative words")
    remark = f"Scores as shares of the largest. The network's log odds of a good review are {found['score']:.2f}."
    return Result((Table("A review of our own", columns, tuple(rows)),), claims, (remark,), found)


def painted(lab: Lab) -> dict[str, Any]:
    """Return the words and every closed form."""
    text = " ".join(MIXED[0].words[: lab.of(None, 60)])  # as much as the small network sees
    look = attention.trace(network(lab, "final"), text)
    return {
        "words": look.words,
        "scores": {name: attention.form(name, look) for name in attention.FORMS},
        "score": look.score,
    }


def draw(result: Result, figure: Any) -> None:
    """Draw a row an explanation and a column a word, blue for and red against."""
    words, scores = result.series["words"], result.series["scores"]
    grid = np.array([np.array(one) / np.abs(one).max() for one in scores.values()])
    figure.set_size_inches(14, 4.4)
    ax = figure.subplots()
    ax.imshow(grid, cmap="RdBu", vmin=-1, vmax=1, aspect="auto")
    ax.set_yticks(range(len(grid)), list(scores), fontsize=9)
    ax.set_xticks(range(len(words)), words, rotation=90, fontsize=8)
    ax.set_title("scores of each word as shares of the largest: blue speaks for a good review, red against", fontsize=10)
