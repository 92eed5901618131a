"""Human attention: AU-ROC against scikit-learn, marks of words on units by hand, and the real maps where they are."""

import gzip
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slalom import Explainer
from slalom.core import Slalom
from slalom.errors import InputError
from slalom.evaluate import auroc, human_attention, unit_marks, word_spans, yelp_hat
from tests.cases import cases
from tests.factories import explanation

SHARED = Path(os.environ.get("SLALOM_SHARED", Path(__file__).parents[3] / "shared"))
MAPS = SHARED / "data" / "yelp_hat.jsonl.gz"


def test_area_by_hand():
    assert auroc([0, 0, 1, 1], [1.0, 2.0, 3.0, 4.0]) == 1.0
    assert auroc([1, 1, 0, 0], [1.0, 2.0, 3.0, 4.0]) == 0.0
    assert auroc([0, 1], [5.0, 5.0]) == 0.5
    assert auroc([True, False, True], [3.0, 2.0, 1.0]) == 0.5
    assert auroc([0, 0], [1.0, 2.0]) is None
    assert auroc([1, 1], [1.0, 2.0]) is None


@cases("ties", [False, True])
def test_the_same_as_scikit_learn(ties):
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    rng = np.random.default_rng(0)
    for n in (5, 30, 500):
        marks = rng.permutation(np.arange(n) < n // 3)
        scores = rng.integers(0, 5, n).astype(float) if ties else rng.normal(size=n)
        assert auroc(marks, scores) == pytest.approx(metrics.roc_auc_score(marks, scores))
        assert auroc(marks, -scores) == pytest.approx(1.0 - auroc(marks, scores))


def test_marks_of_words_come_to_units():
    words = ["The", "sushi", "wasn't", "good."]
    text = " ".join(words)
    assert [text[a:b] for a, b in word_spans(words)] == words
    assert word_spans([]).shape == (0, 2)
    pieces = ["The", " su", "shi", " wasn", "'t", " good", "."]  # blanks belong to the piece after them, as in GPT-2
    ends = np.cumsum([len(piece) for piece in pieces])
    spans = np.column_stack([ends - [len(piece) for piece in pieces], ends])
    marks = unit_marks(spans, words, [0, 1, 0, 1])
    assert marks.tolist() == [False, True, True, False, False, True, True]
    assert unit_marks(spans, words, [[0, 1, 0, 1], [0, 0, 0, 1]]).tolist() == [False] * 5 + [True] * 2  # what both marked
    # a larger unit is marked where one of its words is; a blank alone is not; an empty span lies in the word around it
    assert unit_marks([[0, 16], [3, 4], [5, 5], [12, 12]], words, [0, 1, 0, 0]).tolist() == [True, False, True, False]


def test_scores_are_taken_by_their_strength():
    words = ["so", "good", "and", "bad"]
    e = explanation("so good and bad", [0.1, 3.0, 0.2, -4.0])
    maps = [[0, 1, 0, 1], [0, 1, 0, 1], [1, 1, 0, 1]]
    assert human_attention(e, words, maps) == 1.0
    assert human_attention(e, words, [[0, 0, 0, 1], [0, 1, 0, 0]]) is None
    assert human_attention(e, words, [[1, 1, 1, 1]]) is None
    # importances as they are: the lowest of all is not the strongest
    s = replace(e, surrogate=Slalom([1.0, 1.0, 1.0, 1.0], [-5.0, 3.0, -1.0, 3.0]))
    assert human_attention(s, words, maps, score="importance") == 1.0


@cases(
    ("call", "says"),
    [
        (lambda: auroc([0, 2], [1.0, 2.0]), "zeros and ones only"),
        (lambda: auroc([0, 1], [1.0]), "must have the same shape"),
        (lambda: word_spans("words"), "a list of strings"),
        (lambda: word_spans(["a", ""]), "none of them empty"),
        (lambda: unit_marks([[0, 1]], ["a", "b"], [[0, 1], [1]]), "same number of words"),
        (lambda: unit_marks([[0, 1]], ["a", "b"], [0, 3]), "zeros and ones"),
        (lambda: unit_marks([[0, 1]], ["a"], [1, 0]), "one entry per word"),
        (lambda: unit_marks([0, 1], ["a"], [1]), "integers"),
        (lambda: human_attention(explanation("a b", [1.0, 2.0]), ["a", "c"], [[0, 1]]), "of the annotated text"),
        (lambda: yelp_hat([{"words": ["a"]}]), "a row must have words and maps"),
        (lambda: yelp_hat([{"words": ["a"], "maps": [[1, 0]] * 3, "label": 1}]), "row 0 has 2 for 1 words"),
    ],
)
def test_wrong_arguments(call, says):
    with pytest.raises(InputError, match=says):
        call()


def test_rows_of_yelp_hat():
    rows = [
        {"words": ["so", "good"], "maps": [[0, 1], [0, 1], [1, 1]], "subset": "yelp50"},
        {"words": ["so", "bad"], "maps": [[0, 1], [0, 1]], "subset": "yelp50"},  # two annotators only
        {"words": ["so", "so"], "maps": [[0, 1], [1, 0], [1, 1]], "subset": "yelp50"},  # no consensus
        {"words": ["well"], "maps": [[1], [1], [1]], "subset": "yelp100"},
    ]
    found = yelp_hat(rows)
    assert [one.text for one in found] == ["so good", "well"]
    assert found[0].maps.shape == (3, 2)


@pytest.mark.skipif(not MAPS.is_file(), reason="the maps of Yelp-HAT are not here; set SLALOM_SHARED to the folder with data/")
def test_people_look_where_the_classifier_does():
    pytest.importorskip("transformers", reason="transformers is not installed")
    with gzip.open(MAPS, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    sizes = {
        subset: len(yelp_hat(row for row in rows if row["subset"] == subset)) for subset in ("yelp50", "yelp100", "yelp200")
    }
    assert sizes == {"yelp50": 296, "yelp100": 387, "yelp200": 161}
    some = yelp_hat(row for row in rows if row["subset"] == "yelp50")[:4]
    found = Explainer(progress=False, check=0)([one.text for one in some], queries=150)
    areas = [human_attention(e, one.words, one.maps) for e, one in zip(found, some, strict=True)]
    assert np.mean([area for area in areas if area is not None]) > 0.55
