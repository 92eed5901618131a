"""Networks are asked without padding."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

from experiments.small_networks import OfCounts, Transformer, answers, made  # noqa: E402


@pytest.mark.parametrize("arch", ["bert", "distilbert", "gpt2"])
def test_padding_changes_nothing_and_start_is_seen(arch):
    network = made(lambda: Transformer(arch, 1, 1, 16, positions=True).scaled(0.3), None, "cpu", 0)
    alone = answers(network, [[6, 9], [1, 2, 3]], "cpu")
    with torch.no_grad():
        padded = network(torch.tensor([[6, 9, -1], [1, 2, 3]])).numpy()
    assert np.allclose(alone, padded, atol=1e-5)
    started = made(lambda: Transformer(arch, 1, 1, 16, positions=True, start=True).scaled(0.3), None, "cpu", 0)
    assert not np.allclose(alone, answers(started, [[6, 9], [1, 2, 3]], "cpu"), atol=1e-2)


def test_models_of_counts_do_not_see_the_order():
    network = made(lambda: OfCounts(8), None, "cpu", 0)
    one, other, more = answers(network, [[6, 9], [9, 6], [6, 9, 9]], "cpu")
    assert one == other
    assert one != more
