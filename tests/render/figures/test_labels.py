"""Labels of classes that are longer than a figure is wide."""

from dataclasses import replace

from slalom.core import Slalom
from slalom.render.figures.canvas import Words
from tests.cases import cases
from tests.factories import random_explanation

LONG = {
    "words": "the customer is quite satisfied with the delivery, has no further questions and would order again at any time",
    "wide": "W" * 120,
    "one word": "z" * 120,
}


@cases("label", LONG)
@cases("kind", ["scatter", "text", "bar"])
@cases("classes", [None, 3])
def test_long_labels_are_cut_and_leave_the_axes_their_room(label, kind, classes):
    e = random_explanation(classes=classes)
    labels = (*e.labels[:-1], LONG[label])
    e = replace(e, labels=labels, target="all" if classes else labels[-1])
    figure = getattr(e.plot, kind)(target=LONG[label] if classes else None)
    figure.draw_without_rendering()
    for words in figure.findobj(Words):
        if words.get_text():
            box = words.get_window_extent()
            assert box.x0 >= -1
            assert box.x1 <= figure.bbox.width + 1
    written = " ".join(words.get_text() for words in figure.findobj(Words))
    assert LONG[label][:4] in written
    assert LONG[label] not in written
    assert "…”" in written
    if kind != "text":
        assert figure.axes[0].get_position().width > 0.6


def test_a_long_line_below_the_title_leaves_the_scatter_its_room():
    e = random_explanation(link=False)
    e = replace(e, surrogate=Slalom(e.values, e.importances, (0.0, 25.0)), labels=("no", LONG["wide"]), target=LONG["wide"])
    assert e.additive  # which the line says
    figure = e.plot.scatter()
    figure.draw_without_rendering()
    assert figure.axes[0].get_position().width > 0.6
    assert any("only effects count" in words.get_text() for words in figure.findobj(Words))
