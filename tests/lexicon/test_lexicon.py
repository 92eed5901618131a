"""A lexicon as a prior: what it knows need not be asked, what it predicts is true, and what is shown is tested or marked."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow.parquet as pq
import pytest

import slalom
from slalom import Lexicon
from slalom.errors import InputError
from tests.cases import cases
from tests.lexicon.planted import KAPPA, WORDS, Planted, explainer, lexicon, texts, truth

NEW = texts(6, seed=9)


@cache
def in_contexts():
    """A lexicon of 40 texts of a model to which contexts matter."""
    return Lexicon.learn(explainer(Planted(context=0.3)), texts(40), queries=40)


def far_error(explained, model):
    """1 - R2 of predictions of parts of all sizes."""
    rng, errors = np.random.default_rng(0), []
    for e in explained:
        keep = rng.random((200, len(e))) < rng.random((200, 1))
        scores = np.array(model([" ".join(np.array(e.units)[row]) for row in keep]))
        errors.append(((scores - e.surrogate(keep.astype(float))) ** 2).mean() / scores.var())
    return np.mean(errors)


def test_it_has_what_the_model_says_of_each_word_alone():
    found = lexicon()
    values, _ = truth()
    assert sorted(found.words) == sorted(WORDS)
    assert found.about["texts"] == 40
    order = [WORDS.index(word) for word in found.words]
    np.testing.assert_allclose(found.alone[:, 0], values[order], atol=1e-12)
    np.testing.assert_allclose(found.outputs[:, 0], values[order] + 0.3, atol=1e-12)
    assert found.empty.tolist() == [[pytest.approx(0.3)]]
    assert 1.0 / (1.0 + np.exp(-found.across.logit)) == pytest.approx(KAPPA, abs=0.1)
    counts = [sum(word in text.split() for text in texts(40)) for word in found.words]
    assert found.texts.tolist() == counts
    assert found.about["held_out"]["far"] > 0.9


def test_each_new_word_is_asked_once_and_alone():
    model = Planted()
    Lexicon.learn(explainer(model), texts(15), queries=20)
    alone = [text for text in model.asked if len(text.split()) == 1]
    assert sorted(alone) == sorted(WORDS)
    assert len(model.asked) == len(set(model.asked))
    estimate = Lexicon.estimate(explainer(Planted()), texts(15), queries=20)
    assert estimate.queries == len(model.asked)


def test_few_queries_do_with_it_what_many_do_without():
    model, prior = Planted(context=0.3), in_contexts()
    none, without, few, many = (
        far_error(explainer(model, known, queries=queries)(NEW[:4]), model)
        for known, queries in ((prior, 0), (None, 60), (prior, 30), (prior, 100))
    )
    assert none < 0.2
    assert few < without
    assert many < few < none


def test_without_a_query_only_the_text_and_its_new_words_are_asked():
    model = Planted()
    found = explainer(model, lexicon(), queries=0)
    e = found(" ".join([*WORDS[:10], "unknown", "strange"]))
    assert sorted(model.asked) == sorted([e.text, "unknown", "strange"])
    assert not e.fidelity.known
    assert any("nothing tests this explanation" in note for note in e.notes)
    assert any("10 of" in note or "83%" in note for note in e.notes)
    assert e.removal.shape == (12,)
    assert (e.errors["removal"] > 0).all()
    known = ~np.isnan(e.measured["value"])
    assert known.all()  # the lexicon's answers, and two of this text
    np.testing.assert_allclose(e.scores("value")[:10], truth()[0][:10], atol=1e-9)


def test_known_words_are_neither_asked_alone_nor_held_out():
    model = Planted()
    e = explainer(model, lexicon(), queries=60)(NEW[0])
    assert not [text for text in model.asked if len(text.split()) <= 1]
    assert (e.held_out.keep.sum(axis=1) > 1).all()
    short = explainer(model, lexicon(), queries=30)(" ".join(WORDS[:6]))
    assert len(short.held_out.keep) > 10
    assert (short.held_out.keep.sum(axis=1) > 1).all()
    assert not [text for text in model.asked if len(text.split()) <= 1]


def test_fidelity_is_that_of_held_out_queries():
    model = Planted()
    e = explainer(model, lexicon(), queries=60)(NEW[1])
    far = ~e.held_out.keep.all(axis=1)
    far[: e.held_out.near] = False
    own = np.array(model([" ".join(np.array(e.units)[row]) for row in e.held_out.keep[far]]))
    np.testing.assert_allclose(e.held_out.scores[far], own, atol=1e-9)
    predicted = e.surrogate(e.held_out.keep[far].astype(float))
    assert e.fidelity.far.r2 == pytest.approx(1 - ((own - predicted) ** 2).sum() / ((own - own.mean()) ** 2).sum())


@cases("queries", [0, 50])
def test_intervals_hold_the_models_own_answers(queries):
    model, prior, inside = Planted(context=0.3), in_contexts(), []
    for e in explainer(model, prior, queries=queries)(NEW):
        words = e.text.split()
        own = model.score(e.text) - np.array(model.scores([" ".join(words[:i] + words[i + 1 :]) for i in range(len(words))]))
        guessed = np.isnan(e.measured["removal"]) if "removal" in e.measured else np.ones(len(e), dtype=bool)
        inside.append((np.abs(e.removal - own) <= 1.96 * e.errors["removal"])[guessed])
    assert 0.85 < np.concatenate(inside).mean() <= 1.0


def test_a_saved_lexicon_is_the_same(tmp_path):
    file = tmp_path / "lexicon.parquet"
    lexicon().save(file)
    again = Lexicon.load(file)
    assert again.digest == lexicon().digest
    assert again.about == lexicon().about
    one, other = (explainer(Planted(), prior, queries=30)(NEW[0]) for prior in (lexicon(), file))
    assert one.to_dict() | {"seconds": 0} == other.to_dict() | {"seconds": 0}
    assert one.settings["prior"] == lexicon().digest


def test_the_result_does_not_depend_on_what_was_explained_before():
    both = explainer(Planted(), lexicon(), queries=30)(NEW[:2])
    alone = explainer(Planted(), lexicon(), queries=30)(NEW[1])
    np.testing.assert_array_equal(both[1].removal, alone.removal)


def test_learning_is_deterministic():
    first, again, other = (Lexicon.learn(explainer(Planted(), seed=seed), texts(12), queries=20) for seed in (0, 0, 1))
    assert first.digest == again.digest != other.digest


def test_without_a_lexicon_nothing_changes():
    e = explainer(Planted(), queries=50)(NEW[0])
    assert "prior" not in e.settings
    assert not [note for note in e.notes if "lexicon" in note]


def test_other_methods_of_a_call_do_not_use_it():
    found = explainer(Planted(), lexicon(), queries=50)
    assert "prior" not in found(NEW[0], method="ridge").settings
    assert found(NEW[0], method="joint").settings["prior"] == lexicon().digest


def test_classes_of_two_are_mirrored():
    yes, no = (explainer(Planted(), lexicon(), queries=0, target=target)(NEW[0]) for target in ("yes", "no"))
    np.testing.assert_allclose(yes.removal, -no.removal, atol=1e-6)


def test_several_classes_have_values_of_their_own():
    models = [Planted(seed) for seed in range(3)]

    def logits(several):
        return np.stack([model(several) for model in models], axis=1).tolist()

    made = {
        "output": "logits",
        "labels": ["a", "b", "c"],
        "identity": "three",
        "unit": "word",
        "progress": False,
        "pairs": False,
    }
    found = Lexicon.learn(slalom.Explainer(logits, **made), texts(30), queries=40)
    assert found.alone.shape == (60, 3)
    for name in "abc":
        new, old = (
            slalom.Explainer(logits, prior=p, queries=q, target=name, check=60, **made) for p, q in ((found, 40), (None, 40))
        )
        r2 = [np.mean([e.fidelity.far.r2 for e in some(NEW[:2])]) for some in (new, old)]
        assert r2[0] > 0.6
        assert r2[0] > r2[1]
    with pytest.raises(InputError, match="one class at a time"):
        slalom.Explainer(logits, prior=found, target="all", **made)


def test_tokens_of_a_network_are_words(tmp_path):
    reviews = [
        f"a {good} film with a {bad} end and {more}"
        for good in ("fine", "dull", "great")
        for bad in ("sad", "bad")
        for more in ("music", "noise")
    ]
    found = Lexicon.learn(slalom.Explainer(progress=False), reviews, queries=20)
    assert set(found.words) >= {"film", "dull", "music"}
    made = slalom.Explainer(progress=False)
    i = found.words.index("dull")
    assert found.alone[i, 0] == pytest.approx(made.decide(["dull"])[0][0] - made.decide([""])[0][0], abs=1e-4)
    e = slalom.Explainer(prior=found, queries=0, progress=False)("a dull film")
    assert not np.isnan(e.measured["value"]).any()


@cases("options, message", [
    ({"unit": "sentence"}, "words of unit='word'"),
    ({"identity": "another"}, "learnt from another model"),
    ({"identity": None}, "has no identity"),
    ({"method": "ridge"}, "needs method=joint"),
    ({"method": "local"}, "needs method=joint"),
    ({"target": "all"}, "one class at a time"),
    ({"removal": "mask"}, "needs removal='drop'; got removal='mask'"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        explainer(Planted(), lexicon(), **options)


def test_too_few_texts_are_refused():
    with pytest.raises(
        InputError, match="at least 10 texts; got 3 that can be read; the last that cannot: a text must have at least one"
    ):
        Lexicon.learn(explainer(Planted()), [*texts(3), ""], queries=40)
    with pytest.raises(InputError, match="several texts; got one string"):
        Lexicon.learn(explainer(Planted()), texts(1)[0], queries=40)
    with pytest.raises(InputError, match="queries must be"):
        Lexicon.learn(explainer(Planted()), texts(20), queries=5)
    with pytest.raises(InputError, match="single texts; got several fields"):
        Lexicon.learn(explainer(Planted()), [("w1 w2", "w3")] * 20, queries=40)
    with pytest.raises(InputError, match="removal='drop'; got removal='blank'"):
        Lexicon.learn(explainer(Planted(), removal="blank"), texts(20), queries=40)


def test_records_are_refused():
    words = {"output": "log_odds", "identity": "pairs", "unit": "word", "progress": False, "labels": ["no", "yes"]}
    other = lexicon()
    prior = replace(other, about={**other.about, "identity": "pairs"})
    with pytest.raises(InputError, match="single texts; got several fields"):
        slalom.Explainer(lambda rows: [float(len(a) + len(b)) for a, b in rows], prior=prior, **words)(("w1 w2", "w3"))


def test_what_cannot_be_read_is_skipped_and_counted():
    assert Lexicon.learn(explainer(Planted()), [*texts(12), "", "  ", None], queries=40).about["skipped"] == 3


@cases("damage", ["text", "column", "metadata", "shape", "nan", "about", "format", "keys", "texts", "labels", "huge"])
def test_files_of_others_are_refused(damage, tmp_path):
    file = tmp_path / "lexicon.parquet"
    lexicon().save(file)
    table = pq.read_table(file)
    kept = json.loads(table.schema.metadata[b"slalom lexicon"])
    if damage == "text":
        file.write_text("word,value\n")
    elif damage == "column":
        pq.write_table(table.drop_columns(["importances"]), file)
    elif damage == "metadata":
        pq.write_table(table.replace_schema_metadata({}), file)
    elif damage == "nan":
        replace(lexicon(), across=lexicon().across._replace(importances=np.full(60, np.nan))).save(file)
    elif damage == "huge":
        replace(lexicon(), across=lexicon().across._replace(importances=np.full(60, 1e6))).save(file)
    elif damage in ("keys", "texts"):
        replace(lexicon(), **{damage: ("x",) * 60}).save(file)
    else:
        wrong = {"about": {**kept["about"], "held_out": {"texts": 3, "near": "0.9", "far": None}}}
        none = {"about": {**kept["about"], "labels": []}}
        changes = {"format": {"format": 99}, "about": wrong, "labels": none}.get(damage, {"certain": [1.0]})
        pq.write_table(table.replace_schema_metadata({b"slalom lexicon": json.dumps(kept | changes)}), file)
    with pytest.raises(
        InputError, match="format 99" if damage == "format" else "must be a file that slalom lexicon build wrote"
    ):
        Lexicon.load(file)
    with pytest.raises(InputError, match="there is no file"):
        Lexicon.load(tmp_path / "absent")


def test_an_unlike_text_says_so():
    e = explainer(Planted(), lexicon(), queries=30)("these words are all new to it")
    assert any("unlike those of the lexicon: 100%" in note for note in e.notes)


def test_refining_begins_without_a_query_about_the_text():
    model = Planted(context=0.3)
    found = explainer(model, lexicon(), queries=80)
    first, *others = found.refine(NEW[2])
    assert first.queries == 1
    assert any("nothing tests this explanation" in note for note in first.notes)
    assert [e.queries for e in others] == sorted({e.queries for e in others})
    np.testing.assert_allclose(others[-1].removal, found(NEW[2]).removal)
    without = explainer(Planted(), lexicon(), queries=30).with_prior(None)(NEW[2])
    np.testing.assert_array_equal(without.removal, explainer(Planted(), queries=30)(NEW[2]).removal)


def test_a_budget_that_grows_begins_with_it_too():
    model = Planted(context=0.3)
    e = explainer(model, lexicon(), queries="auto", max_queries=400)(NEW[3])
    assert e.settings["prior"] == lexicon().digest
    assert e.stopped
    assert not [text for text in model.asked if len(text.split()) <= 1]


@cases("queries", [0, 2, 20, None, "auto"])
def test_a_text_of_one_known_word(queries):
    model = Planted()
    found = explainer(model, lexicon(), queries=queries)
    e = found("w3")
    assert e.removal[0] == pytest.approx(model.score("w3") - model.score(""), abs=1e-6)
    assert [step.final for step in found.steps("w3", first=50)][-1]


def test_so_few_queries_are_for_a_lexicon_only():
    found = explainer(Planted(), lexicon(), queries=0)
    assert found(NEW[0], method="ridge").queries > 100
    assert found.with_prior(None)(NEW[0]).queries > 100
    assert found(NEW[0]).queries == 1
    assert found.estimate(NEW[0]).queries == 0  # the score of the text is known by now
    assert found.estimate(NEW[1]).further == 0


def test_other_labels_or_outputs_are_refused():
    for options in ({"labels": ["a", "b"]}, {"output": "scores", "labels": None}):
        made = {"output": "log_odds", "labels": ["no", "yes"], "identity": "planted", "unit": "word", **options}
        with pytest.raises(InputError, match="use the same labels and output"):
            slalom.Explainer(Planted(), prior=lexicon(), progress=False, **made)
