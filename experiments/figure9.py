"""Figure 9: five queries on which a GAM contradicts itself, and SLALOM does not.

    GAM:     F(t_1, t_2) = w_1(t_1) + w_2(t_2),          all four weights follow from t, tt of both words
    SLALOM:  F = softmax(s)-weighted mean of v(t_i),     v from single words, s("perfect") = s("worst") = 0

A BERT of four layers is trained on the linear data set (appendix E.1). The paper's row "worst perfect" adds the weights of
"perfect worst" (w_1("perfect") + w_2("worst")); here both orders are asked, and each is added up from its own weights.
"""

from typing import Any

from experiments.harness import Claim, Lab, Result, Table, mean
from experiments.small_networks import Training, Transformer, answers, made
from experiments.vocabulary import WORDS
from slalom.core import Slalom

QUERIES = ("perfect", "perfect perfect", "worst", "worst worst", "worst perfect", "perfect worst")
PAPER = ((2.5, None, None), (2.5, None, 2.5), (-2.6, None, None), (-2.5, None, -2.6), (0.0, None, -0.05), (None, 2.6, None))
MIXED = QUERIES[4:]
REPEATED = QUERIES[1::2][:2]


def run(lab: Lab) -> Result:
    """Train BERTs, and let both surrogates follow from the first answers."""
    runs = lab.parts(asked, {f"run-{number}": {"number": number} for number in range(lab.of(5, 1))}, what="network")
    told = [{name: dict(zip(QUERIES, one[name], strict=True)) for name in ("bert", "gam", "slalom")} for one in runs.values()]
    rows = []
    for query, paper in zip(QUERIES, PAPER, strict=True):
        own = [mean(one[name][query] for one in told) for name in ("bert", "gam", "slalom")]
        own = own if len(told) > 1 else [number for number, _ in own]
        rows.append((query, *(cell for pair in zip(own, paper, strict=True) for cell in pair)))
    columns = ("input", "BERT", "BERT, paper", "GAM", "GAM, paper", "SLALOM", "SLALOM, paper")

    def worst(name: str, queries: tuple[str, ...]) -> tuple[float, float]:
        return mean(max(abs(one[name][query] - one["bert"][query]) for query in queries) for one in told)

    gam, slalom = worst("gam", MIXED), worst("slalom", (*REPEATED, *MIXED))
    spread = mean(one["bert"]["perfect"] - one["bert"]["worst"] for one in told)
    claims = (
        Claim(
            "A word twice says what it says once.",
            worst("slalom", REPEATED)[0] < 0.1 * spread[0],
            f"it differs by {worst('slalom', REPEATED)[0]:.2f}, where the two words are {spread[0]:.1f} apart",
        ),
        Claim(
            "A GAM that has the single and the repeated words right is wrong about the mixed ones.",
            gam[0] > 0.3 * spread[0],
            f"off by {gam[0]:.2f}",
        ),
        Claim("SLALOM scores model all of them with minor error.", slalom[0] < 0.5 * gam[0], f"off by at most {slalom[0]:.2f}"),
    )
    remarks = (
        "The paper adds up “worst perfect” from the weights of “perfect worst”, so its 2.6 is beside that order here.",
        f"Trained networks: {len(told)}; an error is the mean of each network's largest.",
    )
    series = {name: [mean(one[name][query] for one in told)[0] for query in QUERIES] for name in ("bert", "gam", "slalom")}
    return Result((Table("Log odds", columns, tuple(rows)),), claims, remarks, series)


def asked(lab: Lab, number: int) -> dict[str, Any]:
    """Train one BERT, ask the six queries, and work out what both surrogates say to them."""
    hidden, heads = lab.of((768, 12), (32, 2))
    training = Training(*lab.of((1250, 1e-4, 20), (120, 3e-3, 32)))
    network = made(
        lambda: Transformer("bert", 4, heads, hidden, positions=True, start=True), training, lab.device, lab.seed + number
    )
    sequences = [[WORDS.index(word) for word in query.split()] for query in QUERIES]
    bert = answers(network, sequences, lab.device)
    said = dict(zip(QUERIES, bert.tolist(), strict=True))
    first = {word: said[word] for word in ("perfect", "worst")}
    second = {word: said[f"{word} {word}"] - said[word] for word in first}
    surrogate = Slalom(list(first.values()), [0.0, 0.0])
    split = [query.split() for query in QUERIES]
    return {
        "bert": bert,
        "gam": [first[words[0]] + sum(second[word] for word in words[1:]) for words in split],
        "slalom": surrogate([[words.count(word) for word in first] for words in split]),
    }


def draw(result: Result, figure: Any) -> None:
    """What BERT, the GAM and SLALOM say to each query."""
    panel = figure.subplots()
    for shift, (name, label) in enumerate((("bert", "BERT"), ("gam", "GAM"), ("slalom", "SLALOM"))):
        panel.bar([i + 0.27 * shift for i in range(len(QUERIES))], result.series[name], 0.27, label=label)
    panel.axhline(0, color="k", linewidth=0.8)
    panel.set(xticks=[i + 0.27 for i in range(len(QUERIES))], xticklabels=[q.replace(" ", "\n") for q in QUERIES])
    panel.set(ylabel="log odds", title="Two words, alone, repeated and mixed")
    panel.legend(frameon=False)
