"""How often one planted pair among 60 units is found at 1000 queries, and how many pairs are found where there is none.

Run: python benchmarks/pairs.py [--seeds 20] [--units 60] [--queries 1000] [--noise 0.3] [--hidden 144]

The model is a SLALOM of random values and importances with a background, plus g c_i c_j for one random pair, plus noise on
every answer. Asked: found for 19 of 20 seeds, at most one false pair in 20 texts without any.

The last line has --hidden texts of 30 units whose importances differ more, at 600 queries: there a SLALOM can take over most of
a pair by a large weight of one of its units. Its intervals are counted.
"""

import argparse

import numpy as np

from slalom import Explainer
from slalom.core import Slalom


def planted(seed, effect, units, queries, noise, spread=0.7):
    """Return the planted pair, and the explanation of a text of as many words."""
    rng = np.random.default_rng(seed)
    truth = Slalom(2.0 * rng.normal(size=units), spread * rng.normal(size=units), (0.2, 1.5))
    pair = tuple(sorted(int(i) for i in rng.choice(units, 2, replace=False)))
    place = {f"w{i}": i for i in range(units)}

    def model(texts):
        counts = np.zeros((len(texts), units))
        for row, text in enumerate(texts):
            for word in text.split():
                if word in place:
                    counts[row, place[word]] += 1.0
        together = effect * counts[:, pair[0]] * counts[:, pair[1]]
        return truth(counts) + together + noise * rng.normal(size=len(texts))

    return pair, Explainer(model, output="log_odds", unit="word", queries=queries)(" ".join(place))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--units", type=int, default=60)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--noise", type=float, default=0.3)
    parser.add_argument("--hidden", type=int, default=144)
    options = parser.parse_args()
    print(f"{'units':<7}{'effect':<8}{'texts':<7}{'found':<8}{'false pairs':<13}{'interval holds':<12}")
    usual, hidden = (options.units, options.queries, options.noise), (30, 600, 0.15, 1.0)
    for effect, texts, setting in (*((g, options.seeds, usual) for g in (2.0, 1.0, 0.0)), (2.0, options.hidden, hidden)):
        found = wrong = inside = 0
        for seed in range(texts):
            pair, e = planted(seed, effect, *setting)
            hits = [p for p in e.pairs if p.units == pair and effect]
            found += len(hits)
            wrong += len(e.pairs) - len(hits)
            inside += sum(abs(p.effect - effect) <= 1.96 * p.se for p in hits)
        print(f"{setting[0]:<7}{effect:<8}{texts:<7}{found:<8}{wrong:<13}{inside:<12}", flush=True)


if __name__ == "__main__":
    main()
