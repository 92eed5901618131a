"""Value against importance: points, sizes, colours, intervals, and names that cover nothing."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

from slalom.core import Slalom, TwoScale
from slalom.errors import InputError
from slalom.render.charts import View
from slalom.render.palette import THEMES
from slalom.result import NORMAL_95 as Z
from tests.factories import ODD_WORDS, explanation, in_order, random_words, three_classes, with_se
from tests.render.figures.artists import artist, artists, legend


def points(figure, e, target=None):
    """Offsets, areas and colours of the points, in the order of the units."""
    dots = artist(figure.axes[0], "units")
    at = {tuple(p): i for i, p in enumerate(zip(e.scores("value", target), e.importances, strict=True))}
    order = np.argsort([at[tuple(p)] for p in dots.get_offsets()])
    return dots.get_offsets()[order], dots.get_sizes()[order], dots.get_facecolors()[order, :3]


def test_points_are_where_value_and_importance_say_with_area_and_colour():
    e, theme = random_words(30), THEMES["light"]
    at, areas, colours = points(e.plot.scatter(), e)
    assert np.array_equal(at, np.stack([e.values, e.importances], axis=1))
    assert (np.diff(areas[np.argsort(e.weights)]) >= 0).all()
    assert areas.max() > 5 * areas.min()
    hue = np.subtract([theme.hue(x) for x in e.removal], theme.paper)
    share = np.abs(e.removal) / np.abs(e.removal).max()
    assert np.allclose(colours, theme.paper + hue * (0.45 + 0.5 * share**0.5)[:, None])
    object.__setattr__(e, "full_effect", lambda name, target: 4 * np.abs(e.removal).max())
    assert np.allclose(points(e.plot.scatter(), e)[2], theme.paper + hue * (0.45 + 0.5 * (share / 4) ** 0.5)[:, None])


def touching(one, other):
    return one.x0 < other.x1 and other.x0 < one.x1 and one.y0 < other.y1 and other.y0 < one.y1


def test_names_cover_nothing():
    for n, seed, label in ((5, 0, 15), (40, 2, 30)):
        e = random_words(n, seed, background=(0.3, 0.2))
        figure = e.plot.scatter(label=label)
        figure.set_dpi(60)  # another resolution than that of the layout
        figure.draw_without_rendering()
        ax = figure.axes[0]
        names = {int(name.get_gid().split()[1]): name for name in artists(ax, "name")}
        assert set(names) == set(e.strongest(label))
        assert all(name.get_text() == e.units[i] for i, name in names.items())
        boxes, frame = [name.get_window_extent() for name in names.values()], ax.get_window_extent()
        dots = artist(ax, "units")
        centres = ax.transData.transform(np.concatenate([dots.get_offsets(), [e.background]]))
        radii = np.append(np.sqrt(dots.get_sizes()) / 2, 5.0) * 60 / 72
        for i, box in enumerate(boxes):
            assert frame.x0 < box.x0 < box.x1 < frame.x1
            assert frame.y0 < box.y0 < box.y1 < frame.y1
            assert not any(touching(box, other) for other in boxes[:i])
            apart = np.maximum([box.x0, box.y0] - centres, centres - [box.x1, box.y1]).clip(min=0)
            assert (np.hypot(*apart.T) > radii).all()


def test_a_name_that_was_moved_is_led_to_its_point():
    crowd = np.linspace(0, 0.001, 12)
    e = in_order([f"word{i}" for i in range(13)], np.append(1 + crowd, -5.0), np.append(crowd, 2.0))
    figure = e.plot.scatter()
    ax = figure.axes[0]
    assert len(artists(ax, "name")) == 13
    leaders = artists(ax, "leader")
    assert leaders
    for line in leaders:
        i = int(line.get_gid().split()[1])
        start, end = ax.transAxes.transform(line.get_xydata())
        centre = ax.transData.transform((e.values[i], e.importances[i]))
        assert np.linalg.norm(start - centre) < 20
        box = artist(ax, f"name {i}").get_window_extent().padded(4)
        assert box.contains(*end)


def test_names_without_room_are_counted():
    ax = Figure(figsize=(4, 4), layout="constrained").add_subplot()
    random_words(80).plot.scatter(label=80, ax=ax)
    shown = len(artists(ax, "name"))
    assert 0 < shown < 80
    assert artist(ax, "room").get_text() == f"no room for {80 - shown} of 80 names"


WORDS = ["dull", "best", "things", "half", "years", "seen", "."]
VALUES = np.array([-8.4, 16.1, 1.0, -26.3, 23.8, -40.0, 60.0])
IMPORTANCES = np.array([3.9, 2.0, 1.1, 0.8, 0.6, -0.1, -1.0])
VALUE_SE = np.array([0.6, 6.0, 2.0, 70.0, 130.0, 280.0, 1e4])


def undetermined(value=VALUE_SE, importance=np.full(7, 0.3)):
    """Two values that are known, a small one within a narrow interval, and four that nobody knows."""
    return with_se(in_order(WORDS, VALUES, IMPORTANCES), value=value, importance=importance)


def test_values_that_nobody_knows_are_pale_and_do_not_decide_the_limits():
    e, look = undetermined(), THEMES["dark"]
    ax = e.plot.scatter(theme="dark").axes[0]
    low, high = ax.get_xlim()
    known = VALUES * np.minimum(1, np.abs(VALUES) / (Z * VALUE_SE))  # the rule, written once more
    left, right = min(known.min(), 0), max(known.max(), 0)
    margin = 0.09 * (right - left)
    assert (low, high) == pytest.approx((left - margin, right + margin))
    inside = (low <= VALUES) & (high >= VALUES)
    assert inside.tolist() == [True, True, True, False, False, False, False]
    assert {tuple(at) for at in artist(ax, "units").get_offsets()} == set(zip(VALUES[:3], e.importances[:3], strict=True))
    for side, marker in ((low, "<"), (high, ">")):
        outside = artist(ax, f"outside {marker}").get_offsets()
        assert np.abs(outside[:, 0] - side).max() < 0.02 * (high - low)
        assert np.allclose(outside[:, 1], e.importances[~inside & (np.sign(VALUES) == np.sign(side))])
    assert {"too uncertain to show (4 of 7)", "value further out"} <= set(legend(ax))
    names = {name.get_text(): name.get_color() for name in artists(ax, "name")}
    assert {name for name, colour in names.items() if colour == look.ink} >= {"dull", "best"}
    assert names["half"] == look.muted
    assert "." not in names  # nobody knows its value, and it says nothing


def test_what_is_known_of_a_unit_decides_whether_it_is_pale():
    def frame(e):
        return View(e, None).frame()

    assert frame(undetermined(None, None)).pale.tolist() == [False] * 7  # nothing is known of it
    every = frame(undetermined(100 * VALUE_SE))  # hardly any value is known: all are inside
    assert (every.x, every.pale.all()) == ((-40.0, 60.0), True)
    e = undetermined(np.full(7, 0.1), np.array([0.1, 9.0, *[0.1] * 5]))
    quiet = frame(e)
    assert quiet.pale.tolist() == [False, True, *[False] * 5]
    assert quiet.y == (e.importances.min(), e.importances.max())
    values, background = np.array([10.0, -10.0, 0.1, 0.1]), (0.0, float(np.log(4)))  # half of the attention
    apart = np.sqrt((100 + 100 + 0.01 + 0.01) / 8 - (0.2 / 8) ** 2)
    errors = {"value": np.array([9.9, 10.1, 0.99 * apart, 1.01 * apart]) / Z}
    e = in_order(["a", "b", "c", "d"], values, np.zeros(4), background=background, errors=errors)
    assert frame(e).pale.tolist() == [False, True, False, True]
    endless = in_order(["a", "b", "c"], [1.0, -1.0, 50.0], [2.0, 2.0, -1.0], se=np.array([0.5, 0.5, np.inf]))
    assert frame(endless).x == (-1.0, 1.0)
    endless.plot.scatter().draw_without_rendering()


def test_colours_of_a_saturated_text_are_those_of_its_shapley_values():
    e = random_words(20)
    changes = 10.0 * e.removal  # what the surrogate says of single removals is turned round
    e = replace(e, surrogate=TwoScale(e.surrogate, changes.sum(), changes, np.full(20, 0.05), 32), score=1000.0)
    assert e.saturated
    colours, theme = points(e.plot.scatter(), e)[2], THEMES["light"]
    blue = np.abs(colours - theme.hue(1.0)).sum(axis=1) < np.abs(colours - theme.hue(-1.0)).sum(axis=1)
    assert blue.tolist() == (e.shapley() > 0).tolist() != (e.removal > 0).tolist()


def test_of_equal_points_the_strongest_is_on_top():
    e = in_order(["not", "not"], [-2.0, -2.0], [0.0, 0.0])
    for changes in np.array([[0.3, -0.9], [-0.9, 0.3]]):
        model = TwoScale(Slalom([-2.0, -2.0], [0.0, 0.0]), changes.sum(), changes, [0.5, 0.5], 2)
        one = replace(e, surrogate=model)
        strongest = float(one.removal[np.abs(one.removal).argmax()])
        top = artist(one.plot.scatter().axes[0], "units").get_facecolors()[-1][:3]
        near, far = (np.abs(top - THEMES["light"].hue(sign * strongest)).sum() for sign in (1.0, -1.0))
        assert near < far


def test_the_background_is_a_marker_or_said_to_be_outside():
    near = random_words(20, background=(1.0, 0.5))
    ax = near.plot.scatter().axes[0]
    assert np.array_equal(artist(ax, "background").get_offsets(), [near.background])
    far = random_words(20, background=(1.0, 90.0)).plot.scatter().axes[0]
    assert not artists(far, "background")
    assert far.get_ylim()[1] < 10
    assert any(label.startswith("background outside, at") for label in legend(far))


def test_classes_are_chosen_by_label_or_index():
    e = three_classes()
    for target, column in ((None, 2), ("g", 1), (0, 0)):
        at, _, _ = points(with_se(e, value=None).plot.scatter(target=target), e, target)
        assert np.array_equal(at[:, 0], e.values[:, column])
    with pytest.raises(InputError, match="target 'x' is not a class of this model"):
        e.plot.scatter(target="x")


def test_every_shape_of_explanation_has_a_picture():
    for e in (
        in_order(["only"], [0.0], [0.0]),
        in_order(["a"] * 20, np.ones(20), np.zeros(20)),
        in_order([f"w{i}" for i in range(60)], np.linspace(-1e6, 1e6, 60), np.linspace(-400, 400, 60)),
        random_words(3000),
    ):
        figure = e.plot.scatter()
        figure.draw_without_rendering()
        at, box = artist(figure.axes[0], "units").get_offsets(), figure.axes[0].viewLim
        assert len(at) == len(e)
        assert all(box.contains(x, y) for x, y in at)
        assert len(artists(figure.axes[0], "name")) == min(len(set(e.units)), 15)


def test_long_names_are_shortened_and_odd_ones_kept():
    e = in_order(ODD_WORDS, np.linspace(-1, 1, len(ODD_WORDS)), np.zeros(len(ODD_WORDS)), background=(0.0, 0.0))
    texts = {name.get_text() for name in artists(e.plot.scatter().axes[0], "name")}
    assert {"$5_{x}$", "C:\\temp\\x", "👍🏽", "\ufffdbad", "\ufffd"} <= texts
    assert any(text.startswith("very very") and text.endswith("…") and len(text) <= 28 for text in texts)


def test_wrong_arguments_are_refused():
    for wrong in ({"label": -1}, {"label": 2.0}, {"label": True}, {"theme": "pink"}, {"ax": 3}):
        with pytest.raises(InputError, match=f"{next(iter(wrong))} must be"):
            random_words(5).plot.scatter(**wrong)


def test_scores_without_a_sign_have_no_direction():
    e = replace(explanation("one two three", [0.5, 0.1, 0.3]), method="attention", signed=False)
    ax, theme = e.plot.scatter().axes[0], THEMES["light"]
    colours = artist(ax, "units").get_facecolors()[:, :3]
    directions = (colours - theme.paper) / np.subtract(theme.neutral, theme.paper)
    assert np.allclose(directions, directions[:, :1])  # all between paper and violet
    assert legend(ax)[0] == "neither for nor against: no sign"
