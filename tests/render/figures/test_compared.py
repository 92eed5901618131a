"""Pictures of a comparison: points at the means, logarithmic axes, a legend, notes about what is missing."""

import numpy as np
import pytest
from matplotlib.collections import FillBetweenPolyCollection
from matplotlib.figure import Figure

from slalom.errors import InputError
from slalom.render.figures.canvas import Key
from slalom.render.palette import DARK, LIGHT
from tests.render.figures.artists import artist, artists, legend
from tests.side_by_side import compared, realistic, record

KINDS = ("profile", "against_queries", "against_seconds")


def draw(c, kind, **more):
    return getattr(c.plot, kind)(**more)


def curve(figure, name):
    return artist(figure.axes[0], f"curve {name}")


@pytest.fixture(scope="module")
def three():
    rows = [("joint", 100, 0.1), ("joint", 400, 0.05), ("<i>lime</i>", 100, 0.4), ("loo", None, 0.2), ("attention", None, None)]
    return compared(
        [record(t, m, b, n if n is None else n * (1 + t), seconds=(b or 1) / 100) for m, b, n in rows for t in (0, 1)]
    )


def test_the_profile_has_its_points_at_the_means_and_bands_of_ours_alone(three):
    figure = three.plot.profile()
    ax = figure.axes[0]
    assert (ax.get_xscale(), ax.get_yscale()) == ("linear", "log")
    for row, name in ((("joint", 100), "joint 100"), (("joint", 400), "joint 400"), (("loo", None), "loo")):
        profile = three.profile(row)
        assert np.array_equal(curve(figure, name).get_xdata(), list(profile))
        assert np.array_equal(curve(figure, name).get_ydata(), [one.mean for one in profile.values()])
    bands = ax.findobj(FillBetweenPolyCollection)
    assert [band.get_gid() for band in bands] == ["band joint 100", "band joint 400"]
    y = bands[0].get_paths()[0].vertices
    first = y[y[:, 0] == 1.0, 1]
    half = 12.706 * 0.05  # Student's t for two texts
    assert first.min() == pytest.approx(max(0.15 - half, ax.get_ylim()[0]), rel=0.01)
    assert first.max() == pytest.approx(0.15 + half, rel=0.01)


def test_looks_depend_on_the_method_alone_and_smaller_budgets_are_paler(three):
    figure, alone = three.plot.profile(), compared([record(0, "loo", None, 0.2)]).plot.profile()
    ours, other = curve(figure, "joint 400"), curve(figure, "loo")
    assert ours.get_linewidth() > 1.5 * other.get_linewidth()
    assert np.allclose(ours.get_color(), LIGHT.strong[0])
    assert np.allclose(curve(three.plot.profile(theme="dark"), "joint 400").get_color(), DARK.strong[0])
    assert np.sum(curve(figure, "joint 100").get_color()) > np.sum(ours.get_color())
    for look in ("color", "linewidth", "linestyle"):
        assert getattr(other, f"get_{look}")() == getattr(curve(alone, "loo"), f"get_{look}")()


def test_lines_for_several_budgets_and_points_for_one(three):
    figure = three.plot.against_queries("near")
    assert (figure.axes[0].get_xscale(), figure.axes[0].get_yscale()) == ("log", "log")
    assert np.allclose(curve(figure, "joint").get_xydata(), [(100, 0.15), (400, 0.075)])
    assert np.allclose(curve(figure, "<i>lime</i>").get_xydata(), [(100, 0.6)])
    assert np.allclose(curve(figure, "loo").get_xydata(), [(40, 0.3)])  # the queries it made
    figure = three.plot.against_seconds("far")
    assert np.allclose(curve(figure, "joint 400").get_xydata(), [(4.0, 0.075)])
    assert np.allclose(curve(figure, "loo").get_xydata(), [(0.01, 0.3)])
    assert three.plot.against_seconds("deletion").axes[0].get_yscale() == "linear"


def test_what_has_no_place_is_named_below_and_nothing_at_all_is_an_error(three):
    for kind in KINDS:
        figure = draw(three, kind)
        assert not artists(figure.axes[0], "curve attention")
        assert any("attention" in note.get_text() for note in artists(figure.axes[0], "note"))
        with pytest.raises(InputError, match="nothing to draw: no"):
            draw(compared([record(0, "attention", None, None)]), kind)
    for zero in (0.0, 1e-13):  # on a logarithmic axis
        c = compared([record(0, "joint", 10, zero), record(0, "lime", 10, 0.5), record(0, "ridge", 10, 0.4)])
        ax = c.plot.against_seconds("near").axes[0]
        assert not artists(ax, "curve joint")
        assert any("joint" in note.get_text() for note in artists(ax, "note"))
    with pytest.raises(InputError, match=r"one that was taken, near, far.*'human'"):
        three.plot.against_queries("human")
    with pytest.raises(InputError, match="theme"):
        three.plot.profile(theme="pink")


def test_the_legend_names_every_curve_and_fits():
    for kind, budgets in zip(KINDS, ((100, 300, 1000), (100, 400), (100, 300, 1000)), strict=True):
        figure = draw(realistic(budgets, texts=3), kind)
        figure.draw_without_rendering()
        names = legend(figure.axes[0])
        assert len(names) == len(artists(figure.axes[0], "curve "))
        (box,) = (key.get_window_extent() for key in figure.axes[0].findobj(Key))
        assert 0 < box.x0 < box.x1 <= figure.bbox.width
        assert 0 <= box.y0 < box.y1 <= figure.bbox.height


def test_one_method_and_one_text_is_enough_and_axes_may_be_given():
    c = compared([record(0, "$joint_{x}$", 10, 0.5)])
    for kind in KINDS:
        axes = Figure().add_subplot()
        assert draw(c, kind, ax=axes, theme="dark") is axes.get_figure()
        axes.get_figure().draw_without_rendering()
        assert legend(axes) == ["$joint_{x}$"]


def test_ticks_are_inside_and_several():
    for ends in ((1e-6, 2.0), (0.011, 0.09), (0.31, 0.36), (1.0, 3000.0)):
        c = compared([record(0, "joint", 10, ends[0]), record(0, "lime", 10, ends[1])])
        axes = c.plot.against_seconds("near").axes[0]
        low, high = axes.get_ylim()
        assert low < ends[0] < ends[1] < high
        shown = [tick for tick in axes.get_yticks() if low <= tick <= high]
        assert 2 <= len(shown) <= 9
        assert len({axes.yaxis.get_major_formatter()(tick) for tick in shown}) == len(shown)
