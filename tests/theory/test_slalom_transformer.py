"""The transformer of Proposition 5.1: its log odds are the SLALOM that was asked for, whatever its size."""

import numpy as np
import pytest

import slalom
from slalom.errors import InputError
from tests.oracle import Oracle

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

from slalom.theory import slalom_transformer  # noqa: E402
from tests.cases import cases  # noqa: E402

WORDS = [f"w{i}" for i in range(30)]
ARCHITECTURES = ("bert", "distilbert", "gpt2")


def planted(spread=2.0, seed=0):
    rng = np.random.default_rng(seed)
    return dict(zip(WORDS, 3 * rng.normal(size=30), strict=True)), dict(zip(WORDS, spread * rng.normal(size=30), strict=True))


def log_odds(model, tokenizer, texts):
    with torch.no_grad():
        logits = model(**tokenizer(texts, return_tensors="pt", padding=True)).logits.double().numpy()
    return logits[:, 1] - logits[:, 0]


def texts_of(length, n=5, seed=1):
    rng = np.random.default_rng((length, seed))
    return [" ".join(rng.choice(WORDS, length)) for _ in range(n)]  # with repetitions


@cases("arch", ARCHITECTURES)
@cases(("layers", "heads"), [(1, 1), (1, 3), (2, 1), (4, 2)])
def test_it_is_the_slalom(arch, layers, heads):
    values, importances = planted()
    model, tokenizer = slalom_transformer(values, importances, layers, heads, arch=arch)
    oracle = Oracle(values, importances)
    for length in (1, 2, 7, 60, 400):
        texts = texts_of(length)
        assert np.abs(log_odds(model, tokenizer, texts) - oracle(texts)).max() < 1e-5


@cases("arch", ARCHITECTURES)
def test_double_precision_is_exact(arch):
    values, importances = planted(spread=10.0)
    model, tokenizer = slalom_transformer(values, importances, 2, 2, arch=arch, dtype="float64")
    for length in (1, 2, 50):
        texts = texts_of(length)
        assert np.abs(log_odds(model, tokenizer, texts) - Oracle(values, importances)(texts)).max() < 1e-12


@cases("arch", ARCHITECTURES)
def test_background_unknown_words_and_padding(arch):
    values, importances = planted()
    model, tokenizer = slalom_transformer(values, importances, arch=arch, background=(1.5, 0.5))
    texts = ["w1", "w1 nobody knows w2", *texts_of(9)]
    assert np.abs(log_odds(model, tokenizer, texts) - Oracle(values, importances, (1.5, 0.5))(texts)).max() < 1e-5
    assert np.abs(log_odds(model, tokenizer, [""]) - 1.5).max() < 1e-5


@cases("arch", ARCHITECTURES)
def test_an_explainer_finds_what_was_put_in(arch):
    values, importances = planted()
    explainer = slalom.Explainer(*slalom_transformer(values, importances, 2, 2, arch=arch), method="joint")
    found = explainer("w0 w1 w2 w3 w4 w5 w6 w7", queries=300)
    assert found.score == pytest.approx(Oracle(values, importances)([found.text])[0], abs=1e-5)
    true = np.array([importances[word] for word in found.units])
    alone = found.surrogate(np.eye(8))  # such a model has no score for the empty text, so only this is determined
    assert np.allclose(alone, [values[word] for word in found.units], atol=0.05)
    assert found.surrogate.competition > 0.95
    assert np.allclose(found.importances - found.importances.mean(), true - true.mean(), atol=0.05)


def test_it_is_an_unchanged_classifier_that_can_be_saved(tmp_path):
    values, importances = planted()
    model, tokenizer = slalom_transformer(values, importances, 2, 2)
    assert type(model) is transformers.BertForSequenceClassification
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    text = texts_of(12, n=1)[0]
    assert slalom.Explainer(str(tmp_path))(text).score == pytest.approx(Oracle(values, importances)([text])[0], abs=1e-5)


def test_equal_values_or_importances_are_no_exception():
    model, tokenizer = slalom_transformer({"a": 0.0, "b": 0.0}, {"a": 1.0, "b": 2.0})
    assert log_odds(model, tokenizer, ["a b"]) == 0.0
    model, tokenizer = slalom_transformer({"a": 1.0, "b": 2.0}, {})
    assert log_odds(model, tokenizer, ["a b"]) == pytest.approx(1.5, abs=1e-5)


@cases(
    ("given", "said"),
    [
        ({"values": {}, "importances": {}}, "at least one"), ({"values": {"two words": 1.0}}, "without blanks"),
        ({"values": {"[CLS]": 1.0}}, r"none of \[PAD\]"), ({"values": {"a": np.nan}}, "values"),
        ({"values": {1: 2.0}}, "words must be"),
        ({"arch": "rnn"}, "arch must be one of bert, distilbert, gpt2; got"), ({"dtype": "float16"}, "dtype must be"),
        ({"layers": 0}, "layers must be"), ({"heads": 1.5}, "heads must be"),
        ({"max_length": 1, "background": (0.0, 0.0)}, "at least 2"), ({"background": 1.0}, "background must be"),
    ],
)  # fmt: skip
def test_what_cannot_be_built_is_refused(given, said):
    with pytest.raises(InputError, match=said):
        slalom_transformer(**{"values": {"a": 1.0}, "importances": {"b": 1.0}, **given})
