"""Figure 1: F(a b) against F(a) + F(b), for a trained BERT and for Naive Bayes.

    Naive Bayes: F = sum_i log p(t_i | 1) / p(t_i | 0) (equation 82, classes of one size), so F(a b) = F(a) + F(b)

The BERT is the one that ships with slalom (2 layers, trained on IMDB). The full run takes sentences of IMDB test reviews and
counts the training reviews; the quick one does both with a few sentences of its own.
"""

from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression

from experiments.harness import Claim, Lab, Result, Table
from slalom.evaluate import NaiveBayes
from slalom.evaluate.labelled import read_labelled
from slalom.models import Engine, Model, Queries, model_of
from slalom.text import sentences

EXAMPLE = ("I really enjoyed this film.", "The cast is wonderful.")
PRAISE = (
    "A wonderful film with a great cast.", "I loved every minute of it.", "One of the best stories in years.",
    "The music is beautiful and the ending is perfect.", "Funny, warm and very well acted.", "An excellent and moving drama.",
    "My family enjoyed it a lot.", "The director tells it brilliantly.", *EXAMPLE,
)  # fmt: skip
BLAME = (
    "A terrible film with a weak cast.", "I hated every minute of it.", "One of the worst stories in years.",
    "The music is awful and the ending is stupid.", "Dull, cold and very badly acted.", "A boring and pointless drama.",
    "My family disliked it a lot.", "The director tells it poorly.", "I really regret this film.", "The plot is a mess.",
)  # fmt: skip
WORDS = range(5, 41)  # in a sentence of a review
MODELS = ("BERT", "Naive Bayes")


def run(lab: Lab) -> Result:
    """Ask both models about pairs of sentences, alone and together."""
    found = lab.part("pairs", lambda: answers(lab))
    alone, together = (np.array(found[name]) for name in ("alone", "together"))  # (models, pairs, 2), (models, pairs)
    sums = alone.sum(-1)
    errors = np.abs(together - sums)
    same = (np.sign(alone[:, :, 0]) == np.sign(alone[:, :, 1])).all(0)  # both models hear one opinion twice
    relative = [errors[m, same].mean() / np.abs(sums[m, same]).mean() for m in (0, 1)]
    curves = [IsotonicRegression().fit(sums[m], together[m]) for m in (0, 1)]
    left = [np.abs(together[m] - curves[m].predict(sums[m])).mean() for m in (0, 1)]
    first, second = EXAMPLE
    example = tuple(
        (name, *found["example"][m][:2], sum(found["example"][m][:2]), found["example"][m][2]) for m, name in enumerate(MODELS)
    )
    rows = tuple(
        (name, together.shape[1], np.abs(sums[m]).mean(), errors[m].mean(), errors[m, same].mean(), relative[m], left[m])
        for m, name in enumerate(MODELS)
    )
    tables = (
        Table(f"a = “{first}”, b = “{second}”", ("model", "F(a)", "F(b)", "F(a) + F(b)", "F(a b)"), example),
        Table(
            "Pairs of sentences: mean |F(a b) - F(a) - F(b)|",
            (
                "model",
                "pairs",
                "mean |F(a) + F(b)|",
                "error",
                "error, same sign",
                "share of the sum, same sign",
                "error of a curve",
            ),
            rows,
        ),
    )
    between = (together[0] > alone[0].min(-1)) & (together[0] < alone[0].max(-1))
    claims = (
        Claim(
            "For the linear model the output of the concatenated sequence is the sum.",
            bool(errors[1].max() < 1e-9),
            f"largest error {errors[1].max():.0e}",
        ),
        Claim(
            "For BERT it is not.",
            bool(relative[0] > 0.2),
            f"off by {100 * relative[0]:.0f}% of the sum where a and b have one sign ({int(same.sum())} pairs)",
        ),
    )
    remarks = (
        f"F(a b) of BERT lies between F(a) and F(b) for {100 * between.mean():.0f}% of the pairs, as a weighted mean would.",
        "Error of a curve: what is left where F(a b) is the best increasing function of F(a) + F(b). A saturating sum would"
        " leave nothing.",
    )
    shown = slice(0, 500)
    return Result(tables, claims, remarks, {"sums": sums[:, shown], "together": together[:, shown], "example": example})


def answers(lab: Lab) -> dict[str, Any]:
    """Return what both models say to both sentences of each pair and to the two together."""
    bert = model_of(None, device=lab.device)
    pairs, texts, labels = _quick() if lab.quick else _reviews(lab)
    bayes = NaiveBayes.fit(_tokens(bert, texts), labels, list, alpha=lab.of(40, 1))
    said: tuple[Callable[[Sequence[str]], NDArray[np.float64]], ...] = (
        lambda asked: _log_odds(bert, asked),
        lambda asked: np.array([bayes(tokens).sum() for tokens in _tokens(bert, asked)]),
    )
    every = [*pairs, EXAMPLE]
    flat = [*(sentence for pair in every for sentence in pair), *(f"{a} {b}" for a, b in every)]
    scores = np.array([model(flat) for model in said])
    alone, together = scores[:, : 2 * len(every)].reshape(2, -1, 2), scores[:, 2 * len(every) :]
    example = np.concatenate([alone[:, -1], together[:, -1:]], axis=1)
    return {"alone": alone[:, :-1], "together": together[:, :-1], "example": example}


def _quick() -> tuple[list[tuple[str, str]], list[str], list[int]]:
    texts = [*PRAISE, *BLAME]
    return list(permutations(texts, 2)), texts, [1] * len(PRAISE) + [0] * len(BLAME)


def _reviews(lab: Lab) -> tuple[list[tuple[str, str]], list[str], list[int]]:
    """Return pairs of sentences from different test reviews, and the labelled training reviews."""
    train, test = (read_labelled(lab.shared("data", f"imdb_{part}.jsonl.gz")) for part in ("train", "test"))
    generator = np.random.default_rng(lab.seed)
    chosen = []
    for number in generator.permutation(len(test)):
        text = test.texts[number].replace("<br />", " ")
        some = [text[a:b] for a, b in sentences(text) if len(text[a:b].split()) in WORDS]
        if some:
            chosen.append(some[generator.integers(len(some))])
        if len(chosen) == 4000:
            break
    return list(zip(chosen[::2], chosen[1::2], strict=True)), list(train.texts), train.labels.tolist()


def _tokens(model: Any, texts: Sequence[str]) -> list[list[int]]:
    return model.tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]


def _log_odds(model: Model, texts: Sequence[str]) -> NDArray[np.float64]:
    """Return the log odds of class 1 of whole texts, batched and without padding by the engine."""
    readings = [model.read(text, "cut", None) for text in texts]
    whole = [Queries(reading, np.ones((1, len(reading.names)), dtype=bool)) for reading in readings]
    return model.head.scores(np.concatenate([answer.outputs for answer in Engine(model)(whole)]), 1)


def draw(result: Result, figure: Any) -> None:
    """The example as bars, and all pairs: the diagonal is a sum."""
    bars, *panels = figure.subplots(1, 3)
    for m, (name, *heights) in enumerate(result.series["example"]):
        bars.bar(np.arange(4) + 0.4 * m, heights, 0.4, color=f"C{m}", label=name)
    bars.set(xticks=np.arange(4) + 0.2, xticklabels=["F(a)", "F(b)", "sum", "F(a b)"], title="one pair", ylabel="log odds")
    bars.set_ylim(min(0, *bars.get_ylim()), 1.2 * bars.get_ylim()[1])
    bars.legend(frameon=False, loc="upper left")
    for m, panel in enumerate(panels):
        sums, together = result.series["sums"][m], result.series["together"][m]
        reach = max(map(abs, [*sums, *together]))
        panel.plot([-reach, reach], [-reach, reach], "k:", linewidth=1)
        panel.scatter(sums, together, s=6, color=f"C{m}", alpha=0.5)
        panel.set(title=MODELS[m], xlabel="F(a) + F(b)", ylabel="F(a b)")
