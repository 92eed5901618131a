"""The name of a model: another one after any change, the same one for the same bits."""

import copy

import numpy as np
import torch
import transformers as hf
from torch.testing._internal.two_tensor import TwoTensor

from slalom.models.huggingface.fingerprint import fingerprints, identity_of
from tests.cases import cases
from tests.models.tiny import classifier

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
TEXT = "a good film with a bad end"


def test_the_fingerprint_is_the_sum_that_the_module_says_it_is():
    """Python's own integers, word by word: whole rows of each tensor first, then what is left of all of them."""
    columns = [int(c) | 1 for c in np.random.PCG64(0).random_raw(1024)]
    generator = np.random.default_rng(0)
    tensors = [torch.from_numpy(generator.standard_normal(n)).float() for n in (5000, 3, 0, 2049, 2)]
    tensors.append(torch.tensor([True, False, True]))
    rows, rest = [], b""
    for tensor in tensors:
        raw = tensor.numpy().tobytes()
        full = len(raw) // 8192 * 8192
        rows += [raw[k : k + 8192] for k in range(0, full, 8192)]
        rest += raw[full:]
    rest += bytes(-len(rest) % 8192)
    rows += [rest[k : k + 8192] for k in range(0, len(rest), 8192)]
    total = 0
    for row, number in zip(rows, np.random.PCG64(1).random_raw(len(rows)), strict=True):
        words = [int.from_bytes(row[k : k + 8], "little", signed=True) for k in range(0, 8192, 8)]
        total += (int(number) | 1) * sum(c * (w + (w >> 35)) for c, w in zip(columns, words, strict=True))
    assert fingerprints(tensors) == [(total + 2**63) % 2**64 - 2**63]


def values(dtype, device):
    if dtype is torch.bool:
        return torch.tensor([True, False, True] * 700, device=device)
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(2100, generator=torch.Generator().manual_seed(0)).to(device, dtype)
    return (torch.arange(2100, device=device) % 100).to(dtype)


DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.complex64, torch.complex128,
    torch.uint8, torch.int8, torch.int16, torch.int64, torch.bool,
]  # fmt: skip


@cases("device", DEVICES)
@cases("dtype", DTYPES)
def test_every_change_of_every_kind_of_tensor_is_seen(dtype, device):
    base = values(dtype, device).reshape(30, 70)
    seen = [fingerprints([base])]
    assert fingerprints([base.clone()]) == seen[0]
    assert fingerprints([base.cpu()]) == seen[0]
    for a, b in ([0, 1], [0, 29], [3, 20]):
        swapped = base.clone()
        swapped[a], swapped[b] = base[b], base[a]
        if dtype is not torch.bool or (swapped != base).any():
            seen.append(fingerprints([swapped]))
    columns = base.clone()
    columns[:, 0], columns[:, 1] = base[:, 1], base[:, 0]
    zeros = base.clone()
    zeros[7] = 0
    seen += [fingerprints([columns]), fingerprints([zeros]), fingerprints([base, base])]
    assert len(set(map(tuple, seen))) == len(seen)


def test_tensors_of_every_layout_are_seen():
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    straight = fingerprints([base])
    assert fingerprints([base.T.contiguous().T]) == straight  # not contiguous
    assert fingerprints([torch.cat([torch.zeros(1), base.reshape(-1)])[1:].view(4, 6)]) == straight  # begins within a word
    assert fingerprints([base.expand(3, 4, 6)]) == fingerprints([base.repeat(3, 1, 1)])
    assert fingerprints([base.to_sparse()]) == straight
    conjugate = torch.complex(base, base).conj()
    assert fingerprints([conjugate]) == fingerprints([conjugate.resolve_conj()]) != fingerprints([conjugate.conj()])
    assert fingerprints([conjugate.imag]) == fingerprints([conjugate.imag.clone()])  # negated without a copy
    with torch.inference_mode():
        assert fingerprints([base.clone()]) == straight
    assert fingerprints([torch.nn.Parameter(base)]) == straight
    assert fingerprints([TwoTensor(base, base + 1)]) == fingerprints([base, base + 1])
    assert fingerprints([base[::2, ::2][:1, :1]]) == fingerprints([torch.zeros(1)])  # one element, strides of many
    assert fingerprints([torch.tensor(3.0)]) == fingerprints([torch.tensor([3.0])])
    assert fingerprints([]) == fingerprints([torch.zeros(0), torch.zeros(0, 3)]) == []


@cases(
    "change",
    [
        lambda m: m.bert.embeddings.word_embeddings.weight.data[7].zero_(),
        lambda m: m.bert.embeddings.word_embeddings.weight.data.__setitem__(
            [7, 9], m.bert.embeddings.word_embeddings.weight.data[[9, 7]]
        ),
        lambda m: m.classifier.bias.data.__setitem__([0, 1], m.classifier.bias.data[[1, 0]]),
        lambda m: m.classifier.weight.data.neg_(),
        lambda m: m.bert.pooler.dense.weight.detach().mul_(2.0),
        lambda m: setattr(m.classifier, "weight", torch.nn.Parameter(m.classifier.weight.detach() + 1e-3)),
        lambda m: setattr(m.classifier, "bias", None),
        lambda m: setattr(m.classifier.bias, "data", torch.tensor([1.0, 2.0])),
        lambda m: m.bert.embeddings.position_ids.add_(1),
        lambda m: m.register_buffer("temperature", torch.ones(1)),
        lambda m: m.register_forward_hook(lambda module, given, answer: answer),
        lambda m: m.bert.register_forward_pre_hook(lambda module, given: None),
        lambda m: setattr(m, "forward", lambda *given, **more: None),
        lambda m: setattr(m.bert.pooler, "activation", torch.nn.ReLU()),
        lambda m: setattr(m.bert.encoder.layer[0].attention.self, "scaling", 0.5),
        lambda m: setattr(m.bert.embeddings.LayerNorm, "eps", 1e-3),
        lambda m: setattr(m.config, "is_decoder", True),
        lambda m: setattr(m.config, "id2label", {0: "a", 1: "b"}),
        lambda m: m.bert.double(),
    ],
)
def test_whatever_changes_the_answers_changes_the_identity(change):
    made, _ = classifier("bert")
    with torch.no_grad():
        made.classifier.bias.copy_(torch.tensor([0.25, -0.25]))
        before = identity_of(made)
        change(made)
    assert identity_of(made) != before
    assert identity_of(made) == identity_of(made)


def test_hooks_are_told_apart_by_what_they_do():
    def doubled(module, given, answer, factor=2.0):
        return answer * factor

    def scaled(factor):
        return lambda module, given, answer: answer * factor

    def counting(seen):
        return lambda module, given, answer: seen.append(answer)

    class Scaled:
        def __init__(self, factor):
            self.factor = factor

        def __call__(self, module, given, answer):
            return answer * self.factor

    def named(hook):
        layer = torch.nn.Linear(2, 2)
        torch.nn.init.ones_(layer.weight)
        torch.nn.init.ones_(layer.bias)
        layer.register_forward_hook(hook)
        return identity_of(layer)

    different = [doubled, scaled(2.0), scaled(3.0), Scaled(2.0), Scaled(3.0), lambda m, g, a: a + 1, lambda m, g, a: a + 2]
    assert len({named(hook) for hook in different}) == len(different)
    assert named(scaled(2.0)) == named(scaled(2.0))
    seen = []
    hook = counting(seen)
    before = named(hook)
    seen.append(torch.ones(1))
    assert named(hook) == before  # a list of what went by says nothing about the answers


def test_a_tied_weight_is_known_as_such():
    def made(tied):
        one, two = torch.nn.Linear(4, 4, bias=False), torch.nn.Linear(4, 4, bias=False)
        torch.nn.init.ones_(one.weight)
        torch.nn.init.ones_(two.weight)
        if tied:
            two.weight = one.weight
        return torch.nn.Sequential(one, two)

    assert identity_of(made(True)) == identity_of(made(True)) != identity_of(made(False))
    changed = made(True)
    changed[0].weight.data[0, 0] = 2.0
    assert identity_of(changed) != identity_of(made(True))


def test_a_saved_model_has_the_same_identity_wherever_it_is_loaded(tmp_path):
    made, _ = classifier("bert", id2label={0: "no", 1: "yes"})
    before = identity_of(made.train())
    made.save_pretrained(tmp_path)
    loaded = hf.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert identity_of(loaded) == identity_of(copy.deepcopy(made).eval()) == identity_of(loaded.double().float()) == before
