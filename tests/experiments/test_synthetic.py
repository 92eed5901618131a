"""The synthetic data are what the paper says, and networks see the words, not the padding."""

import numpy as np
import pytest
import torch

from experiments import synthetic
from experiments.harness import Lab
from experiments.sequence_networks import TRANSFORMERS, Classifier, FullyConnected, Recipe, Transformer, trained
from experiments.synthetic_runs import predicted
from experiments.vocabulary import PROBABILITIES, WEIGHTS, WORDS


def test_linear_data():
    data = synthetic.linear_sequences(20_000, np.random.default_rng(0))
    lengths = (data.words >= 0).sum(axis=1)
    assert lengths.mean() == pytest.approx(15, abs=0.1)
    assert data.counts.sum(axis=0) / lengths.sum() == pytest.approx(np.array(PROBABILITIES), abs=0.005)
    assert data.log_odds == pytest.approx(data.counts @ WEIGHTS)
    chances = 1 / (1 + np.exp(-data.log_odds))
    assert synthetic.cross_entropy(data.log_odds, data.labels) == pytest.approx(
        synthetic.cross_entropy(data.log_odds, chances), abs=0.01
    )


def test_slalom_data_have_the_log_odds_of_the_planted_slalom(tmp_path):
    lab = Lab("some", quick=True, folder=tmp_path)
    truth = synthetic.first(synthetic.planted(lab), 10)
    assert np.array_equal(truth.values, synthetic.planted(lab).values[:10])
    data = synthetic.slalom_sequences(truth, 5000, np.random.default_rng(0))
    lengths = (data.words >= 0).sum(axis=1)
    assert (lengths.min(), lengths.max()) == (1, synthetic.LONGEST)
    single = data.words[lengths == 1, 0]
    assert data.log_odds[lengths == 1] == pytest.approx(truth.values[single])


def test_words_are_counted():
    words = synthetic.padded([[0, 2, 2], [], [1]])
    assert words.shape == (3, synthetic.LONGEST)
    assert synthetic.counted(words, 3).tolist() == [[1, 0, 2], [0, 0, 0], [0, 1, 0]]
    assert synthetic.counted(synthetic.repeated(1, [1, 4]), 2).tolist() == [[0, 1], [0, 4]]


@pytest.mark.parametrize("kind", [*TRANSFORMERS, "relu"])
def test_padding_is_not_seen(kind):
    torch.manual_seed(0)
    network = FullyConnected(10, 8) if kind == "relu" else Transformer(kind, 2, 10, 16, 2)
    for weights in network.parameters():
        torch.nn.init.normal_(weights, std=0.5)
    ask = Classifier(network, "cpu")
    alone, beside = ask(synthetic.padded([[3, 4]])), ask(synthetic.padded([[3, 4], [5] * synthetic.LONGEST]))
    assert beside[0] == pytest.approx(alone[0], abs=1e-4)
    assert abs(beside[1] - beside[0]) > 1e-3


def test_fully_connected_network_learns_the_line():
    data = synthetic.linear_sequences(4000, np.random.default_rng(0))
    ask = trained("relu", 50, data, Recipe(4, 50, 1e-2, 0, 0), "cpu", 0)
    assert np.corrcoef(ask(data.words), data.log_odds)[0, 1] > 0.95


@pytest.mark.parametrize("name", ["linear", "gam", "joint"])
def test_additive_surrogates_describe_linear_data(name):
    seen, unseen = (synthetic.linear_sequences(2000, np.random.default_rng(seed)) for seed in (0, 1))
    error = ((predicted(name, seen.words, seen.log_odds, unseen.words) - unseen.log_odds) ** 2).mean()
    most = {"linear": 1e-6, "gam": 0.15, "joint": 1e-3}[name]  # joint: its competition is near 0, but cannot be 0
    assert error < most * unseen.log_odds.var()


def test_gam_sees_places():
    words = synthetic.padded([[WORDS.index("good")] * (1 + i % 2) for i in range(400)])
    scores = np.where((words >= 0).sum(axis=1) == 1, 1.0, -1.0)
    assert np.sign(predicted("gam", words, scores, words)).tolist() == scores.tolist()
