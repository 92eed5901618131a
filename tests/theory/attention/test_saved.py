"""Loading: what is no network of one layer is refused."""

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

import slalom
from slalom.errors import InputError
from slalom.theory import attention


def test_other_classifiers_are_no_networks_of_one_layer():
    with pytest.raises(InputError, match="must hold an AttentionClassifier"):
        attention.load(slalom.models.EMBEDDED)
    with pytest.raises(InputError, match="closed forms are of one layer of attention"):
        attention.trace(slalom.Explainer().model, "a good film")
