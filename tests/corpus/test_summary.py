"""Summaries of a corpus: every number against one computed by hand or by a plain loop."""

import numpy as np
import pytest
from scipy import stats

from slalom import Explainer, corpus
from slalom.corpus.results import difference, effect_of
from slalom.corpus.table import SourceRow, explained_row, failed_row
from slalom.errors import InputError
from slalom.text import simple_words as word_spans
from tests.corpus.tables import row, write

VOCABULARY = ("good", "bad", "not", "film", "the", "10", "/", "<br />", "Good")


def random_rows(n=60, seed=0):
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        text = " ".join(rng.choice(VOCABULARY, rng.integers(1, 12)))
        effects = rng.normal(size=len(word_spans(text)))
        gold, part = rng.choice(["neg", "pos"]), rng.choice(["web", "mail", "paper"])
        rows.append(row(i, text, effects, label=str(rng.choice(["neg", "pos"])), gold=str(gold), part=str(part)))
    return rows


def plain_observations(rows, length):
    """For each phrase the texts that have it, with the mean effect of its occurrences there."""
    seen = {}
    for r in rows:
        names = [name.lower() for name in r["units"]]
        effects = r["removal"].astype(float)
        found = {}
        for i in range(len(names) - length + 1):
            found.setdefault(tuple(names[i : i + length]), []).append(effects[i : i + length].sum())
        for phrase, several in found.items():
            seen.setdefault(phrase, {})[r["number"]] = (np.mean(several), len(several))
    return seen


@pytest.fixture(scope="module")
def rows():
    return random_rows()


@pytest.fixture(scope="module")
def summed(rows, tmp_path_factory):
    folder = write(tmp_path_factory.mktemp("corpus") / "out", rows, unit="word", keep=("gold", "part"), part=25)
    return corpus.summary(folder, gold="gold", slices="part", min_texts=3, top=1000)


def test_every_number_of_words_and_phrases(summed, rows):
    listed = {(word.kind, word.name): word for word in summed.words}
    by_number = {r["number"]: r for r in rows}
    reference = plain_observations(rows, 1)
    frequent = {phrase for phrase, texts in reference.items() if len(texts) >= 3}
    assert {name for kind, name in listed if kind == "word"} == {phrase[0] for phrase in frequent}
    assert sum(kind == "phrase" for kind, _ in listed) > 20
    for length in (1, 2, 3):
        for phrase, texts in plain_observations(rows, length).items():
            word = listed.get(("word" if length == 1 else "phrase", " ".join(phrase)))
            if word is None:
                continue
            y = np.array([effect for effect, _ in texts.values()])
            half = stats.t.ppf(0.975, len(y) - 1) * y.std(ddof=1) / len(y) ** 0.5
            np.testing.assert_allclose(
                word.effect, [len(y), y.mean(), y.std(ddof=1), y.mean() - half, y.mean() + half], atol=1e-6
            )
            assert word.occurrences == sum(count for _, count in texts.values())
            assert word.against == ((y < 0) if y.mean() >= 0 else (y > 0)).sum()
            by_part = {}
            for number, (effect, _) in texts.items():
                by_part.setdefault(by_number[number]["given_part"], []).append(effect)
            for part in ("web", "mail", "paper"):
                inside = word.groups["slice"][part]
                assert inside.texts == len(by_part.get(part, []))
                if inside.texts:
                    assert inside.mean == pytest.approx(np.mean(by_part[part]), abs=1e-6)


def test_correct_and_wrong_predictions_differ_by_welch(summed, rows):
    texts = plain_observations(rows, 1)["film",]
    correct = {r["number"]: r["given_gold"] == r["label"] for r in rows}
    a, b = ([effect for number, (effect, _) in texts.items() if correct[number] is truth] for truth in (True, False))
    expected = stats.ttest_ind(a, b, equal_var=False).confidence_interval()
    gap = summed["film"].contrast()
    np.testing.assert_allclose(gap, [np.mean(a) - np.mean(b), expected.low, expected.high])
    assert summed["film"].groups["prediction"]["correct"].texts == len(a)
    assert summed["film"].to_dict()["correct_minus_wrong"]["difference"] == gap.difference
    assert summed.about["accuracy"] == np.mean(list(correct.values()))
    assert difference(effect_of(1, 1.0, 1.0), effect_of(3, 1.0, 3.0)) is None


def test_how_often_among_the_strongest(summed, rows):
    texts = strongest = 0
    for r in rows:
        names = [name.lower() for name in r["units"]]
        if "bad" in names:
            texts += 1
            strongest += "bad" in [names[i] for i in np.argsort(-np.abs(r["removal"]), kind="stable")[:5]]
    assert 0 < strongest < texts
    assert summed["bad"].strongest == strongest / texts


def test_examples_are_the_strongest_texts_in_both_directions(summed, rows):
    texts = {number: effect for number, (effect, _) in plain_observations(rows, 1)["bad",].items()}
    word = summed["bad"]
    sign = np.sign(word.effect.mean)
    order = sorted(texts, key=lambda number: -sign * texts[number])
    assert [example.number for example in word.usual] == order[:3]
    assert [example.number for example in word.unusual] == [n for n in order[::-1] if sign * texts[n] < 0][:3]
    for example in (*word.usual, *word.unusual):
        source = rows[example.number]
        assert example.effect == pytest.approx(texts[example.number])
        assert example.before.lstrip("…") + example.word + example.after.rstrip("…") in source["text"]
        assert (example.word, example.id, example.gold) == ("bad", f"id{example.number}", source["given_gold"])
    assert sorted(effect for effect, _ in word.sample) == pytest.approx(sorted(texts.values()))


def test_tokens_are_merged_into_words_as_explanations_are(tmp_path):
    texts = ["The unwatchable film", "unwatchable, 10/10!"]
    explainer = Explainer(method="ridge", queries=40, progress=False)
    explained = explainer(texts)
    rows = [explained_row(SourceRow(i, str(i), text, {}), e) for i, (text, e) in enumerate(zip(texts, explained, strict=True))]
    rows.append(failed_row(SourceRow(2, "2", "", {}), "no word"))
    found = corpus.summary(write(tmp_path / "out", rows, labels=("negative", "positive")), min_texts=2)
    merged = [e.merge("word") for e in explained]
    effects = [y for m in merged for name, y in zip(m.units, m.removal.tolist(), strict=True) if name == "unwatchable"]
    assert len(effects) == 2
    assert found["unwatchable"].effect.mean == pytest.approx(np.mean(effects), rel=1e-6)
    assert {word.name for word in found.of_kind("piece")} >= {"unwatch-", "-able"}
    assert (found.about["texts"], found.about["explained"]) == (3, 2)


def test_a_phrase_that_a_part_explains_is_left_out(tmp_path):
    effects = {"great": 2.0, "not": -0.5, "bad": -1.0}
    rows = [row(i, text, effects) for i, text in enumerate(["a great film", "great fun", "so great", "great", "a film"] * 3)]
    rows += [row(100 + i, "hardly any good", [-1.0, -1.0, -1.0]) for i in range(5)]
    rows += [row(200 + i, "hardly", [0.0]) for i in range(9)] + [row(300 + i, "any good", [0.0, 0.0]) for i in range(9)]
    found = corpus.summary(write(tmp_path / "out", rows, unit="word"), min_texts=3)
    assert "hardly any good" in {word.name for word in found.of_kind("phrase")}
    assert not any("great" in word.name for word in found.of_kind("phrase"))


def test_words_are_in_the_order_of_the_listed_intervals(tmp_path):
    """A few equal texts, many that differ, and words that are not told from zero; each has its own spread."""
    rng = np.random.default_rng(0)
    rows = []
    for i in range(120):
        effects = {f"w{k}": rng.normal(0.3 * k - 1.0, 0.2 + 0.4 * (k % 4)) for k in range(8)}
        text = " ".join(word for k, word in enumerate(effects) if rng.random() < 0.05 * (k + 1))
        rows.append(row(i, f"{text} same" if i < 5 else f"{text} .", {**effects, "same": 0.4}))
    found = corpus.summary(write(tmp_path / "out", rows, unit="word"), phrases=1, min_texts=5)
    ends = [word.effect.low if word.effect.mean >= 0 else -word.effect.high for word in found.of_kind("word")]
    assert len(ends) == 10
    assert ends == sorted(ends, reverse=True)
    assert ends[0] > 0 > ends[-1]


def test_poorly_explained_texts_are_counted_and_left_out(tmp_path):
    """R2 below 0 and an error that matters; where it was not tested, or nothing varies near the text, texts count."""
    quality = [(-0.2, 0.5), (0.1, 0.5), (None, None), (-900.0, 1e-6)]
    rows = [
        row(i, "good film", [9.0 if i % 4 == 0 else 1.0, 0.0], gold=("neg", "pos")[i % 4 > 1])
        | dict(zip(("near_r2", "near_mse"), quality[i % 4], strict=True))
        for i in range(40)
    ]
    folder = write(tmp_path / "out", rows, unit="word", keep=("gold",), part=7)
    found = corpus.summary(folder, gold="gold")
    assert (found.about["texts"], found.about["explained"], found.about["poor"]) == (40, 30, 10)
    assert (found["good"].effect.texts, found["good"].effect.mean) == (30, 1.0)
    assert found.about["accuracy"] == 0.5  # of the model, on all texts
    every = corpus.summary(folder, gold="gold", include_poor=True)
    assert (every.about["explained"], every.about["poor"], every["good"].effect.mean) == (40, 10, 3.0)
    bad = write(tmp_path / "bad", [one | {"number": i} for i, one in enumerate(rows[::4])], unit="word", keep=("gold",))
    with pytest.raises(
        InputError, match=r"not poorly explained .*; all 10 are; explain with more queries, or add --include-poor"
    ):
        corpus.summary(bad)


def test_one_target_at_a_time_and_true_labels_as_indices(tmp_path):
    rows = [row(i, "x y", [1.0, 2.0], label="b", target=("a", "b", "b")[i % 3], gold=str(i // 3 % 2)) for i in range(30)]
    folder = write(tmp_path / "out", rows, labels=("a", "b", "c"), keep=("gold",))
    found = corpus.summary(folder, gold="gold")
    assert (found.about["target"], found.about["explained"], found.about["other_targets"]) == ("b", 20, {"a": 10})
    assert found.about["accuracy"] == 0.5
    assert corpus.summary(folder, target="a")["x"].effect.texts == 10
    rows[4]["given_gold"] = "maybe"
    odd, none = write(tmp_path / "odd", rows, labels=("a", "b", "c"), keep=("gold",)), tmp_path / "none"
    write(none, [failed_row(SourceRow(0, "a", "", {}), "no word")])
    for where, options, message in (
        (folder, {"target": "c"}, "target must be one of 'a', 'b', which texts explain; got 'c'"),
        (odd, {"gold": "gold"}, r"'gold' must hold labels of the model \(a, b, c\) or their indices; got 'maybe'"),
        (folder, {"gold": "nothing"}, "must have kept the column 'nothing' of its source; it has kept .*; .* --keep NAME"),
        (folder, {"sort": "name"}, "sort must be one of 'effect', 'total', 'texts'; got 'name'"),
        (folder, {"phrases": 6}, "phrases must be from 1 to 5 words; got 6"),
        (folder, {"min_texts": 1}, "min_texts must be"),
        (none, {}, "must have at least one explained text; it has 1 row, none explained"),
    ):
        with pytest.raises(InputError, match=message):
            corpus.summary(where, **options)
