"""The strongest units as bars."""

from dataclasses import replace

import numpy as np
import pytest

from slalom.core import TwoScale
from slalom.errors import InputError
from slalom.render.figures.canvas import Key, Words
from slalom.render.palette import THEMES
from slalom.result import NORMAL_95 as Z
from slalom.result import SCORES
from tests.cases import cases
from tests.factories import explanation, in_order, random_words, three_classes, with_errors, with_pairs, with_se
from tests.render.figures.artists import artist, artists


def rows(figure):
    return sorted(figure.axes[0].patches, key=lambda patch: patch.get_y())


def legend(ax):
    return [text.get_text() for key in ax.findobj(Key) for text in key.get_texts()]


def bars(figure):
    ax, patches = figure.axes[0], rows(figure)
    names = [artist(ax, f"name {row}").get_text() for row in range(len(patches))]
    return names, np.array([patch.get_width() for patch in patches]), [patch.get_facecolor()[:3] for patch in patches]


@cases("score", ["removal", "linear", "gradient", "shapley", "value"])
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


@cases("score", [name for name in SCORES if name not in ("banzhaf", "weight")])
@cases("make", [random_words, lambda n: three_classes()])
def test_whiskers_are_the_95_percent_intervals_of_every_score(make, score):
    e = with_errors(make(12), size=0.1)
    ax = e.plot.bar(score=score).axes[0]
    lines = np.array(artist(ax, "intervals").get_segments())[:, :, 0]
    names, widths, _ = bars(ax.get_figure())
    shown = [e.units.index(name) for name in names]
    assert np.allclose(widths, e.scores(score)[shown])
    ends = np.append(widths, 0.0)
    room = 0.5 * np.ptp(ends)  # beyond, whiskers are cut
    assert np.allclose(lines, np.clip(e.interval(score)[shown], ends.min() - room, ends.max() + room))
    assert "95% interval" in legend(ax)
    assert not artists(e.plot.bar(score=score, intervals=False).axes[0], "intervals")


@cases("score", [name for name in SCORES if name not in ("banzhaf", "weight")])
def test_bars_that_are_not_told_from_zero_are_pale_and_hatched(score):
    e = with_errors(random_words(40))
    figure = e.plot.bar(k=40, score=score)
    names, _, colours = bars(figure)
    hatched = {name for name, patch in zip(names, rows(figure), strict=True) if patch.get_hatch()}
    if score == "importance":  # zero is the mean there
        assert not hatched
        return
    assert hatched == {name for name, sure in zip(e.units, e.certain(name=score), strict=True) if not sure}
    assert 0 < len(hatched) < 40
    full = {THEMES["light"].positive, THEMES["light"].negative}
    assert {name for name, colour in zip(names, colours, strict=True) if colour not in full} == hatched
    assert "not distinguishable from zero" in legend(figure.axes[0])
    for plain in (e.plot.bar(k=40, score=score, intervals=False), random_words(40).plot.bar(score=score)):
        assert not any(patch.get_hatch() for patch in plain.axes[0].patches)
        assert "not distinguishable from zero" not in legend(plain.axes[0])


def test_whiskers_longer_than_the_picture_end_in_arrows():
    e = with_se(random_words(3), removal=np.array([0.01, 1e3, np.inf]))
    ax = e.plot.bar().axes[0]
    low, high = ax.get_xlim()
    effects = np.append(e.removal, 0.0)
    assert high - low == pytest.approx(2 * np.ptp(effects) * 1.28)  # bars take half of it, numbers have 14% on each side
    order = [e.units.index(name) for name in bars(ax.get_figure())[0]]
    for side in (0, 1):
        assert [order[int(row)] for row in artist(ax, f"arrows {side}").get_ydata()] == [i for i in order if i != 0]
        assert [order[int(row)] for row in artist(ax, f"ends {side}").get_ydata()] == [0]


def test_a_value_that_nobody_knows_does_not_lead():
    e = in_order(["dull", "best", "half"], [-8.0, 16.0, -26.0], np.zeros(3), se=np.array([0.5, 5.0, 80.0]))
    assert bars(e.plot.bar(score="value"))[0] == ["best", "dull", "half"]
    assert bars(in_order(e.units, e.values, np.zeros(3)).plot.bar(score="value"))[0] == ["half", "best", "dull"]


PAIRS = (((2, 0), 0.5, 0.1), ((0, 1), -2.0, 0.4), ((1, 3), 0.1, 0.2))


def test_pairs_are_bars_with_whiskers_the_strongest_first():
    e = with_pairs(in_order(["so", "not", "good", "so"], [1.0, -2.0, 3.0, 1.5], np.zeros(4)), PAIRS)
    figure = e.plot.pairs()
    names, widths, _ = bars(figure)
    assert names == ["so (1) + not", "good + so (1)", "not + so (2)"]
    assert widths.tolist() == [-2.0, 0.5, 0.1]
    lines = np.array(artist(figure.axes[0], "intervals").get_segments())[:, :, 0]
    assert np.allclose(lines, [[-2 - 0.4 * Z, -2 + 0.4 * Z], [0.5 - 0.1 * Z, 0.5 + 0.1 * Z], [0.1 - 0.2 * Z, 0.1 + 0.2 * Z]])
    assert [bool(patch.get_hatch()) for patch in rows(figure)] == [False, False, True]
    assert len(bars(e.plot.pairs(k=2))[0]) == 2
    with pytest.raises(InputError, match="k must be a whole number of at least 1"):
        e.plot.pairs(k=0)


def test_pairs_of_several_classes_and_none():
    several = with_pairs(three_classes(), [((0, 1), np.array([1.0, -3.0, 2.0]), np.array([0.1, 0.2, 0.3]))])
    for target, effect in ((0, 1.0), ("g", -3.0), (None, 2.0)):
        assert bars(several.plot.pairs(target=target))[1].tolist() == [effect]
    for none in (random_words(3), with_pairs(random_words(3), ())):
        with pytest.raises(InputError, match="this explanation has none"):
            none.plot.pairs()


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


def test_occurrences_that_share_parameters_but_not_the_score_are_bars_of_their_own():
    e = in_order(["so", "good", "so", "so"], [1.0, 5.0, 1.0, 1.0], np.zeros(4))
    changes = np.array([0.0, 0.0, -9.0, 0.0])
    e = replace(e, surrogate=TwoScale(e.surrogate, changes.sum(), changes, np.full(4, 0.25), 1))
    names, widths, _ = bars(e.plot.bar())
    assert names == ["so (2)", "good", "so ×2"]
    assert np.allclose(widths, e.removal[[2, 1, 0]])
    assert {name.get_text() for name in artists(e.plot.scatter().axes[0], "name")} == {"so ×3", "good"}


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
    exact = with_se(e, value=None)
    assert np.allclose(bars(exact.plot.bar(score="value", target="g"))[1], [-4.0, 2.0, -1.0, 0.5])
    with pytest.raises(InputError, match="k must be a whole number of at least 1; got 0"):
        e.plot.bar(k=0)
    with pytest.raises(InputError, match="intervals must be True or False"):
        e.plot.bar(intervals="yes")
    with pytest.raises(InputError, match="a score must be one of"):
        e.plot.bar(score="x")


def test_labels_that_are_numbers_are_labels():
    e = replace(three_classes(), labels=("2", "0", "1"), target="all")
    _, widths, _ = bars(e.plot.bar(k=3, target="2"))
    order = np.argsort(-np.abs(e.removal[:, 0]))[:3]
    assert np.allclose(widths, e.removal[order, 0])
