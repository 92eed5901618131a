import json
from dataclasses import MISSING, fields, replace
from functools import cache

import numpy as np
import pytest

import slalom
from slalom import Explainer, Explanation, Explanations
from slalom.core import Slalom
from slalom.errors import InputError, MissingExtra
from slalom.render.terminal import quality
from slalom.result import SCORES, Fidelity, Quality
from slalom.result.codec import FIELDS
from slalom.result.wording import fidelity_text, unit_texts
from tests.cases import cases
from tests.factories import explanation
from tests.oracle import Oracle

TEXT = 'A <b>good</b> film, "not" bad & so on 👍🏽'


@cache  # explanations are frozen
def one(**options):
    oracle = Oracle({"good": 3.0, "bad": -5.0, "film,": 2.0}, {"bad": 1.0}, (0.1, 0.5))
    return Explainer(oracle, output="log_odds", queries=120, **options)(TEXT)


@cache
def three():
    def logits(texts):
        return np.array([[t.count("o"), t.count("a"), 0.1 * len(t)] for t in texts], dtype=float)

    return Explainer(logits, output="logits", labels=["o", "a", "long"], queries=120, target="all")(TEXT)


@cases("make", [one, three, lambda: one(method="eff"), lambda: one().merge("sentence")])
def test_saved_explanations_come_back_bit_by_bit(make, tmp_path):
    e = make()
    e.save(tmp_path / "e.json")
    back = slalom.load(tmp_path / "e.json")
    assert isinstance(back, Explanation)
    assert back.to_dict() == e.to_dict()
    for name in ("values", "importances", "spans", "removal", "linear", "gradient"):
        mine, theirs = getattr(e, name), getattr(back, name)
        assert (mine is None and theirs is None) or (np.array_equal(mine, theirs) and mine.dtype == theirs.dtype)
    keep = np.random.default_rng(0).random((20, len(e))) < 0.7
    assert (e.predict(keep | (keep.sum(axis=1) == 0)[:, None]) == back.predict(keep | (keep.sum(axis=1) == 0)[:, None])).all()
    assert back.fidelity == e.fidelity
    assert back.units == e.units
    json.loads(e.to_json(indent=1))


def test_every_field_has_a_row_of_the_table():
    assert sorted([*(row.name for row in FIELDS), "surrogate", "details", "words"]) == sorted(
        field.name for field in fields(Explanation)
    )


def test_files_may_lack_the_fields_that_have_a_default():
    saved = one().to_dict()
    optional = [f.name for f in fields(Explanation) if f.default is not MISSING or f.default_factory is not MISSING]
    old = Explanation.from_dict({key: part for key, part in saved.items() if key not in optional})
    assert (old.scale, old.label, old.settings, old.signed, old.measured) == ("log odds", None, {}, True, {})
    np.testing.assert_array_equal(old.values, replace(one(), measured={}).values)
    for name in {f.name for f in fields(Explanation)} - {*optional, "surrogate"}:
        with pytest.raises(InputError, match="lacks a part"):
            Explanation.from_dict({key: part for key, part in saved.items() if key != name})


def test_sorted_keys_and_odd_characters_come_back_too(tmp_path):
    e = one()
    assert Explanation.from_dict(json.loads(json.dumps(e.to_dict(), sort_keys=True))).fidelity == e.fidelity
    odd = Explainer(lambda texts: [float(len(t)) for t in texts], output="log_odds", seed=np.int64(3))("a \ud83d b")
    odd.save(tmp_path / "odd.json")
    assert slalom.load(tmp_path / "odd.json").text == odd.text


def test_batches_are_saved_and_loaded(tmp_path):
    both = Explanations([one(), one(seed=2)])
    both.save(tmp_path / "both.json")
    back = slalom.load(tmp_path / "both.json")
    assert isinstance(back, Explanations)
    assert back.to_json() == both.to_json()
    assert both.queries == sum(e.queries for e in both)
    assert isinstance(both[:1], Explanations)
    assert both[-1] is both._all[1]
    assert len(both.to_pandas()) == 2 * len(both[0])


def test_files_that_are_no_explanations_are_refused(tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        slalom.load(tmp_path / "nothing.json")
    file = tmp_path / "x.json"
    for content, message in (("{", "must be a JSON file"), ("{}", "something else"), ("[1]", "something else")):
        file.write_text(content)
        with pytest.raises(InputError, match=message):
            slalom.load(file)
    future = one().to_dict() | {"version": 3}
    file.write_text(json.dumps(future))
    with pytest.raises(InputError, match="format version 3, this slalom reads 2"):
        slalom.load(file)
    broken = one().to_dict()
    del broken["spans"]
    file.write_text(json.dumps(broken))
    with pytest.raises(InputError, match="lacks a part"):
        slalom.load(file)
    with pytest.raises(InputError, match="could not write"):
        one().save(tmp_path / "no" / "such" / "folder.json")


def test_everything_is_aligned_with_the_units():
    e = one()
    n = len(e.units)
    assert all(TEXT[a:b] == unit for unit, (a, b) in zip(e.units, e.spans, strict=True))
    for part in (
        e.values,
        e.importances,
        e.linear,
        e.gradient,
        e.removal,
        e.shapley(),
        e.errors["value"],
        e.errors["importance"],
        e.weights,
    ):
        assert part.shape == (n,)
    assert e.predict(np.ones(n)).shape == ()
    assert e.predict(np.ones((3, n), dtype=bool)).shape == (3,)
    with pytest.raises(InputError, match=rf"keep must have shape \(m, {n}\)"):
        e.predict(np.ones(n + 1))
    with pytest.raises(AttributeError):
        e.score = 3.0
    with pytest.raises(ValueError, match="read-only"):
        e.values[0] = 1.0


def test_several_classes_are_aligned_too():
    e = three()
    assert e.values.shape == e.removal.shape == (len(e), 3)
    assert np.allclose(e.values.sum(axis=1), 0)
    frame = e.to_pandas()
    assert list(frame["unit"]) == list(e.units)
    assert {"value[o]", "removal[long]", "importance"} <= set(frame.columns)


@cases("explained", [one, three])
def test_a_data_frame_has_every_score_with_its_errors(explained):
    e = explained()
    frame = e.to_pandas()
    targets = [None] if e.labels is None or e.values.ndim == 1 else e.labels
    for name in ("removal", "gradient", "shapley", *(() if e.additive else ("linear",))):
        for target in targets:
            suffix = "" if target is None else f"[{target}]"
            np.testing.assert_array_equal(frame[name + suffix], e.scores(name, target))
            if name in e.errors:
                half = (e.interval(name, target=target)[:, 1] - e.scores(name, target)) / 1.959963984540054
                np.testing.assert_allclose(frame[f"{name}_se{suffix}"], half, rtol=1e-9, atol=1e-12)


def test_the_page_shows_the_text_escaped_and_complete():
    page = one()._repr_html_()
    assert "<b>good" not in page
    assert "good" in page
    assert "&amp;" in page
    assert "👍🏽" in page
    assert page.count("<span") == len(one().units)
    assert three()._repr_html_().startswith("<div ")
    assert Explanations([one(), three()])._repr_html_().count("<hr/>") == 1


def test_the_notebook_shows_every_unit_once_whatever_the_text_holds():
    def shout(texts):
        return [float(t.count("!")) for t in texts]

    for text in ('</p><script>alert("x")</script> a', "a \ud83d b!", "שלום! עולם", "one\r\ntwo! ", "👍🏽!"):
        e = Explainer(shout, output="log_odds", labels=["<i>no</i>", '"<img src=x onerror=1>'], queries=60)(text)
        shown = e._repr_html_()
        assert shown.count("<span") == len(e)
        assert "<script" not in shown
        assert "<img" not in shown
        assert "<i>no" not in shown
        assert "rgba(33,102,172,0.600)" in shown
        shown.encode()
    overlapping = replace(one(), spans=np.zeros_like(one().spans))
    assert overlapping._repr_html_().count("<span") == len(overlapping)


def test_it_reads_well_in_a_terminal():
    e = one()
    first, second, third, *units = repr(e).splitlines()
    assert first == f"{e.label} {max(e.probabilities):.1%}   log odds of 1: {e.score:+.3f}"
    assert second.startswith("Explanation of '1': 14 tokens, joint, ")
    assert "R2 " in third
    assert any("'bad'" in unit for unit in units)
    assert "3 texts" in repr(Explanations([one()] * 3))


def test_all_classes_are_named_where_all_are_explained():
    effects = {"goal": (3.0, 0.0, 0.0, 0.0, -1.0), "vote": (0.0, 2.0, 0.0, 0.0, 0.0)}

    def model(texts):
        return [np.sum([np.zeros(5), *(effects.get(word, np.zeros(5)) for word in text.split())], axis=0) for text in texts]

    labels = ["sport", "politics", "arts", "<i>law</i>", "other"]
    explain = Explainer(model, output="logits", labels=labels, target="all", progress=False)
    e = explain("a goal before the vote")
    lines = repr(e).splitlines()
    share = np.exp(3) / (np.exp(3) + np.exp(2) + 2 + np.exp(-1))
    assert lines[0] == f"sport {share:.1%}   centred logits: sport +2.20, other -1.80, politics +1.20, arts -0.80, 1 more"
    assert lines[1].startswith("Explanation of all classes: 5 tokens, joint, ")
    shown = "(sport +2.60, other -1.40, politics -0.40, arts -0.40, 1 more)"
    assert lines[3].startswith(f"  'goal': removal {shown}, value {shown}")
    assert "all classes: sport +2.20, other -1.80" in e._repr_html_()
    assert "<i>" not in e._repr_html_()
    assert explain("a goal", target="sport").to_pandas(tidy=True)["class"].tolist() == ["sport", "sport"]


def test_a_tidy_data_frame_has_the_numbers_of_the_wide_one():
    many = Explainer(lambda texts: [[t.count("a"), t.count("b"), 1.0] for t in texts], output="logits", labels=["x", "y", "z"])
    both = many(["a b cab", "b b"], target="all", queries=40)
    for wide, tidy in [(e.to_pandas(), e.to_pandas(tidy=True)) for e in both] + [(both.to_pandas(), both.to_pandas(tidy=True))]:
        assert len(tidy) == 3 * len(wide)
        assert list(tidy["class"]) == ["x", "y", "z"] * len(wide)
        assert len(tidy.columns) < 0.6 * len(wide.columns)
        checked = 0
        for name in tidy.columns.drop("class"):
            for label in ("x", "y", "z"):
                column = wide[name if name in wide else f"{name}[{label}]"]
                np.testing.assert_array_equal(tidy[tidy["class"] == label][name].to_numpy(), column.to_numpy())
                checked += name not in wide
        assert checked >= 3 * len({"value", "removal", "linear", "gradient", "shapley"})


def test_predictions_that_a_constant_beats_are_said_to_be_so():
    good, bad, trifle = Quality(0.9, 0.01, 20), Quality(-1166165.07, 0.19, 10), Quality(-3.0, 1e-4, 10)
    e = replace(one(), diagnosis="")
    assert replace(e, fidelity=Fidelity(good, good)).remarks == ()
    (even,) = replace(e, fidelity=Fidelity(trifle, good)).remarks
    assert even == "The model's answers near the text hardly vary, so that R2 means little there; the error is below 0.05."
    (said,) = replace(e, fidelity=Fidelity(bad, good)).remarks
    assert said == "This explanation predicts worse than a constant near the text: do not rely on it there."
    (both,) = replace(e, fidelity=Fidelity(bad, bad)).remarks
    assert "near the text and on parts of all sizes" in both
    assert str(Fidelity(bad, trifle)).startswith("near the text R2 below -10 (MSE 0.19, 10 queries), all sizes R2 -3.00 (MSE")
    assert "R2 undefined" in str(Fidelity(Quality(None, 0.1, 30), None))
    assert "R2 unknown, as it needs 8 queries" in str(Fidelity(Quality(None, 0.1, 3), None))


def test_without_pandas_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(MissingExtra, match=r"slalom-xai\[pandas\]"):
        one().to_pandas()


def test_merge_takes_larger_units_only():
    with pytest.raises(InputError, match="'word' or 'sentence'; got 'token'"):
        one().merge("token")
    with pytest.raises(InputError, match="sentences cannot become words"):
        one(unit="sentence").merge("word")
    with pytest.raises(InputError, match="rows differ in length"):
        one().predict([[1, 0], [1]])


def test_what_tested_the_fit_and_what_was_predicted_is_kept_and_saved(tmp_path):
    for e in (one(), three()):
        assert e.held_out.keep.shape == (len(e.held_out.scores), len(e))
        guess = e.predict(e.held_out.keep[e.held_out.near :])
        missed = ((guess - e.held_out.scores[e.held_out.near :]) ** 2).sum() / len(guess)
        assert np.isclose(missed, e.fidelity.far.mse)
        e.save(tmp_path / "e.json")
        back = slalom.load(tmp_path / "e.json")
        assert (back.held_out.keep == e.held_out.keep).all()
        assert (back.held_out.scores == e.held_out.scores).all()
        assert back.prediction == e.prediction
        assert np.isclose(e.probabilities.sum(), 1.0)
    assert e.prediction == ("o", float(e.probabilities.max()))
    assert e.merge("word").held_out is None


def test_arrays_cannot_be_written_to():
    e = replace(one(), score=1.0)
    arrays = [e.spans, e.sizes, e.values, e.importances, e.errors["value"], e.errors["importance"], e.probabilities]
    for array in [*arrays, e.held_out.keep, e.held_out.scores, three().score]:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_a_merged_explanation_says_why_it_is_not_tested():
    e = one()
    merged = e.merge("sentence")
    assert e.held_out is not None
    assert e.errors
    assert merged.held_out is None
    assert not merged.errors
    assert "not tested for sentences, which were merged from tokens" in repr(merged)
    assert "not tested for sentences, which were merged from tokens" in merged._repr_html_()
    assert merged.merge("sentence").merged_from == "token"
    assert fidelity_text(Explanation.from_dict(merged.to_dict())) == fidelity_text(merged)
    assert "not tested" not in repr(e)


def test_importances_are_not_shown_where_values_add_up():
    e = one()
    adding = replace(e, surrogate=Slalom(e.surrogate.values, e.importances, 0.01))
    assert adding.additive
    assert "importance" not in repr(adding) + adding._repr_html_()
    assert adding.to_pandas()[["importance", "weight"]].isna().all(axis=None)
    for shown in (adding, e):
        assert "value " in repr(shown)
        assert not shown.to_pandas()["value"].isna().any()


def test_a_score_is_chosen_by_its_name_and_class():
    e, several = one(), three()
    named = {"value": e.values, "importance": e.importances, "shapley": e.shapley()}
    named |= {name: getattr(e, name) for name in ("removal", "linear", "gradient")}
    named |= {"weight": e.weights}
    assert set(named) == {score.name for score in SCORES.values() if score.listed}
    for name, expected in named.items():
        assert (e.scores(name) == expected).all()
        assert (e.scores(name, e.target) == expected).all()
    assert (e.scores() == e.removal).all()
    assert e.column() is None
    for target, column in ((None, int(np.argmax(several.score))), ("a", 1), (2, 2), (np.int64(0), 0)):
        assert several.column(target) == column
        assert (several.scores("removal", target) == several.removal[:, column]).all()
        assert (several.scores("value", target) == several.values[:, column]).all()
        assert (several.scores("shapley", target) == several.shapley()[:, column]).all()
        assert (several.scores("importance", target) == several.importances).all()


def test_scores_and_classes_that_do_not_exist_are_refused():
    with pytest.raises(InputError, match=r"one of 'removal', 'shapley', .* got 'lime'"):
        one().scores("lime")
    for target in ("b", 3, -1, True, 1.5):
        with pytest.raises(InputError, match="is not a class of this model"):
            three().scores("removal", target)

    def two(texts):
        return [[0.0, float("good" in text)] for text in texts]

    single = Explainer(two, output="logits", labels=["no", "yes"], queries=50)("a good film")
    assert (single.scores("value", "yes") == single.scores("value", 1)).all()
    with pytest.raises(InputError, match="is of 'yes' only; explain with target='no'"):
        single.scores("value", "no")


def additive(target=None):
    """An explanation by a method that says that effects add up."""
    from slalom.core import Additive  # noqa: PLC0415

    e = three() if target == "all" else one()
    rng = np.random.default_rng(0)
    shape = e.values.shape
    surrogate = Additive(rng.normal(size=shape), rng.normal(size=shape[1:]))
    return replace(e, surrogate=surrogate, measured={}, pairs=(), method="made up")


@cases("target", [None, "all"])
def test_an_additive_explanation_is_an_explanation_too(target, tmp_path):
    e = additive(target)
    assert e.additive
    for score in (e.values, e.removal, e.linear, e.gradient, e.shapley()):
        np.testing.assert_allclose(score, e.surrogate.effects, atol=1e-12)
    keep = np.random.default_rng(1).random((10, len(e))) < 0.5
    assert np.allclose(e.predict(keep), e.surrogate.base + keep @ e.surrogate.effects)
    e.save(tmp_path / "e.json")
    back = slalom.load(tmp_path / "e.json")
    assert (back.predict(keep) == e.predict(keep)).all()
    assert back.to_dict() == e.to_dict()
    merged = e.merge("sentence")
    assert np.allclose(merged.predict(np.ones((1, len(merged)))), e.predict(np.ones((1, len(e)))))
    assert "removal" in repr(e)
    assert e._repr_html_()


def test_a_method_without_a_sign_has_strengths_in_words():
    e = replace(explanation("A fine film", [0.5, 0.1, 0.3]), method="attention", signed=False)
    assert "strength " in unit_texts(e, [0])[0]
    assert "removal" not in repr(e).split("\n", 2)[2].split("Scores")[0]


def test_one_is_not_several():
    e = replace(explanation("good", [2.0]), queries=1, seconds=1.0, cut=1)
    assert "1 word, " in repr(e)
    assert " 1 query, 1 s" in repr(e)
    assert "cannot see the last 1 token of this text; it was cut" in repr(e)
    assert str(Fidelity(Quality(0.9, 0.1, 1), None)).startswith("near the text R2 0.90 (MSE 0.1, 1 query)")
    assert repr(Explanations([e])).startswith("Explanations of 1 text: 1 query, ")


def test_r2_has_as_many_digits_as_its_queries_tell():
    for r2, queries, shown in (
        (0.98612, 10, "0.99"), (0.98612, 100, "0.986"), (-0.5, 30, "-0.50"), (-1e6, 30, "below -10"),
        (0.9986, 10, "above 0.99"), (0.9999, 100, "above 0.999"), (1.0, 10, "1.00"),
    ):  # fmt: skip
        assert Quality(r2, 0.1, queries).shown == shown
    low = Quality(-1e6, 0.1, 30)
    tested = replace(explanation("good film", [2.0, 1.0]), fidelity=Fidelity(low, Quality(0.9, 0.1, 31)), queries=261)
    said = "R2 below -10 near the text and 0.90 on parts of all sizes (30 + 31 held-out queries)"
    assert quality(tested).startswith(f"predicts removals with {said}; 200 queries + 61 to test, ")
    assert "R2 below -10 (MSE 0.1, 30 queries)" in str(tested.fidelity)
    assert ", 200 queries + 61 to test, " in repr(tested)
    assert Fidelity(None, Quality(0.9, 0.1, 10)).statement == "R2 0.90 on parts of all sizes (10 held-out queries)"
