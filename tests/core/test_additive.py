"""The additive surrogate: a sum, with classes centred, merged by adding."""

import numpy as np
import pytest

from slalom.core import Additive
from slalom.errors import InputError
from tests.cases import cases


def test_it_adds_up():
    rng = np.random.default_rng(0)
    effects, counts = rng.normal(size=5), rng.integers(0, 3, (20, 5))
    assert np.allclose(Additive(effects, 0.3)(counts), 0.3 + counts @ effects)


def test_classes_are_centred():
    model = Additive([[1.0, 2.0, 6.0]], [0.0, 0.0, 3.0])
    assert np.allclose(model.effects, [[-2.0, -1.0, 3.0]])
    assert np.allclose(model(np.array([[0.0], [1.0]])), [[-1.0, -1.0, 2.0], [-3.0, -2.0, 5.0]])


def test_groups_have_the_sum_of_their_units():
    merged = Additive([1.0, 2.0, 4.0], 0.5).merged(np.array([0, 1, 0]))
    assert merged.effects.tolist() == [5.0, 2.0]
    assert merged.base == 0.5


@cases(
    ("effects", "base", "said"),
    [
        ([], 0.0, "n >= 1 rows"),
        ([[1.0]], [0.0], ">= 2 columns"),
        ([1.0, np.nan], 0.0, "effects"),
        ([1.0], [0.0, 1.0], r"base must have the shape \(\)"),
        ([[1.0, 2.0]], 0.0, r"base must have the shape \(2,\)"),
    ],
)
def test_what_does_not_fit_is_refused(effects, base, said):
    with pytest.raises(InputError, match=said):
        Additive(effects, base)
    with pytest.raises(InputError, match="one column for each of the 1 units"):
        Additive([1.0])(np.ones((1, 2)))
