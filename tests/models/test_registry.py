"""One registry of adapters: what is listed is applied to what it matches, plugins included."""

import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import slalom
from slalom.errors import InputError
from slalom.models import Function, ModelOptions, adapters, model_of
from tests.cases import cases
from tests.factories import python
from tests.models.plugin import install

OPTIONS = {
    "tokenizer": object(),
    "output": "logits",
    "labels": ["a", "b"],
    "precision": "bfloat16",
    "device": "cpu",
    "batch_size": 8,
    "trust_remote_code": True,
    "background": [{"stars": 1}],
}


def log_odds(texts):
    return [text.count("!") - 1.0 for text in texts]


def test_the_package_lists_its_adapters():
    table = slalom.models.adapters()
    assert list(table) == ["saved", "pipeline", "torch", "scikit-learn", "callable"]
    for name, adapter in table.items():
        assert adapter.name == name
        assert adapter.summary
        assert "\n" not in adapter.summary
        assert set(adapter.takes) <= set(OPTIONS)
    lines = repr(table).splitlines()
    assert lines[0].split() == ["adapter", "options", "extra", "what", "it", "adapts"]
    assert len(lines) == len(table) + 1
    assert set(OPTIONS) == set(ModelOptions(**OPTIONS).specified())


@cases("option", OPTIONS)
@cases(("name", "thing"), [("saved", None), ("saved", "folder"), ("callable", log_odds), ("scikit-learn", 0)])
def test_an_option_that_an_adapter_does_not_take_is_refused(name, thing, option):
    adapter = adapters()[name]
    if option in adapter.takes:
        return
    if name == "scikit-learn":
        thing = make_pipeline(CountVectorizer(), LogisticRegression()).fit(["good", "bad"], [1, 0])
    with pytest.raises(InputError, match=f"^{option}= is for .*, not for {adapter.kind}; ") as caught:
        model_of(thing, **{option: OPTIONS[option]})
    assert "\n" not in str(caught.value)
    for other in adapters().values():
        assert (other.kind in str(caught.value).partition(", not for")[0]) is (option in other.takes)


def test_a_model_is_taken_as_it_is_and_takes_no_options():
    model = Function(log_odds, "log_odds")
    assert model_of(model) is model
    with pytest.raises(InputError, match="labels= is for callables, not for a Model, which has its options already"):
        model_of(model, labels=["a", "b"])


def test_a_plugin_is_an_adapter_like_any_other(tmp_path):
    install(tmp_path)
    code = """
    import slalom
    slalom.models.model_of(None)  # the bundled classifier, which needs no torch
    assert "lexicon_plugin" not in sys.modules
    slalom.models.model_of(lambda texts: [0.0] * len(texts), output="log_odds")
    assert "lexicon_plugin" in sys.modules  # it may want some callables for itself
    assert list(slalom.models.adapters())[-2:] == ["lexicon", "callable"]
    from lexicon_plugin import Lexicon
    explainer = slalom.Explainer(Lexicon({"good": 2.0, "bad": -3.0}), labels=["no", "yes"], queries=20, check=0)
    e = explainer("a good film with a bad end")
    assert (e.target, e.score, e.model) == ("yes", -1.0, "lexicon"), e
    assert {e.units[i] for i in e.strongest(2)} == {"good", "bad"}
    try:
        slalom.Explainer(Lexicon({}), output="logits")
    except slalom.errors.InputError as error:
        assert str(error) == "output= is for callables, not for lexicons; leave it out", error
    print(slalom.models.adapters())
    """
    run = python(tmp_path, code)
    assert run.returncode == 0, run.stderr
    (line,) = (line for line in run.stdout.splitlines() if "lexicon" in line)
    assert "weights of words" in line


BROKEN = {
    "gone = lexicon_plugin:Nothing": "the plugin 'gone' (lexicon_plugin:Nothing) cannot be loaded: AttributeError",
    "wrong = lexicon_plugin:WRONG": "the plugin 'wrong' (lexicon_plugin:WRONG) cannot be loaded: TypeError",
    "third = lexicon_plugin:LexiconAdapter": "must be an Adapter of that name; got an adapter called 'lexicon'",
    "callable = lexicon_plugin:Greedy": "the plugin 'callable' (lexicon_plugin:Greedy) has a name that is taken; rename it",
    "unlisted = lexicon_plugin:Unlisted": "(lexicon_plugin:Unlisted) must have a string as its summary and its kind",
}


def test_a_broken_plugin_is_named_in_one_line_and_left_out(tmp_path):
    """Those that cannot be loaded, one that fails where it is asked, and one that returns no model."""
    install(tmp_path, "\n".join([*BROKEN, "hasty = lexicon_plugin:Hasty", "empty = lexicon_plugin:Empty"]))
    code = """
    import warnings
    import slalom
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        explainer = slalom.Explainer(lambda texts: [1.0] * len(texts), output="log_odds")  # the others still work
        assert len(slalom.models.adapters()) == 7
    print(*(warning.message for warning in caught), sep="\\n")
    from lexicon_plugin import Empty, Lexicon
    slalom.models.registry.adapters = lambda: {"empty": Empty()}
    try:
        slalom.Explainer(Lexicon({}))
    except slalom.errors.InputError as error:
        print(error)
    """
    run = python(tmp_path, code)
    *lines, named = run.stdout.splitlines()
    assert len(lines) == len(BROKEN) + 1, run.stderr
    hasty = "the adapter 'hasty' failed: AttributeError: 'function' object has no attribute 'weights'"
    for message in (*BROKEN.values(), hasty):
        (line,) = (line for line in lines if message in line)
        assert line.endswith("; it is left out")
    assert named == "the adapter 'empty' must return a Model; got NoneType; this is a bug in its package"
