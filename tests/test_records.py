"""Records of several fields, and what it means to remove their units: against the models themselves, called by hand."""

import copy
import json
import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from tokenizers import processors
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM, BertForMultipleChoice, TextClassificationPipeline

from slalom import Explainer, Explanation, compare
from slalom.core import Shifts, Slalom
from slalom.errors import InputError, ModelError
from slalom.models import EMBEDDED, Infill, MultipleChoice, Prompted, Similarity
from slalom.models.removal import removal_name
from slalom.text import Record
from tests.cases import cases
from tests.models.tiny import classifier
from tests.models.tiny import tokenizer as tokenizer_of
from tests.models.tiny_lm import language_model, tokenizer

PAIR = ("A man sleeps .", "Nobody is awake .")
FIELDS = {"title": "A good film", "body": "It is good , and long", "stars": 4}


def pairs(rows):
    return [2.0 * ("sleeps" in a and "awake" in b) - ("Nobody" in b) + 0.1 * len(a) for a, b in rows]


def film(row):
    return 2.0 * ("good" in row["title"]) + 1.0 * ("good" in row["body"]) + 0.5 * row["stars"]


def films(rows):
    return [film(row) for row in rows]


def asked(explainer, e, seed=0):
    """Return some rows, and the model's scores of them."""
    keep = np.random.default_rng(seed).random((20, len(e))) < 0.6
    return keep, explainer.ask(e, keep)


# --- functions


def test_a_pair_is_asked_as_tuples_without_the_units_that_are_removed():
    explainer = Explainer(pairs, output="scores", queries=40)
    e = explainer(PAIR)
    assert e.units == (*PAIR[0].split(), *PAIR[1].split())
    keep, scores = asked(explainer, e)
    words = np.array(e.units, dtype=object)
    expected = pairs([(" ".join(words[:4][row[:4]]), " ".join(words[4:][row[4:]])) for row in keep])
    assert scores == pytest.approx(expected)
    assert [e.text[a:b] for a, b in e.spans] == list(e.units)


def test_the_same_word_in_two_fields_is_two_words():
    explainer = Explainer(films, output="scores", background={"stars": 2}, queries=60)
    e = explainer(FIELDS)
    first, second = (i for i, unit in enumerate(e.units) if unit == "good")
    assert e.removal[[first, second]] == pytest.approx([2.0, 1.0], abs=0.05)
    assert e.removal[-1] == pytest.approx(0.5 * (4 - 2), abs=0.05), "the stars become those of the background"


def test_fields_have_the_scores_of_the_model_without_them_and_shapley_values_that_add_up():
    explainer = Explainer(films, output="scores", background=[{"stars": 1}, {"stars": 3}], queries=60)
    e = explainer(FIELDS)
    assert [field.name for field in e.fields] == list(FIELDS)
    assert [len(field.units) for field in e.fields] == [3, 6, 1]
    without = [film({**FIELDS, "title": ""}), film({**FIELDS, "body": ""}), film({**FIELDS, "stars": 2})]  # the mean of 1 and 3
    assert [field.removal for field in e.fields] == pytest.approx([film(FIELDS) - score for score in without])
    assert sum(field.shapley for field in e.fields) == pytest.approx(e.predict(np.ones(len(e))) - e.base)
    assert "field 'stars': removal +1.000 (asked)" in repr(e)
    assert list(e.to_pandas()["field"]) == ["title"] * 3 + ["body"] * 6 + ["stars"]


def test_the_mean_over_the_background_is_that_of_the_scores():
    explainer = Explainer(lambda rows: [row["x"] ** 2 + len(row["t"]) for row in rows], output="scores",
                          background=pd.DataFrame({"x": [1.0, 2.0, 3.0], "other": 0}), queries=20)  # fmt: skip
    e = explainer({"t": "one two", "x": 5})
    assert explainer.ask(e, [1, 1, 0]) == pytest.approx((1 + 4 + 9) / 3 + 7)


def test_records_are_saved_and_asked_again():
    explainer = Explainer(films, output="scores", background={"stars": 2}, queries=40)
    e = explainer(FIELDS)
    again = Explanation.from_dict(json.loads(json.dumps(e.to_dict())))
    assert (again.text, again.record.fields, again.record.form) == (e.text, e.record.fields, "dict")
    assert [field.removal for field in again.fields] == [field.removal for field in e.fields]
    assert np.array_equal(explainer.ask(again, np.eye(len(e))), explainer.ask(e, np.eye(len(e))))
    assert again.merge("sentence").units == ("A good film", "It is good , and long", "4")


def test_the_units_of_a_record_can_be_counted():
    explainer = Explainer(films, output="scores", background={"stars": 2})
    assert explainer.tokens(FIELDS) == ["A", "good", "film", "It", "is", "good", ",", "and", "long", "4"]
    assert Explainer(pairs, output="scores").tokens(PAIR) == [*PAIR[0].split(), *PAIR[1].split()]


def test_tables_are_given_as_tables():
    def scores(frame):
        assert isinstance(frame, pd.DataFrame)
        return frame["stars"].fillna(0.0).to_numpy() + frame["title"].str.len().to_numpy()

    frame = pd.DataFrame({"title": ["one two", "three"], "stars": [4, 2], "unused": ["", None]})
    explainer = Explainer(scores, output="scores", queries=20)
    found = explainer(frame, columns=["title", "stars"])
    assert [e.score for e in found] == [11.0, 7.0]
    assert explainer.ask(found[0], [1, 1, 0]) == pytest.approx(7.0), "stars that are removed are missing"
    texts = Explainer(lambda texts: [len(text) for text in texts], output="scores", queries=20)(frame, columns="title")
    assert [e.score for e in texts] == [7.0, 5.0]


def test_methods_are_compared_on_records():
    compared = compare(pairs, [PAIR, ("one sleeps", "two is awake")], methods=["joint", "ridge"], output="log_odds",
                       queries=30, progress=False)  # fmt: skip
    assert compared.rows == [("joint", 30), ("ridge", 30)]


@cases(
    ("example", "message"),
    [
        (("a", "b", "c"), "pairs failed on . records: ValueError: too many values to unpack .expected 2.$"),
        ({"title": "a", "body": " "}, "the field 'body' must not be empty; give it a text"),
        ({"title": "a", "body": [1]}, "the field 'body' must be a string or a number; got list"),
        ("a text", "pairs failed on 1 strings: ValueError: not enough values to unpack"),
        ([PAIR, ("a", "")], r"the field 'text 2' must not be empty; .* \(text 1\)"),
        ({"a\nb": "x", "c": "y"}, "the name of a field must be a line of text"),
        ({0: "x", 1: "y"}, "the name of a field must be a line of text; got 0"),
    ],
)
def test_a_wrong_record_is_named_in_one_line(example, message):
    with pytest.raises((InputError, ModelError), match=message) as refused:
        Explainer(pairs, output="scores", queries=20)(example)
    assert "\n" not in str(refused.value)


def test_a_number_that_is_missing_asks_for_a_background():
    with pytest.raises(
        ModelError, match=r"films answered with \[nan\] .*; where removed numbers are missing .*give background="
    ):
        Explainer(films, output="scores", queries=20)(FIELDS)


def test_a_model_of_one_text_refuses_records():
    for model, options in ((None, {}), (lambda texts: [len(text) for text in texts], {"output": "scores"})):
        explainer = Explainer(model, **options, queries=20)
        with pytest.raises(InputError, match="takes one text; got the fields 'title', 'body', 'stars': give"):
            explainer(FIELDS)
        assert len(explainer(("one two", "three four"), check=0)) == 2, "a tuple of texts is two texts"


@cases(
    ("background", "message"),
    [
        ([], "background must be a data frame or a list of dictionaries, with a row at least; got list"),
        ("stars", "background must be a data frame or a list of dictionaries, with a row at least; got str"),
        ([{"stars": 1}, {"star": 1}], "the rows of background must have the same fields"),
        ({"stars": [1, 2]}, "the field 'stars' must be a string or a number; got list"),
    ],
)
def test_a_wrong_background_is_named_in_one_line(background, message):
    with pytest.raises(InputError, match=message):
        Explainer(films, output="scores", background=background)


@cases(
    ("background", "message"),
    [
        ({"star": 1}, "background lacks the field 'stars'; did you mean 'star'.; it has 'star'"),
        ({"age": 1}, "background lacks the field 'title'; it has 'age'"),
    ],
)
def test_a_background_of_other_fields_is_refused(background, message):
    example = FIELDS if "star" in background else {"title": "good", "body": "bad"}
    with pytest.raises(InputError, match=message):
        Explainer(films, output="scores", background=background, queries=20)(example)


@cases(
    ("columns", "message"),
    [
        (["title", "title"], r"columns= names different fields of a data frame; got \['title', 'title'\]"),
        (5, "the table must have one column 5; got 'title'"),
        (["title", "n"], "the table must have one column 'n'; got 'title', 'stars', 'n', 'n'"),
        (["title", "star"], "the table must have one column 'star'; did you mean 'stars'"),
    ],
)
def test_wrong_columns_are_named_in_one_line(columns, message):
    frame = pd.DataFrame([["good", 3, 1, 2]], columns=["title", "stars", "n", "n"])
    with pytest.raises(InputError, match=message):
        Explainer(films, output="scores", queries=20)(frame, columns=columns)


def test_numbers_of_numpy_make_a_record():
    e = Explainer(lambda rows: [2.0 * row["n"] for row in rows], output="scores", background={"n": 1}, queries=20)(
        {"n": np.int64(3)}
    )
    assert (e.units, float(e.removal[0])) == (("3",), pytest.approx(4.0))


# --- scikit-learn


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "title": rng.choice(["good film", "bad film", "a dull thing", "nice day"], 200),
        "body": rng.choice(["I like it", "no way at all"], 200),
        "stars": rng.integers(1, 6, 200),
        "genre": rng.choice(["horror", "drama"], 200),
        "unused": 0,
    })  # fmt: skip
    labels = ((frame["stars"] > 2) ^ frame["title"].str.contains("bad")).astype(int)
    columns = ColumnTransformer([
        ("title", CountVectorizer(), "title"), ("body", CountVectorizer(), "body"),
        ("number", StandardScaler(), ["stars"]), ("genre", OneHotEncoder(), ["genre"]),
    ])  # fmt: skip
    return make_pipeline(columns, LogisticRegression()).fit(frame, labels), frame


def test_a_pipeline_of_columns_is_asked_with_values_of_the_background(table):
    pipeline, frame = table
    background = frame.iloc[[3, 7]]
    explainer = Explainer(pipeline, background=background, queries=60)
    columns = ["title", "body", "stars", "genre"]
    e = explainer(frame.iloc[:1], columns=columns)[0]
    assert e.units == (*frame["title"][0].split(), *frame["body"][0].split(), str(frame["stars"][0]), frame["genre"][0])
    assert e.score == pytest.approx(float(pipeline.decision_function(frame.iloc[:1])[0]))
    keep = np.ones((2, len(e)), dtype=bool)
    keep[0, -2], keep[1, [0, -1]] = False, False
    rows = [pd.concat([frame.iloc[:1]] * 2, ignore_index=True) for _ in keep]
    rows[0]["stars"] = background["stars"].to_numpy()
    rows[1]["genre"], rows[1]["title"] = background["genre"].to_numpy(), " ".join(e.units[1 : len(frame["title"][0].split())])
    assert explainer.ask(e, keep) == pytest.approx([pipeline.decision_function(one).mean() for one in rows])
    assert e.label == str(pipeline.predict(frame.iloc[:1])[0])


@cases(
    ("example", "message"),
    [
        (
            {"title": "a", "body": "b", "stars": 1},
            "the field 'genre' is missing: Pipeline reads 'title', 'body', 'stars', 'genre'",
        ),
        (
            {"title": "a", "body": "b", "stars": 1, "genre": "x", "gender": 1},
            "does not know the field 'gender'; did you mean 'genre'",
        ),
        ({"title": 3, "body": "b", "stars": 1, "genre": "x"}, "the field 'title' of Pipeline must be a text; got 3"),
        ("a text", "Pipeline reads the fields 'title', 'body', 'stars', 'genre'; got a text: give a dictionary"),
    ],
)
def test_fields_that_the_pipeline_does_not_read_are_named(table, example, message):
    with pytest.raises(InputError, match=message):
        Explainer(table[0], background=table[1].iloc[:3])(example)


def test_a_pipeline_that_takes_no_missing_values_needs_a_background(table):
    with pytest.raises(ModelError, match=r"Pipeline does not take missing values .*; give background=, a few rows of its data"):
        Explainer(table[0])
    with pytest.raises(InputError, match="background lacks the column 'genre' of Pipeline; it has title, stars"):
        Explainer(table[0], background=table[1][["title", "stars"]])
    strings = make_pipeline(CountVectorizer(), LogisticRegression()).fit(["good", "bad"], [1, 0])
    with pytest.raises(InputError, match="background= is for a pipeline with a ColumnTransformer"):
        Explainer(strings, background=table[1])


# --- transformers


@pytest.fixture(scope="module")
def pair_classifier():
    """A classifier of pairs: [CLS] a [SEP] b [SEP], with types 0 and 1."""
    network, words = classifier("bert")
    special = [(name, words.convert_tokens_to_ids(name)) for name in ("[CLS]", "[SEP]")]
    words.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=special
    )
    words.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    return network.eval(), words


def logits(network, words, first, second):
    with torch.no_grad():
        return network(**words(first, second, return_tensors="pt")).logits[0].double().numpy()


def test_a_pair_is_read_as_the_tokenizer_joins_it(pair_classifier):
    network, words = pair_classifier
    explainer = Explainer(network, words, queries=40, unit="word", target=0)
    e = explainer(("a good film", "the plot was thin"))
    assert e.units == ("a", "good", "film", "the", "plot", "was", "thin")
    for kept in ([0, 1, 2, 3, 4, 5, 6], [1, 2, 3, 6], [0, 4]):
        keep = np.isin(np.arange(7), kept)
        first, second = (" ".join(np.array(e.units)[part][keep[part]]) for part in (slice(3), slice(3, 7)))
        z = logits(network, words, first, second)
        assert explainer.ask(e, keep) == pytest.approx(z[0] - np.logaddexp.reduce(np.delete(z, 0)), abs=1e-5)


def test_the_longer_text_of_a_pair_is_cut_and_named(pair_classifier):
    network, words = pair_classifier
    limit, words.model_max_length = words.model_max_length, 16
    try:
        explainer = Explainer(network, words, queries=20, check=0)
        with pytest.warns(UserWarning, match="tokens of text 1 do not fit into .* and were cut"):
            e = explainer(("a good film with a bad end and a very good cast", "the plot was thin"))
        assert e.cut > 0
        assert "".join(e.units[-4:]) == "theplotwasthin"[-len("".join(e.units[-4:])) :]
        expected = words("a good film with a bad end and a very good cast", "the plot was thin", truncation="longest_first")
        reading, _ = explainer._read(e)
        assert reading.table[0].tolist() == expected["input_ids"]
        with pytest.raises(InputError, match="windows are for one text; the fields have"):
            explainer(("a good film with a bad end and a very good cast", "the plot was thin"), long="window")
    finally:
        words.model_max_length = limit


def test_wrong_pairs_are_refused(pair_classifier):
    explainer = Explainer(*pair_classifier, queries=20)
    with pytest.raises(InputError, match="takes one text or two; got 3 fields, 'text 1', 'text 2', 'text 3'"):
        explainer(("a", "b", "c"))
    with pytest.raises(InputError, match=r"the field 'text 2' of .* must be a text; got 3"):
        explainer(("a", 3))


@cases("method", ["attnlrp", "gradient", "attention", "lime", "ridge"])
def test_methods_of_others_explain_pairs(pair_classifier, method):
    e = Explainer(*pair_classifier, method=method, queries=60)(("a good film", "the plot was thin"))
    assert np.isfinite(e.removal).all()
    assert len(e.fields) == 2


def test_a_prompt_has_a_place_for_each_field():
    words = tokenizer("gpt2")
    model = Prompted(language_model("gpt2", len(words)), words, "Title: {title}\nText: {body}\nTopic:", ["good", "bad"])
    e = Explainer(model, queries=30, unit="word")({"body": "the plot was thin", "title": "a good film"})
    assert e.units == ("the", "plot", "was", "thin", "a", "good", "film")
    reading, units = Explainer(model, queries=30, unit="word")._read(e)
    keep = np.array([1, 0, 1, 1, 0, 1, 1], dtype=bool)
    (group,) = reading.groups(units.atoms(keep[None]))
    prompt = words.decode(group.build()[0][0, 0])
    assert " ".join(prompt.split()) == "Title: good film Text: the was thin Topic:"
    with pytest.raises(InputError, match="the template has the places title, body; got a text"):
        Explainer(model)("a text")


# --- models that are no classifiers


def test_similarity_is_the_cosine_of_the_vectors_and_asks_each_text_once():
    calls = []

    def encode(texts):
        calls.extend(texts)
        return np.array([[text.count("good"), text.count("film"), 0.1] for text in texts])

    explainer = Explainer(Similarity(encode), output="scores", queries=30)
    e = explainer(("a good film", "one film"))
    vectors = encode(["a good film", "one film"])
    assert e.score == pytest.approx(vectors[0] @ vectors[1] / np.prod(np.linalg.norm(vectors, axis=1)))
    assert len(set(calls)) < 1.5 * 2**3, "the parts of each text, not those of the pair"
    assert Similarity(lambda texts: np.zeros((len(texts), 2)))([("a", "b")]) == [0.0]


def test_multiple_choice_gives_the_logits_of_the_model():
    words = tokenizer_of("bert")
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(words), hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=48)
    network = BertForMultipleChoice(config).eval()
    example = {"question": "a good film", "one": "the plot was thin", "two": "bad end", "three": "naive viewers"}
    explainer = Explainer(MultipleChoice(network, words, 3), output="logits", labels=["A", "B", "C"], target="all", queries=40)
    e = explainer(example)
    inputs = words(["a good film"] * 3, list(example.values())[1:], padding=True, return_tensors="pt")
    with torch.no_grad():
        z = network(**{name: part[None] for name, part in inputs.items()}).logits[0].numpy()
    assert e.score == pytest.approx(z - z.mean(), abs=1e-5)
    assert [field.name for field in e.fields] == list(example)
    with pytest.raises(ModelError, match="an example must have a question and 3 choices"):
        explainer(("a", "b", "c"))
    short = copy.deepcopy(words)
    short.model_max_length = 10
    with pytest.raises(InputError, match=r"a question and a choice have \d+ tokens; 10 fit: shorten them"):
        MultipleChoice(network, short, 3)([("a good film " * 9, "a", "b", "c")])


def test_gaps_are_filled_by_a_masked_language_model():
    words = copy.deepcopy(tokenizer_of("bert"))
    words.mask_token = "[MASK]"
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(words), hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=48)
    infill = Infill(BertForMaskedLM(config), words, samples=3)
    texts = infill(["a good ", None, "with a bad end"])
    assert len(texts) == 3
    assert all(text.startswith("a good ") and text.endswith(" with a bad end") for text in texts)
    assert texts == infill(["a good ", None, "with a bad end"]), "the same parts are filled alike"
    e = Explainer(removal=infill, queries=12, check=0, method="ridge")("a good film with a bad end")
    assert np.isfinite(e.removal).all()
    other = Infill(infill.model, words, samples=3, seed=1)
    assert removal_name(infill) == removal_name(Infill(infill.model, words, samples=3)) != removal_name(other)
    assert e.settings["removal"] == removal_name(infill)
    with pytest.raises(InputError, match="its tokenizer has no mask token"):
        Infill(None, tokenizer_of("gpt2"))


# --- removal


@cases(
    ("removal", "expected"),
    [
        ("drop", "a film , and long"),
        ("mask", "a _ film , _ and long"),
        ("blank", "a      film ,     and long"),
        (lambda parts: "".join("X " if part is None else part for part in parts), "a X film , X and long"),
    ],
)
def test_strings_are_removed_as_said(removal, expected):
    seen = []

    def model(texts):
        seen.extend(texts)
        return [float(len(text)) for text in texts]

    explainer = Explainer(model, output="scores", removal=removal, queries=20)
    e = explainer("a good film , not and long")
    explainer.ask(e, [1, 0, 1, 1, 0, 1, 1])
    assert seen[-1].replace("     film", "      film" if removal == "blank" else "     film").split() == expected.split()
    assert e.settings.get("removal", "drop") == (removal if isinstance(removal, str) else e.settings["removal"])


def test_several_fillings_have_the_mean_score():
    explainer = Explainer(
        lambda texts: [float(len(text)) for text in texts], output="scores", queries=20,
        removal=lambda parts: ["".join(fill if part is None else part for part in parts) for fill in ("", "1234 ")],
    )  # fmt: skip
    e = explainer("one two three")
    assert explainer.ask(e, [1, 0, 1]) == pytest.approx(((13 - 4) + (13 - 4 + 5)) / 2)


def test_masked_tokens_stay_in_their_places():
    explainer = Explainer(removal="mask", queries=100)
    e = explainer("It is not a good film , but a long one .")
    reading, units = explainer._read(e)
    (group,) = reading.groups(units.atoms(np.eye(len(e), dtype=bool)[2:3]))
    ids = group.build()[0][0, 0]
    unknown = AutoTokenizer.from_pretrained(EMBEDDED).unk_token_id  # it has no mask
    assert (ids == unknown).sum() == len(e) - 1
    assert not any(isinstance(part, Shifts) for part in e.surrogate.parts), "nothing shifts"
    assert e.place_effects is None
    assert isinstance(e.surrogate, Slalom)
    assert Explainer(queries=100)(e.text).settings != e.settings


def test_a_function_of_tokens_is_read_anew():
    explainer = Explainer(removal=lambda parts: "".join("something " if part is None else part for part in parts), queries=60)
    e = explainer("It is not a good film")
    dropped = Explainer(queries=60)
    again = dropped("It is something a good film", check=0)
    assert explainer.ask(e, [1, 1, 0, 1, 1, 1]) == pytest.approx(again.score, abs=1e-5)


@cases(
    ("removal", "message"),
    [
        ("masked", "removal must be one of 'drop', 'mask', 'blank'; got 'masked'"),
        (lambda parts: 1 / 0, "removal=.*<lambda> failed on . parts: ZeroDivisionError"),
        (lambda parts: [], "removal=.*<lambda> must return a text or several; got"),
    ],
)
def test_a_wrong_removal_is_named_in_one_line(removal, message):
    with pytest.raises((InputError, ModelError), match=message):
        Explainer(removal=removal, queries=30)("one two three")


def test_records_survive_copies_and_pickles():
    record = Record({"title": "x", "stars": float("nan")})
    for other in (copy.deepcopy(record), pickle.loads(pickle.dumps(record))):
        assert (other, other.names, other.form) == (record, record.names, record.form)


# --- what a review found


def test_a_prompt_that_is_cut_keeps_the_tokens_of_each_field():
    words = tokenizer("gpt2")
    model = Prompted(language_model("gpt2", len(words)), words, "{body} Title: {title}:", ["good", "bad"], max_length=24)
    record = Record({"title": "a good film with a cast", "body": "the plot was thin and the acting was bad and long"})
    reading = model.read(record, "cut", None)
    assert reading.cut > 0
    for name, token in zip(reading.names, reading.planes[0], strict=True):
        assert words.decode([token]).strip() == name
    for unit in range(len(reading.names)):
        keep = np.arange(len(reading.names))[None] != unit
        ids = reading.groups(keep)[0].build()[0][0, 0]
        assert np.array_equal(ids, np.delete(reading.table[0], reading.places[unit]))


def test_rows_keep_their_types_beside_rows_that_lack_values():
    def scores(frame):
        return [text.count("good") + 10.0 * (str(kind) == "2") for text, kind in zip(frame["t"], frame["k"], strict=True)]

    frame = pd.DataFrame({"t": ["a good film"], "k": [2]})
    explainer = Explainer(scores, output="scores", queries=20)
    (e,) = explainer(frame, columns=["t", "k"])
    assert (e.score, e.fields[1].removal) == (11.0, 10.0)


def test_pairs_in_padded_batches_have_the_scores_of_single_ones(pair_classifier):
    network, words = pair_classifier
    batched = Explainer(network, words, queries=40)
    batched.model.may_be_padded()
    batched.model.__dict__["batch_overhead"] = 4096
    e = batched(("a good film with a bad end", "the plot was thin"))
    keep, scores = asked(batched, e)
    assert scores == pytest.approx(Explainer(network, words, queries=40).ask(e, keep), abs=1e-4)


def test_texts_that_do_not_fit_are_not_filled(pair_classifier):
    network, words = pair_classifier
    long = " ".join(["a good film with a bad end"] * 12)
    for how in ("cut", "window"):
        with pytest.raises(InputError, match="a function that fills gaps needs a text that fits into"):
            Explainer(network, words, removal=lambda parts: "x", long=how, queries=20)(long)


def test_what_is_asked_is_estimated_and_limited():
    one = " ".join(f"word{i}" for i in range(100))
    options = {"output": "scores", "prices": {"input": 1.0}, "queries": 40}
    pair = Explainer(lambda rows: [float(len(a) - len(b)) for a, b in rows], **options).estimate((one, one))
    text = Explainer(lambda texts: [float(len(text)) for text in texts], **options).estimate(f"{one} {one}")
    assert pair.tokens == pytest.approx(text.tokens, rel=0.2)
    explainer = Explainer(lambda rows: [row["n"] + len(row["t"]) for row in rows], output="scores", queries=50,
                          background=[{"n": i} for i in range(8)], max_queries=120)  # fmt: skip
    with pytest.raises(InputError, match=r"this text needs .* queries with those that test the explanation"):
        explainer({"t": "a good film about a man and his dog in the rain", "n": 3})
    asked_fields = Explainer(lambda rows: [float(len(row["f0"])) for row in rows], output="scores", queries=20, check=0)
    assert asked_fields({f"f{i}": "x" for i in range(30)}).queries <= 21


def test_another_background_is_another_setting():
    some, other = (Explainer(films, output="scores", background={"stars": n}, queries=20) for n in (1, 2))
    e = some(FIELDS)
    assert some.pipeline.matches(e, some.options)
    assert not other.pipeline.matches(e, other.options)


def test_missing_and_infinite_values_are_saved_as_they_are():
    explainer = Explainer(lambda rows: [5.0 if row["n"] is None else 1.0 for row in rows], output="scores", queries=10)
    e = explainer({"t": "a good film", "n": None, "i": float("inf"), "x": float("nan")})
    saved = json.dumps(e.to_dict(), allow_nan=False)
    assert explainer.ask(Explanation.from_dict(json.loads(saved)), np.ones(len(e))) == 5.0


def test_estimating_asks_nothing():
    calls = []
    explainer = Explainer(lambda rows: [calls.append(row) or float(len(row[0])) - len(row[1]) for row in rows],
                          output="scores", removal="mask")  # fmt: skip
    before = len(calls)
    explainer.estimate(PAIR)
    assert len(calls) == before


def test_an_example_that_is_no_record_fails_alone():
    explainer = Explainer(films, output="scores", background={"stars": 1}, queries=20)
    found = explainer([FIELDS, {"title": pd.Timestamp("2020"), "body": "x"}, {**FIELDS, "body": ""}], errors="keep")
    assert [failure.number for failure in found.failures] == [1, 2]
    for wrong in ({"title": "a", 1: 2}, {"title": "a", "body": np.datetime64("2020-01-01T00:00:00.000000000")}):
        with pytest.raises(InputError, match=r"the name of a field must be|must be a string or a number"):
            explainer(wrong)
    assert explainer.tokens(FIELDS)[:2] == ["A", "good"]


def test_columns_are_found_inside_of_a_search(table):
    pipeline, frame = table
    labels = (frame["stars"] > 2).astype(int)
    search = GridSearchCV(pipeline, {"logisticregression__C": [0.1, 1.0]}, cv=2).fit(frame, labels)
    e = Explainer(search, background=frame.iloc[:3], queries=30)(frame.iloc[:1], columns=["title", "body", "stars", "genre"])[0]
    assert e.score == pytest.approx(float(search.decision_function(frame.iloc[:1])[0]))


# --- all adapters, all kinds of input


@pytest.fixture(scope="module")
def explainers(pair_classifier, table, tmp_path_factory):
    network, words = pair_classifier
    folder = tmp_path_factory.mktemp("saved")
    network.save_pretrained(folder)
    words.save_pretrained(folder)
    few = {"queries": 12, "check": 0, "method": "ridge"}
    prompted, gpt = language_model("gpt2", len(tokenizer("gpt2"))), tokenizer("gpt2")
    strings = make_pipeline(CountVectorizer(), LogisticRegression()).fit(["good film", "bad film"], [1, 0])
    return {
        "bundled": Explainer(**few),
        "saved": Explainer(str(folder), **few),
        "pipeline": Explainer(TextClassificationPipeline(model=network, tokenizer=words), **few),
        "torch": Explainer(network, words, **few),
        "scikit-learn": Explainer(strings, **few),
        "columns": Explainer(table[0], background=table[1].iloc[:2], **few),
        "function": Explainer(lambda texts: [float(len(text)) for text in texts], output="scores", **few),
        "function of pairs": Explainer(pairs, output="scores", **few),
        "function of records": Explainer(films, output="scores", background={"stars": 2}, **few),
        "prompt": Explainer(Prompted(prompted, gpt, "{text}:", ["good", "bad"]), **few),
        "prompt of fields": Explainer(Prompted(prompted, gpt, "{title} {body}:", ["good", "bad"]), **few),
    }


INPUTS = {
    "text": "a good film",
    "pair": ("a good film", "one film"),
    "texts": {"title": "a good film", "body": "one film"},
    "fields": FIELDS,
    "columns": {**FIELDS, "genre": "drama"},
}
TAKEN = {
    "bundled": {"text"}, "saved": {"text", "pair", "texts"}, "pipeline": {"text", "pair", "texts"},
    "torch": {"text", "pair", "texts"}, "scikit-learn": {"text"}, "columns": {"columns"}, "function": {"text"},
    "function of pairs": {"pair"}, "function of records": {"fields", "columns"}, "prompt": {"text"},
    "prompt of fields": {"pair", "texts"},
}  # fmt: skip


def test_every_adapter_explains_an_input_or_says_in_one_line_what_it_takes(explainers):
    assert explainers.keys() == TAKEN.keys()
    for name, explainer in explainers.items():
        for kind, example in INPUTS.items():
            if kind in TAKEN[name] or (kind == "pair" and not explainer.model.reads_records):  # two texts
                e = explainer([example])[0] if kind != "pair" or explainer.model.reads_records else explainer(example)[0]
                assert explainer.ask(e, np.ones(len(e))) == pytest.approx(e.score, abs=1e-5), (name, kind)
                assert Explanation.from_dict(e.to_dict()).units == e.units
                assert len(e.fields) == (0 if isinstance(e.text, Record) is False else len(e.record.fields)), (name, kind)
            else:
                with pytest.raises((InputError, ModelError)) as refused:
                    explainer([example])
                assert "\n" not in str(refused.value), (name, kind)
                assert kind == "text" or "field" in str(refused.value) or "records" in str(refused.value), (name, kind, refused)
