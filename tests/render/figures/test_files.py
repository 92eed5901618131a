"""What all pictures have in common: files of every kind without warnings, the user's axes, long labels, no global state."""

import sys
from dataclasses import replace
from xml.etree import ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure

import slalom.render
from slalom import Explainer
from slalom.core import Slalom
from slalom.errors import MissingExtra
from slalom.render.figures import Plots
from slalom.render.figures.canvas import Words
from tests.factories import ODD_WORDS, in_order, random_explanation, with_pairs, with_se
from tests.render.figures.artists import artist

KINDS = ("scatter", "bar", "pairs", "removal_curve")


@pytest.fixture(scope="module")
def e():
    labels = ["nein $x_", "ja 👍 映画"]
    explainer = Explainer(lambda texts: [[0.0, len(t) / 9 - 3] for t in texts], output="logits", labels=labels, queries=60)
    e = explainer(" ".join(ODD_WORDS[:-3]) + "\n映画 $5 \\alpha naïve <b> & 👍🏽")
    thumb = e.units.index("👍🏽")
    return with_pairs(with_se(e, removal=np.linspace(0.0, 0.3, len(e))), [((thumb, len(e) - 1), 0.5, 0.3), ((0, 1), -1.0, 0.2)])


def test_files_of_every_kind_are_written_without_a_warning_and_their_text_is_text(e, tmp_path):
    for kind in KINDS:
        figure = getattr(e.plot, kind)()
        for ending in ("png", "svg", "pdf") if kind == "bar" else ("svg",):
            figure.savefig(tmp_path / f"x.{ending}", dpi=60)
            assert (tmp_path / f"x.{ending}").stat().st_size > 2000
        texts = [part.text or "" for part in ET.parse(tmp_path / "x.svg").iter("{http://www.w3.org/2000/svg}text")]
        assert any("ja 👍 映画" in text for text in texts)
        assert any("👍🏽" in text for text in texts) == (kind != "removal_curve")
        assert f"{kind}()" in repr(e.plot)
    assert mpl.rcParams["svg.fonttype"] == "path"  # the user's settings are as they were
    assert isinstance(e.plot, Plots)
    assert e.plot.bar()._repr_png_().startswith(b"\x89PNG")  # in a notebook


def test_pictures_go_into_the_users_axes_and_subfigures(e):
    for kind in ("bar", "removal_curve"):
        mine = Figure(figsize=(9, 4), layout="constrained")
        left, right = mine.subplots(1, 2)
        assert getattr(e.plot, kind)(ax=left) is mine
        assert left.get_xlabel()
        assert not right.get_xlabel()
    whole = Figure(figsize=(9, 5))
    part, _ = whole.subfigures(1, 2)
    assert e.plot.scatter(ax=part.add_subplot()) is whole
    whole.draw_without_rendering()


def test_nothing_stays_open_and_without_matplotlib_the_extra_is_named(e, monkeypatch):
    e.plot.bar()
    assert not pyplot.get_fignums()
    for name in [name for name in sys.modules if name.startswith("slalom.render.figures")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(slalom.render, "figures", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        MissingExtra, match=r"drawing pictures needs matplotlib; install it with: pip install 'slalom-xai\[plots\]'"
    ):
        _ = e.plot


def test_labels_and_units_are_never_formulas_and_a_users_style_does_not_leak_in():
    e = in_order(["$a", "b$", "$\\frac{1}$"], [1.0, -1.0, 2.0], np.zeros(3), labels=("$n$", "$y^2$"), target="$y^2$")
    with mpl.rc_context({"axes.facecolor": "red", "figure.facecolor": "red", "axes.grid": True, "text.color": "red"}):
        for kind in ("scatter", "bar"):
            figure = getattr(e.plot, kind)()
            figure.draw_without_rendering()
            assert figure.get_facecolor()[:3] == (1.0, 1.0, 1.0)
            assert figure.axes[0].get_facecolor()[:3] == (1.0, 1.0, 1.0)
    assert artist(e.plot.scatter().axes[0], "name 2").get_text() == "$\\frac{1}$"


def test_long_labels_are_cut_and_leave_the_axes_their_room():
    words = "the customer is quite satisfied with the delivery, has no further questions and would order again at any time"
    for long, kind, classes in ((words, "scatter", 3), ("z" * 120, "bar", 3)):
        e = random_explanation(classes=classes, link=False)
        target = "all" if classes else long
        surrogate = Slalom(e.surrogate.values, e.importances, competition=0.0)
        e = replace(e, surrogate=surrogate, labels=(*e.labels[:-1], long), target=target)
        assert e.additive  # which a line below the title of the scatter says
        figure = getattr(e.plot, kind)(target=long if classes else None)
        figure.draw_without_rendering()
        drawn = [text for text in figure.findobj(Words) if text.get_text()]
        for box in (text.get_window_extent() for text in drawn):
            assert box.x0 >= -1
            assert box.x1 <= figure.bbox.width + 1
        written = " ".join(text.get_text() for text in drawn)
        assert long[:4] in written
        assert long not in written
        assert "…”" in written
        assert figure.axes[0].get_position().width > 0.6
        assert kind != "scatter" or "values add up" in written
