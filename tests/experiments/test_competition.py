"""The competition of classifiers: planted models are what they say, and intervals over texts hold the mean."""

import numpy as np
import pytest
from scipy.special import expit, logit

from experiments.competition import Record, planted, pooled


def test_planted_models_add_and_average():
    add, average = planted(0.0), planted(1.0)
    one, two, three, middle = add(["a b", "b c", "a b c", "b"])
    assert three == pytest.approx(one + two - middle)  # of the neighbours' effects, too
    alone, *repeated = average(["a", *(" ".join("a" * k) for k in (2, 5, 50))])
    effects = [(score - alone) * k / (k - 1) for score, k in zip(repeated, (2, 5, 50), strict=True)]
    assert effects == pytest.approx([effects[0]] * 3)


def test_one_text_has_its_own_interval():
    found = pooled([Record(20, 100, 0.3, 0.2, None)])
    assert found == pytest.approx((0.3, *expit(logit(0.3) + np.array([-1.96, 1.96]) * 0.2)))


def test_texts_that_say_little_weigh_little():
    records = [Record(20, 100, 0.5, 0.1, None), Record(20, 100, 0.5, 0.1, None), Record(20, 100, 0.1, 1.4, None)]
    assert pooled(records).kappa == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("spread", [0.0, 0.5])
def test_intervals_over_texts_hold_the_mean(spread):
    """Of 400 samples of 6 texts, 0.95 hold it to 0.02."""
    rng, mean, inside = np.random.default_rng(0), -1.0, []
    for _ in range(400):
        errors = rng.uniform(0.1, 0.4, 6)
        logits = mean + np.hypot(errors, spread) * rng.normal(size=6)
        found = pooled([Record(20, 100, expit(one), se, None) for one, se in zip(logits, errors, strict=True)])
        inside.append(found.low <= expit(mean) <= found.high)
    assert np.mean(inside) >= 0.92
