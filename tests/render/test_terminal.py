"""An explanation in a terminal and in a notebook: colours with a direction, and without one."""

import html
import io
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.color import Color
from rich.console import Console

from slalom.render.notebook import notebook
from slalom.render.palette import DARK, LIGHT, contrast, hexadecimal, mix, wash
from slalom.render.terminal import coloured, show
from slalom.result import Answer, Fidelity, Flip, Quality
from tests.cases import cases
from tests.factories import explanation, film_record, in_order, random_explanation, three_classes, with_parts, with_se
from tests.test_answers import SOURCES
from tests.test_answers import explained as answer_explained

WITH_SIGN = explanation("good bad so", [2.0, -1.0, 0.01])
WITHOUT = replace(explanation("good bad so", [2.0, 1.0, 0.01]), method="attention", signed=False)


def middle(name):
    return hexadecimal(mix(getattr(LIGHT, name), getattr(DARK, name), 0.5))


def styles(e, few=False):
    return {span.start: str(span.style) for span in coloured(e, e.scores("removal"), few).spans}


def printed(e):
    screen = Console(file=io.StringIO(), width=200)
    show(e, screen, 5)
    return screen.file.getvalue()


def test_the_terminal_has_the_colours_of_the_palette():
    assert styles(WITH_SIGN) == {
        0: f"bold white on {hexadecimal(LIGHT.text(LIGHT.positive))}",
        5: f"black on {middle('negative')}",
    }
    assert styles(WITH_SIGN, few=True) == {0: "bold white on blue", 5: "black on yellow"}
    text = printed(WITH_SIGN)
    assert "removal: by how much the log odds of yes falls without it" in text
    assert re.search(r"bad +-1\.000", text)


def test_scores_without_a_sign_have_one_colour_in_a_terminal():
    assert styles(WITHOUT) == {
        0: f"bold white on {hexadecimal(LIGHT.text(LIGHT.neutral))}",
        5: f"black on {middle('neutral')}",
    }
    assert styles(WITHOUT, few=True) == {0: "bold white on magenta", 5: "black on magenta"}
    text = printed(WITHOUT)
    assert "attention: how much it counts, neither for nor against yes" in text
    assert "removal" not in text
    assert re.search(r"word +score", text)
    assert re.search(r"good +2\.000", text)


@cases("name", ["positive", "negative", "neutral"])
def test_weak_colours_are_readable_on_light_and_dark_terminals(name):
    rgb = Color.parse(middle(name)).triplet.normalized
    for background in ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)):
        assert contrast(rgb, background) >= 2.8


def test_a_notebook_shows_directions_only_where_there_are_some():
    shown = notebook(WITH_SIGN)
    assert wash(1.0) in shown
    assert wash(-0.5) in shown
    assert "for yes" in shown
    assert ("for no</b>" in shown, "against" in shown) == (True, False)  # of two classes
    three = notebook(random_explanation(classes=3))
    assert three.count("against") == 1
    shown = notebook(WITHOUT)
    assert wash(1.0, signed=False) in shown
    assert wash(0.5, signed=False) in shown
    assert wash(1.0) not in shown
    assert "dashed" not in shown
    assert "attention, neither for nor against yes" in shown
    assert "against yes</b>" not in shown


SATURATED = explanation("good bad so", [0.003, -0.001, 0.0], score=5.4)


def test_words_of_a_saturated_text_are_not_painted():
    assert styles(SATURATED) == {}
    assert styles(explanation("good bad so", [0.3, -0.1, 0.0], score=5.4)) == {
        0: f"{middle('positive')} bold underline",
        5: middle("negative"),
    }
    shown = notebook(SATURATED)
    assert wash(0.003 / 1.08) in shown
    assert wash(1.0) in shown.split("</p>")[2]  # in the legend
    assert wash(1.0) not in shown.split("</p>")[1]  # not in the text
    assert "No single word decides" in shown


def test_a_saturated_text_begins_with_what_matters():
    e = random_explanation(30, seed=3, link=False)
    e = replace(e, score=100.0)
    assert e.saturated
    shapley, text = e.shapley(), printed(e)
    lines = text.splitlines()
    most = f"{np.abs(e.removal).max():.3g}"
    assert (
        lines[4]
        == f"No single word decides: removing any one is predicted to change the log odds of yes by at most {most} of +100.00."
    )
    assert text.count("No single word decides") == 1
    assert re.match(r"word +Shapley +removal", lines[6])
    rows = [line.split() for line in lines[7:12]]
    order = np.argsort(-np.abs(shapley))[:5]
    assert [row[0] for row in rows] == [e.units[i] for i in order]
    for row, i in zip(rows, order, strict=True):
        assert float(row[1]) == pytest.approx(shapley[i], abs=6e-4)
        assert float(row[3]) == pytest.approx(e.removal[i], abs=6e-4)
    assert "the 5 strongest of 30; Shapley: its share of the log odds of yes, averaged over all orders of" in text


def test_shapley_values_of_a_saturated_text_are_marked_where_they_are_not_told_from_zero():
    e = replace(random_explanation(30, seed=3, link=False), score=100.0)
    shapley = e.shapley()
    order = np.argsort(-np.abs(shapley))[:5]
    errors = np.full(30, 1e-3)
    errors[order[1]] = np.abs(shapley[order[1]])
    lines = printed(with_se(e, shapley=errors)).splitlines()[7:12]
    assert [" ?" in line for line in lines] == [False, True, False, False, False]
    assert "? is not distinguishable from zero" in printed(with_se(e, shapley=errors))


def test_a_flip_is_a_line_above_the_table_and_marked_in_the_text():
    flip = Flip((0, 2), predicted=-0.5, asked=-0.4, confirmed=True, queries=7, label="no")
    screen = Console(file=io.StringIO(), width=200, force_terminal=True, color_system="truecolor")
    show(WITH_SIGN, screen, 5, flip=flip)
    text = screen.file.getvalue()
    assert (
        'flip: without "good", "so" (2 of 3 words) the model says no: log odds of yes +1.010 to -0.400; 7 more queries' in text
    )
    painted = text.splitlines()[2]
    struck = r"\x1b\[(?:[\d;]*;)?9[;m][^\x1b]*"
    assert re.search(f"{struck}good", painted)
    assert re.search(f"{struck}so", painted)
    assert not re.search(f"{struck}bad", painted)
    with_reason = Console(file=io.StringIO(), width=200)
    show(WITH_SIGN, with_reason, 5, flip="no set")
    assert "flip: no set\n" in with_reason.file.getvalue()
    assert "flip" not in printed(WITH_SIGN)


def test_removals_have_intervals_and_marks_where_they_are_known():
    e = with_se(WITH_SIGN, removal=np.array([0.5, 0.6, 0.001]))
    text = printed(e)
    assert re.search(r"good +\+2\.000 ± 0\.980   ", text)
    assert re.search(r"bad +-1\.000 ± 1\.176 \?", text)  # 1.96 * 0.6 reaches beyond zero
    assert re.search(r"so +\+0\.010 ± 0\.002   ", text)
    assert "falls without it; ± is a 95% interval; ? is not distinguishable from zero" in text
    assert styles(e)[5] == middle("negative")  # the weakest
    assert styles(e)[0] == styles(WITH_SIGN)[0]
    shown = notebook(e)
    assert wash(-0.25) in shown
    assert wash(-0.5) not in shown
    assert shown.count("dotted") == 2  # the unit and the legend
    assert "bad: removal -1.000 ± 1.176 (not distinguishable from zero)" in shown
    assert "'good': removal +2.000 ± 0.980, value +2.000\n" in repr(e)
    certain = printed(with_se(e, removal=np.full(3, 1e-3)))
    assert "?" not in certain
    assert "dotted" not in notebook(WITH_SIGN)


def test_values_are_shown_and_importances_where_they_mean_something():
    e = in_order(["a", "b", "c"], [1.0, 4.0, 0.5], [1.0, 0.0, -1.0])
    e = with_se(e, value=np.array([0.1, 0.2, 50.0]), importance=np.array([0.1, 9.0, 0.1]))
    text = printed(e)
    assert re.search(r"word +removal +value +importance", text)
    assert re.search(r"a .*\+1\.00 ± 0\.20 +\+1\.00 ± 0\.20", text)
    assert re.search(r"c .*\+0\.50 ± 98\.00 +-1\.00 ± 0\.20", text)
    assert "value +0.500 ± 97.998, importance -1.000 ± 0.196" in repr(e)
    adding = printed(in_order(["a", "b"], [1.0, 4.0], [1.0, -1.0], competition=0.0))
    assert re.search(r"word +removal +value$", adding, re.MULTILINE)
    assert "competition 0.00 (0: words add up, 1: they are averaged): they add up" in adding


def test_an_answer_is_printed_sentence_by_sentence_with_what_it_rests_on():
    _, e = answer_explained()
    lines = printed(e).splitlines()
    at = lines.index("answer, and the sources that each sentence rests on:")
    assert re.fullmatch(r"  Ann is from Graz\.  \[1\] or \[3\] [67]\.\d\d", lines[at + 1])
    assert re.fullmatch(r"  Bob met the singer Cy\.  \[[45]\] [45]\.\d\d, \[[45]\] [45]\.\d\d", lines[at + 2])
    assert lines[at + 3] == "  Paris is in France.  from the model's own memory"
    assert lines[at + 4].startswith("numbers: by how much the log probability of the sentence falls without the source")
    flat = " ".join(lines)
    assert all(f"[{i}] {source}" in flat for i, source in enumerate(SOURCES, 1))
    part = replace(e.sentences[1].explanation, details=())
    assert "rests on: [" in printed(part)
    assert "answer, and" not in printed(part)
    shown = html.unescape(notebook(e))
    assert re.search(r"<u>Ann is from Graz\.</u> <small>\[1\] or \[3\] [67]\.\d\d</small>", shown)
    assert "<u>Paris is in France.</u> <small>from the model's own memory</small>" in shown


def test_effects_of_a_sentence_have_their_intervals():
    e = explanation("good bad so", [3.0, -1.0, 0.01], errors={"removal": np.full(3, 0.5), "shapley": np.full(3, 0.5)})
    e = replace(e, answer=Answer("", "So it is.", 0, 9, True, 3))
    assert "rests on: [1] 3.00 ± 0.98" in printed(e)


def test_the_models_own_answers_have_no_interval():
    e = with_se(in_order(["a", "b"], [1.0, 4.0], [1.0, -1.0]), removal=np.array([0.0, 0.2]))
    text = printed(replace(e, measured={"removal": np.array([0.75, np.nan])}))
    assert re.search(r"a +\+0\.750 ", text)
    assert re.search(r"b +[+-]\d\.\d+ ± 0\.392", text)
    assert "removals and values without ± are the model's own answers" in text
    assert "own answers" not in printed(e)


def test_the_first_line_says_what_would_change_the_decision():
    chances = {"probabilities": np.array([0.1, 0.9]), "label": "yes"}
    e = explanation("good bad so", [4.0, -1.0, 0.01], score=3.0, **chances)
    assert printed(e).startswith("yes 90.0%. Without “good” it would be no (predicted: 73%).   log odds of yes: +3.00\n")
    asked = replace(e, measured={"removal": np.array([5.0, np.nan, np.nan])})
    assert printed(asked).startswith("yes 90.0%. Without “good” it would be no (asked: 88%).")
    assert printed(explanation("a b", [0.1, 0.1], base=3.0, **chances)).startswith(
        "yes 90.0%. No removal that slalom predicts changes that."
    )
    many = explanation(" ".join(f"w{i}" for i in range(9)), [0.5] * 9, base=-1.9, **chances)
    assert "It takes the removal of 6 words to change that (predicted)." in printed(many)


def test_effects_of_other_methods_are_not_called_removals():
    few = Fidelity(Quality(None, 0.1, 3), Quality(None, 0.1, 3))
    lime = printed(replace(WITH_SIGN, method="lime", fidelity=few))
    assert re.search(r"word +effect", lime)
    assert "effect: what it adds to the log odds of yes, by lime" in lime
    assert "not tested, as too few of the test queries are new to lime" in lime
    assert "removal" not in lime
    assert re.search(r"word +removal", printed(replace(WITH_SIGN, method="leave-one-out")))
    ours = printed(replace(WITH_SIGN, fidelity=few))
    assert re.search(r"word +removal", ours)
    assert "too few queries were left to test it" in ours


def test_units_of_one_name_are_numbered():
    text = printed(in_order(["so", "good", "so", "bad"], [1.0, 3.0, 2.0, -2.0], [0.0, 0.1, 0.2, 0.3]))
    assert sorted(re.findall(r"^(?:so|good|bad)(?: \(\d\))?(?= {2,})", text, re.MULTILINE)) == [
        "bad",
        "good",
        "so (1)",
        "so (2)",
    ]


def test_all_classes_are_shown_as_the_leading_one():
    e = three_classes()
    se = np.full((4, 3), 0.01)
    se[0, 2] = 10.0
    text = printed(with_se(e, removal=se))
    row = next(line for line in text.splitlines() if re.match(r"red +[-+]", line))
    assert f"{e.removal[0, 2]:+.3f} ± 19.600 ?" in row
    assert text.count(" ?") == 2  # the row and the legend


@cases(
    ("effects", "written"),
    [([2.0, -0.0123], "-0.012"), ([0.0237, -0.0047], "-0.0047"), ([3e-4, -1e-6], "-0.000001"), ([2e-9, -1e-9], "-1.00e-09")],
)
def test_weak_effects_have_as_many_decimals_as_the_strongest_needs(effects, written):
    assert re.search(rf"bad +{written} ", printed(explanation("good bad", effects)))


@cases("classes", [None, 3])
def test_what_is_due_to_places_is_said(classes):
    e = with_parts(random_explanation(classes=classes))
    (place,) = re.findall(r"^a removal moves later words: up to ([0-9.]+) of it is due to that$", printed(e), re.MULTILINE)
    column = slice(None) if classes is None else e.column()
    assert float(place) == pytest.approx(np.abs(e.place_effects[:, column] if classes else e.place_effects).max(), abs=6e-4)
    assert "moves later words" not in printed(random_explanation())


def test_a_notebook_shows_fields_with_their_sums_and_says_how_units_are_removed():
    e = replace(film_record("all"), settings={"removal": "<mask>"})
    shown = notebook(e)
    assert "effect of removal (&lt;mask&gt;)" in shown
    at = e.leading
    said = [f"<i>{html.escape(f.name)}</i> &middot; removal (asked) {f.removal[at]:+.3f} <span" for f in e.fields]
    assert all(part in shown for part in said)
    assert all(f"Shapley values {f.shapley[at]:+.3f} <span" in shown for f in e.fields)
    assert "title: " not in shown
    assert "<i>" not in notebook(WITH_SIGN)
