"""What all methods that look inside have in common: the Explanation, the model left as it was, what they refuse."""

import copy

import numpy as np
import pytest
import torch
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from slalom import Explainer
from slalom.errors import InputError, ModelError
from slalom.methods import WhiteBoxMethod, list_methods
from tests.cases import cases
from tests.models.tiny import classifier

TEXT = "a good film with a bad end"
INSIDE = [name for name, one in list_methods().items() if isinstance(one, WhiteBoxMethod) and one.needs]
pytestmark = pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def state(net):
    """Everything of a model that a method might leave behind."""
    hooks = [
        (len(m._forward_hooks), len(m._forward_pre_hooks), len(m._backward_hooks), len(m._backward_pre_hooks))
        for m in net.modules()
    ]
    tensors = [(p.requires_grad, p.grad is None, p.dtype, p.data_ptr(), p._version) for p in net.parameters()]
    config = (net.config.to_dict(), net.config._attn_implementation, net.config.output_attentions)
    return hooks, tensors, config, [m.training for m in net.modules()], sorted(ALL_ATTENTION_FUNCTIONS)


@cases("name", INSIDE)
@cases("kind", ["bert", "gpt2"])
def test_the_model_is_left_as_it_was(kind, name):
    net, words = classifier(kind)
    net.train()
    next(net.parameters()).requires_grad_(False)
    net.get_input_embeddings().eval()
    before, values = state(net), copy.deepcopy(net.state_dict())
    explainer = Explainer(net, words, check=0)
    first, second = explainer(TEXT, method=name), explainer(TEXT, method=name)
    assert state(net) == before
    assert all(torch.equal(a, b) for a, b in zip(values.values(), net.state_dict().values(), strict=True))
    np.testing.assert_array_equal(first.surrogate.effects, second.surrogate.effects)
    assert first.surrogate(np.ones((1, len(first))))[0] == pytest.approx(first.score)
    assert first.method == name


@cases("name", INSIDE)
def test_the_model_is_left_as_it_was_after_an_error(name):
    net, words = classifier("distilbert")
    explainer = Explainer(net, words, check=0)
    failing = net.classifier.register_forward_hook(_fail)
    before, grad = state(net), torch.is_grad_enabled()
    with pytest.raises(ModelError, match="ZeroDivisionError"):
        list_methods()[name].attribute(explainer.model, explainer.model.read(TEXT, "cut", None), 1, 0)
    assert state(net) == before
    assert torch.is_grad_enabled() is grad
    assert not torch.is_inference_mode_enabled()
    failing.remove()


def _fail(module, args, output):
    raise ZeroDivisionError


@cases("device", DEVICES)
@cases("name", INSIDE)
def test_half_precision_says_the_same(name, device):
    net, words = classifier("bert")
    exact = Explainer(net.double(), words, check=0)(TEXT, method=name).surrogate.effects
    net.to(device).float()
    made = [Explainer(net, words, check=0), Explainer(net, words, check=0, precision="bfloat16")]
    single, auto = (explainer(TEXT, method=name).surrogate.effects for explainer in made)
    half = Explainer(net.bfloat16(), words, check=0)(TEXT, method=name).surrogate.effects
    np.testing.assert_allclose(single, exact, atol=1e-3 * np.abs(exact).max())
    for rough in (auto, half):
        assert np.isfinite(rough).all()
        assert np.corrcoef(rough, exact)[0, 1] > 0.7


@cases("name", INSIDE)
def test_what_cannot_be_looked_into_is_refused(name):
    counts = Explainer(lambda texts: [float(len(text)) for text in texts], output="log_odds")
    with pytest.raises(InputError, match=r"looks inside a torch model; .* only answers, so ask it"):
        counts(TEXT, method=name)
    net, words = classifier("bert", 3)
    with pytest.raises(InputError, match=r'read in .* windows; use long="cut"'):
        Explainer(net, words, long="window", target=0, check=0)("a good film " * 50, method=name)
    with pytest.raises(InputError, match="one class at a time"):
        Explainer(net, words, target="all", check=0)(TEXT, method=name)


def test_units_add_up_and_a_long_text_is_cut():
    net, words = classifier("bert", 3)
    explainer = Explainer(net, words, target=2, check=0)
    tokens = explainer(TEXT, method="attnlrp")
    parts = explainer(TEXT, method="attnlrp", unit="sentence")
    assert parts.surrogate.effects.sum() == pytest.approx(tokens.surrogate.effects.sum())
    with pytest.warns(UserWarning, match="were cut"):
        assert len(explainer("a good film " * 50, method="rollout")) == 62


def test_the_shipped_classifier_is_explained_by_its_words():
    explainer = Explainer(check=0)
    text = "The first half is dull. The second half is one of the best things I have seen in years."
    names = ("attnlrp", "integrated-gradients", "input-x-gradient")
    found = {name: explainer(text, method=name) for name in names}
    strong = [[one.units[i] for i in np.argsort(-np.abs(one.surrogate.effects))[:2]] for one in found.values()]
    assert sum("dull" in pair for pair in strong) >= 2
    for one in found.values():
        assert one.surrogate.effects[one.units.index("dull")] < 0 < one.surrogate.effects[one.units.index("best")]
