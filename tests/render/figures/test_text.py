"""The highlighted text: which units, which colours, where lines end, and what is said to be left out."""

from dataclasses import replace

import numpy as np
import pytest

from slalom.core import Slalom
from slalom.errors import InputError
from slalom.render.figures.canvas import Words
from slalom.render.palette import THEMES, contrast
from tests.factories import explained, explanation, in_order, random_words, three_classes, with_se
from tests.render.figures.artists import artists


def patches(figure):
    """The coloured boxes by unit."""
    boxes = {}
    for patch in artists(figure.axes[0], "unit "):
        boxes.setdefault(int(patch.get_gid().split()[1]), []).append(patch)
    return boxes


def colour(figure, i):
    return patches(figure)[i][0].get_facecolor()[:3]


def words(figure):
    return [text for text in figure.axes[0].findobj(Words) if text.get_fontsize() == 11.5]


def said(figure, part):
    return [text.get_text() for text in figure.findobj(Words) if part in text.get_text()]


def test_colours_have_the_side_and_strength_of_the_score_and_can_be_read():
    e = random_words(20)
    for theme, score in ((THEMES["light"], "removal"), (THEMES["dark"], "value")):
        figure = e.plot.text(score=score, theme=theme.name)
        scores, boxes = e.scores(score), patches(figure)
        assert set(boxes) == set(range(20))
        for i, parts in boxes.items():
            assert np.allclose(parts[0].get_facecolor()[:3], theme.shade(scores[i] / np.abs(scores).max()))
        for text in words(figure):
            middle = text.get_window_extent().get_points().mean(axis=0)
            (behind,) = [p.get_facecolor()[:3] for ps in boxes.values() for p in ps if p.get_window_extent().contains(*middle)]
            assert contrast(text.get_color(), behind) >= 4.5


def test_colours_are_shares_of_what_has_the_full_colour():
    e = random_words(20)
    top = np.abs(e.removal).max()
    object.__setattr__(e, "full_effect", lambda name, target: 3 * top)
    figure = e.plot.text()
    for i in range(20):
        assert np.allclose(colour(figure, i), THEMES["light"].shade(e.removal[i] / (3 * top)))
    written = [tick.get_text().replace("\N{MINUS SIGN}", "-") for tick in figure.axes[1].get_xticklabels()]
    assert [float(text) for text in written] == pytest.approx([-3 * top, 0.0, 3 * top], rel=0.005)


def test_units_that_are_not_distinguishable_from_zero_are_hatched():
    e = random_words(20)
    known = with_se(e, removal=np.full(20, 0.1 * np.abs(e.removal).max()))
    figure = known.plot.text()
    hatched = {i for i, parts in patches(figure).items() if parts[0].get_hatch()}
    assert hatched == set(np.flatnonzero(~known.certain()).tolist())
    assert 0 < len(hatched) < 20
    assert said(figure, "hatched: not distinguishable from zero")
    for figure in (e.plot.text(), known.plot.text(score="importance")):
        assert not any(parts[0].get_hatch() for parts in patches(figure).values())
        assert not said(figure, "hatched")


def test_what_has_no_sign_has_no_direction():
    e, look = random_words(20), THEMES["light"]
    figure = e.plot.text(score="importance")
    assert np.allclose(colour(figure, int(e.importances.argmin())), look.paper)
    assert np.allclose(colour(figure, int(e.importances.argmax())), look.shade(1.0, signed=False))
    e = replace(explanation("one two three", [0.5, 0.0, 0.25]), method="attention", signed=False)
    figure = e.plot.text()
    assert np.allclose([colour(figure, i) for i in range(3)], [look.shade(t, signed=False) for t in (1.0, 0.0, 0.5)])
    assert said(figure, "neither for nor against")
    assert not said(figure, "blue")
    assert [tick.get_text() for tick in figure.axes[1].get_xticklabels()] == ["0", "0.500"]


def test_units_that_overlap_have_what_is_left_and_the_others_are_counted():
    e = explained(Slalom([1.0, -1.0, 2.0, 3.0], np.zeros(4)), "seaside view", [[0, 7], [3, 7], [5, 12], [12, 12]])
    figure = e.plot.text()
    assert [w.get_text() for w in words(figure)] == ["seaside", "view"]
    assert set(patches(figure)) == {0, 2}
    assert said(figure, "2 units share all their characters")


def test_every_theme_can_be_read():
    for theme in THEMES.values():
        for t in np.linspace(-1, 1, 41):
            for signed in (True, False):
                assert contrast(theme.ink, theme.shade(t if signed else abs(t), signed)) >= 4.5
        for text in (theme.ink, theme.muted):
            assert contrast(text, theme.paper) >= 4.5
        for hue in (theme.positive, theme.negative, theme.neutral):
            assert contrast(hue, theme.paper) >= 3.0  # WCAG's limit for graphics


def test_the_text_is_complete_in_order_and_inside():
    text = "One, two - three.\n\nFour five\tsix;  seven " + "eight nine ten " * 12
    units = text.replace(",", "").replace(" - ", " ").replace(".", "").replace(";", "").split()
    figure = in_order(units, np.linspace(-1, 1, len(units)), np.zeros(len(units)), text=text).plot.text()
    drawn = sorted(words(figure), key=lambda w: (w.get_position()[1], w.get_position()[0]))
    assert "".join(w.get_text() for w in drawn) == "".join(text.split())
    rows = sorted({w.get_position()[1] for w in drawn})
    assert "".join(w.get_text() for w in drawn if w.get_position()[1] == rows[0]) == "One,two-three."
    assert np.isclose(rows[1] - rows[0], 2 * (rows[3] - rows[2]))  # the empty line
    boxes = patches(figure)
    for w in drawn:
        extent = w.get_window_extent()
        assert 0 < extent.x0 < extent.x1 < figure.get_window_extent().width
        owners = [p for i, name in enumerate(units) if name == w.get_text() for p in boxes[i]]
        assert not owners or any(p.get_window_extent().contains(*extent.get_points().mean(axis=0)) for p in owners)


def test_where_words_and_lines_are_broken():
    e = in_order(["un", "believ", "able", "x" * 400], [1.0, 2.0, 3.0, 4.0], np.zeros(4), text="unbelievable " + "x" * 400)
    figure = e.plot.text()
    parts = {w.get_text(): w.get_window_extent() for w in words(figure)}
    assert abs(parts["un"].x1 - parts["believ"].x0) < 3
    assert abs(parts["believ"].x1 - parts["able"].x0) < 3
    assert len(patches(figure)[3]) > 1
    assert "".join(w.get_text() for w in words(figure))[-400:] == "x" * 400
    sentence = "this sentence is one unit and it is much longer than a single line of the picture, so that it must be broken"
    figure = in_order([sentence, "Short one."], [1.0, -1.0], np.zeros(2)).plot.text()
    assert (len(patches(figure)[0]), len(patches(figure)[1])) == (2, 1)  # a box a line
    figure = in_order(["שלום", "עולם"], [1.0, -1.0], np.zeros(2)).plot.text()  # from right to left
    first, second = (text.get_window_extent() for text in words(figure))
    assert second.x1 < first.x0 < first.x1 < figure.get_window_extent().width


def test_what_is_left_out_is_said():
    e = random_words(80)
    figure = e.plot.text(max_lines=2)
    seen = set(patches(figure))
    assert 0 < len(seen) < 80
    (note,) = said(figure, "not shown")
    assert f"with {80 - len(seen)} units are not shown" in note
    whole = e.plot.text(max_lines=int(note.split("max_lines=")[1].split()[0]))
    assert set(patches(whole)) == set(range(80))
    assert not said(whole, "not shown")
    assert whole.get_size_inches()[1] > figure.get_size_inches()[1]


def test_classes_and_errors():
    e = three_classes()
    for target, column in ((None, 2), ("r", 0)):
        scores = e.removal[:, column]
        assert np.allclose(colour(e.plot.text(target=target), 0), THEMES["light"].shade(scores[0] / np.abs(scores).max()))
    with pytest.raises(InputError, match="a score must be one of"):
        e.plot.text(score="lime")
    with pytest.raises(InputError, match="max_lines must be a whole number of at least 1"):
        e.plot.text(max_lines=0)
