"""The closed forms as explanations, side by side with each other and with SLALOM."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

import slalom
from slalom.errors import InputError
from slalom.theory import attention
from tests.cases import cases
from tests.theory.attention.made import TEXT, WORDS, long_text, quiet, trained, untrained


@cases("name", attention.FORMS)
def test_every_closed_form_is_an_explanation(name, tmp_path):
    e = slalom.Explainer(trained())(TEXT, method=attention.METHODS[name])
    look = attention.trace(trained(), TEXT)
    assert e.units == look.words
    assert e.values == pytest.approx(attention.form(name, look), rel=1e-9, abs=1e-12)
    assert e.method == name
    assert e.signed == (name not in ("attention-mean", "attention-max", "gradient-l1", "gradient-l2"))
    assert e.predict(np.ones(len(e))) == pytest.approx(e.score)
    e.save(tmp_path / "e.json")
    assert (slalom.load(tmp_path / "e.json").values == e.values).all()


def test_words_that_go_together_share_their_number():
    method = attention.ClosedForm("exact-shapley", players="word")
    e = slalom.Explainer(trained())(TEXT, method=method)
    assert e.values[e.units.index("The")] == e.values[e.units.index("the")]
    assert e.values.sum() == pytest.approx(attention.shapley(attention.trace(trained(), TEXT)).sum())


def test_the_base_of_shapley_values_is_the_score_of_unknown_words_alone():
    e = slalom.Explainer(trained())(TEXT, method=attention.METHODS["exact-shapley"])
    nothing = attention.Reference(trained(), TEXT)(np.zeros((1, len(e))))[0]
    assert e.surrogate.base == pytest.approx(nothing, abs=1e-5)  # the score is that of single precision


def test_compare_holds_every_form_to_what_it_stands_for():
    pytest.importorskip("lime", reason="lime is not installed")
    found = attention.compare(trained(), TEXT, samples=(500, 4000))
    assert max(found.gradient, found.gradient_cls, found.game) < 1e-10
    by_name = {d.name: d for d in found.lime}
    assert by_name["lime, 4,000 samples"].error < by_name["lime, 500 samples"].error < 0.2
    assert by_name["lime-bernoulli"].error < 0.05 < by_name["lime-printed"].error
    table = found.correlations()
    assert table.shape == (len(attention.FORMS),) * 2
    assert np.diag(table) == pytest.approx(1.0)
    printed = str(found)
    assert all(name in printed for name in (*attention.FORMS, *by_name))


def test_a_head_that_does_not_see_unk_is_a_slalom_of_its_values_and_logits():
    model, text = quiet(), " ".join(WORDS)
    look = attention.trace(model, text)
    exact = attention.as_slalom(look)
    keep = np.random.default_rng(0).random((200, len(WORDS))) < 0.5
    counts = np.column_stack([keep, np.ones(200)])  # with what is always there as one more unit
    assert np.abs(exact(counts) - attention.Reference(model, text)(keep)).max() <= 1e-10
    assert exact.values[:-1] == pytest.approx(look.rewards[0, look.word_positions], abs=1e-10)
    logits = look.logits[0, look.word_positions]
    words = exact.importances[:-1]
    assert words - words.mean() == pytest.approx(logits - logits.mean(), abs=1e-10)


def test_the_fit_finds_the_values_and_logits_of_such_a_head():
    found = attention.relate(quiet(), slalom.Explainer(quiet())(" ".join(WORDS), queries=300))
    look = attention.trace(quiet(), " ".join(WORDS))
    assert found.effect > 0.999
    assert found.importance > 0.98
    assert found.value > 0.9  # what a word says alone is averaged with what is always there
    assert found.rewards == pytest.approx(look.rewards[0, look.word_positions])
    assert found.explanation.fidelity.far.r2 > 0.999
    assert found.louder == 1.0


def test_a_word_that_is_not_louder_than_unk_makes_no_slalom():
    with pytest.raises(InputError, match=r"'zzz' is not \(head 0\)"):
        attention.as_slalom(attention.trace(quiet(), "zzz"))


def test_slalom_is_nearly_exact_on_a_trained_layer():
    found = attention.relate(trained(), slalom.Explainer(trained())(TEXT))
    assert found.explanation.fidelity.near.r2 > 0.99
    assert found.explanation.fidelity.far.r2 > 0.99
    assert found.effect > 0.999
    assert found.shares.sum() < 1
    assert "of v with W v" in str(found)


def test_long_text_methods_are_aligned_with_positions():
    text, words = long_text(120)
    model = untrained(words=words, length=256)
    e = slalom.Explainer(model)(text, method=attention.METHODS["lime-bernoulli"])
    assert e.units == words
