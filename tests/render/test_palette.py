"""One palette: every colour of figures and pages comes from it, and methods keep theirs."""

import re
from itertools import combinations

import numpy as np

import slalom
from slalom.methods import OURS
from slalom.methods.surrogate import PAPER
from slalom.render.figures.canvas import theme_of
from slalom.render.page.parts import asset, style
from slalom.render.palette import DARK, LIGHT, THEMES, contrast, is_ours, mix, strengths
from tests.cases import cases
from tests.factories import explanation
from tests.render.figures.artists import artist


def variables(declarations):
    """The CSS variables of a block, as red, green, blue in [0, 1]."""
    found = {}
    for name, value in re.findall(r"--([a-z-]+):([^;]+);", declarations):
        if value.startswith("#"):
            found[name] = tuple(part / 255 for part in bytes.fromhex(value[1:]))
        elif " " in value:
            found[name] = tuple(int(part) / 255 for part in value.split())
    return found


@cases("theme", THEMES.values(), ids=list(THEMES))
def test_pages_and_figures_have_the_same_colours(theme):
    css = variables(theme.css())
    assert theme.css() in style()
    assert theme.css() in style(follow_system=True)
    figure = explanation("good bad", [2.0, -1.0]).plot.bar(theme=theme.name)
    ax = figure.axes[0]
    drawn = {
        "paper": figure.get_facecolor()[:3],
        "line": ax.spines["bottom"].get_edgecolor()[:3],
        "ink": artist(ax, "name 0").get_color(),
        "positive": ax.patches[0].get_facecolor()[:3],
        "negative": ax.patches[1].get_facecolor()[:3],
    }
    for name, colour in drawn.items():
        assert np.allclose(colour, css[name], atol=0.5 / 255), name
    assert theme_of(theme.name) is theme


def test_style_sheets_have_no_colours_of_their_own():
    for name in ("page.css", "compared.css"):
        sheet = asset(name)
        assert not re.search(r"#[0-9a-fA-F]{3,8}\b(?![^{]*\{)", sheet)
        assert set(re.findall(r"rgb\((?!var)[^)]*\)", sheet)) <= {"rgb(0 0 0 / 5%)", "rgb(0 0 0 / 18%)"}  # shadows
        known = set(re.findall(r"--([a-z-]+):", LIGHT.css())) | {"t", "c", "c-text"}
        assert set(re.findall(r"var\(--([a-z-]+)\)", sheet)) <= known


@cases("theme", THEMES.values(), ids=list(THEMES))
def test_coloured_text_can_be_read(theme):
    hues = [theme.positive, theme.negative, theme.neutral, *map(theme.method, slalom.list_methods())]
    for hue in hues:
        for behind in (theme.paper, theme.page, theme.faint):
            assert contrast(theme.text(hue), behind) >= 4.3
        assert contrast(hue, theme.paper) >= 2.9


def test_ours_are_those_of_the_registry_and_every_method_has_a_colour_of_its_own():
    names = list(slalom.list_methods())
    assert [name for name in names if is_ours(name)] == [method.name for method in (*OURS, *PAPER)]
    for theme in (LIGHT, DARK):
        assert [theme.method(method.name) for method in (*OURS, *PAPER)] == list(theme.strong)
        for a, b in combinations([*names, "a plugin", "another plugin", "\ud83d"], 2):
            assert np.abs(np.subtract(theme.method(a), theme.method(b))).max() > 1 / 255, (a, b)
    assert np.allclose(LIGHT.method("a plugin"), (0.508862, 0.384, 0.576), atol=1e-5)  # whatever else is installed


def test_strengths_are_shares_of_the_full_size():
    assert strengths(np.array([1.0, -4.0, 8.0]), 4.0).tolist() == [0.25, -1.0, 1.0]
    assert strengths(np.array([0.0, 0.0]), 0.0).tolist() == [0.0, 0.0]


def test_ink_can_be_read_on_every_colour():
    for theme in THEMES.values():
        for hue in (theme.positive, theme.negative, theme.neutral):
            for strength in np.linspace(0, 1, 21):
                assert contrast(theme.ink, mix(theme.paper, hue, theme.wash * float(strength))) >= 4.5
            assert contrast(hue, theme.paper) >= 3.0  # WCAG's limit for graphics
        for text in (theme.ink, theme.muted):
            assert contrast(text, theme.paper) >= 4.5
