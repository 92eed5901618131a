"""An explanation in a terminal and in a notebook: colours with a direction, and without one."""

import io
import re
from dataclasses import replace

import pytest
from rich.color import Color
from rich.console import Console

from slalom.render.notebook import notebook
from slalom.render.palette import DARK, LIGHT, contrast, hexadecimal, mix, wash
from slalom.render.terminal import coloured, show
from tests.factories import explanation

WITH_SIGN = explanation("good bad so", [2.0, -1.0, 0.01])
WITHOUT = replace(explanation("good bad so", [2.0, 1.0, 0.01]), method="attention", signed=False)


def middle(name):
    return hexadecimal(mix(getattr(LIGHT, name), getattr(DARK, name), 0.5))


def styles(e, few=False):
    return {span.start: str(span.style) for span in coloured(e, e.scores("removal"), few).spans}


def printed(e):
    screen = Console(file=io.StringIO(), width=200)
    show(e, screen, 5)
    return screen.file.getvalue()


def test_the_terminal_has_the_colours_of_the_palette():
    assert styles(WITH_SIGN) == {
        0: f"bold white on {hexadecimal(LIGHT.text(LIGHT.positive))}",
        5: f"black on {middle('negative')}",
    }
    assert styles(WITH_SIGN, few=True) == {0: "bold white on blue", 5: "black on yellow"}
    text = printed(WITH_SIGN)
    assert "removal: by how much the log odds of yes falls without it" in text
    assert re.search(r"bad +-1\.000", text)


def test_scores_without_a_sign_have_one_colour_in_a_terminal():
    assert styles(WITHOUT) == {
        0: f"bold white on {hexadecimal(LIGHT.text(LIGHT.neutral))}",
        5: f"black on {middle('neutral')}",
    }
    assert styles(WITHOUT, few=True) == {0: "bold white on magenta", 5: "black on magenta"}
    text = printed(WITHOUT)
    assert "attention: how much it counts, neither for nor against yes" in text
    assert "removal" not in text
    assert re.search(r"word +score", text)
    assert re.search(r"good +2\.000", text)


@pytest.mark.parametrize("name", ["positive", "negative", "neutral"])
def test_weak_colours_are_readable_on_light_and_dark_terminals(name):
    rgb = Color.parse(middle(name)).triplet.normalized
    for background in ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)):
        assert contrast(rgb, background) >= 2.8


def test_a_notebook_shows_directions_only_where_there_are_some():
    shown = notebook(WITH_SIGN)
    assert wash(1.0) in shown
    assert wash(-0.5) in shown
    assert "for yes" in shown
    assert "against yes" in shown
    shown = notebook(WITHOUT)
    assert wash(1.0, signed=False) in shown
    assert wash(0.5, signed=False) in shown
    assert wash(1.0) not in shown
    assert "dashed" not in shown
    assert "attention, neither for nor against yes" in shown
    assert "against yes</b>" not in shown
