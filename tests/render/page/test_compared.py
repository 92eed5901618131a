"""The page of a comparison: the numbers of the tables, pictures with their points, nothing that could run."""

import base64
import hashlib
import re
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

import slalom.render
from slalom.errors import InputError
from slalom.evaluate import MEASURES
from slalom.render.figures.canvas import Words
from slalom.render.page import comparison_page
from slalom.render.palette import DARK, LIGHT, THEMES, hexadecimal
from tests.side_by_side import compared, realistic, record

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


def plain():
    rows = [("joint", 100, 0.1), ("joint", 400, 0.05), ("lime", 100, 0.4), ("attention", None, None)]
    records = [
        record(t, m, b, n if n is None else n + 0.01 * t, deletion=0.3 if m == "lime" else 0.2)
        for m, b, n in rows
        for t in range(6)
    ]
    return compared(records, skipped={"shap": "install <shap>"}, about={"model": "m<1>", "texts": 6, "seed": 3, "target": None})


def test_the_table_has_every_mean_with_its_error_and_the_best_in_bold():
    head, *rows = Cells(plain().to_html()).tables["measures"]
    assert [cell[0].split()[0] for cell in head] == ["method", "budget", *plain().measures]
    assert [row[0][0] for row in rows] == ["joint", "joint", "lime", "attention"]
    assert [row[1][0] for row in rows] == ["100", "400", "100", "–"]
    assert rows[0][2] == ["0.125 ± 0.020", False]
    assert rows[1][2] == ["0.075 ± 0.020", True]
    assert rows[3][2] == ["–", False]
    assert [row[4] for row in rows] == [["0.200", False], ["0.200", False], ["0.300", True], ["0.200", False]]
    assert rows[0][6] == ["100", False]
    assert not any(row[7][1] for row in rows)  # all need the same tokens


def test_ties_are_all_bold_and_missing_texts_are_counted():
    records = [record(0, "a", 1, 0.1), record(0, "b", 1, 0.1), record(0, "c", 1, 0.2)]
    more = [record(1, "a", 1, 0.1), record(1, "b", 1, 0.1), record(1, "c", 1, None)]
    _, *rows = Cells(compared(records + more).to_html()).tables["measures"]
    assert [row[2][1] for row in rows] == [True, True, False]
    assert rows[2][2][0] == "0.2001 of 2 texts"


def test_the_legend_says_which_way_is_better():
    everything = compared([record(0, "a", 1, naive_bayes=0.1, human=0.7)], tuple(MEASURES))
    read = Cells(everything.to_html())
    text = " ".join("".join(read.text).split())
    for name, (more, says) in MEASURES.items():
        way = {True: "more is better", False: "less is better", None: "neither more nor less is better"}[more]
        assert f"{name} {says}; {way}" in text
    head = {cell[0].split()[0]: cell[0].split()[1:] for cell in read.tables["measures"][0]}
    assert (head["near"], head["human"], head["naive_bayes"]) == (["↓"], ["↑"], [])


def test_the_best_is_compared_with_every_other_one():
    c = plain()
    _, *rows = Cells(c.to_html()).tables["pairs"]
    assert [row[0][0] for row in rows] == ["joint 100", "lime", "against", "joint 100", "lime"]  # near, far
    (one, p), *_ = c.against(("joint", 400), "near").values()
    assert rows[0][1][0] == f"{one.difference:+.4f}".replace("-", "−")
    assert rows[0][3] == [f"{p:.3f}", p < 0.05]
    assert rows[0][4][0] == "6 / 0 / 0"


def test_skipped_methods_and_facts_are_told():
    page = plain().to_html()
    text = " ".join("".join(Cells(page).text).split())
    assert "shapinstall <shap>" in text
    assert "modelm<1>" in text
    assert "seed3" in text
    assert "None" not in text
    assert "no profile for attention" in page


def test_one_method_is_a_page_without_pairs():
    page = comparison_page(compared([record(0, "joint", 10, 0.5)]))
    assert "pairs" not in Cells(page).tables
    assert "1 method on 1 text" in page
    empty = comparison_page(compared([record(0, "attention", None, None)]))
    assert "there is nothing to draw: no near for attention" in empty


def test_the_page_shows_the_figures_in_both_themes():
    c = realistic((100, 400), texts=4)
    drawn = list(images(c.to_html()))
    assert len(drawn) == 10
    said = [says for says, _ in drawn if says is not None]
    assert [says.split(".")[0] for says in said] == [
        "How far predictions are off near the text",
        *("Near against queries", "Far against queries", "Near against time", "Far against time"),
    ]
    assert all(" for integrated-gradients" in says for says in said)
    names = {one.get_text() for one in c.plot.profile().axes[0].findobj(Words)}
    assert all(names - set(texts) == set() for _, texts in drawn[:2])


def test_a_page_without_matplotlib_has_its_tables_and_says_what_is_missing(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("slalom.render.figures")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(slalom.render, "figures", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = plain().to_html()
    assert not list(images(page))
    assert "pip install" in page
    assert Cells(page).tables.keys() == {"measures", "pairs"}


def test_names_are_text_whatever_they_hold():
    c = compared(
        [record(t, name, 10, 0.1) for t in (0, 1) for name in (EVIL, "b", "\ud83d")],
        skipped={EVIL + "2": EVIL},
        about={"model": EVIL, "first": EVIL, EVIL: EVIL},
    )
    page = c.to_html()
    read = Cells(page)
    assert not {"script", "link", "iframe", "object"} & {tag for tag, _ in read.tags}
    assert not [name for _, attributes in read.tags for name in attributes if name.startswith("on") or name == "style"]
    assert all(EVIL[:9] in "".join(texts) for _, texts in images(page))
    assert EVIL in "".join(read.text)
    assert all(dict(attrs)["href"].startswith("#") for tag, attrs in read.tags if "href" in attrs)
    page.encode("utf-8")


def test_the_policy_allows_this_style_and_nothing_else():
    page = plain().to_html()
    (policy,) = [a["content"] for tag, a in Cells(page).tags if a.get("http-equiv") == "Content-Security-Policy"]
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL).group(1)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "script-src 'none'" in policy
    assert policy.endswith("img-src data:")
    assert "http" not in style
    assert f":root{{{LIGHT.css()}}}\n@media screen and (prefers-color-scheme: dark){{:root{{{DARK.css()}}}}}" in style


def test_the_page_goes_to_a_file(tmp_path):
    file = tmp_path / "page.html"
    page = plain().to_html(file)
    assert file.read_text(encoding="utf-8") == page
    with pytest.raises(InputError, match="could not write"):
        plain().to_html(tmp_path / "none" / "page.html")
    with pytest.raises(InputError, match=r"slalom\.compare"):
        comparison_page([])


def test_a_browser_shows_it_light_and_dark_and_complains_of_nothing(browser, tmp_path):
    file = tmp_path / "page.html"
    realistic((100, 400), texts=4).to_html(file)
    browser.get_log("browser")
    for theme in THEMES.values():
        wanted = {"features": [{"name": "prefers-color-scheme", "value": theme.name}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)
        browser.get(file.as_uri())
        colour, widths, source = browser.execute_script(
            "const images = [...document.images]; return [getComputedStyle(document.body).backgroundColor,"
            " images.map((image) => image.naturalWidth), images[0].currentSrc]"
        )
        assert colour == css(theme.page)
        assert len(widths) == 5
        assert min(widths) > 300
        assert hexadecimal(theme.paper) in base64.b64decode(source.partition(",")[2]).decode()
        assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    assert browser.get_log("browser") == []


def css(colour):
    return f"rgb({', '.join(str(round(255 * part)) for part in colour)})"
