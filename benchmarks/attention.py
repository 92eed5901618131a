"""One layer of attention: how exact its closed forms are and what they take.

    PYTHONPATH=. python benchmarks/attention.py [folder]

folder: a network of `python -m experiments train --recipe attention`; without one, a network of the paper's sizes is trained on
made-up reviews (some seconds). Errors are relative, |b - beta| / |beta|, against LIME's exact limit, unless said otherwise.
"""

import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from experiments.training import ATTENTION, Labelled, train
from slalom import Explainer
from slalom.models import Model
from slalom.theory import attention
from slalom.theory.attention.game import RatioGame
from slalom.theory.attention.lime import bernoulli, limit

_WORDS = 400


def reviews(m: int, seed: int) -> Labelled:
    """Texts of 5 to 250 words of a made-up language in which a tenth of the words say good or bad."""
    rng = np.random.default_rng(seed)
    names = np.array([f"w{i}" for i in range(_WORDS)])
    tone = np.where(np.arange(_WORDS) % 10 == 0, np.where(np.arange(_WORDS) % 20 == 0, 1, -1), 0)
    texts, labels = [], []
    for _ in range(m):
        drawn = rng.choice(_WORDS, int(np.exp(rng.uniform(np.log(5), np.log(250)))))
        if tone[drawn].sum():
            texts.append(" ".join(names[drawn]))
            labels.append(int(tone[drawn].sum() > 0))
    return Labelled(tuple(texts), np.array(labels), ("negative", "positive"), "made-up reviews")


def trained(heads: int) -> Model:
    folder = Path(tempfile.mkdtemp()) / "attention"
    recipe = replace(ATTENTION, heads=heads, epochs=5, learning_rate=3e-4)
    made = train(reviews(3000, 0), folder, recipe, test=reviews(500, 1), device="cpu", progress=False)
    print(f"{heads} head(s), trained on made-up reviews: right on {made.test:.3f} of the test texts, {made.seconds:.0f} s")
    return attention.load(folder)


def texts(model: Model, n: int, m: int) -> list[str]:
    known = sorted(set(model.tokenizer.get_vocab()) - {"[UNK]", "[CLS]"})
    rng = np.random.default_rng(n)
    return [" ".join(rng.choice(known, n)) for _ in range(m)]


def lengths(model: Model) -> None:
    columns = ("words", "Bernoulli", "Theorem 5.1", "its correl.", "limit, s", "Bernoulli, s", "Shapley, s")
    print("".join(f"{name:>14}" for name in columns))
    for n in (5, 50, 200, 250):
        rows = []
        for text in texts(model, n, 5):
            look = attention.trace(model, text)
            game, began = look.game(), [time.perf_counter()]
            for function in (limit, bernoulli, RatioGame.shapley):
                function(game)
                began.append(time.perf_counter())
            exact, printed = attention.lime_limit(look), attention.lime_printed(look)
            size = np.linalg.norm(exact)
            off = [np.linalg.norm(found - exact) / size for found in (attention.lime_bernoulli(look), printed)]
            rows.append([*off, np.corrcoef(printed, exact)[0, 1], *np.diff(began)])
        e = np.median(rows, axis=0)
        print(f"{n:>14}{e[0]:>14.4f}" + "".join(f"{number:>14.3f}" for number in e[1:]))


def convergence(model: Model) -> None:
    print("\nthe lime package, root mean square error over 5 seeds, 10 words:")
    look = attention.trace(model, texts(model, 10, 1)[0])
    exact, sizes = attention.lime_limit(look), (250, 1000, 4000, 16000)
    found = [np.sqrt(np.mean([(attention.lime_package(look, n, seed=s) - exact) ** 2 for s in range(5)])) for n in sizes]
    print("  ".join(f"{n:,}: {error:.2e}" for n, error in zip(sizes, found, strict=True)), end="")
    print(f"  slope {np.polyfit(np.log(sizes), np.log(found), 1)[0]:.2f}\n")


def slaloms(model: Model) -> None:
    print("SLALOM on replaced words, medians over 5 texts; r is the correlation of what is fitted with what is there")
    columns = ("words", "queries", "R2 near", "R2 far", "r removal", "r value", "r importance", "louder", "sd of q.k")
    print("".join(f"{name:>14}" for name in columns))
    for n, queries in ((10, 500), (100, 500), (100, 3000)):
        rows = []
        for text in texts(model, n, 5):
            found = attention.relate(model, Explainer(model)(text, queries=queries, check=200))
            near, far = found.explanation.fidelity
            r2 = [np.nan if q is None or q.r2 is None else q.r2 for q in (near, far)]
            look = attention.trace(model, text)
            spread = float(look.logits[:, look.word_positions].std(axis=1).mean())
            rows.append([*r2, found.effect, found.value, found.importance, found.louder, spread])
        print(f"{n:>14}{queries:>14}" + "".join(f"{number:>14.3f}" for number in np.nanmedian(rows, axis=0)))


def main() -> None:
    model = attention.load(sys.argv[1]) if len(sys.argv) > 1 else trained(heads=6)
    print(attention.compare(model, texts(model, 40, 1)[0]), "\n")
    lengths(model)
    convergence(model)
    slaloms(model)
    if len(sys.argv) == 1:
        slaloms(trained(heads=1))


if __name__ == "__main__":
    main()
