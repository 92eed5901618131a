"""The network: the equations by hand, short and long texts, saved and loaded, asked with words replaced."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

from safetensors.numpy import load_file  # noqa: E402

import slalom  # noqa: E402
from experiments.training import ATTENTION  # noqa: E402
from slalom.errors import InputError  # noqa: E402
from slalom.theory import attention  # noqa: E402
from tests.cases import cases  # noqa: E402
from tests.theory.attention.made import TEXT, WORDS, folder, trained, untrained  # noqa: E402


def by_hand(network, ids):
    """The equations of the paper, one position and one head at a time, in double precision."""
    n = {name: part.detach().double().numpy() for name, part in network.named_parameters()}
    length, size = network.config.max_position_embeddings, network.config.hidden_size
    ids = [*ids, *[0] * (length - len(ids))][:length]
    position = [[(np.sin, np.cos)[i % 2](t / 10000 ** ((i - i % 2) / size)) for i in range(size)] for t in range(length)]
    e = np.array([n["embedding.weight"][x] + p for x, p in zip(ids, position, strict=True)])
    heads, d = network.config.num_attention_heads, network.config.head_size
    found = []
    for h in range(heads):
        q_matrix, k_matrix = (n[f"{name}.weight"].reshape(heads, d, size)[h] for name in ("query", "key"))
        v_matrix = n["value.weight"].reshape(heads, -1, size)[h]
        w = n["final"][h] if "final" in n else np.eye(len(v_matrix))
        g = np.array([np.exp((q_matrix @ e[0]) @ (k_matrix @ x) / np.sqrt(d)) for x in e])
        found.append(sum(g[t] / g.sum() * (w @ (v_matrix @ e[t])) for t in range(length)))
    return np.mean(found, axis=0)


@cases("final", [True, False])
def test_the_network_is_what_the_paper_says(final):
    network = untrained(final=final).model
    ids = [1, 4, 7, 2, 2]
    assert np.allclose(network(torch.tensor([ids])).logits.detach().numpy(), by_hand(network, ids), atol=2e-6)
    assert (network.final is None) == (not final)


def test_the_defaults_are_the_sizes_of_the_paper():
    config = attention.AttentionConfig()
    sizes = (config.hidden_size, config.num_attention_heads, config.head_size, config.max_position_embeddings)
    assert sizes == (128, 6, 64, 256)
    assert (ATTENTION.hidden, ATTENTION.heads, ATTENTION.inner, ATTENTION.max_length) == sizes
    assert (ATTENTION.epochs, ATTENTION.batch, ATTENTION.learning_rate, ATTENTION.constant) == (10, 16, 1e-4, True)
    assert (ATTENTION.validation, ATTENTION.best, ATTENTION.weight_decay) == (0.2, True, 0.01)


def test_a_text_too_long_is_cut_and_one_too_short_filled_with_unk():
    network = untrained().model
    ids = torch.arange(60)[None] % 12
    assert torch.equal(network(ids).logits, network(ids[:, :40]).logits)
    filled = torch.cat([ids[:, :5], torch.zeros(1, 35, dtype=torch.long)], dim=1)
    assert torch.allclose(network(ids[:, :5]).logits, network(filled).logits, atol=1e-6)


def test_a_saved_network_is_safetensors_and_json_and_comes_back_bit_by_bit():
    path = folder()
    assert json.loads((path / "config.json").read_text())["model_type"] == "slalom-attention"
    stored, network = load_file(path / "model.safetensors"), trained().model
    assert set(stored) == {"embedding.weight", "query.weight", "key.weight", "value.weight", "final"}
    assert all((part.detach().numpy() == stored[name]).all() for name, part in network.named_parameters())


def test_it_is_explained_like_any_other_model():
    for model in (folder(), trained(), attention.load(folder(), perturbation="delete")):
        e = slalom.Explainer(model)(TEXT)
        assert {e.units[i] for i in e.strongest(2)} == {"good", "bad"}
        assert e.fidelity.far.r2 > 0.9


def test_replacing_keeps_places_and_deleting_does_not():
    text = "good the bad"
    keep = np.array([[True, False, True], [False, False, False]])
    asked = {}
    for how in ("replace", "delete"):
        model = attention.load(folder(), perturbation=how)
        groups = model.read(text, "cut", None).groups(keep)
        asked[how] = {int(r): ids[0].tolist() for g in groups for r, ids in zip(g.rows, g.build()[0], strict=True)}
    good, bad = (model.tokenizer.convert_tokens_to_ids(w) for model in [trained()] for w in ("good", "bad"))
    assert asked["replace"] == {0: [1, good, 0, bad], 1: [1, 0, 0, 0]}
    assert asked["delete"] == {0: [1, good, bad], 1: [1]}


def test_replacing_and_deleting_are_told_apart_in_a_result():
    e = slalom.Explainer(trained())("good the bad")
    same, other = slalom.Explainer(trained()), slalom.Explainer(folder())
    assert same.pipeline.matches(e, same.options)
    assert not other.pipeline.matches(e, other.options)


def test_other_methods_look_inside_it_too():

    e = slalom.Explainer(trained())(TEXT, method="input-x-gradient")
    own = slalom.Explainer(folder())(TEXT, method="input-x-gradient")
    assert (e.values == own.values).all()


def test_windows_replace_in_each_of_them():
    text = " ".join(WORDS * 6)
    e = slalom.Explainer(trained(), long="window")
    made = e(text, queries=200)
    whole, blank = e.ask(made, np.stack([np.ones(60), np.zeros(60)]))
    windows = [trained().tokenizer.convert_tokens_to_ids(text.split()[a : a + 39]) for a in (0, 19, 21)]
    logits = [trained().model(torch.tensor([[1, *ids]])).logits[0].tolist() for ids in windows]
    assert whole == pytest.approx(np.mean([x[1] - x[0] for x in logits]), abs=1e-5)
    assert blank != whole


def test_what_cannot_be_replaced_is_refused():
    with pytest.raises(InputError, match="perturbation must be 'replace' or 'delete'; got 'mask'"):
        attention.load(folder(), perturbation="mask")
    with pytest.raises(InputError, match="hidden size must be even"):
        attention.AttentionClassifier(attention.AttentionConfig(hidden_size=5))
