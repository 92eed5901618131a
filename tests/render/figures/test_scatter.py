"""Value against importance: points, sizes, colours, intervals, and names that cover nothing."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

from slalom.core import Slalom, TwoScale
from slalom.errors import InputError
from slalom.render.charts import scatter_frame
from slalom.render.figures.canvas import Key
from slalom.render.palette import THEMES
from slalom.result import NORMAL_95 as Z
from tests.cases import cases
from tests.factories import ODD_WORDS, explanation, in_order, random_words, three_classes, with_se
from tests.render.figures.artists import artist, artists


def points(figure, e, target=None):
    """Offsets and areas of the points, in the order of the units."""
    dots = artist(figure.axes[0], "units")
    at = {tuple(p): i for i, p in enumerate(zip(e.scores("value", target), e.importances, strict=True))}
    order = np.argsort([at[tuple(p)] for p in dots.get_offsets()])
    return dots.get_offsets()[order], dots.get_sizes()[order], dots.get_facecolors()[order]


def test_points_are_where_value_and_importance_say():
    e = random_words(30)
    at, _, colours = points(e.plot.scatter(), e)
    assert np.array_equal(at, np.stack([e.values, e.importances], axis=1))
    blue, orange = THEMES["light"].positive, THEMES["light"].negative
    for colour, effect in zip(colours, e.removal, strict=True):
        near, far = (blue, orange) if effect > 0 else (orange, blue)
        assert np.abs(colour[:3] - near).sum() < np.abs(colour[:3] - far).sum()


def test_areas_grow_with_the_share_of_attention():
    e = random_words(50)
    _, areas, _ = points(e.plot.scatter(), e)
    order = np.argsort(e.weights)
    assert (np.diff(areas[order]) >= 0).all()
    assert areas.max() > 5 * areas.min()
    quiet = random_words(3000)
    _, areas, _ = points(quiet.plot.scatter(label=0), quiet)
    assert np.median(areas) < 30


def touching(one, other):
    return one.x0 < other.x1 and other.x0 < one.x1 and one.y0 < other.y1 and other.y0 < one.y1


@cases(("n", "seed", "label"), [(5, 0, 15), (40, 1, 15), (40, 2, 30), (150, 3, 15), (400, 4, 15), (400, 5, 25)])
def test_names_cover_nothing(n, seed, label):
    e = random_words(n, seed, background=(0.3, 0.2))
    figure = e.plot.scatter(label=label)
    for dpi in (120, 60):
        figure.set_dpi(dpi)
        figure.draw_without_rendering()
        check_names(figure.axes[0], e, label, dpi)


def check_names(ax, e, label, dpi):
    """Names are those of the strongest units, inside the axes, and touch neither each other nor a point."""
    names = artists(ax, "name")
    assert {int(name.get_gid().split()[1]) for name in names} == set(e.strongest(label))
    assert all(name.get_text() == e.units[int(name.get_gid().split()[1])] for name in names)
    boxes = [name.get_window_extent() for name in names]
    frame = ax.get_window_extent()
    for i, box in enumerate(boxes):
        assert frame.x0 < box.x0 < box.x1 < frame.x1
        assert frame.y0 < box.y0 < box.y1 < frame.y1
        assert not any(touching(box, other) for other in boxes[:i])
    dots = artist(ax, "units")
    centres = ax.transData.transform(np.concatenate([dots.get_offsets(), [e.background]]))
    radii = np.append(np.sqrt(dots.get_sizes()) / 2, 5.0) * dpi / 72
    for box in boxes:
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


def test_intervals_are_of_95_percent():
    e = random_words(20, se=np.linspace(0.5, 2, 20))
    ax = e.plot.scatter(intervals=True).axes[0]
    for axis, name in enumerate(("value", "importance")):
        middle, se = e.scores(name), e.errors[name]
        lines = np.array(artist(ax, f"{name} intervals").get_segments())
        assert np.allclose(lines[:, 1, axis] - lines[:, 0, axis], 2 * Z * se)
        assert np.allclose(lines[:, :, axis].mean(axis=1), middle)
        assert np.allclose(lines[:, :, axis], e.interval(name))
    with pytest.raises(InputError, match="intervals=True needs standard errors"):
        random_words(20).plot.scatter(intervals=True)


WORDS = ["dull", "best", "things", "half", "years", "seen", "."]
VALUES = np.array([-8.4, 16.1, 1.0, -26.3, 23.8, -40.0, 60.0])
IMPORTANCES = np.array([3.9, 2.0, 1.1, 0.8, 0.6, -0.1, -1.0])
VALUE_SE = np.array([0.6, 6.0, 2.0, 70.0, 130.0, 280.0, 1e4])


def undetermined(value=VALUE_SE, importance=np.full(7, 0.3)):
    """Two values that are known, a small one within a narrow interval, and four that nobody knows."""
    return with_se(in_order(WORDS, VALUES, IMPORTANCES), value=value, importance=importance)


@cases("theme", ["light", "dark"])
def test_values_that_nobody_knows_are_pale_and_do_not_decide_the_limits(theme):
    e = undetermined()
    ax = e.plot.scatter(theme=theme).axes[0]
    low, high = ax.get_xlim()
    known = VALUES * np.minimum(1, np.abs(VALUES) / (Z * VALUE_SE))  # the rule, written once more
    left, right = min(known.min(), 0), max(known.max(), 0)
    margin = 0.09 * (right - left)
    assert (low, high) == pytest.approx((left - margin, right + margin))
    inside = (low <= VALUES) & (high >= VALUES)
    assert inside.tolist() == [True, True, True, False, False, False, False]
    dots = artist(ax, "units")
    assert {tuple(at) for at in dots.get_offsets()} == set(zip(VALUES[:3], e.importances[:3], strict=True))
    for side, marker in ((low, "<"), (high, ">")):
        outside = artist(ax, f"outside {marker}").get_offsets()
        wanted = ~inside & (np.sign(VALUES) == np.sign(side))
        assert np.abs(outside[:, 0] - side).max() < 0.02 * (high - low)
        assert np.allclose(outside[:, 1], e.importances[wanted])
    labels = [text.get_text() for text in ax.findobj(Key)[0].get_texts()]
    assert "too uncertain to show (4 of 7)" in labels
    assert "value further out" in labels
    look = THEMES[theme]
    names = {name.get_text(): name.get_color() for name in artists(ax, "name")}
    assert {"dull", "best"} <= {name for name, colour in names.items() if colour == look.ink}
    assert all(names[name] == look.muted for name in ("half", "years") if name in names)
    assert "half" in names
    assert "." not in names  # nobody knows its value, and it says nothing


def test_without_intervals_every_unit_is_inside():
    ax = undetermined(None, None).plot.scatter().axes[0]
    assert len(artist(ax, "units").get_offsets()) == 7
    assert not artists(ax, "outside")
    assert not any("too uncertain to show" in text.get_text() for text in ax.findobj(Key)[0].get_texts())


def test_where_hardly_any_value_is_known_all_units_are_inside():
    e = undetermined(100 * VALUE_SE)
    ax = e.plot.scatter().axes[0]
    assert len(artist(ax, "units").get_offsets()) == 7
    assert "too uncertain to show (7 of 7)" in [text.get_text() for text in ax.findobj(Key)[0].get_texts()]


def test_an_importance_that_nobody_knows_makes_a_point_pale():
    e = undetermined(np.full(7, 0.1), np.array([0.1, 9.0, *[0.1] * 5]))
    frame = scatter_frame(e)
    assert frame.pale.tolist() == [False, True, *[False] * 5]
    assert frame.x == (-40.0, 60.0)
    assert frame.y == (e.importances.min(), e.importances.max())


def test_a_value_is_determined_by_its_sign_or_beside_the_other_values():
    values, importances = np.array([10.0, -10.0, 0.1, 0.1]), np.zeros(4)
    background = (0.0, float(np.log(4)))  # half of the attention
    apart = np.sqrt((100 + 100 + 0.01 + 0.01) / 8 - (0.2 / 8) ** 2)
    se = np.array([9.9, 10.1, 0.99 * apart, 1.01 * apart]) / Z
    e = in_order(["a", "b", "c", "d"], values, importances, background=background, errors={"value": se})
    assert scatter_frame(e).pale.tolist() == [False, True, False, True]


def test_colours_are_shares_of_the_effect_that_has_the_full_colour():
    e = random_words(20)
    weak = random_words(20)
    object.__setattr__(weak, "full_effect", lambda name, target: 4 * np.abs(weak.removal).max())
    away = [np.abs(points(one.plot.scatter(), one)[2][:, :3] - THEMES["light"].paper).sum(axis=1) for one in (e, weak)]
    assert (away[1] < away[0]).all()
    hue = np.abs(np.subtract([THEMES["light"].hue(x) for x in e.removal], THEMES["light"].paper)).sum(axis=1)
    share = np.abs(e.removal) / np.abs(e.removal).max()
    assert np.allclose(away[0], hue * (0.45 + 0.5 * share**0.5))
    assert np.allclose(away[1], hue * (0.45 + 0.5 * (share / 4) ** 0.5))


def test_colours_of_a_saturated_text_are_those_of_its_shapley_values():
    e = random_words(20)
    changes = 10.0 * e.removal  # what the surrogate says of single removals is turned round
    e = replace(e, surrogate=TwoScale(e.surrogate, changes.sum(), changes, np.full(20, 0.05), 32), score=1000.0)
    assert e.saturated
    colours, theme = points(e.plot.scatter(), e)[2][:, :3], THEMES["light"]
    blue = np.abs(colours - theme.hue(1.0)).sum(axis=1) < np.abs(colours - theme.hue(-1.0)).sum(axis=1)
    assert blue.tolist() == (e.shapley() > 0).tolist()
    assert blue.tolist() != (e.removal > 0).tolist()


def test_of_equal_points_the_strongest_is_on_top():
    e = in_order(["not", "not"], [-2.0, -2.0], [0.0, 0.0])
    for changes in np.array([[0.3, -0.9], [-0.9, 0.3]]):
        model = TwoScale(Slalom([-2.0, -2.0], [0.0, 0.0]), changes.sum(), changes, [0.5, 0.5], 2)
        one = replace(e, surrogate=model)
        strongest = float(one.removal[np.abs(one.removal).argmax()])
        top = artist(one.plot.scatter().axes[0], "units").get_facecolors()[-1][:3]
        near, far = (np.abs(top - THEMES["light"].hue(sign * strongest)).sum() for sign in (1.0, -1.0))
        assert near < far


def test_intervals_without_end_are_pale_and_take_no_room():
    se = np.array([0.5, 0.5, np.inf, np.nan])
    e = in_order(["a", "b", "c", "d"], [1.0, -1.0, 50.0, -70.0], [2.0, 2.0, -1.0, -3.0], se=se)
    figure = e.plot.scatter()
    figure.draw_without_rendering()
    assert figure.axes[0].get_xlim() == pytest.approx((-1.18, 1.18))


def test_the_background_is_a_marker_or_said_to_be_outside():
    near = random_words(20, background=(1.0, 0.5))
    ax = near.plot.scatter().axes[0]
    assert np.array_equal(artist(ax, "background").get_offsets(), [near.background])
    far = random_words(20, background=(1.0, 90.0)).plot.scatter().axes[0]
    assert not artists(far, "background")
    assert far.get_ylim()[1] < 10
    assert any("background outside, at" in text.get_text() for text in far.findobj(lambda a: hasattr(a, "get_text")))


def test_classes_are_chosen_by_label_or_index():
    e = three_classes()
    for target, column in ((None, 2), ("g", 1), (0, 0)):
        at, _, _ = points(with_se(e, value=None).plot.scatter(target=target), e, target)
        assert np.array_equal(at[:, 0], e.values[:, column])
    lines = np.array(artist(e.plot.scatter(target="g", intervals=True).axes[0], "value intervals").get_segments())
    assert np.allclose(np.ptp(lines[:, :, 0], axis=1), 2 * Z * e.errors["value"][:, 1])
    with pytest.raises(InputError, match="target 'x' is not a class of this model"):
        e.plot.scatter(target="x")


def test_occurrences_that_share_everything_have_one_name():
    e = in_order(["the", "cat", "the", "the"], [1.0, -2.0, 1.0, 1.0], [0.5, -1.5, 0.5, 0.5])
    names = {name.get_text() for name in artists(e.plot.scatter().axes[0], "name")}
    assert names == {"the ×3", "cat"}


@cases(
    "e",
    [
        in_order(["only"], [2.0], [0.0]),
        in_order(["only"], [0.0], [0.0]),
        in_order(["good", "bad"], [2.0, -1.0], [0.0, 0.0]),
        in_order(["a"] * 20, np.ones(20), np.zeros(20)),
        in_order([f"w{i}" for i in range(60)], np.linspace(-1e6, 1e6, 60), np.linspace(-400, 400, 60)),
        in_order(ODD_WORDS, np.linspace(-1, 1, len(ODD_WORDS)), np.zeros(len(ODD_WORDS)), background=(0.0, 0.0)),
        random_words(5000),
    ],
    ids=["one", "nothing", "two", "same", "huge", "odd", "5000"],
)
def test_every_shape_of_explanation_has_a_picture(e):
    figure = e.plot.scatter()
    figure.draw_without_rendering()
    dots = artist(figure.axes[0], "units")
    box = figure.axes[0].viewLim
    assert len(dots.get_offsets()) == len(e)
    assert all(box.contains(x, y) for x, y in dots.get_offsets())
    assert len(artists(figure.axes[0], "name")) == min(len(set(e.units)), 15)


def test_long_names_are_shortened_and_odd_ones_kept():
    e = in_order(ODD_WORDS, np.linspace(-1, 1, len(ODD_WORDS)), np.zeros(len(ODD_WORDS)))
    texts = {name.get_text() for name in artists(e.plot.scatter().axes[0], "name")}
    assert {"$5_{x}$", "C:\\temp\\x", "👍🏽", "\ufffdbad", "\ufffd"} <= texts
    assert any(text.startswith("very very") and text.endswith("…") and len(text) <= 28 for text in texts)


@cases("wrong", [{"label": -1}, {"label": 2.0}, {"label": True}, {"intervals": 1}, {"theme": "pink"}, {"ax": 3}])
def test_wrong_arguments_are_refused(wrong):
    with pytest.raises(InputError, match=f"{next(iter(wrong))} must be"):
        random_words(5).plot.scatter(**wrong)


def test_scores_without_a_sign_have_no_direction():
    e = replace(explanation("one two three", [0.5, 0.1, 0.3]), method="attention", signed=False)
    figure = e.plot.scatter()
    colours = artist(figure.axes[0], "units").get_facecolors()[:, :3]
    directions = (colours - THEMES["light"].paper) / (np.array(THEMES["light"].neutral) - THEMES["light"].paper)
    assert np.allclose(directions, directions[:, :1])  # all between paper and violet
    labels = [text.get_text() for text in figure.axes[0].findobj(Key)[0].get_texts()]
    assert labels[0] == "neither for nor against: no sign"
    assert "against" not in labels
