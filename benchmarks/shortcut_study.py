"""The case study of results/shortcuts.md: shortcuts of the bundled classifier, and of one trained on confounded data.

    PYTHONPATH=. python benchmarks/shortcut_study.py [--part bundled|short|check|mended|confounded] [--texts 240]

bundled      the classifier in the package on short IMDB test reviews that are not in its training set
short        the same on all sentences of SST-2 (dev and test), and on all reviews of up to 60 words of the test sets of IMDB
             and Yelp; words that no label supports are listed even where the evidence is too weak for a shortcut
check        the words and phrases that `short` lists first, on texts that it did not read: what the classifier does with them
             when they are removed, and what labels say (habits.py)
mended       two counterparts of the classifier trained by its recipe, one of them with more passages that have "can't wait",
             the first of that list; explained and compared (mended_habit.py). For a GPU; --quick tries it with tiny sizes,
             --keep measures the models that are there
confounded   a small BERT trained on the beginnings of reviews, positive ones of films (IMDB) and negative ones of businesses
             (Yelp): the topic gives the label away. It is explained on held-out reviews of all four kinds, trained again on
             data where topic and label are independent, and compared on the same texts.

Tables stay in --folder, for `slalom corpus summary` and `slalom corpus compare`.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from scipy.special import ndtri

import slalom
from experiments.training import Labelled, Recipe, train
from habits import SHORT, held_out, interval, new_reviews, removal
from mended_habit import mended
from planted_corpus import explained
from slalom import corpus
from slalom.corpus.shortcuts import label_support

from reviews import rows

NAMES = ("negative", "positive")
RECIPE = Recipe(
    layers=1, hidden=64, heads=2, vocabulary=3000, epochs=4, max_length=64, validation=0.0, batch=32, learning_rate=2e-3
)
BEGINNING = 30  # words of a review
CANDIDATES = ("can't wait", "cheese", "thrills", "eat", "series of", "clean", "food")  # of results/shortcuts.md
CHECKED = 500  # passages of a source, at most
TRAINED = 1600


def listed(found, k=12):
    """Print the first shortcuts of a summary."""
    for shortcut in found.shortcuts[:k]:
        print(f"  {shortcut.word.name!r}: score {shortcut.score:.2f}; {'; '.join(shortcut.reasons)}", flush=True)


def bundled(folder, n):
    """Summarise the bundled classifier on short reviews."""
    seen = {row["text"] for row in rows("imdb_train")}
    short = [row for row in rows("imdb_test") if row["text"] not in seen and len(row["text"].split()) <= 110]
    chosen = [short[i] for i in np.random.default_rng(0).permutation(len(short))[:n]]
    texts, gold = [row["text"] for row in chosen], [NAMES[int(row["label"])] for row in chosen]
    start = time.process_time()
    explained(slalom.Explainer(method="joint", queries=150, progress=False), texts, {"gold": gold}, folder / "bundled")
    found = corpus.summary(folder / "bundled", gold="gold")
    print(f"bundled: {n} reviews, accuracy {found.about['accuracy']:.1%}, {time.process_time() - start:.0f} s of CPU")
    listed(found)


def short(folder, _):
    """Summarise the bundled classifier on all short texts: sentences about films, reviews of films, reviews of businesses."""
    seen = {row["text"] for row in rows("imdb_train")}
    names = {"sst2_dev": "sentences", "sst2_test": "sentences", "imdb_test": "films", "yelp_polarity_test": "businesses"}
    chosen = [
        (row["text"], NAMES[int(row["label"])], source)
        for name, source in names.items()
        for row in rows(name)
        if row["text"] not in seen and len(row["text"].split()) <= SHORT
    ]
    texts, gold, sources = zip(*chosen, strict=True)
    start = time.process_time()
    explainer = slalom.Explainer(method="eff", queries=100, progress=False)
    explained(explainer, list(texts), {"gold": list(gold), "source": list(sources)}, folder / "short")
    print(f"short: {len(texts)} texts, {time.process_time() - start:.0f} s of CPU")
    found = corpus.summary(folder / "short", gold="gold", target="positive", top=300, sort="total")
    print(f"accuracy {found.about['accuracy']:.1%}; shortcuts:")
    listed(found)
    print("words by texts times mean effect, with what labels say (log odds of positive beside all texts):")
    sizes = found.about["group_texts"]["gold"]
    for word in found.of_kind("word")[:60]:
        positive, negative = (word.groups["gold"][name].texts for name in ("positive", "negative"))
        odds = np.log((positive + 0.5) / (negative + 0.5)) - np.log(sizes["positive"] / sizes["negative"])
        mean, low, high = word.effect.mean, word.effect.low, word.effect.high
        print(f"  {word.name!r}: {mean:+.2f} ({low:+.2f} to {high:+.2f}) in {word.effect.texts} texts, labels {odds:+.2f}")


def check(_, __):
    """Check candidates on new texts; intervals hold for all of them at once (Bonferroni)."""
    level = 1 - 0.05 / (2 * 2 * len(CANDIDATES))  # effects and labels, two sources
    reviews, explainer, start = new_reviews(), slalom.Explainer(progress=False), time.process_time()
    rates = {s: np.mean([label for _, label, source in reviews if source == s]) for s in ("films", "businesses")}
    wide = float(ndtri((1 + level) / 2))
    print(f"check: {len(reviews)} reviews; effects and labels with {level:.2%} intervals (95% for all together)")
    for phrase in CANDIDATES:
        passages = held_out(reviews, phrase, CHECKED)
        for source, rate in rates.items():
            here = [p for p in passages if p.source == source]
            if len(here) < 10:
                continue
            change, called, labels = removal(explainer, here)
            mean, half = interval(change, level)
            odds, error = (float(x[0]) for x in label_support(*(np.array([(labels == k).sum()]) for k in (1, 0)), rate))
            at_odds = mean * odds < 0 and abs(mean) > half and abs(odds) > wide * error
            print(
                f"  {phrase!r} in {len(here)} passages of {source}: {mean:+.2f} +- {half:.2f}; labels {odds:+.2f} +-"
                f" {wide * error:.2f}{', at odds' if at_odds else ''}; {called.mean():.1%} right",
                flush=True,
            )
    print(f"{time.process_time() - start:.0f} s of CPU")


def _kinds(n, seed):
    """Return beginnings of n reviews of each of four kinds: (source, label)."""
    rng, kinds = np.random.default_rng(seed), {}
    for source, name in (("films", "imdb_train"), ("businesses", "yelp_polarity_train")):
        data = [row for row in rows(name) if len(row["text"].split()) >= BEGINNING]
        for label in (0, 1):
            of_label = [row for row in data if int(row["label"]) == label]
            drawn = [of_label[i]["text"] for i in rng.permutation(len(of_label))[:n]]
            kinds[source, label] = [" ".join(text.replace("<br />", " ").split()[:BEGINNING]) for text in drawn]
    return kinds


def confounded(folder, n):
    """Train on confounded data, explain, mend, explain again, compare."""
    each = n // 4
    kinds = _kinds(TRAINED // 2 + each, seed=0)
    held = [(text, source, label) for (source, label), texts in kinds.items() for text in texts[:each]]
    learn = {key: texts[each:] for key, texts in kinds.items()}
    mixes = {
        "confounded": {("films", 1): TRAINED // 2, ("businesses", 0): TRAINED // 2},
        "balanced": dict.fromkeys(learn, TRAINED // 4),
    }
    texts, sources, labels = zip(*held, strict=True)
    for name, mix in mixes.items():
        pairs = [(text, label) for (source, label), k in mix.items() for text in learn[source, label][:k]]
        data = Labelled(tuple(text for text, _ in pairs), np.array([label for _, label in pairs]), NAMES, name)
        start = time.process_time()
        train(data, folder / f"model-{name}", RECIPE, device="cpu", progress=False)
        explainer = slalom.Explainer(str(folder / f"model-{name}"), method="eff", queries=80, device="cpu", progress=False)
        given = {"gold": [NAMES[label] for label in labels], "source": list(sources)}
        explained(explainer, list(texts), given, folder / name)
        found = corpus.summary(folder / name, gold="gold", slices="source", target="positive")
        print(f"{name}: accuracy {found.about['accuracy']:.1%}, {time.process_time() - start:.0f} s of CPU")
        listed(found)
    compared = corpus.compare(folder / "confounded", folder / "balanced", gold="gold", target="positive")
    print(f"compared: {compared.about['flipped']} of {compared.about['shared']} flipped, accuracy {compared.about['accuracy']}")
    for change in compared.of_kind("word")[:12]:
        ends = f"{change.change.low:+.2f} to {change.change.high:+.2f}"
        print(f"  {change.name!r}: {change.before.mean:+.2f} -> {change.after.mean:+.2f} ({ends}), {change.change.texts} texts")


def main():
    """Run all parts, or one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=["bundled", "short", "check", "mended", "confounded"])
    parser.add_argument("--texts", type=int, default=240)
    parser.add_argument("--folder", type=Path, default=Path("shortcut-study"))
    parser.add_argument("--device", help="device of `mended`; default: a GPU if there is one")
    parser.add_argument("--init", type=Path, help="folder of all-MiniLM-L6-v2, for `mended`")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to try `mended`")
    parser.add_argument("--keep", action="store_true", help="do not train again, for `mended`")
    parser.add_argument("--epochs", type=int, help="epochs of the students of `mended`; default: 40")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.part == "mended":
        mended(options.folder, options.device, options.quick, options.init, options.keep, options.epochs)
        return
    for part in (bundled, short, check, confounded):
        if options.part in (None, part.__name__):
            part(options.folder, options.texts)


if __name__ == "__main__":
    main()
