"""Batches of inputs of different lengths: which models allow them, and that their answers are the same."""

from itertools import combinations_with_replacement

import numpy as np

from slalom.models import Engine, Queries
from slalom.models.huggingface.model import HuggingFace
from slalom.models.packing import length_ranges
from tests.cases import cases
from tests.models.tiny import classifier

CAUSAL = ["gpt2", "llama", "bloom", "qwen2"]


def _answers(model, overhead):
    model.__dict__["batch_overhead"] = overhead
    reading = model.read("a good film with a bad end and a very good cast, but the plot was thin.", "cut", None)
    rng = np.random.default_rng(0)
    keep = rng.random((40, len(reading.names))) < rng.random((40, 1))
    keep[:, 0] = True
    shapes = []
    submit = model.submit
    model.submit = lambda inputs: shapes.append(inputs.shape) or submit(inputs)
    try:
        (answer,) = Engine(model)([Queries(reading, keep)])
    finally:
        del model.submit
    return answer, shapes


@cases("own", [None, 0])
@cases("name", CAUSAL)
def test_padded_batches_give_the_answers_of_batches_of_one_length(name, own):
    network, tokenizer = classifier(name)
    network.config.pad_token_id = own
    model = HuggingFace(network, tokenizer)
    plain, many = _answers(model, 0)
    assert model.may_be_padded()
    padded, few = _answers(model, 200)
    assert len(few) < len(many) / 2
    np.testing.assert_allclose(padded.outputs, plain.outputs, atol=2e-6)
    assert padded.lengths == plain.lengths
    assert network.config.pad_token_id == own


@cases(("name", "precision"), [*((n, None) for n in ("bert", "distilbert", "albert", "roberta", "t5")), ("bert", "bfloat16")])
def test_encoders_are_padded_with_a_mask(name, precision):
    model = HuggingFace(*classifier(name), precision=precision)
    plain, many = _answers(model, 0)
    assert model.may_be_padded()
    padded, few = _answers(model, 200)
    assert len(few) < len(many) / 2
    np.testing.assert_allclose(padded.outputs, plain.outputs, atol=1e-4 if precision is None else 0.2)


@cases("name", ["xlnet", "deberta-v2", "mamba"])
def test_models_that_look_at_padding_are_not_padded(name):
    assert not HuggingFace(*classifier(name)).may_be_padded()


def test_on_a_cpu_nothing_is_padded():
    assert HuggingFace(*classifier("gpt2")).batch_overhead == 0


@cases("seed", range(20))
def test_ranges_of_lengths_cost_least(seed):
    rng = np.random.default_rng(seed)
    rows = {int(n): int(rng.integers(1, 9)) for n in rng.choice(np.arange(3, 90), 7, replace=False)}
    overhead = int(rng.integers(1, 120))
    lengths = sorted(rows)

    def cost(ranges):
        return sum(sum(rows[n] for n in part) * part[-1] + overhead for part in ranges)

    every = [
        [lengths[a:b] for a, b in zip((0, *cuts), (*cuts, 7), strict=True) if b > a]
        for k in range(7)
        for cuts in combinations_with_replacement(range(1, 7), k)
    ]
    found = length_ranges(rows, overhead)
    assert [n for part in found for n in part] == lengths
    assert cost(found) == min(map(cost, every))
