"""Attention against what transformers itself gives out."""

import numpy as np
import pytest
import torch

from slalom.errors import InputError
from slalom.methods import AttentionMean, AttentionRollout
from slalom.methods.white_box.attention import attention_implementation
from slalom.models import model_of
from tests.cases import cases
from tests.models.tiny import ARCHITECTURES, classifier

TEXT = "a good film with a bad end"
READS = {"bert": 0, "distilbert": 0, "albert": 0, "roberta": 0, "deberta-v2": 0}
READS |= {"xlnet": -1, "gpt2": -1, "bloom": -1, "llama": -1, "qwen2": -1}
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit")


def maps(made, words):
    """Attention (layers, heads, length, length) as a user would ask for it."""
    made.eval()
    made.set_attn_implementation("eager")
    given = words(TEXT, return_tensors="pt")
    given.pop("attention_mask", None)
    if "token_type_ids" in given and made.config.model_type != "xlnet":
        del given["token_type_ids"]
    with torch.no_grad():
        found = made(**given, output_attentions=True).attentions
    return torch.stack([layer[0] for layer in found]).double().numpy()


@cases("name", READS)
def test_mean_and_rollout_by_hand(name):
    made, words = classifier(name)
    made.train()  # dropout must not come in
    was = made.config._attn_implementation
    model = model_of(made, words)
    reading = model.read(TEXT, "cut", None)
    mean, rollout = (look.attribute(model, reading, 1, 0) for look in (AttentionMean(), AttentionRollout()))
    assert made.config._attn_implementation == was
    assert all(module.training for module in made.modules())
    every = maps(made, words)
    ahead = reading.before.shape[1]
    own = slice(ahead, ahead + len(reading.names))
    np.testing.assert_allclose(mean, every.mean(axis=(0, 1))[READS[name], own], atol=1e-6)
    product = np.eye(every.shape[-1])
    for layer in every.mean(axis=1):
        product = (0.5 * layer + 0.5 * np.eye(len(layer))) @ product
    np.testing.assert_allclose(rollout, product[READS[name], own], atol=1e-6)
    for row in (mean, rollout):
        assert (row >= 0).all()
        assert 0 < row.sum() <= 1 + 1e-6
        if reading.before.size + reading.after.size == 0:
            assert row.sum() == pytest.approx(1, abs=1e-5)


@cases("name", sorted(set(ARCHITECTURES) - set(READS)))
def test_models_without_one_stack_of_attention_are_refused(name):
    made, words = classifier(name)
    model = model_of(made, words)
    reading = model.read(TEXT, "cut", None)
    for look in (AttentionMean(), AttentionRollout()):
        with pytest.raises(InputError, match="needs a transformers classifier with one stack of attention layers; got"):
            look.attribute(model, reading, 1, 0)


@cases("was", ["sdpa", "eager"])
def test_the_implementation_is_restored_after_an_error(was):
    made, _ = classifier("bert", attn_implementation=was)
    inside = attention_implementation(made, "eager")
    inside.__enter__()
    assert made.config._attn_implementation == "eager"
    assert inside.__exit__(RuntimeError, RuntimeError(), None) is False
    assert made.config._attn_implementation == was


def test_a_model_that_was_asked_for_attention_before_keeps_its_hooks():
    made, words = classifier("bert")
    model = model_of(made, words)
    reading = model.read(TEXT, "cut", None)
    by_hand = maps(made, words)
    hooks = [len(module._forward_hooks) for module in made.modules()]
    first, second = (AttentionMean().attribute(model, reading, 1, 0) for _ in range(2))
    assert [len(module._forward_hooks) for module in made.modules()] == hooks
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(by_hand, maps(made, words))
