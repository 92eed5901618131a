"""The page of a comparison: the numbers of the tables, pictures with their points, nothing that could run."""

import base64
import hashlib
import re
import sys
from functools import cache
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

import slalom.render
from slalom.evaluate import MEASURES
from slalom.render.figures.canvas import Words
from slalom.render.palette import DARK, LIGHT
from tests.side_by_side import compared, record

EVIL = "</td><script>alert(1)</script><img src=x onerror=alert(2)>"


class Cells(HTMLParser):
    """The rows of all tables by their ids or classes: text, and whether it is bold."""

    def __init__(self, page):
        super().__init__()
        self.tables, self.tags, self.rows, self.bold, self.text = {}, [], None, 0, []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "table":
            own = dict(attrs)
            self.rows = self.tables.setdefault(own.get("id") or own["class"], [])
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append(["", False])
        elif tag == "b":
            self.bold += 1

    def handle_endtag(self, tag):
        if tag == "b":
            self.bold -= 1
        elif tag == "table":
            self.rows = None

    def handle_data(self, data):
        self.text.append(data)
        if self.rows and self.rows[-1] and data.strip():
            cell = self.rows[-1][-1]
            cell[0] += data
            cell[1] |= self.bold > 0


def images(page):
    """The pictures of a page in both themes: what they say, and the text in them."""
    for tag, attributes in Cells(page).tags:
        for address in (attributes.get("src"), attributes.get("srcset")):
            if address is not None:
                kind, _, data = address.partition(";base64,")
                assert (kind, tag in ("img", "source")) == ("data:image/svg+xml", True)
                drawn = ElementTree.fromstring(base64.b64decode(data))
                yield attributes.get("alt"), [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]


@cache
def plain():
    rows = [("joint", 100, 0.1), ("joint", 400, 0.05), ("lime", 100, 0.4), ("attention", None, None)]
    records = [
        record(t, m, b, n if n is None else n + 0.01 * t, deletion=0.3 if m == "lime" else 0.2)
        for m, b, n in rows
        for t in range(6)
    ]
    return compared(records, skipped={"shap": "install <shap>"}, about={"model": "m<1>", "texts": 6, "seed": 3, "target": None})


def without_matplotlib(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("slalom.render.figures")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(slalom.render, "figures", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@cache
def plain_page():
    """A page without pictures, which take longer than all else."""
    with pytest.MonkeyPatch.context() as patch:
        without_matplotlib(patch)
        return plain().to_html()


def test_the_table_has_every_mean_with_its_error_and_the_best_in_bold():
    head, *rows = Cells(plain_page()).tables["measures"]
    assert [cell[0].split()[0] for cell in head] == ["method", "budget", *plain().measures]
    assert [row[0][0] for row in rows] == ["joint", "joint", "lime", "attention"]
    assert [row[1][0] for row in rows] == ["100", "400", "100", "–"]
    assert rows[0][2] == ["0.125 ± 0.020", False]
    assert rows[1][2] == ["0.075 ± 0.020", True]
    assert rows[3][2] == ["–", False]
    assert [row[4] for row in rows] == [["0.200", False], ["0.200", False], ["0.300", True], ["0.200", False]]
    assert rows[0][6] == ["100", False]
    assert not any(row[7][1] for row in rows)  # all need the same tokens


def test_a_page_without_matplotlib_has_its_tables_and_says_what_is_missing():
    page = plain_page()
    assert not list(images(page))
    assert "pip install" in page
    assert Cells(page).tables.keys() == {"measures", "pairs"}


def test_the_policy_allows_this_style_and_nothing_else():
    page = plain_page()
    (policy,) = [a["content"] for tag, a in Cells(page).tags if a.get("http-equiv") == "Content-Security-Policy"]
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL).group(1)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "script-src 'none'" in policy
    assert policy.endswith("img-src data:")
    assert "http" not in style
    assert f":root{{{LIGHT.css()}}}\n@media screen and (prefers-color-scheme: dark){{:root{{{DARK.css()}}}}}" in style


def test_the_best_is_compared_with_every_other_one_and_skipped_methods_and_facts_are_told():
    c, read = plain(), Cells(plain_page())
    _, *rows = read.tables["pairs"]
    assert [row[0][0] for row in rows] == ["joint 100", "lime", "against", "joint 100", "lime"]  # near, far
    (one, p), *_ = c.against(("joint", 400), "near").values()
    assert rows[0][1][0] == f"{one.difference:+.4f}".replace("-", "−")
    assert rows[0][3] == [f"{p:.3f}", p < 0.05]
    assert rows[0][4][0] == "6 / 0 / 0"
    text = " ".join("".join(read.text).split())
    assert all(said in text for said in ("shapinstall <shap>", "modelm<1>", "seed3"))
    assert "None" not in text


def test_ties_are_all_bold_missing_texts_are_counted_and_columns_say_which_way_is_better(monkeypatch):
    without_matplotlib(monkeypatch)  # for tables only
    names = [name for name in MEASURES if name not in ("near", "far")]
    numbers = {"naive_bayes": 0.1, "human": 0.7}
    records = [record(t, m, 1, 0.1, deletion=d, **numbers) for m, d in (("a", 0.2), ("b", 0.2), ("c", 0.1)) for t in (0, 1)]
    records[-1]["deletion"] = None
    read = Cells(compared(records, tuple(names)).to_html())
    head, *rows = read.tables["measures"]
    deletion = 2 + names.index("deletion")
    assert [row[deletion][1] for row in rows] == [True, True, False]
    assert rows[2][deletion][0] == "0.1001 of 2 texts"
    text = " ".join("".join(read.text).split())
    arrows = {cell[0].split()[0]: cell[0].split()[1:] for cell in head}
    for name in names:
        more, says = MEASURES[name]
        way = {True: "more is better", False: "less is better", None: "neither more nor less is better"}[more]
        assert f"{name} {says}; {way}" in text
        assert arrows[name] == {True: ["↑"], False: ["↓"], None: []}[more]


def test_one_method_is_a_page_without_pairs_and_none_has_nothing_to_draw(tmp_path):
    file = tmp_path / "page.html"
    page = compared([record(0, "attention", None, None)]).to_html(file)
    assert file.read_text(encoding="utf-8") == page
    assert "pairs" not in Cells(page).tables
    assert "1 method on 1 text" in page
    assert "there is nothing to draw: no near for attention" in page


def test_names_are_text_whatever_they_hold_and_the_page_shows_the_figures_in_both_themes():
    c = compared(
        [record(t, n, 10, None if n == "attention" else 0.1) for t in (0, 1) for n in (EVIL, "b", "\ud83d", "attention")],
        skipped={EVIL + "2": EVIL},
        about={"model": EVIL, "first": EVIL, EVIL: EVIL},
    )
    page = c.to_html()
    read, drawn = Cells(page), list(images(page))
    assert not {"script", "link", "iframe", "object"} & {tag for tag, _ in read.tags}
    assert not [name for _, attributes in read.tags for name in attributes if name.startswith("on") or name == "style"]
    assert all(EVIL[:9] in "".join(texts) for _, texts in drawn)
    assert EVIL in "".join(read.text)
    page.encode("utf-8")
    assert len(drawn) == 10
    assert "no profile for attention" in page
    assert [says.split(".")[0] for says, _ in drawn if says is not None] == [
        "How far predictions are off near the text",
        *("Near against queries", "Far against queries", "Near against time", "Far against time"),
    ]
    names = {one.get_text() for one in c.plot.profile().axes[0].findobj(Words)}
    assert all(names <= set(texts) for _, texts in drawn[:2])
