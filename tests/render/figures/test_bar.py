"""The strongest units as bars."""

from dataclasses import replace

import numpy as np
import pytest

from slalom.errors import InputError
from slalom.render.figures.canvas import Words
from slalom.render.palette import THEMES
from slalom.result import NORMAL_95 as Z
from tests.factories import explanation, in_order, random_words, three_classes, with_errors, with_pairs, with_removals, with_se
from tests.render.figures.artists import artist, artists, legend


def bars(figure):
    """Names, lengths and colours of the bars, and which are hatched."""
    ax = figure.axes[0]
    patches = sorted(ax.patches, key=lambda patch: patch.get_y())
    names = [artist(ax, f"name {row}").get_text() for row in range(len(patches))]
    colours = [patch.get_facecolor()[:3] for patch in patches]
    return names, np.array([patch.get_width() for patch in patches]), colours, [bool(patch.get_hatch()) for patch in patches]


def test_the_strongest_come_first_with_the_colour_of_their_side():
    e = random_words(30)
    for score in ("removal", "shapley", "value"):
        figure = e.plot.bar(k=7, score=score)
        names, widths, colours, hatched = bars(figure)
        expected = np.argsort(-np.abs(e.scores(score)))[:7]
        assert names == [e.units[i] for i in expected]
        assert np.allclose(widths, e.scores(score)[expected])
        assert colours == [THEMES["light"].hue(width) for width in widths]
        assert not any(hatched)
        low, high = figure.axes[0].get_ylim()
        assert low > high  # the first row is on top
    names, widths, _, _ = bars(e.plot.bar(k=5, score="importance"))
    assert (np.diff(widths) <= 0).all()
    assert names[0] == e.units[int(e.importances.argmax())]


def test_whiskers_are_intervals_and_what_is_not_distinguishable_from_zero_is_hatched():
    for e in (with_errors(random_words(30), size=0.1), with_errors(three_classes(), size=0.1)):
        for score in ("removal", "value", "importance"):
            ax = e.plot.bar(k=30, score=score).axes[0]
            names, widths, colours, hatched = bars(ax.get_figure())
            shown = [e.units.index(name) for name in names]
            assert np.allclose(widths, e.scores(score)[shown])
            ends = np.append(widths, 0.0)
            room = 0.5 * np.ptp(ends)  # beyond, whiskers are cut
            lines = np.array(artist(ax, "intervals").get_segments())[:, :, 0]
            assert np.allclose(lines, np.clip(e.interval(score)[shown], ends.min() - room, ends.max() + room))
            doubt = np.zeros(len(e), dtype=bool) if score == "importance" else ~e.certain(name=score)  # zero is the mean there
            assert hatched == doubt[shown].tolist()
            full = [THEMES["light"].hue(x, signed=score != "importance") for x in widths]
            assert [a != b for a, b in zip(colours, full, strict=True)] == hatched
            assert "95% interval" in legend(ax)
            assert ("not distinguishable from zero" in legend(ax)) == any(hatched)


def test_whiskers_longer_than_the_picture_end_in_arrows():
    e = with_se(random_words(3), removal=np.array([0.01, 1e3, np.inf]))
    ax = e.plot.bar().axes[0]
    low, high = ax.get_xlim()
    assert high - low == pytest.approx(2 * np.ptp(np.append(e.removal, 0.0)) * 1.28)  # numbers have 14% on each side
    order = [e.units.index(name) for name in bars(ax.get_figure())[0]]
    for side in (0, 1):
        assert [order[int(row)] for row in artist(ax, f"arrows {side}").get_ydata()] == [i for i in order if i != 0]
        assert [order[int(row)] for row in artist(ax, f"ends {side}").get_ydata()] == [0]


def test_pairs_are_bars_with_whiskers_the_strongest_first():
    pairs = (((2, 0), 0.5, 0.1), ((0, 1), -2.0, 0.4), ((1, 3), 0.1, 0.2))
    e = with_pairs(in_order(["so", "not", "good", "so"], [1.0, -2.0, 3.0, 1.5], np.zeros(4)), pairs)
    figure = e.plot.pairs()
    names, widths, _, hatched = bars(figure)
    assert names == ["so (1) + not", "good + so (1)", "not + so (2)"]
    assert widths.tolist() == [-2.0, 0.5, 0.1]
    lines = np.array(artist(figure.axes[0], "intervals").get_segments())[:, :, 0]
    assert np.allclose(lines, [[-2 - 0.4 * Z, -2 + 0.4 * Z], [0.5 - 0.1 * Z, 0.5 + 0.1 * Z], [0.1 - 0.2 * Z, 0.1 + 0.2 * Z]])
    assert hatched == [False, False, True]
    assert len(bars(e.plot.pairs(k=2))[0]) == 2
    several = with_pairs(three_classes(), [((0, 1), np.array([1.0, -3.0, 2.0]), np.array([0.1, 0.2, 0.3]))])
    for target, effect in ((0, 1.0), ("g", -3.0), (None, 2.0)):
        assert bars(several.plot.pairs(target=target))[1].tolist() == [effect]
    with pytest.raises(InputError, match="this explanation has none"):
        random_words(3).plot.pairs()


def test_scores_without_a_sign_have_no_direction():
    e = replace(explanation("one two three", [0.5, 0.1, 0.3]), method="attention", signed=False)
    for theme in THEMES.values():
        figure = e.plot.bar(theme=theme.name)
        names, _, colours, _ = bars(figure)
        assert names == ["one", "three", "two"]
        assert set(colours) == {theme.neutral}
        assert figure.axes[0].get_xlabel() == "attention: how much it counts, neither for nor against"
        assert not legend(figure.axes[0])
        numbers = [text.get_text() for text in figure.axes[0].findobj(Words) if text.get_fontsize() == 8.5]
        assert numbers == ["0.500", "0.300", "0.100"]


def test_occurrences_can_be_told_apart_or_are_counted():
    apart = in_order(["so", "good", "so", "bad"], [1.0, 5.0, 2.0, -4.0], np.zeros(4))
    assert bars(apart.plot.bar(score="value"))[0] == ["good", "bad", "so (2)", "so (1)"]
    shared = in_order(["so", "good", "so", "so"], [1.0, 5.0, 1.0, 1.0], np.zeros(4))
    assert bars(shared.plot.bar(score="value"))[0] == ["good", "so ×3"]
    changes = np.array([0.0, 0.0, -9.0, 0.0])  # the same parameters, another removal
    e = with_removals(shared, changes)
    names, widths, _, _ = bars(e.plot.bar())
    assert names == ["so (2)", "good", "so ×2"]
    assert np.allclose(widths, e.removal[[2, 1, 0]])
    assert {name.get_text() for name in artists(e.plot.scatter().axes[0], "name")} == {"so ×3", "good"}


def test_classes_by_their_labels_and_wrong_arguments():
    e = replace(three_classes(), labels=("2", "0", "1"), target="all")
    _, widths, _, _ = bars(e.plot.bar(k=3, target="2"))  # a label, not an index
    assert np.allclose(widths, e.removal[np.argsort(-np.abs(e.removal[:, 0]))[:3], 0])
    for wrong, said in (
        ({"k": 0}, "k must be a whole number of at least 1; got 0"),
        ({"score": "x"}, "a score must be one of"),
    ):
        with pytest.raises(InputError, match=said):
            e.plot.bar(**wrong)
    with pytest.raises(InputError, match="k must be a whole number of at least 1"):
        e.plot.pairs(k=0)
