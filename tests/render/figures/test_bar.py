"""The strongest units as bars."""

from dataclasses import replace

import numpy as np
import pytest

from slalom.errors import InputError
from slalom.render.figures.canvas import Key, Words
from slalom.render.palette import THEMES
from tests.factories import explanation, in_order, random_words, three_classes
from tests.render.figures.artists import artist, artists


def bars(figure):
    ax = figure.axes[0]
    patches = sorted(ax.patches, key=lambda patch: patch.get_y())
    names = [artist(ax, f"name {row}").get_text() for row in range(len(patches))]
    return names, np.array([patch.get_width() for patch in patches]), [patch.get_facecolor()[:3] for patch in patches]


@pytest.mark.parametrize("score", ["removal", "linear", "gradient", "shapley", "value"])
def test_the_strongest_come_first_with_the_colour_of_their_side(score):
    e = random_words(30)
    names, widths, colours = bars(e.plot.bar(k=7, score=score))
    expected = np.argsort(-np.abs(e.scores(score)))[:7]
    assert names == [e.units[i] for i in expected]
    assert np.allclose(widths, e.scores(score)[expected])
    for width, colour in zip(widths, colours, strict=True):
        assert colour == (THEMES["light"].positive if width > 0 else THEMES["light"].negative)
    low, high = e.plot.bar(k=7, score=score).axes[0].get_ylim()
    assert low > high  # the first row is on top


def test_importances_are_sorted_from_the_loudest():
    e = random_words(30)
    names, widths, _ = bars(e.plot.bar(k=30, score="importance"))
    assert (np.diff(widths) <= 0).all()
    assert names[0] == e.units[int(e.importances.argmax())]


@pytest.mark.parametrize("score", ["value", "importance"])
def test_intervals_are_shown_where_they_are_known(score):
    e = random_words(12, se=np.linspace(0.5, 2, 12))
    lines = np.array(artist(e.plot.bar(score=score).axes[0], "intervals").get_segments())
    order = np.argsort(-(np.abs(e.values) if score == "value" else e.importances))[:10]
    se = (e.values_se if score == "value" else e.importances_se)[order]
    assert np.allclose(np.ptp(lines[:, :, 0], axis=1), 2 * 1.96 * se)
    assert np.allclose(lines[:, :, 0].mean(axis=1), e.scores(score)[order])
    assert not artists(e.plot.bar(score=score, intervals=False).axes[0], "intervals")
    assert not artists(e.plot.bar(score="removal").axes[0], "intervals")


def test_intervals_that_do_not_exist_are_refused():
    for e, score in ((random_words(5), "value"), (random_words(5, se=np.ones(5)), "removal")):
        with pytest.raises(InputError, match=f"standard errors, which '{score}' does not have"):
            e.plot.bar(score=score, intervals=True)


def test_scores_without_a_sign_have_no_direction():
    e = replace(explanation("one two three", [0.5, 0.1, 0.3]), method="attention", signed=False)
    for theme in THEMES.values():
        figure = e.plot.bar(theme=theme.name)
        names, _, colours = bars(figure)
        assert names == ["one", "three", "two"]
        assert set(colours) == {theme.neutral}
        assert figure.axes[0].get_xlabel() == "attention: how much it counts, neither for nor against"
        assert not figure.axes[0].findobj(Key)
        numbers = [text.get_text() for text in figure.axes[0].findobj(Words) if text.get_fontsize() == 8.5]
        assert numbers == ["0.500", "0.300", "0.100"]


def test_occurrences_can_be_told_apart_or_are_counted():
    apart = in_order(["so", "good", "so", "bad"], [1.0, 5.0, 2.0, -4.0], np.zeros(4))
    assert bars(apart.plot.bar(score="value"))[0] == ["good", "bad", "so (2)", "so (1)"]
    shared = in_order(["so", "good", "so"], [1.0, 5.0, 1.0], np.zeros(3))
    assert bars(shared.plot.bar(score="value"))[0] == ["good", "so ×2"]


def test_names_and_numbers_are_inside_the_figure():
    figure = in_order(["a very long unit that has to be shortened, and then fits", "b"], [1.0, -2.0], [0.0, 0.0]).plot.bar()
    figure.draw_without_rendering()
    whole = figure.get_window_extent()
    for text in figure.axes[0].texts + artists(figure.axes[0], "name"):
        box = text.get_window_extent()
        assert whole.x0 <= box.x0
        assert box.x1 <= whole.x1


def test_classes_and_errors():
    e = three_classes()
    assert np.allclose(bars(e.plot.bar(score="value", target="g"))[1], [-4.0, 2.0, -1.0, 0.5])
    with pytest.raises(InputError, match="k must be a whole number of at least 1; got 0"):
        e.plot.bar(k=0)
    with pytest.raises(InputError, match="intervals must be True or False"):
        e.plot.bar(intervals="yes")
    with pytest.raises(InputError, match="a score must be one of"):
        e.plot.bar(score="x")
