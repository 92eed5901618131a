"""Gradients against finite differences, captum and closed forms."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from slalom import Explainer
from slalom.errors import InputError, MissingExtra
from slalom.methods import Gradient, InputXGradient, IntegratedGradients
from slalom.models import model_of
from tests.cases import cases
from tests.models.tiny import ARCHITECTURES, classifier, tokenizer

TEXT = "a good film with a good end"
pytestmark = [pytest.mark.filterwarnings("ignore:.*torch.jit"), pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")]


def looked(name, look, n=3, target=1, text=TEXT):
    """Effects of a method on a model of an architecture in double precision, and what else a test needs."""
    made, words = classifier(name, n)
    model = model_of(made.double(), words)
    reading = model.read(text, "cut", None)
    return look.attribute(model, reading, target, 0), SimpleNamespace(
        net=made.eval(), words=words, model=model, reading=reading
    )


def score(model, reading, target, ids=None):
    """The score of a text by Head.scores, without anything of the package that differentiates."""
    inputs, _ = reading.groups(np.ones((1, len(reading.names)), dtype=bool))[0].build()
    if ids is not None:
        inputs[:, 0] = ids
    with model.session():
        return model.head.scores(model.logits(inputs).double().numpy(), target)[0]


def embedded(found):
    """The vectors of the input, special tokens included, and which positions are the text's."""
    ids = torch.tensor([found.words(TEXT)["input_ids"]])
    ahead = found.reading.before.shape[1]
    return found.net.get_input_embeddings()(ids).detach(), slice(ahead, ahead + len(found.reading.names))


@cases("name", ["bert", "distilbert", "gpt2"])
def test_a_gradient_is_a_difference_quotient(name):
    lengths, found = looked(name, Gradient())
    vectors, own = embedded(found)
    place, step, slope = own.start + 1, 1e-5, []
    for k in range(vectors.shape[2]):
        answers = []
        for sign in (1, -1):
            moved = vectors.clone()
            moved[0, place, k] += sign * step
            with torch.no_grad():
                answers.append(found.net(inputs_embeds=moved).logits.numpy())
        slope.append((found.model.head.scores(answers[0], 1) - found.model.head.scores(answers[1], 1)) / (2 * step))
    assert lengths[1] == pytest.approx(np.linalg.norm(slope), rel=1e-6)


@cases("name", [name for name in ARCHITECTURES if name not in ("bloom", "deberta-v2")])
def test_input_times_gradient_is_what_a_longer_row_of_the_table_does(name):
    """Every architecture, also those that read a text twice (T5) or batches last (XLNet): only the table is touched."""
    effects, found = looked(name, InputXGradient())
    base = found.net if hasattr(found.net, "get_input_embeddings") else found.net.base
    weight, kinds, step = base.get_input_embeddings().weight, found.reading.types, 1e-3
    assert len(set(kinds)) < len(kinds)
    slopes = []
    for kind in np.unique(kinds):
        row, answers = weight[kind].detach().clone(), []
        for sign in (1, -1):
            with torch.no_grad():
                weight[kind] = row * (1 + sign * step)
            answers.append(score(found.model, found.reading, 1))
        with torch.no_grad():
            weight[kind] = row
        slopes.append((answers[0] - answers[1]) / (2 * step))
    own = np.array([effects[kinds == kind].sum() for kind in np.unique(kinds)])
    np.testing.assert_allclose(own, slopes, atol=2e-3 * np.abs(slopes).max())


@cases("name", ["bert", "xlnet"])
def test_integrated_gradients_sum_to_the_difference_from_padding(name):
    effects, found = looked(name, IntegratedGradients(steps=100))
    ids = np.array(found.words(TEXT)["input_ids"])
    _, own = embedded(found)
    ids[own] = found.words.pad_token_id
    gap = score(found.model, found.reading, 1) - score(found.model, found.reading, 1, ids)
    assert effects.sum() == pytest.approx(gap, abs=1e-3)


def test_without_a_padding_token_the_way_begins_at_zero():
    effects, found = looked("gpt2", IntegratedGradients(steps=100))
    vectors, own = embedded(found)
    vectors[:, own] = 0.0
    with torch.no_grad():
        empty = found.model.head.scores(found.net(inputs_embeds=vectors).logits.numpy(), 1)[0]
    assert effects.sum() == pytest.approx(score(found.model, found.reading, 1) - empty, abs=1e-2)


class Bag(torch.nn.Module):
    """Every token adds its vector times w."""

    def __init__(self, size):
        super().__init__()
        self.table = torch.nn.Embedding(size, 5)
        self.readout = torch.nn.Linear(5, 1)

    def forward(self, input_ids):
        return self.readout(self.table(input_ids).sum(dim=1))


def test_a_linear_model_has_known_answers():
    words = tokenizer("bert")
    torch.manual_seed(3)
    net = Bag(len(words)).double()
    model = model_of(net, words)
    reading = model.read(TEXT, "cut", None)
    w, e = net.readout.weight[0].detach().numpy(), net.table.weight.detach().numpy()
    own = e[reading.types] @ w
    answers = {
        Gradient(): np.full(len(own), np.linalg.norm(w)),
        InputXGradient(): own,
        IntegratedGradients(steps=2): own - e[words.pad_token_id] @ w,
    }
    for look, answer in answers.items():
        np.testing.assert_allclose(look.attribute(model, reading, 0, 0), answer, rtol=1e-9)
    found = Explainer(net, words)(TEXT, method="input-x-gradient", check=30)
    np.testing.assert_allclose(found.surrogate.effects, own, rtol=1e-5)
    assert found.fidelity.far.mse < 1e-9  # special tokens and bias are the base


def test_sums_that_cancel_are_refused():
    for name in ("bloom", "deberta-v2"):
        with pytest.raises(InputError, match=r"LayerNorm of .* use IntegratedGradients\(\)"):
            looked(name, InputXGradient())


def test_arguments_are_checked():
    for steps in (0, 2.5, True):
        with pytest.raises(InputError, match="steps must be a whole number of at least 1"):
            IntegratedGradients(steps=steps)
    assert not Gradient().signed


def test_without_captum_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "captum.attr", None)
    with pytest.raises(MissingExtra, match=r"pip install 'slalom-xai\[baselines\]'"):
        looked("bert", IntegratedGradients())
