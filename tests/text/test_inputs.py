"""What users pass: containers of texts, sets of labels, per-call options, texts that fail."""

from collections import OrderedDict, deque
from pathlib import Path

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from slalom import Explainer, Explanations
from slalom.errors import InputError, ModelError
from slalom.models import class_index, label_names
from tests.cases import cases

TWO = ["a good film", "a bad film"]


def score(texts):
    return [2.0 * ("good" in text) - 3.0 * ("bad" in text) for text in texts]


def explainer(**options):
    return Explainer(score, **{"output": "log_odds", "queries": 20, "check": 0, "method": "ridge", **options})


ACCEPTED = {
    "list": lambda: TWO,
    "tuple": lambda: tuple(TWO),
    "generator": lambda: (text for text in TWO),
    "deque": lambda: deque(TWO),
    "dictionary values": dict(enumerate(TWO)).values,
    "dictionary keys": lambda: OrderedDict.fromkeys(TWO).keys(),
    "array of objects": lambda: np.array(TWO, dtype=object),
    "array of strings": lambda: np.array(TWO),
    "Series": lambda: pd.Series(TWO, index=[7, 3]),
    "Series of strings": lambda: pd.Series(TWO, dtype="string"),
    "column of a data set": lambda: datasets.Dataset.from_dict({"text": TWO})["text"],
    "Arrow array": lambda: pa.array(TWO),
    "Arrow chunks": lambda: pa.chunked_array([TWO[:1], TWO[1:]]),
    "pandas Index": lambda: pd.Index(TWO),
}


@cases("make", ACCEPTED.values(), ids=list(ACCEPTED))
def test_containers_of_strings_are_texts(make):
    found = explainer()(make())
    assert isinstance(found, Explanations)
    assert [e.text for e in found] == TWO
    assert [e.score for e in found] == [2.0, -3.0]


FRAME = pd.DataFrame({"id": [1, 2], "review": TWO})
SET = datasets.Dataset.from_dict({"text": TWO, "label": [1, 0]})
REFUSED = {
    "DataFrame": (lambda: FRAME, r"got a DataFrame with 'id', 'review'; pass one of them: x\['review'\]"),
    "data set": (lambda: SET, r"got a Dataset with 'text', 'label'; pass one of them: x\['text'\]"),
    "data sets": (lambda: datasets.DatasetDict(train=SET), r"got a DatasetDict with 'train'"),
    "dict": (lambda: {"text": TWO}, r"got a dict with 'text'; pass one of them: x\['text'\]"),
    "Arrow table": (lambda: pa.table({"text": TWO}), r"got a Table with 'text'"),
    "bytes": (lambda: b"good", r"got bytes; decode it: text.decode\('utf-8'\)"),
    "bytearray": (lambda: bytearray(b"good"), "got bytearray; decode it"),
    "set": (lambda: set(TWO), "texts must have an order; got a set"),
    "frozenset": (lambda: frozenset(TWO), "texts must have an order; got a frozenset"),
    "path": (lambda: Path("reviews.txt"), "got the path 'reviews.txt'; read it"),
    "number": (lambda: 3, "a text must be a string, several a list of strings; got int"),
    "None": (lambda: None, "a text must be a string, several a list of strings; got NoneType"),
    "table": (lambda: np.array([TWO, TWO]), r"got a ndarray of shape \(2, 2\); pass one column"),
    "list of bytes": (lambda: [b"good"], r"a text must be a string; got bytes"),
    "list with None": (lambda: ["good", None], r"got NoneType \(a missing value\) \(text 1\)"),
    "Series with NaN": (lambda: pd.Series(["good", np.nan], dtype=object), r"got float \(a missing value\) \(text 1\)"),
    "list of lists": (lambda: [["good"]], "a text must be a string; got list"),
    "list of arrays": (lambda: [np.array(["a", "b"]), "c"], "a text must be a string; got ndarray"),
    "array of a text": (lambda: np.array("a text"), "without dimensions"),
    "rows": (lambda: [{"text": "good"}], "score answers strings, so it takes one text; got the fields 'text'"),
}


@cases(("make", "message"), REFUSED.values(), ids=list(REFUSED))
def test_what_is_no_text_is_refused_with_advice(make, message):
    with pytest.raises(InputError, match=message) as caught:
        explainer()(make())
    assert "\n" not in str(caught.value)


LABEL_SETS = {
    "words": (["neg", "pos"], {"neg": 0, "pos": 1, 0: 0, 1: 1, np.int64(1): 1}, [2, -1, "x", True, 0.5]),
    "numbers from one": ([1, 2], {1: 0, 2: 1, "1": 0, "2": 1}, [0, 3, -1, True]),
    "minus one and one": ([-1, 1], {-1: 0, 1: 1, "-1": 0}, [0, 2]),
    "zero and one": ([0, 1], {0: 0, 1: 1, "1": 1}, [2, -1]),
    "turned round": ([1, 0], {0: 1, 1: 0}, [2]),
    "truth": ([False, True], {True: 1, False: 0, "True": 1, np.int64(1): 1}, [2]),
    "array of integers": (np.array([3, 7]), {3: 0, np.int64(7): 1}, [0, 1]),
    "id2label": ({0: "neg", 1: "pos"}, {"neg": 0, "pos": 1, 1: 1}, [2]),
    "id2label of JSON": ({"1": "pos", "0": "neg"}, {"neg": 0, "pos": 1, 0: 0}, ["0 "]),
    "floats": ([0.0, 1.0], {0.0: 0, 1.0: 1, "1.0": 1}, [0.5, "1"]),
    "mixed": (["1", "many"], {"1": 0, "many": 1, 1: 0, 0: 0}, [2]),
    "Series": (pd.Series(["neg", "pos"]), {"pos": 1}, ["x"]),
}


@cases(("labels", "good", "bad"), LABEL_SETS.values(), ids=list(LABEL_SETS))
def test_a_label_is_matched_before_an_index(labels, good, bad):
    model = Explainer(
        lambda texts: [[0.0, x] for x in score(texts)], output="logits", labels=labels, queries=20, method="leave-one-out"
    )
    for target, column in good.items():
        e = model(TWO[0], target=target)
        assert e.target == e.labels[column] == label_names(labels)[column]
        assert e.score == (2.0 if column else -2.0)
        assert class_index(e.labels, target) == column
    for target in bad:
        with pytest.raises(InputError, match="is not a class of this model; choose one of"):
            model(TWO[0], target=target)


@cases(
    ("labels", "message"),
    [
        ({"neg", "pos"}, "a set has no order"),
        ("ab", "labels must be a list of names .*; got str"),
        (7, "labels must be a list of names .*; got int"),
        ({"neg": 0, "pos": 1}, "must go from the columns 0 to 1 to names; got the keys 'neg', 'pos'"),
        ({1: "neg", 2: "pos"}, "must go from the columns 0 to 1"),
        (["neg"], "labels must name the 2 classes"),
        (["a", "a"], "labels must differ"),
    ],
)
def test_labels_that_name_nothing_are_refused(labels, message):
    with pytest.raises(InputError, match=message):
        explainer(labels=labels)


def test_plain_numbers_get_no_probability():
    e = explainer(output="scores")(TWO[0])
    assert (e.prediction, e.probabilities, e.scale, e.target, e.score) == (None, None, "output", "output", 2.0)
    margin = explainer(output="scores", labels=["no", "yes"])(TWO[1])
    assert (margin.prediction, margin.scale, margin.target, margin.score) == (("no", None), "decision value", "yes", -3.0)
    wide = Explainer(lambda texts: [[1.0, x, 0.5] for x in score(texts)], output="scores", queries=20, method="ridge")
    columns = wide(TWO[0])
    assert (columns.prediction, columns.target, columns.score) == (("1", None), "1", 2.0)
    for shown in (e, margin, columns):
        assert "%" not in shown._repr_html_().split("</p>")[0]
        assert shown.plot.bar()
        assert shown.to_html()


def test_texts_that_fail_are_kept_apart():
    def fussy(texts):
        if any("crash" in text for text in texts):
            raise ConnectionError("the line is down")
        return score(texts)

    model = Explainer(fussy, output="log_odds", queries=40)
    given = [TWO[0], "", "crash now", None, TWO[1]]
    found = model(given, errors="keep")
    assert [e.text for e in found] == TWO
    assert [(one.number, one.text) for one in found.failures] == [(1, ""), (2, "crash now"), (3, "None")]
    assert "at least one token" in found.failures[0].error
    assert found.failures[1].error.endswith("ConnectionError: the line is down")
    assert repr(found).endswith("3 failed, see .failures")
    with pytest.raises(ModelError, match=r"ConnectionError: the line is down$"):
        model(["crash now"])
    with pytest.raises(InputError, match="errors must be 'raise' or 'keep'; got 'ignore'"):
        model(given, errors="ignore")
    assert [one.number for one in found.merge("sentence").failures] == [1, 2, 3]


def test_a_callable_is_asked_in_batches_of_the_size_that_it_wants():
    sizes = []

    def counting(texts):
        sizes.append(len(texts))
        return score(texts)

    Explainer(counting, output="log_odds", batch_size=5, queries=40)(" ".join(TWO * 3))
    assert max(sizes) == 5
    for wrong in (0, 2.5, True):
        with pytest.raises(InputError, match="batch_size must be a whole number of at least 1"):
            explainer(batch_size=wrong)
    with pytest.raises(InputError, match="batch_size= is for scikit-learn classifiers and callables"):
        Explainer(batch_size=5)


def test_numbers_of_texts_survive_failures(tmp_path):
    import slalom  # noqa: PLC0415

    found = explainer()(["", *TWO], errors="keep")
    assert found.numbers == (1, 2)
    assert found.to_pandas()["text"].unique().tolist() == [1, 2]
    found.save(tmp_path / "all.json")
    assert slalom.load(tmp_path / "all.json").numbers == (1, 2)
    assert found.merge("sentence").numbers == (1, 2)


def test_a_method_without_a_sign_says_so():
    from slalom.methods import WhiteBoxMethod  # noqa: PLC0415

    class Loud(WhiteBoxMethod):
        name = "loud"
        signed = False

        def attribute(self, model, reading, target, seed):
            return np.ones(len(reading.names))

    e = explainer()(" ".join(TWO * 3), method=Loud())
    assert e.remarks[0].startswith("The scores of loud have no sign")
    assert not any("worse than a constant" in remark for remark in e.remarks)
