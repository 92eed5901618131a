"""The highlighted text: which units, which colours, where lines end, and what is said to be left out."""

from dataclasses import replace

import numpy as np
import pytest

from slalom.core import Slalom
from slalom.errors import InputError
from slalom.render.figures.canvas import Words
from slalom.render.palette import THEMES, contrast
from tests.cases import cases
from tests.factories import explained, explanation, in_order, random_words, three_classes, with_se
from tests.render.figures.artists import artists


def patches(figure):
    """The coloured boxes by unit."""
    boxes = {}
    for patch in artists(figure.axes[0], "unit "):
        boxes.setdefault(int(patch.get_gid().split()[1]), []).append(patch)
    return boxes


def words(figure):
    return [text for text in figure.axes[0].findobj(Words) if text.get_fontsize() == 11.5]


@cases("theme", ["light", "dark"])
@cases("score", ["removal", "linear", "gradient", "shapley", "value"])
def test_colours_have_the_side_and_strength_of_the_score(theme, score):
    e = random_words(40)
    boxes, look = patches(e.plot.text(score=score, theme=theme)), THEMES[theme]
    assert set(boxes) == set(range(40))
    scores = e.scores(score)
    away = {}
    for i, parts in boxes.items():
        colour = np.array(parts[0].get_facecolor()[:3])
        assert np.allclose(colour, look.shade(scores[i] / np.abs(scores).max()))
        away[i] = np.abs(colour - look.paper).sum() / np.abs(np.subtract(look.hue(scores[i]), look.paper)).sum()
    order = np.argsort(np.abs(scores))
    assert (np.diff([away[i] for i in order]) >= -1e-9).all()


def test_colours_are_shares_of_what_has_the_full_colour():
    e = random_words(40)
    top = np.abs(e.removal).max()
    object.__setattr__(e, "full_effect", lambda name, target: 3 * top)
    figure = e.plot.text()
    for i, parts in patches(figure).items():
        assert np.allclose(parts[0].get_facecolor()[:3], THEMES["light"].shade(e.removal[i] / (3 * top)))
    written = [tick.get_text().replace("\N{MINUS SIGN}", "-") for tick in figure.axes[1].get_xticklabels()]
    assert [float(text) for text in written] == pytest.approx([-3 * top, 0.0, 3 * top], rel=0.005)


def test_units_that_are_not_told_from_zero_are_hatched():
    e = random_words(40)
    sure = with_se(e, removal=np.full(40, 0.1 * np.abs(e.removal).max()))
    hatched = {i for i, parts in patches(sure.plot.text()).items() if parts[0].get_hatch()}
    assert hatched == set(np.flatnonzero(~sure.certain()).tolist())
    assert 0 < len(hatched) < 40
    assert any("hatched: not distinguishable from zero" in text.get_text() for text in sure.plot.text().findobj(Words))
    for figure in (e.plot.text(), sure.plot.text(score="value"), sure.plot.text(score="importance")):
        assert not any(parts[0].get_hatch() for parts in patches(figure).values())
        assert not any("hatched" in text.get_text() for text in figure.findobj(Words))


def test_importance_has_no_sides():
    e = random_words(40)
    boxes = patches(e.plot.text(score="importance"))
    loudest, quietest = boxes[int(e.importances.argmax())][0], boxes[int(e.importances.argmin())][0]
    assert np.allclose(quietest.get_facecolor()[:3], THEMES["light"].paper)
    assert np.allclose(loudest.get_facecolor()[:3], THEMES["light"].shade(1.0, signed=False))


def test_scores_without_a_sign_have_no_direction():
    e = replace(explanation("one two three", [0.5, 0.0, 0.25]), method="attention", signed=False)
    for theme in THEMES.values():
        figure = e.plot.text(theme=theme.name)
        colours = [patches(figure)[i][0].get_facecolor()[:3] for i in range(3)]
        assert np.allclose(colours, [theme.shade(t, signed=False) for t in (1.0, 0.0, 0.5)])
        assert any("neither for nor against" in text.get_text() for text in figure.findobj(Words))
        assert not any("blue" in text.get_text() for text in figure.findobj(Words))
        assert [tick.get_text() for tick in figure.axes[1].get_xticklabels()] == ["0", "0.500"]


def test_units_that_overlap_have_what_is_left_and_the_others_are_counted():
    e = explained(Slalom([1.0, -1.0, 2.0, 3.0], np.zeros(4)), "seaside view", [[0, 7], [3, 7], [5, 12], [12, 12]])
    figure = e.plot.text()
    assert [w.get_text() for w in words(figure)] == ["seaside", " view".strip()]
    assert set(patches(figure)) == {0, 2}
    assert any(text.get_text().startswith("2 units share all their characters") for text in figure.findobj(Words))


@cases("theme", THEMES.values(), ids=lambda theme: theme.name)
def test_everything_can_be_read(theme):
    for t in np.linspace(-1, 1, 201):
        for signed in (True, False):
            shade = theme.shade(abs(t) if not signed else t, signed)
            assert contrast(theme.ink, shade) >= 4.5
    for colour in (theme.ink, theme.muted):
        assert contrast(colour, theme.paper) >= 4.5
    for colour in (theme.positive, theme.negative, theme.neutral):
        assert contrast(colour, theme.paper) >= 3.0  # WCAG's limit for graphics


@cases("theme", ["light", "dark"])
def test_the_words_drawn_can_be_read_on_their_boxes(theme):
    figure = random_words(60).plot.text(theme=theme)
    boxes = [(p.get_window_extent(), p.get_facecolor()[:3]) for p in artists(figure.axes[0], "unit ")]
    for text in words(figure):
        middle = text.get_window_extent()
        at = ((middle.x0 + middle.x1) / 2, (middle.y0 + middle.y1) / 2)
        behind = next((colour for box, colour in boxes if box.contains(*at)), THEMES[theme].paper)
        assert contrast(text.get_color(), behind) >= 4.5


def test_the_text_is_complete_in_order_and_inside():
    text = "One, two - three.\n\nFour five\tsix;  seven " + "eight nine ten " * 12
    units = text.replace(",", "").replace(" - ", " ").replace(".", "").replace(";", "").split()
    e = in_order(units, np.linspace(-1, 1, len(units)), np.zeros(len(units)), text=text)
    figure = e.plot.text()
    drawn_words = sorted(words(figure), key=lambda w: (w.get_position()[1], w.get_position()[0]))
    assert "".join(w.get_text() for w in drawn_words).replace(" ", "") == "".join(text.split())
    rows = sorted({w.get_position()[1] for w in drawn_words})
    assert "".join(w.get_text() for w in drawn_words if w.get_position()[1] == rows[0]).replace(" ", "") == "One,two-three."
    assert np.isclose(rows[1] - rows[0], 2 * (rows[3] - rows[2]))  # the empty line
    width = figure.get_window_extent().width
    for w in drawn_words:
        assert w.get_window_extent().x0 > 0
        assert w.get_window_extent().x1 < width
    boxes = patches(figure)
    for w in drawn_words:
        owners = [i for i, name in enumerate(units) if name == w.get_text()]
        centre = w.get_window_extent().get_points().mean(axis=0)
        if owners:
            assert any(p.get_window_extent().contains(*centre) for i in owners for p in boxes[i])


def test_pieces_of_a_word_stay_together_and_long_ones_are_broken():
    e = in_order(["un", "believ", "able", "x" * 400], [1.0, 2.0, 3.0, 4.0], np.zeros(4), text="unbelievable " + "x" * 400)
    figure = e.plot.text()
    parts = {w.get_text(): w.get_window_extent() for w in words(figure)}
    assert abs(parts["un"].x1 - parts["believ"].x0) < 3
    assert abs(parts["believ"].x1 - parts["able"].x0) < 3
    assert len(patches(figure)[3]) > 1
    assert sum(len(text) for text in parts if set(text) == {"x"}) == 400 or len(parts) >= 5


def test_a_sentence_is_one_box_a_line():
    sentence = "this sentence is one unit and it is much longer than a single line of the picture, so that it must be broken"
    figure = in_order([sentence, "Short one."], [1.0, -1.0], np.zeros(2)).plot.text()
    assert len(patches(figure)[0]) == 2
    assert len(patches(figure)[1]) == 1


def test_what_is_left_out_is_said():
    e = random_words(200)
    figure = e.plot.text(max_lines=4)
    seen = set(patches(figure))
    assert 0 < len(seen) < 200
    (note,) = [t.get_text() for t in figure.axes[0].findobj(Words) if "not shown" in t.get_text()]
    assert f"with {200 - len(seen)} units are not shown" in note
    every = int(note.split("max_lines=")[1].split()[0])
    whole = e.plot.text(max_lines=every)
    assert set(patches(whole)) == set(range(200))
    assert not [t for t in whole.axes[0].findobj(Words) if "not shown" in t.get_text()]
    assert whole.get_size_inches()[1] > figure.get_size_inches()[1]


def test_a_text_from_right_to_left_begins_at_the_right():
    figure = in_order(["שלום", "עולם"], [1.0, -1.0], np.zeros(2)).plot.text()
    first, second = (words(figure)[i].get_window_extent() for i in (0, 1))
    assert first.x0 > second.x1
    assert first.x1 < figure.get_window_extent().width


def test_classes_and_errors():
    e = three_classes()
    for target, column in ((None, 2), ("r", 0)):
        boxes = patches(e.plot.text(target=target))
        scores = e.removal[:, column]
        assert np.allclose(boxes[0][0].get_facecolor()[:3], THEMES["light"].shade(scores[0] / np.abs(scores).max()))
    with pytest.raises(InputError, match="a score must be one of"):
        e.plot.text(score="lime")
    with pytest.raises(InputError, match="max_lines must be a whole number of at least 1"):
        e.plot.text(max_lines=0)
