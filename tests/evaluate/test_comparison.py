"""Methods side by side: the records are what the metrics say, an interruption loses nothing, and the summaries are right."""

import csv
import io
import json

import numpy as np
import pytest

from slalom import Explainer, compare
from slalom.errors import CostLimit, InputError, ModelError
from slalom.evaluate import MEASURES, comparison_estimate, fidelity, perturbation, summarize
from slalom.methods import BlackBoxMethod, SurrogateMethod, method
from tests.cases import cases
from tests.factories import short_sighted
from tests.oracle import Oracle

TEXTS = [
    "a good film with a bad end but the plot was thin",
    "not a good story and the film had a bad cast",
    "the cast was very good and the end was not bad",
]
VALUES = {"good": 3.0, "bad": -5.0, "film": 2.0, "not": -1.0, "thin": -2.0}


def model():
    return Oracle(VALUES, {"bad": 1.0, "not": 0.7}, bias=0.1)


def compared(texts=TEXTS, methods=("joint", "local", "ridge", "leave-one-out", "random"), queries=(100,), **options):
    return compare(model(), texts, output="log_odds", methods=methods, queries=queries, progress=False, **options)


@pytest.fixture(scope="module")
def five():
    return compared()


def test_records_are_what_the_metrics_say(five):
    assert five.rows == [("joint", 100), ("local", 100), ("ridge", 100), ("leave-one-out", None), ("random", None)]
    explainer = Explainer(model(), output="log_odds", unit="token")
    es = explainer(TEXTS, method=method("ridge"), queries=100, check=0)
    strict, order = fidelity(es, explainer), perturbation(es, explainer)
    assert np.allclose(five.values(("ridge", 100), "near"), [one.near for one in strict])
    assert np.allclose(five.values(("ridge", 100), "far"), [one.far for one in strict])
    assert np.allclose(five.values(("ridge", 100), "deletion"), [one.deletion for one in order])
    assert five.values(("leave-one-out", None), "queries") == [len(text.split()) + 1 for text in TEXTS]
    assert five.summary(("ridge", 100), "near") == summarize(five.values(("ridge", 100), "near"))
    assert list(five.profile(("ridge", 100))) == list(strict[0].profile)
    assert five.measures == ("near", "far", "deletion", "insertion", "queries", "tokens", "seconds")
    assert {record["tokens"] for record in five.records} == {None}  # a callable takes strings: nobody knows their tokens


def test_every_budget_is_a_row_with_its_own_cost():
    table = compared(TEXTS[:1], methods=("ridge", "leave-one-out"), queries=[40, 50, "auto"])
    assert table.rows == [("ridge", 40), ("ridge", 50), ("ridge", "auto"), ("leave-one-out", None)]
    e = Explainer(model(), output="log_odds", unit="token")(TEXTS[0], method="ridge", queries="auto")
    assert table.values(("ridge", "auto"), "queries") == [e.queries]
    (line,) = table.plot.against_queries("near").axes[0].findobj(lambda artist: artist.get_gid() == "curve ridge")
    assert line.get_xdata() == pytest.approx([40, 50, e.queries])


def test_queries_that_judge_are_asked_once_and_those_of_a_method_anew():
    one, two = model(), model()
    options = {"output": "log_odds", "measures": ["near"], "progress": False, "identity": "oracle", "queries": (100,)}
    compare(one, TEXTS[:1], methods=("ridge",), **options)
    twin = SurrogateMethod("ridge again", method("ridge").sampler, method("ridge").fitter)
    compare(two, TEXTS[:1], methods=("ridge", twin), **options)
    alone = Explainer(model(), output="log_odds")(TEXTS[0], method=method("ridge"), queries=100, check=0).queries
    warm_up = Explainer(model(), output="log_odds")(TEXTS[0], method=method("ridge"), queries=20, check=0).queries
    assert alone <= len(two.received) - len(one.received) <= alone + warm_up


def test_the_model_that_averages_is_predicted_best_by_a_softmax(five):
    assert five.best("far") == ("joint", 100)
    assert five.summary(("joint", 100), "far").mean < 0.05 < five.summary(("ridge", 100), "far").mean
    against = five.against(("joint", 100), "far")
    assert all(one.difference < 0 for one, _ in against.values())
    assert all(0 <= p <= 1 for _, p in against.values())
    assert five.best("deletion") is not None


def test_an_interrupted_comparison_goes_on(tmp_path, monkeypatch):
    out = tmp_path / "c.jsonl"
    cheap = {"methods": ("ridge", "leave-one-out", "random"), "measures": ("near",)}
    whole = compared(**cheap)
    calls = []
    explain = Explainer.__call__

    def counted(self, texts, **options):
        calls.append(options["method"].name)
        if len(calls) == 5:  # three calls to warm up, then one method
            raise KeyboardInterrupt
        return explain(self, texts, **options)

    monkeypatch.setattr(Explainer, "__call__", counted)
    with pytest.raises(KeyboardInterrupt):
        compared(out=out, **cheap)
    with out.open("a") as file:
        file.write('{"text": 2, "meth')  # a line that was cut off
    calls.clear()
    found = compared(out=out, **cheap)
    assert "ridge" not in calls
    for row in whole.rows:
        assert found.values(row, "near") == whole.values(row, "near")
        assert found.values(row, "queries") == whole.values(row, "queries")
    calls.clear()
    compared(out=out, **cheap)
    assert not calls
    with pytest.raises(InputError, match=r"another comparison \(seed differ\)"):
        compared(out=out, seed=3, **cheap)
    (tmp_path / "notes.jsonl").write_text("precious")
    with pytest.raises(InputError, match="holds something else"):
        compared(out=tmp_path / "notes.jsonl")
    assert (tmp_path / "notes.jsonl").read_text() == "precious"


class Failing(BlackBoxMethod):
    name = "failing"

    def attribute(self, context):
        raise ZeroDivisionError("nothing to\ndivide by")


def test_a_method_that_cannot_be_used_is_left_out_and_said():
    found = compared(TEXTS[:1], methods=("ridge", "attnlrp", Failing()))
    assert found.rows == [("ridge", 100)]
    assert "ZeroDivisionError: nothing to divide by" in found.skipped["failing"]
    assert "looks inside a torch model" in found.skipped["attnlrp"]
    with pytest.raises(InputError, match="no method could be used: attention"):
        compared(methods=("attention",))


def test_what_needs_a_corpus_or_people_is_there_when_they_are():
    corpus = ["good good film", "good cast", "bad film", "bad bad end"], [1, 1, 0, 0]
    human = [(text.split(), [[int(word in VALUES) for word in text.split()]] * 3) for text in TEXTS]
    found = compared(methods=("joint",), corpus=corpus, human=human, measures=("naive_bayes", "human"))
    assert found.measures == ("naive_bayes", "human", "queries", "tokens", "seconds")
    assert ("naive-bayes", None) in found.rows
    assert found.summary(("joint", 100), "human").mean > 0.9
    assert np.allclose(found.values(("naive-bayes", None), "naive_bayes"), 1.0)
    assert found.values(("joint", 100), "near") == [None] * 3
    for measure, said in (("human", "marked"), ("naive_bayes", "a corpus"), ("magic", "must be one of near, far")):
        with pytest.raises(InputError, match=said):
            compared(measures=(measure,))
    assert compared(methods=("random",), human=(pair for pair in human)).measures[4] == "human"
    with pytest.raises(InputError, match="words joined by blanks"):
        compared(human=human[:1])


def test_texts_that_are_cut_are_counted_once(tmp_path):
    pytest.importorskip("transformers", reason="transformers is not installed")
    folder = short_sighted(tmp_path / "m")
    with pytest.warns(UserWarning, match="were cut") as said:
        found = compare(folder, ["good film " * 15, "a bad film"], methods=("ridge", "random"), queries=(20,), progress=False)
    assert [str(one.message) for one in said] == ["1 of 2 texts are longer than m can see, and were cut"]
    assert [record["cut"] for record in found.records] == [15, 0, 15, 0]


def test_tables_can_be_read_by_others(five):
    rows = list(csv.DictReader(io.StringIO(five.to_csv())))
    assert [row["method"] for row in rows] == [name for name, _ in five.rows]
    assert float(rows[2]["near"]) == five.summary(("ridge", 100), "near").mean
    document = json.loads(five.to_json())
    assert document["summary"][2]["near"]["mean"] == five.summary(("ridge", 100), "near").mean
    assert len(document["records"]) == 15
    assert set(MEASURES) >= set(document["measures"])


class Table:
    """As much of a DataFrame as a comparison sees: iterating over it gives the names of its columns."""

    columns = ("text", "label")

    def __iter__(self):
        return iter(self.columns)


@cases(
    ("arguments", "message"),
    [
        ({"texts": []}, "at least one string"),
        ({"methods": ["ridge", "ridge"]}, "must differ in their names"),
        ({"methods": ["magic"]}, "method must be one of 'joint'"),
        ({"model": Explainer(lambda texts: [0.0] * len(texts), output="log_odds")}, "got an Explainer"),
        ({"queries": ["many"]}, "queries must be a whole number of at least 2; got 'many'"),
        ({"texts": Table()}, r"got a Table with 'text', 'label'; pass one of them: x\['text'\]"),
        ({"texts": "a good film"}, r"texts must be a list of strings; got one string; pass a list: \[text\]"),
        ({"texts": None}, "several a list of strings; got NoneType"),
        ({"texts": ["a", None]}, "text 1 is NoneType"),
        ({"queries": None}, r"queries must be a list, such as \[500\]; got None"),
        ({"queries": "500"}, r"queries must be a list, such as \[500\]; got '500'"),
        ({"queries": np.array(20)}, r"queries must be a list, such as \[500\]; got array"),
        ({"queries": []}, "queries must have at least one budget"),
        ({"queries": [50, 1]}, "queries must be a whole number of at least 2; got 1"),
        ({"queries": True}, "queries must be a whole number of at least 2; got True"),
        ({"methods": []}, "methods must name at least one method"),
        ({"methods": "ridge"}, r"methods must be a list, such as \['joint', 'lime'\]; got 'ridge'"),
        ({"measures": "near"}, "measures must be a list"),
        ({"measures": [["near"]]}, "a measure must be one of near"),
        ({"target": [1]}, "target must be a label or an index; got list"),
        ({"target": "magic"}, "target 'magic' is not a class of this model"),
        ({"corpus": 5}, "corpus must be a pair: labelled texts, and their labels 0 or 1; got 5"),
        ({"corpus": (["a", "b"], 5)}, "corpus must be a pair"),
        ({"human": 5}, "human must have the words and maps of each text.*; got 5"),
        ({"human": [(text.split(), [[1]]) for text in TEXTS]}, "marked must have one entry per word; got 1"),
        ({"seed": -1}, "seed must be a whole number of at least 0; got -1"),
        ({"out": 5}, "out must be the name of a file; got 5"),
        ({"out": "."}, "out must be the name of a file; got '.'"),
    ],
)
def test_wrong_arguments_are_errors_of_one_line_before_the_model_is_asked(arguments, message):
    def never(texts):
        assert set(texts) <= {"", "a"}, "it is asked about the texts"  # an Explainer tries it with these
        return [0.0] * len(texts)

    with pytest.raises(InputError, match=message) as caught:
        compare(**{"model": never, "texts": TEXTS, "output": "log_odds", "progress": False, **arguments})
    assert "\n" not in str(caught.value)


def test_unknown_options_are_named():
    with pytest.raises(TypeError, match="no option check, method; it has output, labels"):
        compared(method="lime", check=5)


def test_texts_and_budgets_may_be_arrays_and_a_seed_may_be_drawn():
    found = compared(np.array(TEXTS), methods=("ridge",), queries=np.int64(20), seed=None)
    assert found.rows == [("ridge", 20)]
    seed = found.about["seed"]
    assert seed != compared(methods=("random",), seed=None).about["seed"]
    assert compared(methods=("ridge",), queries=[20, 20], seed=seed).values(("ridge", 20), "near") == found.values(
        ("ridge", 20), "near"
    )
    json.loads(compared(methods=("random",), seed=np.int64(3), target=np.int64(1)).to_json())


def test_a_model_that_fails_stops_the_comparison():
    def failing(texts):
        raise RuntimeError("the server is gone")

    with pytest.raises(ModelError, match="the server is gone"):
        compare(failing, TEXTS, output="log_odds", methods=("ridge",), progress=False)


@cases("content", ["[1]\n", "5\n", "{}\n", '{"format": "slalom comparison records"}\n{}\n', "null\n[]\n"])
def test_a_file_of_something_else_is_left_alone(tmp_path, content):
    out = tmp_path / "notes.jsonl"
    out.write_text(content)
    with pytest.raises(InputError, match="holds something else; name another file, or delete it"):
        compared(out=out)
    assert out.read_text() == content


def filled(parts):
    return "".join("some " if part is None else part for part in parts)


def test_several_meanings_of_removal_are_rows_of_their_own(tmp_path):
    options = {"methods": ["joint", "random"], "queries": 60}
    both = compared(removal=["drop", "mask", filled], out=tmp_path / "r.jsonl", **options)
    names = ("drop", "mask", f"{filled.__module__}.filled")
    assert both.rows == [*((f"joint ({name})", 60) for name in names), *((f"random ({name})", None) for name in names)]
    for name, removal in zip(names, ("drop", "mask", filled), strict=True):
        alone = compared(removal=removal, **options)
        assert alone.rows == [("joint", 60), ("random", None)]
        for measure in ("near", "far", "deletion", "queries"):
            assert both.values((f"joint ({name})", 60), measure) == alone.values(("joint", 60), measure), name
        assert alone.about.get("removal") == (None if removal == "drop" else [name])
    assert both.values(("joint (mask)", 60), "near") != both.values(("joint (drop)", 60), "near")
    assert "joint (mask)" in both.to_html()


def test_records_under_each_removal_are_kept_apart_and_go_on(tmp_path):
    options = {"methods": ["ridge"], "queries": 40, "removal": ["drop", "mask"], "out": tmp_path / "r.jsonl"}
    first = compared(**options)
    lines = options["out"].read_text().splitlines(keepends=True)
    kept = [line for line in lines if '"method": "ridge (mask)"' not in line]
    assert len(lines) - len(kept) == len(TEXTS)
    options["out"].write_text("".join(kept))
    again = compared(**options)
    assert again.values(("ridge (mask)", 40), "near") == first.values(("ridge (mask)", 40), "near")
    assert again.values(("ridge (drop)", 40), "seconds") == first.values(("ridge (drop)", 40), "seconds")
    for removal in ("mask", "drop"):
        with pytest.raises(InputError, match=r"of another comparison \(removal differ\)"):
            compared(**{**options, "removal": removal})


def test_what_several_removals_cost_is_one_sum():
    calls = []

    def counted(texts):
        calls.extend(texts)
        return [float(len(text)) for text in texts]

    options = {"methods": ["ridge"], "queries": 40, "output": "log_odds", "prices": {"input": 1.0}}
    one, other, both = (
        comparison_estimate(counted, TEXTS, removal=removal, **options) for removal in ("drop", "mask", ["drop", "mask"])
    )
    assert both.queries == one.queries + other.queries
    calls.clear()
    with pytest.raises(CostLimit):
        compare(counted, TEXTS, removal=["drop", "mask"], max_cost=1.2 * one.cost, progress=False, **options)
    assert len(calls) <= 2, "nothing but what an Explainer asks when it is made"


@cases(
    ("removal", "message"),
    [
        ([], "removal must be one way or several, with different names"),
        (["drop", "drop"], "removal must be one way or several, with different names"),
        (["drop", "masks"], "removal must be one of 'drop', 'mask', 'blank'; got 'masks'"),
        (5, "removal must be a list, such as .'drop', 'mask'.; got 5"),
        (lambda parts: "", "out= knows removal by its name; got a lambda; define it with def"),
    ],
)
def test_a_wrong_removal_of_a_comparison_is_named(tmp_path, removal, message):
    with pytest.raises(InputError, match=message):
        compared(removal=removal, out=tmp_path / "r.jsonl")


def test_a_model_without_probabilities_has_the_measures_that_apply():
    found = compare(
        lambda texts: [float(len(text)) for text in texts], TEXTS[:2], output="scores", methods=["ridge"], queries=30
    )
    assert found.summary(("ridge", 30), "near").mean < 0.1
    assert "deletion" not in found.measures
