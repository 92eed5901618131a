"""What users do with explanations besides reading them: copies, slices, damaged files, further questions."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest

import slalom
from slalom.errors import InputError
from slalom.result.codec import FIELDS
from slalom.result.wording import fidelity_text
from tests.cases import cases

EXPLAINER = slalom.Explainer(
    lambda texts: [2.0 * t.count("good") - 3.0 * t.count("bad") + 0.1 * len(t) for t in texts], output="log_odds", queries=40
)


def test_copies_and_pickles_are_read_only_too():
    e = EXPLAINER("a good film")
    for twin in (copy.deepcopy(e), pickle.loads(pickle.dumps(e))):
        for array in (twin.spans, twin.sizes, twin.values, twin.importances):
            assert not array.flags.writeable
        assert twin.to_json() == e.to_json()


def test_slices_keep_the_numbers_of_their_texts():
    many = EXPLAINER(["a good film", "", "bad"], errors="keep")
    assert many.numbers == (0, 2)
    assert many[1:].numbers == (2,)
    assert set(many[1:].to_pandas()["text"]) == {2}


def test_errors_is_checked_for_one_text_too():
    with pytest.raises(InputError, match="errors must be"):
        EXPLAINER("a good film", errors="bogus")


def test_a_text_explained_in_windows_can_be_asked_about():
    with pytest.warns(UserWarning, match="cut"):
        cut = slalom.Explainer(queries=20, check=0, progress=False)("This is a good film. " * 150, unit="sentence")
    explainer = slalom.Explainer(queries=20, check=0, progress=False)
    e = explainer(cut.text, unit="sentence", long="window")
    assert len(e) > len(cut)
    assert explainer.ask(e, np.ones(len(e))) == pytest.approx(e.score)


@cases("method", ["leave-one-out", "lime"])
def test_what_a_method_has_asked_does_not_test_it(method):
    e = EXPLAINER("a good film", method=method, queries=50)  # lime asks all eight parts, the other all single removals
    rows = [] if e.held_out is None else [tuple(row) for row in e.held_out.keep.tolist()]
    assert not any(sum(row) == 2 for row in rows)
    assert e.fidelity.near is None or e.fidelity.near.queries == 0
    if method == "lime":
        assert not rows


def test_scores_without_a_sign_are_not_tested_unless_asked_for():
    e = slalom.Explainer(method="attention", progress=False)("A fine film.")
    assert (e.queries, e.held_out, e.fidelity.known) == (1, None, [])


def test_fidelity_of_scores_without_a_sign_is_not_shown():
    e = slalom.Explainer(method="attention", check=20, progress=False)("A fine film.")
    assert fidelity_text(e) == "not tested: scores without a sign predict nothing"
    assert "R2" not in repr(e)
    page = e.to_html()
    assert "Fidelity near the text" not in page
    assert "on the queries that were fitted" not in page
    assert "strength" in e.to_pandas().columns
    assert "removal" not in e.to_pandas().columns


def test_every_row_with_a_fact_is_shown():
    e = replace(EXPLAINER("a good film"), stopped="the error no longer falls", figures={"label share": 0.9})
    page = e.to_html()
    for row in FIELDS:
        if row.fact is not None:
            assert f'"{row.fact[0]}"' in page or row.fact[0] in page


class Broken(slalom.Method):
    """A method of another package that fails where it is told to."""

    name, summary = "broken", "fails"

    def __init__(self, place):
        self.place = place

    def plan(self, units, budget, rng, empty):
        if self.place == "plan":
            raise RuntimeError("boom")
        return super().plan(units, budget, rng, empty)

    def explain(self, context):
        raise KeyError("boom")


@cases(("place", "kind"), [("plan", "RuntimeError"), ("explain", "KeyError")])
def test_a_method_of_another_package_that_fails_is_named(place, kind):
    with pytest.raises(InputError, match=f"method 'broken' failed: {kind}: .*boom"):
        EXPLAINER("a good film", method=Broken(place))


def test_notes_on_the_answers_are_remarks_and_are_saved():
    e = replace(EXPLAINER("a good film"), figures={"label share": 0.25}, notes=("A quarter of the probability is on labels.",))
    assert e.notes[0] in e.remarks
    assert "Answers" in e.to_html()
    again = type(e).from_dict(e.to_dict())
    assert again.notes == e.notes
    assert again.figures == e.figures
