"""One layer of attention: how exact its closed forms are and what they take: `python benchmarks/attention.py [folder]`.

folder: a network of `slalom train --arch attention`; without one, a network of the paper's sizes is trained on made-up reviews
(some seconds). Errors are relative, |b - beta| / |beta|, against LIME's exact limit, unless it is said otherwise.
"""

import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

from slalom import attention
from slalom.attention.lime import bernoulli, limit

_WORDS = 400


def reviews(m: int, seed: int) -> tuple[list[str], list[int]]:
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
    return texts, labels


def main() -> None:
    if len(sys.argv) > 1:
        folder = Path(sys.argv[1])
    else:
        folder = Path(tempfile.mkdtemp()) / "attention"
        made = attention.train(
            *reviews(3000, 0), folder, device="cpu", epochs=3, learning_rate=1e-3, test=reviews(500, 1), progress=False
        )
        print(f"trained on made-up reviews: right on {made.test:.3f} of the test texts, {made.seconds:.0f} s\n")
    model = attention.load(folder)
    words = list(model.inner.tokenizer.get_vocab())[2:]  # type: ignore[attr-defined]
    rng = np.random.default_rng(0)

    def text(n: int) -> str:
        return " ".join(rng.choice(words, n))

    print(attention.compare(model, text(40)), "\n")

    columns = ("words", "Bernoulli", "Theorem 5.1", "its correl.", "limit, s", "Bernoulli, s", "Shapley, s")
    print("".join(f"{name:>14}" for name in columns))
    for n in (5, 50, 200, 250):
        errors, times = [], []
        for _ in range(3):
            look = attention.seen(model, text(n))
            game = look.game()
            began = [time.perf_counter()]
            for function in (limit, bernoulli, type(game).shapley):
                function(game)  # type: ignore[operator]
                began.append(time.perf_counter())
            times.append(np.diff(began))
            exact = attention.lime_limit(look)
            fast, printed = attention.lime_bernoulli(look), attention.lime_printed(look)
            size = np.linalg.norm(exact)
            errors.append(
                (np.linalg.norm(fast - exact) / size, np.linalg.norm(printed - exact) / size, np.corrcoef(printed, exact)[0, 1])
            )
        e, t = np.median(errors, axis=0), [median(column) for column in zip(*times, strict=True)]
        print(f"{n:>14}{e[0]:>14.4f}{e[1]:>14.3f}{e[2]:>14.3f}{t[0]:>14.3f}{t[1]:>14.3f}{t[2]:>14.3f}")

    print("\nthe lime package, root mean square error over 5 seeds, 10 words:")
    look = attention.seen(model, text(10))
    exact, sizes = attention.lime_limit(look), (250, 1000, 4000, 16000)
    found = [np.sqrt(np.mean([(attention.lime_package(look, n, seed=s) - exact) ** 2 for s in range(5)])) for n in sizes]
    print("  ".join(f"{n:,}: {error:.2e}" for n, error in zip(sizes, found, strict=True)), end="")
    print(f"  slope {np.polyfit(np.log(sizes), np.log(found), 1)[0]:.2f}\n")

    for n, queries in ((10, None), (100, None), (100, 3000)):
        print(attention.relate(model, text(n), queries=queries), "\n")


if __name__ == "__main__":
    main()
