"""The classifier that ships with the package: small, complete, of the stated kind, and as good as its card says."""

import gzip
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

import slalom
from slalom.errors import InputError
from slalom.models import EMBEDDED

transformers = pytest.importorskip("transformers", reason="transformers is not installed")

SHARED = Path(os.environ.get("SLALOM_SHARED", Path(__file__).parents[3] / "shared"))
REVIEWS = SHARED / "data" / "imdb_test.jsonl.gz"


def test_it_is_a_small_bert_with_its_own_tokenizer():
    names = {path.name for path in EMBEDDED.iterdir()}
    assert names == {
        "README.md",
        "config.json",
        "lexicon.parquet",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    assert sum(path.stat().st_size for path in EMBEDDED.iterdir()) < 8e6
    config = json.loads((EMBEDDED / "config.json").read_text())
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert config["id2label"] == {"0": "negative", "1": "positive"}


def test_it_is_the_default_everywhere():
    explainer = slalom.Explainer()
    assert explainer.model.name == "slalom-sentiment"
    assert explainer("A wonderful film.").prediction[0] == "positive"
    assert explainer("A terrible film.").prediction[0] == "negative"
    with pytest.raises(InputError, match="output= is for callables, not for bundled and saved classifiers"):
        slalom.Explainer(output="logits")
    with pytest.raises(InputError, match="tokenizer= is for torch models, not for bundled and saved classifiers"):
        slalom.Explainer(tokenizer=explainer.model.tokenizer)


def test_the_card_has_what_a_reader_needs():
    card = (EMBEDDED / "README.md").read_text()
    for part in (
        "experiments train imdb_train",
        "SLALOM_ENCODER",
        "must not be used for",
        "Maas et al. 2011",
        "25,000 test reviews",
    ):
        assert part in card
    assert float(re.search(r"all 25,000 test reviews \| (0\.\d+)", card)[1]) >= 0.88


@pytest.mark.skipif(not REVIEWS.exists(), reason=f"the IMDB test reviews are not at {REVIEWS}")
def test_it_is_right_as_often_as_the_card_says():
    """On 200 reviews of the 25,000; the card's figure lies within three standard errors."""
    with gzip.open(REVIEWS, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for number, line in enumerate(lines) if number % 124 == 0][:200]
    pipeline = transformers.pipeline("text-classification", str(EMBEDDED), device="cpu")
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]["text"]))
    given = pipeline([rows[i]["text"] for i in order], truncation=True, batch_size=8)
    right = np.mean([(one["label"] == "positive") == bool(rows[i]["label"]) for i, one in zip(order, given, strict=True)])
    assert abs(right - 0.8894) < 3 * (0.8894 * 0.1106 / 200) ** 0.5
