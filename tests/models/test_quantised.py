"""Quantised models are left as they are: nothing casts or moves them, and every stored bit counts."""

import copy

import pytest
import torch

import slalom
from slalom import Explainer
from slalom.models import Prompted
from slalom.models.huggingface import saved
from slalom.models.huggingface.fingerprint import identity_of
from tests.models.tiny import QUICK
from tests.models.tiny_lm import language_model, tokenizer

TEXT, TEMPLATE, LABELS = "a good film and a bad one", "Review: {text}\nSentiment:", ["negative", "positive"]


class Int8Linear(torch.nn.Module):
    """A layer as quantising packages keep it: integers, and a scale for every row."""

    def __init__(self, linear):
        super().__init__()
        scale = linear.weight.detach().abs().amax(dim=1, keepdim=True) / 127.0
        integers = (linear.weight.detach() / scale).round().to(torch.int8)
        self.weight = torch.nn.Parameter(integers, requires_grad=False)
        self.register_buffer("scale", scale)
        self.bias = linear.bias

    def forward(self, x):
        return torch.nn.functional.linear(x, self.weight.to(x.dtype) * self.scale.to(x.dtype), self.bias)


def quantised(network):
    """The network with integers in its layers, but for the last one, that refuses to be cast or moved."""
    for name, module in list(network.named_modules()):
        if type(module) is torch.nn.Linear and "layers" in name:
            parent, _, own = name.rpartition(".")
            setattr(network.get_submodule(parent), own, Int8Linear(module))
    network.is_quantized = True

    def refuse(*_, **__):
        raise ValueError("a quantised model can neither be cast nor moved")

    for module in network.modules():
        module._apply = refuse
    assert sum(isinstance(module, Int8Linear) for module in network.modules()) >= 6
    return network


def stored(network):
    return {name: (t.dtype, t.device, t.data_ptr()) for name, t in (*network.named_parameters(), *network.named_buffers())}


def made(name="llama"):
    words = tokenizer("gpt2")
    return quantised(language_model(name, len(words))), words


def test_a_prompted_model_keeps_its_integers_and_answers_as_without_packs():
    network, words = made()
    before = stored(network)
    scores = []
    for packs in (None, False):
        prompted = Prompted(network, words, TEMPLATE, LABELS)
        prompted.lm.packs = packs
        scores.append(Explainer(prompted, progress=False, **QUICK)(TEXT).score)
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)
    plain = Explainer(Prompted(language_model("llama", len(words)), words, TEMPLATE, LABELS), progress=False, **QUICK)(TEXT)
    assert 0.0 < abs(scores[0] - plain.score) < 0.1
    assert stored(network) == before
    assert not network.training


def test_the_sources_of_an_answer_are_found_with_integers():
    network, words = made()
    before = stored(network)
    e = slalom.context(network, words, "A good film. It rains.", "Was it good?", "the film was good.", check=0)
    plain = slalom.context(
        language_model("llama", len(words)), words, "A good film. It rains.", "Was it good?", "the film was good.", check=0
    )
    assert 0.0 < abs(e.score - plain.score) < 0.5
    assert stored(network) == before


def test_a_loaded_model_that_is_quantised_is_not_moved(tmp_path, monkeypatch):
    words = tokenizer("gpt2")
    language_model("llama", len(words)).save_pretrained(tmp_path)
    words.save_pretrained(tmp_path)
    real = saved.AutoModelForCausalLM.from_pretrained

    def load(*arguments, **options):  # what transformers does where the configuration names a quantising package
        network, info = real(*arguments, **options)
        return quantised(network), info

    monkeypatch.setattr(saved.AutoModelForCausalLM, "from_pretrained", load)
    network, _ = saved.load_language_model(str(tmp_path), "cpu")
    assert torch.int8 in {parameter.dtype for parameter in network.parameters()}


def test_every_integer_and_every_scale_identifies_the_model():
    network, _ = made()
    names = {identity_of(network)}
    for change in ("weight", "scale"):
        other = copy.deepcopy(network)
        layer = next(module for module in other.modules() if isinstance(module, Int8Linear))
        with torch.no_grad():
            getattr(layer, change).view(-1)[3] += 1
        names.add(identity_of(other))
    assert len(names) == 3
