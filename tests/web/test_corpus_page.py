"""The corpus view of the live page in a real browser: what is shown is what the table says, and nothing of a text is markup."""

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")
pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from slalom import corpus
from slalom.corpus.folder import Folder, write_part
from slalom.corpus.table import encoded, table
from slalom.web import corpus as web_corpus
from tests.corpus.tables import row, write
from tests.factories import MARKUP
from tests.web.opened import Opened
from tests.web.serving import answers, explainer, serving
from tests.web.test_corpus import SOURCE, two_classes

HOSTILE = f"a good film {MARKUP}"


class View(Opened):
    """The page that is open."""

    def texts(self, count):
        """Numbers of the texts that are listed, once there are so many."""
        self.until(
            "return document.querySelectorAll('#corpus-texts li').length === arguments[0]"
            " && document.querySelector('[aria-busy=false] #corpus-texts')",
            count,
        )
        return self.js("return [...document.querySelectorAll('#corpus-texts button')].map((b) => Number(b.dataset.number))")

    def summary(self):
        self.until("return document.querySelectorAll('#corpus-chart .row').length > 0")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("corpus") / "reviews"
    source = [*SOURCE[:29], {"text": HOSTILE, "gold": "no", "origin": MARKUP}]
    corpus.run(source, out, explainer(unit="word", queries=50), keep=("gold", "origin"), full=True, part_size=8)
    return out


@pytest.fixture(scope="module")
def client(folder):
    with serving(answers, corpus=(folder, {"slices": "origin"})) as started:
        yield started


@pytest.fixture
def view(browser, client):
    with View(browser, client.server.address).watched() as shown:
        yield shown


@pytest.fixture(scope="module")
def topics(tmp_path_factory):
    with serving(answers, corpus=(two_classes(tmp_path_factory.mktemp("topics")), {})) as started:
        yield started


def test_a_word_of_several_classes_lists_the_texts_of_one(browser, topics):
    view = View(browser, topics.server.address)
    view.media()
    view.open().summary()
    assert len(view.texts(20)) == 20
    assert view.js("return [...document.querySelectorAll('#corpus-target option')].map((o) => o.textContent)") == [
        "politics (20 texts)",
        "sport (10 texts)",
    ]
    pick = "[...document.querySelectorAll('#corpus-words tbody tr')].find((r) => r.textContent.startsWith('ball')).click()"
    view.js(pick)
    assert all(number % 3 for number in view.texts(20))
    assert "with “ball”, explained for “politics”" in view.one(".with-word").text
    view.choose("#corpus-target", "sport")
    assert view.texts(10) == list(range(0, 30, 3))
    view.until("return document.querySelector('#corpus-word').textContent.includes('in 10 texts')")
    assert "effect +2.00" in view.one("#corpus-word").text
    assert "target=sport" in view.js("return location.hash")
    view.driver.refresh()
    assert view.texts(10) == list(range(0, 30, 3))
    view.until("return document.querySelector('#corpus-target').value === 'sport'")
    view.one(".with-word button").click()
    assert len(view.texts(20)) == 20


def test_the_corpus_opens_with_its_summary_and_texts(view, folder):
    view.open().summary()
    assert view.texts(20) == list(range(20))
    summary = corpus.summary(folder, gold="gold", slices="origin")
    shown = view.js("return [...document.querySelectorAll('#corpus-chart .row text:first-of-type')].map((t) => t.textContent)")
    assert shown == [word.name for word in summary.of_kind("word")[:14]]
    head = view.one("#corpus-head").text
    assert "reviews" in head
    assert f"{100 * summary.about['accuracy']:.1f} %" in head
    assert not view.one("#corpus-notice").is_displayed()  # the served model made this corpus
    coloured = view.js(
        "return [...document.querySelectorAll('#corpus-texts li:nth-child(2) .against')].map((s) => s.textContent)"
    )
    assert coloured == ["bad"]
    assert (
        view.js("return [...document.querySelectorAll('#corpus-texts .turn, #corpus .turn button:not(:disabled)')].length") == 1
    )


def test_search_order_slices_and_pages(view):
    view.open()
    view.texts(20)
    view.one("#corpus .turn button:last-child").click()
    assert view.texts(10) == list(range(20, 30))
    view.one("#corpus-search").send_keys("great")
    assert view.texts(6) == [2, 7, 12, 17, 22, 27]
    assert "6 texts match." in view.one("#corpus-found").text
    view.until("return [...document.querySelector('#corpus-slice').options].some((o) => o.value === 'origin=mail')")
    view.choose("#corpus-slice", "origin=mail")
    assert view.texts(2) == [2, 17]
    view.one("#corpus-search").send_keys(Keys.CONTROL + "a", Keys.DELETE)
    view.texts(9)
    view.choose("#corpus-slice", "")
    view.texts(20)
    view.choose("#corpus-sort", "wrong")
    view.until("return document.querySelector('#corpus-texts li:first-child .wrong')")
    assert view.texts(20)[:2] == [4, 9]
    assert "sort=wrong" in view.js("return location.hash")
    view.open("#corpus=texts&search=great&sort=-score")
    assert sorted(view.texts(6)) == [2, 7, 12, 17, 22, 27]
    assert view.one("#corpus-sort").get_attribute("value") == "-score"
    first, second = view.texts(6)[:2]
    view.one("#corpus-texts li:nth-child(1) button").click()
    view.until("return document.querySelector('#corpus-text')?.textContent.includes(arguments[0])", f"number{first}")
    view.one("#corpus-next").click()
    view.until("return document.querySelector('#corpus-text')?.textContent.includes(arguments[0])", f"number{second}")
    view.one("#corpus-back").click()
    assert view.texts(6)[0] == first
    view.open("#corpus=texts&search=<")  # markup is text
    assert view.texts(1) == [29]
    view.one("#corpus-texts button").click()
    view.until("return document.querySelectorAll('#corpus-text .unit').length")
    assert view.js("return document.querySelectorAll('#corpus script, #corpus img, #corpus iframe').length") == 0


def test_a_word_leads_to_its_texts_and_back(view, folder):
    view.open().summary()
    view.texts(20)
    expected = corpus.summary(folder)["great"].effect.texts
    view.js(
        "const rows = [...document.querySelectorAll('#corpus-chart .row')];"
        "rows.find((r) => r.textContent.includes('great')).dispatchEvent(new Event('click'))"
    )
    assert len(view.texts(expected)) == expected
    assert f"in {expected} texts" in view.one("#corpus-word").text
    assert "word=great" in view.js("return location.hash")
    view.driver.back()
    view.texts(20)
    view.one("#corpus .more summary").click()
    view.one("#corpus-words [data-key=texts]").click()
    shown = view.js(
        "return [...document.querySelectorAll('#corpus-words tbody tr')].map((r) => Number(r.children[1].textContent))"
    )
    assert shown == sorted((word.effect.texts for word in corpus.summary(folder).of_kind("word")), reverse=True)
    assert view.one("#corpus-words th[aria-sort]").get_attribute("aria-sort") == "descending"
    view.one("#corpus-word-search").send_keys("grea")
    view.one("#corpus-words tbody tr .name button").click()
    assert len(view.texts(expected)) == expected
    view.one(".with-word button").click()
    view.texts(20)


def test_a_stored_explanation_opens_in_the_viewer_and_is_explained_anew(view):
    view.open("#corpus=texts&search=number4")
    view.texts(1)
    view.one("#corpus-texts button").click()
    view.until("return document.querySelectorAll('#corpus-text .unit').length")
    units = view.js("return [...document.querySelectorAll('#corpus-text .unit')].map((u) => u.textContent)")
    assert units == SOURCE[4]["text"].split()
    assert "wrong prediction" in view.one("#corpus-one .facts").text
    view.one("#corpus-explain").click()
    view.until("return document.querySelector('.pane[data-state=done]')")
    assert view.one("#my-text").get_attribute("value") == SOURCE[4]["text"]
    assert not view.one("#corpus").is_displayed()
    an_address_written_late = "addEventListener('popstate', () => changed.now(), { once: true })"
    for event in ("", an_address_written_late):
        view.until("return location.hash.startsWith('#text=bad')")
        view.js(event)
        view.driver.back()
        view.until("return document.querySelector('#corpus-one')?.checkVisibility()")
        assert "number=4" in view.js("return location.hash")
        view.driver.forward()


def test_effects_without_an_explanation_while_the_corpus_grows(browser, tmp_path, monkeypatch):
    monkeypatch.setattr(web_corpus, "_PAUSE", 0.0)
    monkeypatch.setattr(web_corpus, "_REST", 0.0)
    made = [row(i, f"so bad {i}", [0.5, -2.0, 0.0], score=-1.0, label="neg") for i in range(12)]
    out = write(tmp_path / "out", made[:6], part=6)
    with serving(answers, corpus=(out, {})) as client:
        view = View(browser, client.server.address)
        view.media()
        view.open()
        view.texts(6)
        view.summary()
        assert "not the one that made this corpus (a model)" in view.one("#corpus-notice").text
        write_part(Folder(out), 1, encoded(table(made[6:]), "1"))
        view.js("corpusView.look()")
        view.texts(12)
        view.one("#corpus-texts button").click()
        view.until("return document.querySelector('#corpus-stored')")
        spans = view.js(
            "return [...document.querySelectorAll('#corpus-stored .unit')].map((s) => [s.textContent, s.className])"
        )
        assert spans == [["so", "unit stored for"], ["bad", "unit stored against"], ["0", "unit stored for"]]
        assert "which is not the model of this corpus" in view.one("#corpus-one").text
        view.one("#corpus-explain").click()
        view.until("return document.querySelector('.pane[data-state=done]')")
        assert view.one("#my-text").get_attribute("value") == "so bad 0"
        browser.get("about:blank")


def test_poorly_explained_texts_and_a_damaged_part_are_said(browser, tmp_path, monkeypatch):
    monkeypatch.setattr(web_corpus, "_PAUSE", 0.0)
    monkeypatch.setattr(web_corpus, "_REST", 0.0)
    poor = {"near_r2": -1.0, "near_mse": 1.0}
    out = write(
        tmp_path / "out", [row(i, f"so bad {i}", [0.5, -2.0, 0.0]) | (poor if i < 2 else {}) for i in range(12)], part=6
    )
    with serving(answers, corpus=(out, {})) as client:
        view = View(browser, client.server.address)
        view.media()
        view.open()
        view.texts(12)
        view.summary()
        says = "return document.getElementById('corpus').textContent.includes(arguments[0])"
        assert view.js(says, "2 texts poorly explained (held-out R² near the text below 0): left out.")
        (out / "parts" / "000001.parquet").write_bytes((out / "parts" / "000000.parquet").read_bytes())
        view.js("corpusView.look()")
        view.until(says, "out/parts/000001.parquet' is damaged (its bytes are not those that were written)")
        view.open("#corpus=texts&search=so")
        view.until(says, "1 part cannot be read: parts/000001.parquet.")
        browser.get("about:blank")


def test_nothing_is_wider_than_a_phone(view):
    view.media(width=390)
    view.open("#corpus=texts&word=good").summary()
    view.until("return document.querySelectorAll('#corpus-texts li').length > 3")
    assert view.js("return document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_axe_finds_nothing_wrong(view, axe):
    view.open("#corpus=texts&word=good").summary()
    view.until("return document.querySelectorAll('#corpus-texts li').length > 3")
    for more in view.driver.find_elements(By.CSS_SELECTOR, "#corpus .more summary"):
        more.click()
    assert axe(view.driver) == []
    view.one("#corpus-texts button").click()
    view.until("return document.querySelectorAll('#corpus-text .unit').length")
    assert axe(view.driver) == []
