"""The page of a comparison: the numbers of the tables, pictures with their points, nothing that could run."""

import base64
import hashlib
import re
import shutil
from html.parser import HTMLParser
from itertools import pairwise
from math import log
from xml.etree import ElementTree

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from slalom.errors import InputError
from slalom.evaluate import MEASURES
from slalom.render.charts import profile_chart, seconds_chart
from slalom.render.page import comparison_page
from slalom.render.page.charts import svg
from tests.side_by_side import compared, realistic, record

EVIL = "</td><script>alert(1)</script><img src=x onerror=alert(2)>"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")


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


def shapes(chart):
    return ElementTree.fromstring(str(svg(chart)))


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
    assert rows[0][2] == ["0.1250 ± 0.0076", False]
    assert rows[1][2] == ["0.0750 ± 0.0076", True]
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
    everything = compared([record(0, "a", 1, naive_bayes=0.1, human=0.7, instability=0.2)], tuple(MEASURES))
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
    text = " ".join("".join(Cells(plain().to_html()).text).split())
    assert "shapinstall <shap>" in text
    assert "modelm<1>" in text
    assert "seed3" in text
    assert "None" not in text
    assert "no profile for attention" in text


def test_one_method_is_a_page_without_pairs():
    page = comparison_page(compared([record(0, "joint", 10, 0.5)]))
    assert "pairs" not in Cells(page).tables
    assert "1 method on 1 text" in page
    empty = comparison_page(compared([record(0, "attention", None, None)]))
    assert "There is nothing to draw." in empty


def test_points_are_where_the_means_are():
    c = plain()
    chart = seconds_chart(c, "near")
    dots = list(shapes(chart).iter("circle"))
    at = {dot[0].text.split(":")[0]: (float(dot.get("cx")), float(dot.get("cy"))) for dot in dots}
    assert set(at) == {"joint 100", "joint 400", "lime"}
    assert at["joint 400"][1] > at["joint 100"][1] > at["lime"][1]  # less is lower
    ratio = (at["joint 400"][1] - at["joint 100"][1]) / (at["joint 100"][1] - at["lime"][1])
    wide = [c.summary(row, "near").mean for row in c.rows[:3]]
    assert ratio == pytest.approx(log(wide[0] / wide[1]) / log(wide[2] / wide[0]), rel=0.01)


def test_names_of_lines_stand_apart():
    names = [
        one
        for one in shapes(profile_chart(realistic((100, 300, 1000), texts=3))).iter("text")
        if "name" in one.get("class", "")
    ]
    heights = sorted(float(one.get("y")) for one in names)
    assert len(heights) == 26
    assert min(b - a for a, b in pairwise(heights)) > 15


def test_names_are_text_whatever_they_hold():
    c = compared(
        [record(t, name, 10, 0.1) for t in (0, 1) for name in (EVIL, "b", "\ud83d")],
        skipped={EVIL + "2": EVIL},
        about={"model": EVIL, "first": EVIL, EVIL: EVIL},
    )
    page = c.to_html()
    read = Cells(page)
    assert not {"script", "img", "link", "iframe", "object"} & {tag for tag, _ in read.tags}
    assert not [name for _, attributes in read.tags for name in attributes if name.startswith("on") or name in ("src", "style")]
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
    assert "http" not in style
    assert re.search(r"prefers-color-scheme: dark\) \{:root \{\s*--page: #", style)


def test_the_page_goes_to_a_file(tmp_path):
    file = tmp_path / "page.html"
    page = plain().to_html(file)
    assert file.read_text(encoding="utf-8") == page
    with pytest.raises(InputError, match="could not write"):
        plain().to_html(tmp_path / "none" / "page.html")
    with pytest.raises(InputError, match=r"slalom\.compare"):
        comparison_page([])


@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium or chromedriver is not installed")
def test_a_browser_shows_it_light_and_dark_and_complains_of_nothing(tmp_path):
    file = tmp_path / "page.html"
    realistic((100, 400), texts=4).to_html(file)
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,1000"):
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path / 'profile'}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        seen = []
        for scheme in ("light", "dark"):
            wanted = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)
            browser.get(file.as_uri())
            look = "const s = e => getComputedStyle(document.querySelector(e));"
            look += " return [s('body').backgroundColor, s('.o0 .way').stroke]"
            seen.append(browser.execute_script(look))
            assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
        assert seen[0] == ["rgb(246, 246, 244)", "rgb(33, 102, 172)"]
        assert seen[1] == ["rgb(18, 20, 23)", "rgb(90, 160, 225)"]
        assert browser.get_log("browser") == []
    finally:
        browser.quit()
