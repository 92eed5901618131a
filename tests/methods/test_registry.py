"""One registry of methods: what is listed can be asked for by name, plugins included."""

import numpy as np
import pytest

import slalom
from slalom import Explainer
from slalom.core import Additive
from slalom.errors import InputError
from slalom.methods import BlackBoxMethod, WhiteBoxMethod, list_methods
from tests.cases import cases
from tests.factories import install, python

TEXT = "a good film with a very bad end"


def score(texts):
    return [2.0 * ("good" in text) - 3.0 * ("bad" in text) + 0.1 * len(text.split()) for text in texts]


def explained(name, **options):
    return Explainer(score, output="log_odds", queries=60, **options)(TEXT, method=name)


def test_the_package_lists_its_methods():
    table = slalom.list_methods()
    assert list(table)[:4] == ["joint", "local", "eff", "fidel"]
    assert {"lime", "kernel-shap", "attnlrp", "random", "ridge"} <= set(table)
    for name, one in table.items():
        assert one.name == name
        assert one.summary
        assert "\n" not in one.summary
        assert set(one.needs) <= {"queries", "gradients", "attention"}
    lines = repr(table).splitlines()
    assert lines[0].split() == ["method", "needs", "extra", "sign", "what", "it", "does"]
    assert len(lines) == len(table) + 1
    assert slalom.methods.Lime is type(table["lime"])  # the package is there under the same name


@cases("name", [name for name, one in list_methods().items() if not set(one.needs) <= {"queries"}])
def test_methods_that_look_inside_refuse_what_only_answers(name):
    with pytest.raises(InputError, match="looks inside a torch model"):
        explained(name)


def test_an_explainer_takes_a_method_by_name_or_by_itself():
    assert Explainer(score, output="log_odds", method="lime", queries=40)(TEXT).method == "lime"
    with pytest.raises(InputError, match=r"a method must be one of 'joint', .*'random'; got 'magic'"):
        Explainer(score, output="log_odds", method="magic")
    with pytest.raises(InputError, match=r"a method must be one of 'joint', .*, or a Method; got 7"):
        Explainer(score, output="log_odds", method=7)
    with pytest.raises(InputError, match="explains one class at a time"):
        Explainer(lambda texts: [[x, 0.0, 1.0] for x in score(texts)], output="logits", target="all")(TEXT, method="lime")


PLUGIN = """
from dataclasses import dataclass

import numpy as np

from slalom.core import Additive
from slalom.methods import BlackBoxMethod


@dataclass(frozen=True)
class Half(BlackBoxMethod):
    name: str = "half"
    summary: str = "half of what leave-one-out says"

    def attribute(self, context):
        n = len(context.units)
        scores = context.ask(np.concatenate([np.ones((1, n)), 1.0 - np.eye(n)]))
        effects = (scores[0] - scores[1:]) / 2
        return Additive(effects, scores[0] - effects.sum())


def made():
    return Half()


class Nameless(Half.__base__):
    def attribute(self, context):
        raise AssertionError


class Unlisted(Nameless):
    name, summary = "unlisted", None


WRONG = 7
"""


BROKEN = {
    "gone": ("Nothing", "the plugin 'gone' (half_plugin:Nothing) cannot be loaded: AttributeError"),
    "wrong": ("WRONG", "the plugin 'wrong' (half_plugin:WRONG) cannot be loaded: TypeError"),
    "third": ("made", "must be a Method of that name; got a method called 'half'"),
    "lime": ("made", "must be a Method of that name; got a method called 'half'"),
    "nameless": ("Nameless", "the plugin 'nameless' (half_plugin:Nameless) must have a string as its name"),
    "unlisted": ("Unlisted", "the plugin 'unlisted' (half_plugin:Unlisted) must have a string as its summary"),
}


def test_a_plugin_is_a_method_like_any_other_and_a_broken_one_is_named_in_one_line(tmp_path):
    entries = "\n".join(f"{name} = half_plugin:{thing}" for name, (thing, _) in BROKEN.items())
    install(tmp_path, "half_plugin", PLUGIN, "slalom.methods", f"half = half_plugin:made\n{entries}")
    code = f"""
    import warnings
    import numpy as np
    import slalom
    explainer = slalom.Explainer(lambda texts: [2.0 * ("good" in t) for t in texts], output="log_odds", queries=40)
    half, whole = (explainer("a good film", method=name) for name in ("half", "leave-one-out"))  # the others do no harm
    assert half.method == "half"
    assert np.array_equal(2 * half.removal, whole.removal), (half.removal, whole.removal)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert "half of what leave-one-out says" in repr(slalom.list_methods()) and len(slalom.list_methods()) >= 18
    print(*(one.message for one in caught), sep="\\n")
    for name in {list(BROKEN)!r}:
        try:
            print(slalom.methods.method(name).name)
        except slalom.errors.InputError as error:
            print(error)
    """
    run = python(tmp_path, code)
    lines = run.stdout.splitlines()
    assert len(lines) == 2 * len(BROKEN), run.stderr
    for name, (_, message) in BROKEN.items():
        assert any(message in line and line.endswith("; it is left out") for line in lines[: len(BROKEN)])
        assert any(message in line for line in lines[len(BROKEN) :]) or name == "lime"
    assert "lime" in lines[len(BROKEN) :]  # ours


class Returning(BlackBoxMethod):
    name = "returning"

    def __init__(self, effects):
        self.effects = effects

    def attribute(self, context):
        return self.effects()


class Looking(WhiteBoxMethod):
    name = "looking"

    def __init__(self, effects):
        self.effects = effects

    def attribute(self, model, reading, target, seed):
        return self.effects()


@cases(
    ("wrong", "message"),
    [
        (Returning(lambda: [1.0] * 8), "method 'returning' must return an Additive; got list"),
        (Returning(lambda: None), "method 'returning' must return an Additive; got NoneType"),
        (
            Returning(lambda: Additive([1.0, 2.0])),
            r"method 'returning' must return one effect for each of 8 units; got shape \(2,\)",
        ),
        (
            Returning(lambda: Additive(np.eye(8), np.zeros(8))),
            r"'returning' must return one effect for each of 8 units; got .*\(8, 8\)",
        ),
        (Returning(lambda: 1 / 0), "method 'returning' failed: ZeroDivisionError: division by zero"),
        (Looking(lambda: np.ones(3)), r"method 'looking' must return one effect for each of 8 atoms; got shape \(3,\)"),
        (Looking(lambda: np.full(8, np.nan)), "the effects of method 'looking' must be finite"),
        (Looking(lambda: None), r"the effects of method 'looking' must have 1 dimension\(s\)"),
        (Looking(lambda: "effects"), "the effects of method 'looking' must be an array of real numbers"),
        (Looking(lambda: {}["layer"]), "method 'looking' failed: KeyError: 'layer'"),
    ],
)
def test_a_method_that_fails_or_returns_something_else_is_named_in_one_line(wrong, message):
    with pytest.raises(InputError, match=message) as caught:
        explained(wrong)
    assert "\n" not in str(caught.value)


def test_the_r2_of_a_black_box_is_that_of_the_rows_that_it_asked():
    one_out, lime = explained("leave-one-out", check=0), explained("lime", check=0)
    assert one_out.fit_r2 == pytest.approx(1.0, abs=1e-12)  # its effects are what it asked
    assert 0.9 < lime.fit_r2 < 1.0
    assert explained("random", check=0).fit_r2 == 1.0  # of the whole text, by its base
