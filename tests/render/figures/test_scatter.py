"""Value against importance: points, sizes, colours, intervals, and names that cover nothing."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

from slalom.errors import InputError
from slalom.render.palette import THEMES
from tests.factories import ODD_WORDS, explanation, in_order, random_words, three_classes, with_removals, with_se
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
        e = random_words(n, seed)
        figure = e.plot.scatter(label=label)
        figure.set_dpi(60)  # another resolution than that of the layout
        figure.draw_without_rendering()
        ax = figure.axes[0]
        names = {int(name.get_gid().split()[1]): name for name in artists(ax, "name")}
        assert set(names) == set(e.strongest(label))
        assert all(name.get_text() == e.units[i] for i, name in names.items())
        boxes, frame = [name.get_window_extent() for name in names.values()], ax.get_window_extent()
        dots = artist(ax, "units")
        centres = ax.transData.transform(dots.get_offsets())
        radii = np.sqrt(dots.get_sizes()) / 2 * 60 / 72
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
    ax = Figure(figsize=(3, 3), layout="constrained").add_subplot()
    random_words(40).plot.scatter(label=40, ax=ax)
    shown = len(artists(ax, "name"))
    assert 0 < shown < 40
    assert artist(ax, "room").get_text() == f"no room for {40 - shown} of 40 names"


def test_colours_of_a_saturated_text_are_those_of_its_shapley_values():
    e = random_words(20)
    e = replace(with_removals(e, -10.0 * e.removal), score=1000.0)  # what single removals do is turned round
    assert e.saturated
    colours, theme = points(e.plot.scatter(), e)[2], THEMES["light"]
    blue = np.abs(colours - theme.hue(1.0)).sum(axis=1) < np.abs(colours - theme.hue(-1.0)).sum(axis=1)
    assert blue.tolist() == (e.shapley() > 0).tolist() != (e.removal > 0).tolist()


def test_of_equal_points_the_strongest_is_on_top():
    e = in_order(["not", "not"], [-2.0, -2.0], [0.0, 0.0])
    for changes in np.array([[0.3, -0.9], [-0.9, 0.3]]):
        one = with_removals(e, changes)
        strongest = float(one.removal[np.abs(one.removal).argmax()])
        top = artist(one.plot.scatter().axes[0], "units").get_facecolors()[-1][:3]
        near, far = (np.abs(top - THEMES["light"].hue(sign * strongest)).sum() for sign in (1.0, -1.0))
        assert near < far


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
        random_words(600),
    ):
        figure = e.plot.scatter()
        figure.draw_without_rendering()
        at, box = artist(figure.axes[0], "units").get_offsets(), figure.axes[0].viewLim
        assert len(at) == len(e)
        assert all(box.contains(x, y) for x, y in at)
        assert len(artists(figure.axes[0], "name")) == min(len(set(e.units)), 15)


def test_long_names_are_shortened_and_odd_ones_kept():
    e = in_order(ODD_WORDS, np.linspace(-1, 1, len(ODD_WORDS)), np.zeros(len(ODD_WORDS)))
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
