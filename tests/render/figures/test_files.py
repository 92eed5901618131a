"""What all pictures have in common: files of every kind without warnings, no global state, the user's axes, no matplotlib."""

import subprocess
import sys
from xml.etree import ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from slalom import Explainer
from slalom.render.figures import Plots
from tests.cases import cases
from tests.factories import ODD_WORDS, in_order, with_pairs, with_se
from tests.render.figures.artists import artist

KINDS = ("scatter", "text", "bar", "pairs", "removal_curve")


def odd():
    labels = ["nein $x_", "ja 👍 映画"]
    explainer = Explainer(lambda texts: [[0.0, len(t) / 9 - 3] for t in texts], output="logits", labels=labels, queries=60)
    e = explainer(" ".join(ODD_WORDS[:-3]) + "\n映画 $5 \\alpha naïve <b> & 👍🏽")
    thumb = e.units.index("👍🏽")
    return with_pairs(with_se(e, removal=np.linspace(0.0, 0.3, len(e))), [((thumb, len(e) - 1), 0.5, 0.3), ((0, 1), -1.0, 0.2)])


@pytest.fixture(scope="module")
def e():
    return odd()


@cases("theme", ["light", "dark"])
@cases("kind", KINDS)
def test_files_of_every_kind_are_written_without_a_warning(e, kind, theme, tmp_path):
    figure = getattr(e.plot, kind)(theme=theme)
    for ending in ("png", "svg", "pdf") if theme == "light" else ("png",):
        figure.savefig(tmp_path / f"x.{ending}", dpi=60)
        assert (tmp_path / f"x.{ending}").stat().st_size > 2000


def test_a_notebook_shows_it_without_pyplot(e):
    assert e.plot.bar()._repr_png_().startswith(b"\x89PNG")


def test_text_in_svg_files_is_text(e, tmp_path):
    for kind in KINDS:
        getattr(e.plot, kind)().savefig(tmp_path / "x.svg")
        texts = [part.text for part in ET.parse(tmp_path / "x.svg").iter("{http://www.w3.org/2000/svg}text")]
        assert any(text and "ja 👍 映画" in text for text in texts)
        if kind != "removal_curve":
            assert any(text and "👍🏽" in text for text in texts)
    assert mpl.rcParams["svg.fonttype"] == "path"  # the user's settings are as they were


@cases("kind", ["scatter", "bar", "pairs", "removal_curve"])
def test_pictures_go_into_the_users_axes(e, kind, tmp_path):
    mine = Figure(figsize=(9, 4), layout="constrained")
    left, right = mine.subplots(1, 2)
    assert getattr(e.plot, kind)(ax=left) is mine
    assert left.get_xlabel()
    assert not right.get_xlabel()
    for ending in ("png", "svg", "pdf"):
        mine.savefig(tmp_path / f"x.{ending}")


def test_subfigures_and_names_in_them_work(e):
    whole = Figure(figsize=(9, 5))
    part, _ = whole.subfigures(1, 2)
    assert e.plot.scatter(ax=part.add_subplot()) is whole
    whole.draw_without_rendering()


def test_nothing_stays_open_and_no_window_is_asked_for():
    code = (
        "import sys, slalom; e = slalom.Explainer(lambda t: [float(len(x)) for x in t], output='log_odds')('a b c d e f g h');"
        " [getattr(e.plot, kind)() for kind in ('scatter', 'text', 'bar', 'removal_curve')];"
        " print('matplotlib.pyplot' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (run.stdout, run.stderr) == ("False\n", "")


def test_without_matplotlib_the_extra_is_named():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import slalom; e = slalom.Explainer(lambda t: [float(len(x)) for x in t], output='log_odds')('a bc')\n"
        "try: e.plot\nexcept slalom.errors.MissingExtra as error: print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert run.stdout == "drawing pictures needs matplotlib; install it with: pip install 'slalom-xai[plots]'\n", run.stderr


def test_labels_and_units_are_never_formulas():
    e = in_order(["$a", "b$", "$\\frac{1}$"], [1.0, -1.0, 2.0], np.zeros(3), labels=("$n$", "$y^2$"), target="$y^2$")
    for kind in ("scatter", "text", "bar"):
        figure = getattr(e.plot, kind)()
        figure.draw_without_rendering()
    assert artist(e.plot.scatter().axes[0], "name 2").get_text() == "$\\frac{1}$"


def test_a_users_style_does_not_leak_in():
    e = in_order(["a", "b"], [1.0, -1.0], np.zeros(2))
    with mpl.rc_context({"axes.facecolor": "red", "figure.facecolor": "red", "axes.grid": True, "text.color": "red"}):
        figure = e.plot.scatter()
    assert figure.get_facecolor()[:3] == (1.0, 1.0, 1.0)
    assert figure.axes[0].get_facecolor()[:3] == (1.0, 1.0, 1.0)


def test_it_names_its_pictures():
    e = in_order(["a", "b"], [1.0, -1.0], np.zeros(2))
    assert isinstance(e.plot, Plots)
    assert all(f"{kind}()" in repr(e.plot) for kind in KINDS)
