"""The page of a corpus in a real browser: pictures, search, sort, examples; no text becomes markup."""

import numpy as np
import pytest
from selenium.webdriver.common.by import By

from slalom import corpus
from slalom.errors import InputError
from tests.corpus.tables import row, write

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("corpora")
    found = []
    for name, cue in (("one", 3.0), ("two", 0.0)):
        rng, rows = np.random.default_rng(0), []
        for i in range(60):
            text = f"{('bad', 'good')[i % 2]} film {HOSTILE if i % 3 == 0 else 'end'}"
            spans = [(0, text.index(" ")), (text.index("film"), text.index("film") + 4), (text.index("film") + 5, len(text))]
            effects = np.array([(-1.0, 1.0)[i % 2], 0.0, cue * (i % 3 == 0)]) + rng.normal(0, 0.1, 3)
            label = "pos" if effects.sum() > 0 else "neg"
            given = {"gold": ("neg", "pos")[i % 2], "part": ("web", "mail")[i % 3 == 0]}
            rows.append(row(i, text, effects, spans=spans, label=label, score=effects.sum(), **given))
        found.append(write(place / name, rows, unit="word", keep=("gold", "part"), model=f"model {name}"))
    return found


@pytest.fixture(scope="module")
def summed(folders):
    return corpus.summary(folders[0], gold="gold", slices="part")


@pytest.fixture
def shown(browser, tmp_path):
    def show(html):
        file = tmp_path / "page.html"
        file.write_text(html, encoding="utf-8")
        browser.get("about:blank")
        browser.get_log("browser")
        browser.get(file.as_uri())
        return browser

    yield show
    assert not [entry for entry in browser.get_log("browser") if "favicon" not in entry["message"]]


def texts(browser, selector):
    return [" ".join(element.text.split()) for element in browser.find_elements(By.CSS_SELECTOR, selector)]


def test_a_summary(shown, summed):
    page = shown(summed.to_html())
    assert texts(page, "#shortcuts tbody th")[0] == HOSTILE
    bars = page.find_elements(By.CSS_SELECTOR, "#chart .row")
    assert len(bars) == len(summed.of_kind("word")) == 5
    labels = [bar.find_element(By.TAG_NAME, "title").get_attribute("textContent") for bar in bars]
    for word, label in zip(summed.of_kind("word"), labels, strict=True):
        assert label.startswith(f"{word.name}: {word.effect.mean:+.2f}".replace("-", "−"))
    page.execute_script("document.querySelectorAll('#chart .row')[2].dispatchEvent(new MouseEvent('click'))")
    word = summed.of_kind("word")[2]
    assert texts(page, "#word-title") == [f"“{word.name}”"]
    assert f"in {word.effect.texts} texts" in texts(page, "#word-help")[0]
    assert texts(page, ".example mark")[0] == word.name
    assert texts(page, "#groups h3") == ["Correct and wrong predictions", "By true class", "By predicted class", "By part"]
    page.find_element(By.CSS_SELECTOR, "input[value='swarm']").find_element(By.XPATH, "..").click()
    assert len(page.find_elements(By.CSS_SELECTOR, "#chart .dot")) == sum(len(word.sample) for word in summed.of_kind("word"))


def test_search_and_sort(shown, summed):
    page = shown(summed.to_html())
    assert len(texts(page, "#words tbody tr")) == 5
    page.execute_script(
        "document.querySelector('#search').value = 'OO'; document.querySelector('#search').dispatchEvent(new Event('input'))"
    )
    assert texts(page, "#words tbody th") == ["good"]
    page.execute_script(
        "document.querySelector('#search').value = ''; document.querySelectorAll('#words thead button')[1].click()"
    )
    counts = [int(cell.split()[0]) for cell in texts(page, "#words tbody td:nth-child(2)")]
    assert counts == sorted(counts, reverse=True)
    page.execute_script("document.querySelectorAll('#words thead button')[0].click()")
    names = texts(page, "#words tbody th")
    assert sorted(names, key=str.lower) == sorted(names)
    assert page.execute_script("return document.querySelector('#words thead th').getAttribute('aria-sort')") == "ascending"


def test_a_comparison(shown, folders):
    compared = corpus.compare(*folders, gold="gold")
    page = shown(compared.to_html())
    assert texts(page, "#words tbody th")[0] == HOSTILE
    assert len(texts(page, ".flip")) == compared.about["flipped"] == len(compared.flips)
    assert f"{HOSTILE} +" in texts(page, ".flip .wordlist")[0]
    assert page.execute_script("return document.scripts.length") == 2


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_screen(shown, browser, summed, width):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    page = shown(summed.to_html())
    assert page.execute_script("return document.documentElement.scrollWidth") <= width


def test_figures(summed):
    figure = summed.plot.bar(k=3)
    bars = [patch.get_width() for patch in figure.axes[0].patches]
    assert bars == pytest.approx([word.effect.mean for word in summed.of_kind("word")[:3]])
    swarm = summed.plot.beeswarm(k=2, theme="dark").axes[0]
    points = [c.get_offsets()[:, 0] for c in swarm.collections if str(c.get_gid()).startswith("texts")]
    assert [len(p) for p in points] == [len(word.sample) for word in summed.of_kind("word")[:2]]
    with pytest.raises(InputError, match="kind must be one of 'word', 'phrase', 'piece'; got 'letter'"):
        summed.plot.bar(kind="letter")
    with pytest.raises(InputError, match="there is nothing to draw: the summary has no piece"):
        summed.plot.bar(kind="piece")
