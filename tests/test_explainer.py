"""From a model and a text to an explanation that predicts the model."""

import re
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest

import slalom
from slalom import Explainer, Explanations, SurrogateMethod
from slalom.core import Joint, Sgd
from slalom.errors import InputError, MissingExtra
from slalom.methods import WhiteBoxMethod
from slalom.text import Deletions, Pairs, Scales
from tests.cases import cases
from tests.oracle import Failing, Oracle

TEXT = "a good film with one bad end and a great cast that made it work in spite of all its many flaws"
VALUES = {"good": 3.0, "bad": -5.0, "great": 4.0, "flaws": -2.0, "work": 1.0}
LOUD = {"good": 1.0, "bad": 1.5, "great": 1.2, "flaws": 0.7, "a": -1.0}


def oracle(bias=0.3, competition=0.5):
    return Oracle(VALUES, LOUD, bias=bias, competition=competition)


def explainer(**options):
    return Explainer(oracle(), output="log_odds", **options)


@cases("method", ["joint", "local"])
def test_an_exact_slalom_is_found(method):
    e = explainer(method=method, queries=300)(TEXT)
    truth = oracle().surrogate(list(e.units))
    keep = np.random.default_rng(5).random((50, len(e))) < 0.5
    spread = truth(keep.astype(float)).std()
    if method == "joint":
        assert np.abs(e.predict(keep) - truth(keep.astype(float))).max() < 0.01 * spread
        assert np.allclose(e.shapley().sum(), truth(np.ones((1, len(e))))[0] - 0.3, atol=0.02)
        assert e.fidelity.far.r2 > 0.999
    assert e.fidelity.near.r2 > 0.999
    assert e.score == pytest.approx(float(truth(np.ones((1, len(e))))[0]))
    removed = [truth(np.ones((1, len(e))))[0] - truth(1.0 - np.eye(len(e))[[i]])[0] for i in range(len(e))]
    assert np.allclose(e.removal, removed, atol=0.01)


@cases("method", ["eff", "fidel"])
def test_the_papers_presets_find_the_papers_slalom(method):
    model = oracle(bias=0.0, competition=1.0)
    e = Explainer(model, output="log_odds", method=method, queries=2000)(TEXT)
    truth = model.surrogate(list(e.units))
    assert np.allclose(e.values, truth.values, atol=0.05)
    assert np.allclose(e.importances, truth.importances, atol=0.1)
    assert e.competition == 1.0


def test_presets_are_the_papers_samplers_and_fitters():
    eff, fidel = slalom.list_methods()["eff"], slalom.list_methods()["fidel"]
    assert eff.sampler == Pairs()
    assert isinstance(eff.fitter, Sgd)
    assert fidel.sampler == Deletions(most=5, repeats=True)
    assert type(fidel.fitter).__name__ == "Alternating"
    assert eff.unit == fidel.unit == "type"
    asked = oracle()
    Explainer(asked, output="log_odds", method="eff", check=0)(TEXT)
    lengths = {len(text.split()) for text in asked.received[2:]}
    assert lengths == {2, len(TEXT.split())}, "pairs, and the text itself"


def test_equal_tokens_have_scores_of_their_own_in_token_units_only():
    model = oracle()

    def first_counts(texts):
        return np.array(model(texts)) + [2.0 * text.startswith("a ") for text in texts]

    e, t = (
        Explainer(first_counts, output="log_odds", method=m, unit=u)(TEXT) for m, u in (("joint", "token"), ("eff", "type"))
    )
    first, last = [i for i, u in enumerate(t.units) if u == "a"][:2]
    assert t.values[first] == t.values[last]
    assert t.importances[first] == t.importances[last]
    assert e.units == t.units
    assert t.removal[first] == t.removal[last]
    assert e.values[first] == e.values[last], "alone they are one input"
    assert e.removal[first] > e.removal[last] + 1.0


def test_words_and_sentences():
    text = "A good film. The end was bad! Great cast."
    s = explainer(unit="sentence")(text)
    assert s.units == ("A good film.", "The end was bad!", "Great cast.")
    w = explainer(unit="word")(text)
    assert w.units[:4] == ("A", "good", "film", ".")
    merged = w.merge("sentence")
    assert merged.units == s.units
    keep = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 1]])
    spread = np.repeat(keep, [4, 5, 3], axis=1)
    assert np.allclose(merged.predict(keep), w.predict(spread))
    assert merged.fidelity.near is None


def test_the_same_seed_gives_the_same_bits_and_another_one_does_not():
    for method in ("joint", "local", "eff", "fidel"):
        one, two = (explainer(method=method, queries=100, seed=3)(TEXT) for _ in range(2))
        assert (one.values == two.values).all()
        assert (one.importances == two.importances).all()
        assert one.fidelity == two.fidelity
    assert (explainer(queries=100, seed=4)(TEXT).importances != explainer(queries=100, seed=3)(TEXT).importances).any()


def test_a_text_is_explained_alike_alone_and_among_others():
    texts = [TEXT, "good", "a bad film and a good cast", TEXT]
    together = explainer(queries=120)(texts)
    assert isinstance(together, Explanations)
    for text, e in zip(texts, together, strict=True):
        alone = explainer(queries=120)(text)
        assert (alone.values == e.values).all()
        assert alone.queries == e.queries
        assert alone.fidelity == e.fidelity


def test_nothing_is_asked_twice_and_the_budget_holds():
    asked = oracle()
    e = Explainer(asked, output="log_odds", queries=150, check=30)(TEXT)
    questions = asked.received[2:]
    assert len(questions) == len(set(questions)) == e.queries
    assert e.queries <= 150 + 30 + 1


def test_held_out_queries_are_not_in_the_fit():
    for text in (TEXT.replace("a ", "the ", 1), "very very very very good and very very very bad"):
        asked = oracle()
        e = Explainer(asked, output="log_odds", queries=150, check=40, pairs=False)(text)
        fitted = oracle()
        Explainer(fitted, output="log_odds", queries=150, check=0, pairs=False)(text)
        tested = set(asked.received[2:]) - set(fitted.received[2:])
        assert len(tested) == e.fidelity.near.queries + e.fidelity.far.queries
    assert e.fidelity.far.queries >= 1


@cases("text", ["good", "good bad", "a good film"])
@cases("method", ["joint", "local", "eff", "fidel"])
def test_short_texts(method, text):
    e = explainer(method=method)(text)
    assert len(e) == len(text.split())
    assert np.isfinite(e.values).all()
    assert np.isfinite(e.importances).all()
    if method == "joint":
        assert e.fidelity.far is None, "every subset was used"
        assert e.predict(np.ones(len(e))) == pytest.approx(e.score, abs=1e-4 if len(e) == 1 else 0.1)


def test_options_of_a_call_replace_those_of_the_explainer():
    base = explainer(queries=100, unit="word")
    e = base(TEXT, method="eff", seed=7, queries=50)
    assert (e.method, e.seed, e.unit) == ("eff", 7, "word")
    assert explainer()(TEXT, method="eff").unit == "type"
    assert base(TEXT).method == "joint"
    mine = SurrogateMethod("mine", Scales(), Joint(link=False))
    assert base(TEXT, method=mine).method == "mine"


def test_none_restores_the_default_and_what_is_not_given_stays():
    base = explainer(queries=50, check=7, target=0, unit="word", seed=3, method="ridge")
    assert base(TEXT).settings == base(TEXT, queries=50).settings
    restored = base(TEXT, queries=None, check=None, target=None, unit=None, seed=3)
    assert restored.settings == explainer(method="ridge")(TEXT).settings
    assert (restored.unit, restored.target, restored.seed) == ("token", "1", 3)
    assert restored.queries == explainer(seed=3, method="ridge")(TEXT).queries > base(TEXT).queries
    assert base(TEXT).seed == 3
    assert base(TEXT, seed=None).seed != base(TEXT, seed=None).seed
    with pytest.raises(InputError, match="got None"):
        base(TEXT, method=None)
    with pytest.raises(TypeError, match=r"must be errors, method, unit, queries, .*, target, seed, long, pairs; got 'query'"):
        base(TEXT, query=30)


def test_a_constant_model_is_said_to_be_one():
    e = Explainer(lambda texts: [1.5] * len(texts), output="log_odds")(TEXT)
    assert "constant" in e.diagnosis
    assert e.fidelity.far.r2 is None
    assert e.fidelity.far.mse < 1e-20
    assert np.allclose(e.removal, 0.0)


def test_after_an_interruption_the_rest_is_asked_only():
    asked = oracle()
    failing = Failing(asked, after=100, error=KeyboardInterrupt())
    e = Explainer(failing, output="log_odds", queries=300, identity="oracle")
    e.model.batch = 32
    with pytest.raises(KeyboardInterrupt):
        e(TEXT)
    failing.after = 10**9
    found = e(TEXT)
    assert len(asked.received[2:]) == len(set(asked.received[2:]))
    assert (found.values == explainer(queries=300)(TEXT).values).all()


BAD = [
    ({"method": "shap"}, "method must be one of 'joint', 'local', 'eff', 'fidel'"),
    ({"unit": "line"}, "unit must be one of 'token', 'type', 'word', 'sentence'; got 'line'"),
    ({"queries": 1}, "queries must be a whole number of at least 2; got 1"),
    ({"queries": 10.5}, "queries must be a whole number"),
    ({"method": ["joint"]}, "method must be one of"),
    ({"target": np.zeros(2)}, "target must be a label or an index; got ndarray"),
    ({"seed": -1}, "seed must be a whole number of at least 0; got -1"),
    ({"check": True}, "check must be a whole number"),
    ({"long": "split"}, "long must be 'cut' or 'window'"),
    ({"target": 2}, r"target 2 is not a class of this model; choose one of 0, 1"),
]


@cases(("options", "message"), BAD)
def test_bad_options_are_refused_in_one_line(options, message):
    with pytest.raises(InputError, match=message) as caught:
        explainer(**options)(TEXT)
    assert "\n" not in str(caught.value)


def test_bad_texts_are_refused():
    with pytest.raises(InputError, match="at least one token; got ''"):
        explainer()("")
    with pytest.raises(InputError, match=r"must be a string; got int \(text 1\)"):
        explainer()(["good", 3])
    with pytest.raises(InputError, match=r"at least one token; got '  ' \(text 1\)"):
        explainer()(["good", "  "])


def test_no_texts_give_no_explanations():
    assert len(explainer()([])) == 0
    assert len(explainer()([]).to_pandas()) == 0
    with pytest.raises(InputError, match="got NoneType"):
        explainer()(None)


def test_a_wrong_target_is_found_before_anything_is_asked():
    asked = oracle()
    with pytest.raises(InputError, match="is not a class"):
        Explainer(asked, output="log_odds")([TEXT, TEXT], target="nope")
    assert len(asked.received) == 2


def test_nothing_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        explainer()(TEXT)


def test_the_model_itself_can_be_asked_about_parts_of_an_explained_text():
    explainer = Explainer(lambda texts: [[t.count("o"), t.count("a"), 0.0] for t in texts], output="logits", queries=50)
    e = explainer("one two four alas", target=0)
    keep = np.array([[True, False, True, True], [True, True, True, True]])
    assert np.allclose(explainer.ask(e, keep), [2 - np.log(np.exp(2) + 1), 3 - np.log(np.exp(2) + 1)])
    assert np.isclose(explainer.ask(e, keep[1]), e.score)
    every = explainer("one two four alas", target="all")
    assert explainer.ask(every, keep).shape == (2, 3)
    with pytest.raises(InputError, match="one column for each unit"):
        explainer.ask(e, keep[:, :2])
    with pytest.raises(InputError, match="ask the model that was explained"):
        explainer.ask(replace(e, units=("one",)), keep)


@cases("keep", [[0.5, 1.0], ["a", "b"], [np.nan, 1.0], [2, 1], [None, True]])
def test_what_is_no_presence_is_refused_by_the_explanation_and_by_the_model(keep):
    explainer = Explainer(lambda texts: [float(len(t)) for t in texts], output="log_odds", queries=20)
    e = explainer("one two")
    for judge in (e.predict, lambda keep: explainer.ask(e, keep)):
        with pytest.raises(InputError, match="keep must hold True and False"):
            judge(keep)
        assert judge(np.zeros((0, 2))).shape == (0,)
        assert np.isclose(judge([1, 0]), judge([True, False]))


def test_a_class_that_is_called_all_is_one_class():
    explainer = Explainer(lambda texts: [[t.count("o"), 0.0, 1.0] for t in texts], output="logits", labels=["all", "b", "c"])
    e = explainer("one two", target=0)
    assert np.shape(explainer.ask(e, [1, 1])) == ()
    assert np.isclose(explainer.ask(e, [1, 1]), e.score)


def test_many_explained_texts_are_asked_about_in_one_call():
    calls = []

    def model(texts):
        calls.append(list(texts))
        return [float(text.count("o")) for text in texts]

    explainer = Explainer(model, output="log_odds", queries=50, check=0)
    explained = explainer(["one two four", "two two", "a lone owl"])
    keeps = [np.eye(len(e), dtype=bool) for e in explained]
    calls.clear()
    answers = explainer.ask_many(explained, keeps)
    assert [answer.tolist() for answer in answers] == [[1.0, 1.0, 1.0], [1.0, 1.0], [0.0, 1.0, 1.0]]
    assert len([text for call in calls for text in call]) == len({text for call in calls for text in call}) <= 7
    assert explainer.ask_many(explained[:1], [np.ones(3)])[0] == 3.0
    assert explainer.ask_many(explained[:1], [np.zeros((0, 3))])[0].shape == (0,)
    assert explainer.ask_many([], []) == []
    with pytest.raises(InputError, match="one keep per explanation; got 1 for 3"):
        explainer.ask_many(explained, keeps[:1])
    with pytest.raises(InputError, match=r"the explanation has 3 \(explanation 1\); ask the model that was explained"):
        explainer.ask_many([explained[0], replace(explained[0], text="two two")], [keeps[0], keeps[0]])


def test_an_explanation_knows_whether_its_signs_mean_something():
    class Attention(WhiteBoxMethod):
        name = "attention"
        signed = False

        def attribute(self, model, reading, target, seed):
            return np.full(len(reading.names), 0.5)

    explainer = Explainer(oracle(), output="log_odds", queries=50)
    assert explainer(TEXT).signed
    e = explainer(TEXT, method=Attention())
    assert not e.signed
    assert not slalom.Explanation.from_dict(e.to_dict()).signed
    old = e.to_dict()
    del old["signed"]
    assert slalom.Explanation.from_dict(old).signed  # files from before had signed methods only


@cases("method", ["eff", "joint", "local"])
def test_the_r2_of_the_fit_is_that_of_the_explanation_on_the_queries(method):
    e = Explainer(lambda texts: np.array([[0.0, len(t) + t.count("good")] for t in texts]), output="logits", method=method)
    text = "a good film with a good end but not such a good start at all"
    explained = e(text, queries=50, check=0)
    made = slalom.list_methods()[method]
    _, units = e.pipeline.read(text, made.unit, "cut")
    asked = made.sampler.draw(
        units.shared.type_of_unit if method == "joint" else units.type_of_unit, 50, np.random.default_rng(0), True
    )
    scores = e.ask(explained, asked.keep)
    weights = np.ones(len(scores))
    error = np.average((explained.predict(asked.keep.astype(float)) - scores) ** 2, weights=weights)
    spread = np.average((scores - np.average(scores, weights=weights)) ** 2, weights=weights)
    assert explained.fit_r2 == pytest.approx(1.0 - error / spread, abs=1e-9)


def test_a_fit_that_takes_minutes_is_announced(monkeypatch):
    explain = Explainer(lambda texts: [float(len(text)) for text in texts], output="scores", queries=20)
    text = " ".join(f"w{i}" for i in range(30))
    monkeypatch.setattr("slalom.pipeline.planning._LONG", 0.0)
    with pytest.warns(UserWarning, match=r"a fit of 30 tokens takes about .* on one core; unit=sentence or method=ridge"):
        explain(text)
    monkeypatch.setattr("slalom.pipeline.planning._LONG", 60.0)
    explain(text)  # warnings are errors in these tests


def clauses(text):
    """Return the clauses of a text, without the commas between them."""
    return [match.span() for match in re.finditer(r"[^,]+", text)]


def test_a_function_finds_the_units(tmp_path):
    """With strings and with tokens; per call, saved, loaded, shown and asked again."""
    text = "a good film, not a bad one, I left"
    names = ("a good film,", "not a bad one,", "I left")
    weights = {"good": 2.0, "bad": -1.0}
    strings = Explainer(lambda texts: [sum(w * (word in t) for word, w in weights.items()) for t in texts], output="log_odds")
    for explain in (strings, Explainer()):
        e = explain(text, unit=clauses)
        assert (e.units, e.unit) == (names, "unit")
        assert e.spans.tolist() == [[0, 12], [13, 27], [28, 34]]
        assert e.settings["unit"] == f"{__name__}.clauses"
        e.save(tmp_path / "e.json")
        loaded = slalom.load(tmp_path / "e.json")
        assert repr(loaded) == repr(e)
        assert "3 units" in repr(loaded)
        assert "left" in loaded.to_html()
        keep = [[1, 1, 0], [0, 1, 1]]
        assert explain.ask(loaded, keep).tolist() == explain.decide([text[:27], text[13:]])[0].tolist()
        with pytest.raises(InputError, match="units cannot become words"):
            loaded.merge("word")
    assert e.removal.argmax() == 0
    assert strings(text, unit=clauses).removal.round(6).tolist() == [2.0, -1.0, 0.0]
    assert Explainer(oracle(), output="log_odds", unit=clauses)(text).units == names
    assert Explainer(oracle(), output="log_odds", unit=clauses).tokens(text) == list(names)
    assert "unit" not in explainer()(text).settings
    with pytest.raises(InputError, match=r"<lambda> must return spans in order"):
        explainer(unit=lambda text: [(0, 4), (2, 6)])(text)
    with pytest.raises(InputError, match=r"'sentence'; got 'lines'; in Python it may be a function text -> spans"):
        explainer(unit="lines")


def test_a_comparison_knows_a_unit_function_by_its_name(tmp_path):
    texts = ["a good film, not bad", "bad, very bad, good"]
    options = {"methods": ["ridge", "leave-one-out"], "queries": 20, "output": "log_odds", "progress": False}
    compared = slalom.compare(oracle(), texts, unit=clauses, out=tmp_path / "out.json", **options)
    assert compared.about["unit"] == f"{__name__}.clauses"
    assert compared.rows == [("ridge", 20), ("leave-one-out", None)]
    with pytest.raises(InputError, match="got a lambda; define it with def"):
        slalom.compare(oracle(), texts, unit=lambda text: [(0, 3)], out=tmp_path / "other.json", **options)


def test_words_of_chinese_japanese_and_thai_are_words(monkeypatch):
    pytest.importorskip("icu4py")

    def scores(texts):
        return [("不错" in t) - 2.0 * ("错" in t and "不错" not in t) for t in texts]

    explain = Explainer(scores, output="log_odds", method="ridge")
    words = explain("这部电影不错", unit="word")
    assert words.units == ("这", "部", "电影", "不错")
    assert words.removal == pytest.approx([0.0, 0.0, 0.0, 1.0], abs=1e-2)
    assert explain("这部电影不错").units == tuple("这部电影不错"), "tokens of a model without tokens need no dictionary"
    assert Explainer(method="ridge", queries=20)("好看 good 不错", unit="word").units == ("好看", "good", "不错"), (
        "what tokens a model reads"
    )
    monkeypatch.setitem(sys.modules, "icu4py.breakers", None)
    assert explain("这部电影不错").units == tuple("这部电影不错")
    assert len(explain.decide(["这部电影不错"])[0]) == 1
    with pytest.raises(MissingExtra, match=r"slalom-xai\[segment\]"):
        explain("这部电影不错", unit="word")


def test_an_interrupt_that_a_library_has_turned_into_an_error_ends_the_work():
    def model(texts):
        if len(texts) > 2:
            try:
                raise KeyboardInterrupt
            except KeyboardInterrupt:
                raise SystemError("error return without exception set") from None
        return [1.0] * len(texts)

    explain = slalom.Explainer(model, output="log_odds", progress=False)
    with pytest.raises(KeyboardInterrupt):
        explain(["a good film", "a bad film"], queries=20, errors="keep")
