"""What every adapter's model must do, whatever it adapts: ours and those of plugins."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from slalom import Explainer
from slalom.models import EMBEDDED, Engine, Queries, adapters, model_of
from slalom.pipeline import planning
from tests.cases import cases
from tests.models.plugin import install
from tests.models.tiny import classifier

TEXT = "A good film,  with a bad end and a good, very good cast!"
TEXTS = ["good film", "a good one", "bad film", "so bad", "it is fine", "fine by me"]
ADAPTERS = ("saved", "pipeline", "torch", "scikit-learn", "callable", "lexicon")


@dataclass
class Case:
    """A thing, how to adapt it, its own outputs for texts, and how to change it (None: it has no identity)."""

    thing: Any
    direct: Callable[[list[str]], Any]
    change: Callable[[], None] | None
    options: dict[str, Any] = field(default_factory=dict)

    def model(self):
        return model_of(self.thing, **self.options)


def logits(network, tokenizer, texts):
    with torch.no_grad():
        return np.concatenate([network.eval()(**tokenizer(text, return_tensors="pt")).logits.numpy() for text in texts])


def nudge(network):
    with torch.no_grad():
        next(network.parameters()).view(-1)[0] += 0.5


def saved(_):
    network = hf.AutoModelForSequenceClassification.from_pretrained(EMBEDDED, dtype=torch.float32)
    tokenizer = hf.AutoTokenizer.from_pretrained(EMBEDDED)
    return Case(None, lambda texts: logits(network, tokenizer, texts), None, {"device": "cpu"})


def pipeline(_):
    network, tokenizer = classifier("bert", 3)
    piped = hf.pipeline("text-classification", model=network, tokenizer=tokenizer, device="cpu")
    return Case(piped, lambda texts: logits(network, tokenizer, texts), lambda: nudge(network))


def torch_module(_):
    network, tokenizer = classifier("gpt2", 2)
    network.config.pad_token_id = tokenizer.eos_token_id
    return Case(network, lambda texts: logits(network, tokenizer, texts), lambda: nudge(network), {"tokenizer": tokenizer})


def scikit_learn(_):
    made = make_pipeline(CountVectorizer(), LogisticRegression()).fit(TEXTS, [1, 1, 0, 0, 2, 2])

    def change():
        made[1].coef_[0, 0] += 0.5

    return Case(made, made.decision_function, change, {"batch_size": 5})


def function(_):
    def probabilities(texts):
        assert all(texts), "it cannot be asked about an empty string"
        odds = np.array([[text.count("good"), text.count("bad"), len(text) / 50] for text in texts])
        return np.exp(odds) / np.exp(odds).sum(axis=1, keepdims=True)

    return Case(probabilities, lambda texts: np.log(probabilities(texts)), None, {"output": "probabilities", "batch_size": 7})


def lexicon(plugin):
    made = plugin.Lexicon({"good": 2.0, "bad": -3.0})

    def direct(texts):
        return np.array([[sum(made.weights.get(word, 0.0) for word in text.split())] for text in texts])

    return Case(made, direct, lambda: made.weights.update(good=1.0))


MAKERS = dict(zip(ADAPTERS, (saved, pipeline, torch_module, scikit_learn, function, lexicon), strict=True))


@cache
def shared(name, plugin):
    """A case, its model and the text as it reads it, for all tests that change none of them."""
    made = MAKERS[name](plugin)
    model = made.model()
    return made, model, read(model)


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    """The module of the plugin, installed while the tests of this file run."""
    folder = tmp_path_factory.mktemp("plugin")
    install(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        adapters.cache_clear()
        yield importlib.import_module("lexicon_plugin")
    adapters.cache_clear()


def read(model, text=TEXT):
    return planning.read(model, text, "token", "cut")[0]


def subsets(reading, m=40, seed=0):
    keep = np.random.default_rng(seed).random((m, len(reading.names))) < 0.6
    keep[:, 0] |= ~keep.any(axis=1)
    return keep


def test_the_suite_covers_every_adapter(plugin):
    assert tuple(adapters()) == ("saved", "pipeline", "torch", "scikit-learn", "lexicon", "callable")
    assert set(adapters()) == set(ADAPTERS)


@cases("name", ADAPTERS)
def test_the_first_adapter_that_matches_is_the_right_one(name, plugin):
    made, _, _ = shared(name, plugin)
    assert next(other for other, adapter in adapters().items() if adapter.matches(made.thing)) == name
    assert set(made.options) <= set(adapters()[name].takes)


@cases("name", ADAPTERS)
def test_a_batch_in_is_a_batch_out(name, plugin):
    _, model, reading = shared(name, plugin)
    keep, answered = subsets(reading), 0
    with model.session():
        for group in reading.groups(keep):
            inputs, keys = group.build()
            assert len(inputs) == len(keys) == len(group.rows)
            outputs = model.checked(model.collect(model.submit(inputs)), len(inputs))
            assert outputs.shape == (len(inputs), model.head.n_outputs)
            answered += len(inputs)
    assert answered == len(keep)
    assert model.max_in_flight >= 1


@cases("name", ADAPTERS)
def test_answers_depend_neither_on_order_nor_on_batches(name, plugin):
    _, model, reading = shared(name, plugin)
    keep = subsets(reading)
    whole = Engine(model)([Queries(reading, keep)])[0].outputs
    order = np.random.default_rng(1).permutation(len(keep))
    shuffled = Engine(model)([Queries(reading, keep[order])])[0].outputs
    np.testing.assert_allclose(shuffled, whole[order], rtol=1e-4, atol=1e-5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(model), "batch_rows", lambda self, length: 1)
        single = Engine(model)([Queries(reading, keep)])[0].outputs
    np.testing.assert_allclose(single, whole, rtol=1e-4, atol=1e-5)
    assert np.ptp(whole, axis=0).max() > 0.01  # or all of this could not fail


@cases("name", ADAPTERS)
@cases("text", [TEXT, "bad", "  Not \t good,\r\nbad! "])
def test_the_whole_text_is_asked_as_it_is(name, plugin, text):
    made, model, _ = shared(name, plugin)
    reading = read(model, text)
    whole = Engine(model)([Queries(reading, np.ones((1, len(reading.names)), dtype=bool))])[0].outputs
    direct = np.asarray(made.direct([text])).reshape(whole.shape)
    np.testing.assert_allclose(whole, direct, rtol=1e-4, atol=1e-5)


@cases("name", ADAPTERS)
@cases("text", [TEXT, "bad", "  Not \t good,\r\nbad! "])
def test_atoms_cover_the_text_in_order(name, plugin, text):
    reading = read(shared(name, plugin)[1], text)
    n = len(reading.names)
    assert reading.text == text
    assert reading.spans.shape == (n, 2)
    assert reading.types.shape == (n,)
    assert (reading.spans[:, 0] <= reading.spans[:, 1]).all()
    assert (reading.spans[1:, 0] >= reading.spans[:-1, 1]).all()
    covered = np.zeros(len(text), dtype=bool)
    for a, b in reading.spans.tolist():
        covered[a:b] = True
    assert not "".join(character for character, seen in zip(text, covered, strict=True) if not seen).strip()
    assert all(reading.names)
    assert reading.cut == 0


@cases("name", ADAPTERS)
def test_equal_atoms_share_a_type(name, plugin):
    _, _, reading = shared(name, plugin)
    good = [kind for name, kind in zip(reading.names, reading.types.tolist(), strict=True) if name == "good"]
    assert len(good) in (0, 3)  # a tokenizer may cut it
    assert len(set(good)) <= 1


@cases("name", ADAPTERS)
def test_the_head_says_what_the_outputs_mean(name, plugin):
    _, model, reading = shared(name, plugin)
    outputs = Engine(model)([Queries(reading, subsets(reading))])[0].outputs
    assert outputs.shape[1] == model.head.n_outputs
    scores = np.stack([model.head.scores(outputs, k) for k in range(len(model.head.labels))], axis=1)
    assert np.isfinite(scores).all()
    assert scores.shape == (len(outputs), len(model.head.labels))
    whole = Engine(model)([Queries(reading, np.ones((1, len(reading.names)), dtype=bool))])[0].outputs
    (decision,) = model.decisions([TEXT], whole)
    assert decision.label in model.head.labels
    assert decision.probabilities.sum() == pytest.approx(1.0)
    assert model.head.labels[int(decision.probabilities.argmax())] == decision.label


@cases("name", ADAPTERS)
def test_an_empty_input_is_answered_or_never_asked(name, plugin):
    _, model, reading = shared(name, plugin)
    assert reading.empty is (name not in ("callable", "torch"))  # the function fails, GPT-2 has no special tokens
    if reading.empty:
        nothing = np.zeros((1, len(reading.names)), dtype=bool)
        assert np.isfinite(Engine(model)([Queries(reading, nothing)])[0].outputs).all()


@cases("name", ADAPTERS)
def test_the_identity_changes_with_the_model_and_not_otherwise(name, plugin):
    made = MAKERS[name](plugin)
    model = made.model()
    before = model.identity()
    assert before == model.identity() == made.model().identity()
    assert (before is None) is (name == "callable")
    if made.change is not None:
        made.change()
        assert model.identity() != before


@cases("name", ADAPTERS)
def test_batches_can_be_halved_down_to_one(name, plugin):
    made = MAKERS[name](plugin)
    model = made.model()
    sizes = [model.batch_rows(12)]
    while sizes[-1] > 1 and len(sizes) < 40:
        model.shrink()
        sizes.append(model.batch_rows(12))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 1


@cases("name", ADAPTERS)
def test_an_explanation_is_finite_and_leaves_the_model_as_it_was(name, plugin):
    _, model, _ = shared(name, plugin)
    before = model.identity()
    e = Explainer(model, queries=40, check=0, progress=False)(TEXT)
    assert np.isfinite(e.removal).all()
    assert model.identity() == before
