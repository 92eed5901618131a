"""Pictures of a comparison: points at the means, logarithmic axes, names that do not overlap, notes about what is missing."""

from itertools import combinations

import numpy as np
import pytest
from matplotlib.collections import FillBetweenPolyCollection
from matplotlib.figure import Figure

from slalom.errors import InputError
from slalom.render.figures.compared import spread
from slalom.render.palette import DARK, LIGHT
from tests.cases import cases
from tests.render.figures.artists import artist
from tests.side_by_side import compared, realistic, record

KINDS = ("profile", "against_queries", "against_seconds")


def draw(c, kind, **more):
    return getattr(c.plot, kind)(**more)


def curve(figure, name):
    return artist(figure.axes[0], f"curve {name}")


def said(figure, start):
    return [a for a in figure.axes[0].findobj() if str(a.get_gid() or "").startswith(start)]


def three():
    rows = [("joint", 100, 0.1), ("joint", 400, 0.05), ("<i>lime</i>", 100, 0.4), ("loo", None, 0.2), ("attention", None, None)]
    return compared(
        [record(t, m, b, n if n is None else n * (1 + t), seconds=(b or 1) / 100) for m, b, n in rows for t in (0, 1)]
    )


def test_the_profile_has_its_points_at_the_means_on_a_log_axis():
    c = three()
    figure = c.plot.profile()
    assert isinstance(figure, Figure)
    assert figure.axes[0].get_yscale() == "log"
    assert figure.axes[0].get_xscale() == "linear"
    for row, name in ((("joint", 100), "joint 100"), (("joint", 400), "joint 400"), (("loo", None), "loo")):
        profile = c.profile(row)
        assert np.array_equal(curve(figure, name).get_xdata(), list(profile))
        assert np.array_equal(curve(figure, name).get_ydata(), [one.mean for one in profile.values()])


def test_bands_are_95_percent_intervals_and_ours_alone_have_them():
    figure = three().plot.profile()
    bands = figure.axes[0].findobj(FillBetweenPolyCollection)
    assert [band.get_gid() for band in bands] == ["band joint 100", "band joint 400"]
    y = bands[0].get_paths()[0].vertices
    first = y[y[:, 0] == 1.0, 1]
    half = 12.706 * 0.05  # Student's t for two texts
    assert first.min() == pytest.approx(max(0.15 - half, figure.axes[0].get_ylim()[0]), rel=0.01)
    assert first.max() == pytest.approx(0.15 + half, rel=0.01)


def test_ours_are_thick_and_in_their_colours():
    figure = three().plot.profile()
    ours, other = curve(figure, "joint 400"), curve(figure, "loo")
    assert ours.get_linewidth() > 1.5 * other.get_linewidth()
    assert np.allclose(ours.get_color(), LIGHT.strong[0])
    dark = curve(three().plot.profile(theme="dark"), "joint 400")
    assert np.allclose(dark.get_color(), DARK.strong[0])


def test_lines_for_several_budgets_and_points_for_one():
    c = three()
    figure = c.plot.against_queries("near")
    axes = figure.axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert np.allclose(curve(figure, "joint").get_xydata(), [(100, 0.15), (400, 0.075)])
    assert np.allclose(curve(figure, "<i>lime</i>").get_xydata(), [(100, 0.6)])
    assert np.allclose(curve(figure, "loo").get_xydata(), [(40, 0.3)])  # the queries it made


def test_every_budget_is_a_point_against_seconds():
    figure = three().plot.against_seconds("far")
    assert np.allclose(curve(figure, "joint 400").get_xydata(), [(4.0, 0.075)])
    assert np.allclose(curve(figure, "loo").get_xydata(), [(0.01, 0.3)])
    assert figure.axes[0].get_xscale() == "log"
    assert three().plot.against_seconds("deletion").axes[0].get_yscale() == "linear"


@cases("kind", KINDS)
def test_who_has_no_number_is_left_out_and_named(kind):
    figure = draw(three(), kind)
    assert not said(figure, "curve attention")
    assert any("attention" in note.get_text() for note in said(figure, "note"))


@cases("zero", [0.0, 1e-13])
def test_a_log_axis_has_no_place_for_zero_nor_for_rounding(zero):
    c = compared([record(0, "joint", 10, zero), record(0, "lime", 10, 0.5), record(0, "ridge", 10, 0.4)])
    figure = c.plot.against_seconds("near")
    assert not said(figure, "curve joint")
    assert any("joint" in note.get_text() for note in said(figure, "note"))


@cases("kind", KINDS)
def test_nothing_to_draw_is_an_error(kind):
    with pytest.raises(InputError, match="nothing to draw: no"):
        draw(compared([record(0, "attention", None, None)]), kind)


def test_a_measure_that_was_not_taken_is_an_error():
    with pytest.raises(InputError, match=r"one that was taken, near, far.*'human'"):
        three().plot.against_queries("human")
    with pytest.raises(InputError, match="theme"):
        three().plot.profile(theme="pink")


@cases("kind", KINDS)
@cases("budgets", [(500,), (100, 300, 1000)])
def test_names_do_not_overlap(kind, budgets):
    figure = draw(realistic(budgets, texts=3), kind)
    figure.draw_without_rendering()
    names = said(figure, "name ")
    assert len(names) == len(said(figure, "curve "))
    boxes = [name.get_window_extent() for name in names]
    for a, b in combinations(boxes, 2):
        apart = max(a.x0 - b.x1, b.x0 - a.x1, a.y0 - b.y1, b.y0 - a.y1)
        assert apart > -3  # descenders may come close
    for box in boxes:
        assert box.x0 > 0
        assert box.x1 <= figure.bbox.width


@cases("kind", KINDS)
def test_one_method_and_one_text_is_enough_and_axes_may_be_given(kind):
    c = compared([record(0, "$joint_{x}$", 10, 0.5)])
    figure = Figure()
    axes = figure.add_subplot()
    assert draw(c, kind, ax=axes, theme="dark") is figure
    figure.draw_without_rendering()
    assert [name.get_text() for name in said(figure, "name")] == ["$joint_{x}$"]


def test_looks_depend_on_the_method_alone_and_smaller_budgets_are_paler():
    figure, alone = three().plot.profile(), compared([record(0, "loo", None, 0.2)]).plot.profile()
    assert np.sum(curve(figure, "joint 100").get_color()) > np.sum(curve(figure, "joint 400").get_color())
    for look in ("color", "linewidth", "linestyle"):
        assert getattr(curve(figure, "loo"), f"get_{look}")() == getattr(curve(alone, "loo"), f"get_{look}")()


def test_places_are_apart_in_order_and_inside():
    rng = np.random.default_rng(0)
    for n in (1, 2, 9, 30):
        wanted = rng.random(n)
        places = np.array(spread(wanted.tolist(), 0.05, 0.0, 1.0))
        assert np.array_equal(np.argsort(places, kind="stable"), np.argsort(wanted, kind="stable"))
        assert places.min() >= -1e-12
        assert places.max() <= 1 + 1e-12
        if n > 1:
            assert np.diff(np.sort(places)).min() >= min(0.05, 1 / (n - 1)) - 1e-12


@cases("ends", [(1e-6, 2.0), (0.011, 0.09), (0.31, 0.36), (1.0, 3000.0)])
def test_ticks_are_inside_and_several(ends):
    axes = compared([record(0, "joint", 10, ends[0]), record(0, "lime", 10, ends[1])]).plot.against_seconds("near").axes[0]
    low, high = axes.get_ylim()
    assert low < ends[0] < ends[1] < high
    shown = [tick for tick in axes.get_yticks() if low <= tick <= high]
    assert 2 <= len(shown) <= 9
    assert len({axes.yaxis.get_major_formatter()(tick) for tick in shown}) == len(shown)
