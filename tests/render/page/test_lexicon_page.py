"""The page of a lexicon in a real browser: picture, search, filters, order; no word becomes markup."""

import numpy as np
import pytest
from selenium.webdriver.common.by import By

from slalom.lexicon.words import Words

HOSTILE = "<script>alert(1)</script>"
NAMES = ("good", "bad", HOSTILE, "film", "seldom")
ALONE, IN_TEXTS, ERRORS = (
    np.array([2.0, -3.0, 0.5, 0.0, 4.0]),
    np.array([2.1, -2.0, 0.4, 0.1, 1.0]),
    np.array([0.1, 0.1, 0.1, 0.2, 0.9]),
)


def words():
    columns = {
        "texts": np.array([30, 20, 9, 50, 2]), "alone": ALONE, "in_texts": IN_TEXTS, "in_texts_se": ERRORS,
        "context": IN_TEXTS - ALONE, "context_se": ERRORS,
        "importance": np.linspace(-1, 1, 5), "importance_se": np.full(5, 0.2),
    }  # fmt: skip
    sure = {name: np.abs(columns[name]) - 1.96 * columns[f"{name}_se"] for name in ("in_texts", "context", "importance")}
    return Words("a model: what it says of 5 words", "pos", NAMES, columns, sure, ("in_texts", "importance"))


@pytest.fixture
def page(browser, tmp_path):
    file = tmp_path / "page.html"
    words().to_html(file)
    browser.get("about:blank")
    browser.get_log("browser")
    browser.get(file.as_uri())
    yield browser
    assert not [entry for entry in browser.get_log("browser") if "favicon" not in entry["message"]]


def listed(page):
    return [element.text for element in page.find_elements(By.CSS_SELECTOR, "#words tbody th")]


def typed(page, name, value):
    box = page.find_element(By.ID, name)
    box.clear()
    box.send_keys(value)


def test_words_with_their_numbers(page):
    assert listed(page) == ["good", "bad", HOSTILE, "film"]  # by how far intervals are from zero; one is in two texts only
    cells = [cell.text for cell in page.find_elements(By.CSS_SELECTOR, "#words tbody tr:nth-child(2) td")]
    assert cells == ["20", "−3.00", "−2.00 ± 0.20", "+1.00 ± 0.20", "−0.50 ± 0.39"]
    assert "4 words of 5" in page.find_element(By.ID, "found").text
    assert len(page.find_elements(By.CSS_SELECTOR, "#scatter circle[role=button]")) == 4


def test_search_and_filters(page):
    typed(page, "search", "oo")
    assert listed(page) == ["good"]
    typed(page, "search", " ")
    page.find_element(By.ID, "sure").click()
    assert listed(page) == ["bad"]
    page.find_element(By.ID, "sure").click()
    typed(page, "least", "1")
    assert len(listed(page)) == 5
    typed(page, "search", "nothing")
    assert listed(page) == []
    assert not page.find_element(By.ID, "scatter").is_displayed()


def test_columns_order_the_table(page):
    def choose(label):
        next(b for b in page.find_elements(By.CSS_SELECTOR, "#words thead button") if b.text.strip() == label).click()

    choose("alone")
    assert listed(page) == ["good", HOSTILE, "film", "bad"]
    choose("alone")
    assert listed(page) == ["bad", "film", HOSTILE, "good"]
    choose("word")
    assert listed(page) == sorted(["good", "bad", "film", HOSTILE], key=lambda word: (word.isalpha(), word))
    choose("context")
    assert listed(page)[0] == "bad"
