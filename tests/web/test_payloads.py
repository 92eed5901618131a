"""96 script payloads through every page, in a real browser: nothing runs, and the payload is shown as it is."""

import csv
import json

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")
pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from dataclasses import replace
from urllib.parse import quote

import numpy as np

from slalom import Explainer, Explanations, cli, corpus
from slalom.core import Additive
from slalom.result import Answer
from tests.factories import explained
from tests.side_by_side import compared, record
from tests.web.opened import Opened
from tests.web.serving import serving

_CORES = (
    "<script>alert(1)</script>",
    "<ScRiPt src=data:text/javascript,alert(1)></ScRiPt>",
    "<script>/*</script><svg onload=alert(1)>*/",
    "<img src=x onerror=alert(1)>",
    "<img src=x onerror='alert(1)'//",
    "<svg onload=alert(1)>",
    "<svg><animate onbegin=alert(1) attributeName=x dur=1s>",
    "<svg><script>alert(1)</script></svg>",
    "<math><mi xlink:href='javascript:alert(1)'>x</mi></math>",
    "<a href=javascript:alert(1)>click</a>",
    "<a href='java&#10;script:alert(1)'>click</a>",
    "<iframe srcdoc='<script>parent.alert(1)</script>'></iframe>",
    "<iframe src=javascript:alert(1)></iframe>",
    "<object data=data:text/html,<script>alert(1)</script>></object>",
    "<embed src=javascript:alert(1)>",
    "<details open ontoggle=alert(1)>x</details>",
    "<input autofocus onfocus=alert(1)>",
    "<body onload=alert(1)>",
    "<meta http-equiv=refresh content='0;url=javascript:alert(1)'>",
    "<base href=javascript:alert(1)//>",
    "<style>@import 'javascript:alert(1)';*{background:url(javascript:alert(1))}</style>",
    "{{constructor.constructor('alert(1)')()}} ${alert(1)} {% raw %}",
    "<form action=javascript:alert(1)><button autofocus>x</button></form>",
    "<template><img src=x onerror=alert(1)></template><video><source onerror=alert(1)></video>",
)
_AROUND = (
    ("", ""),
    ('"\'><b title="', "\" onmouseover='alert(1)'>"),  # out of an attribute
    ("</script></style></textarea></title><!--", "--!><!-- ]]>"),  # out of an element
    ('\\u003c\\"}]\u2028\u2029;alert(1)//', "\\';alert(1);`&lt;"),  # out of a string of JavaScript or JSON
)
PAYLOADS = tuple(f"{before}{core}{after}" for core in _CORES for before, after in _AROUND)
TEXTS = tuple(" ".join(PAYLOADS[i::12]) for i in range(12))  # eight in each
_HOOK = "window.ran = 0; for (const name of ['alert', 'confirm', 'prompt', 'print']) window[name] = () => { window.ran += 1; };"
_BAD = """
const urls = ['href', 'src', 'action', 'data'];
const runs = ({ name, value }) => name.startsWith('on') || name === 'srcdoc'
  || urls.includes(name) && /^\\s*(javascript|data:text)/i.test(value);
const attributes = [...document.querySelectorAll('*')].flatMap((element) => [...element.attributes]);
return [window.ran, attributes.filter(runs).map(({ name, value }) => `${name}=${value}`)];
"""


@pytest.fixture(scope="module")
def hooked(browser):
    added = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _HOOK})
    yield browser
    browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)
    browser.get("about:blank")
    browser.get_log("browser")


def check(page):
    assert page.js(_BAD) == [0, []]


def file(browser, tmp_path, html):
    place = tmp_path / "page.html"
    place.write_text(html, encoding="utf-8")
    browser.get(place.as_uri())
    return Opened(browser, place.as_uri())


def hostile(payload):
    """An explanation with a payload wherever there is text."""
    e = explained(
        Additive(np.array([1.0, -1.0]), 0.0), f"{payload} end", [(0, len(payload)), (len(payload) + 1, len(payload) + 4)]
    )
    return replace(
        e, target=payload, labels=(f"no {payload}", payload), label=payload, model=payload, method=payload, diagnosis=payload,
        unit=payload, scale=payload, versions={payload: payload}, notes=(payload,), settings={payload: payload},
        answer=Answer(payload, payload, 0, len(payload), True, 1),
    )  # fmt: skip


def test_there_are_96_payloads_and_the_hook_sees_one_that_runs(hooked, tmp_path):
    assert len(set(PAYLOADS)) == 96
    page = file(hooked, tmp_path, f"<!doctype html><body>{PAYLOADS[0]}<img src=x onerror=alert(1)>")
    page.until("return window.ran === 2")
    assert page.js(_BAD)[1] == ["onerror=alert(1)"]


def test_report_page(hooked, tmp_path):
    page = file(hooked, tmp_path, Explanations([hostile(payload) for payload in TEXTS]).to_html())
    for i, payload in enumerate(TEXTS):
        page.js("location.hash = arguments[0]", f"#text-{i + 1}")
        page.until("return document.getElementById('where').textContent === arguments[0]", f"Text {i + 1} of 12")
        assert page.js("return document.getElementById('text').textContent") == f"{payload} end"
        assert page.js("return document.querySelector('#head').textContent.includes(arguments[0])", payload), payload
    check(page)


def test_comparison_page(hooked, tmp_path):
    """Names of methods, data and models."""
    records = [record(t, payload, 10, 0.1 + 0.001 * i) for t in (0, 1) for i, payload in enumerate(TEXTS)]
    c = compared(records, skipped={f"{PAYLOADS[0]}2": PAYLOADS[1]}, about={"model": PAYLOADS[2], PAYLOADS[3]: PAYLOADS[3]})
    page = file(hooked, tmp_path, c.to_html())
    shown = page.js("return document.body.textContent")
    for payload in TEXTS:
        assert payload in shown
    check(page)


def test_notebook(hooked, tmp_path):
    """All of them in one document without any policy."""
    parts = "".join(f"<div class=shown>{hostile(payload)._repr_html_()}</div>" for payload in TEXTS)
    page = file(hooked, tmp_path, f"<!doctype html><meta charset=utf-8><body>{parts}")
    shown = page.js("return [...document.querySelectorAll('.shown')].map((part) => part.textContent)")
    for payload, text in zip(TEXTS, shown, strict=True):
        assert payload in text
    check(page)


def test_command_line(hooked, tmp_path, monkeypatch):
    """Texts of a file, through the bundled model."""
    source, out = tmp_path / "</script><img src=x onerror=alert(1)>.csv".replace("/", "_"), tmp_path / "page.html"
    with source.open("w", encoding="utf-8", newline="") as rows:
        csv.writer(rows).writerows([["text"], [TEXTS[0]], [TEXTS[1]]])
    options = ["--file", str(source), "--column", "text", "--html", str(out), "--queries", "30", "--method", "ridge"]
    monkeypatch.setattr("sys.argv", ["slalom", "explain", *options])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert not stop.value.code
    page = file(hooked, tmp_path, out.read_text(encoding="utf-8"))
    for i, payload in enumerate(TEXTS[:2]):
        page.js("location.hash = arguments[0]", f"#text-{i + 1}")
        page.until("return document.getElementById('where').textContent === arguments[0]", f"Text {i + 1} of 2")
        assert page.js("return document.getElementById('text').textContent") == payload
    check(page)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A corpus whose texts, labels, ids and columns are payloads."""
    out = tmp_path_factory.mktemp("corpus") / "<img src=x onerror=alert(1)>"
    source = [{"text": payload, "id": payload, "gold": PAYLOADS[0], PAYLOADS[1]: payload} for payload in PAYLOADS]
    model = Explainer(
        lambda texts: [text.count("alert") - 0.5 for text in texts],
        output="log_odds", labels=[PAYLOADS[0], PAYLOADS[3]], unit="word", queries=8, method="ridge", progress=False,
    )  # fmt: skip
    corpus.run(source, out, model, keep=("id", "gold", PAYLOADS[1]), full=True)
    return out


def test_corpus_page(hooked, tmp_path, folder):
    summary = corpus.summary(folder, gold="gold", slices=PAYLOADS[1], min_texts=2)
    page = file(hooked, tmp_path, summary.to_html())
    page.until("return document.querySelectorAll('#chart .row').length > 0")
    assert PAYLOADS[0] in page.js("return document.body.textContent")
    check(page)


def test_live_page_and_corpus_view(hooked, folder):
    """Typed, in the address, as names of models and classes, and as texts, columns and names of a corpus."""
    model = Explainer(lambda texts: [float(len(text)) for text in texts], output="log_odds", labels=list(PAYLOADS[:2]))
    with serving(model, corpus=(folder, {"slices": PAYLOADS[1]})) as client:
        page = Opened(hooked, f"http://127.0.0.1:{client.port}/")
        page.open()
        for payload in TEXTS:
            page.js("history.pushState(null, '', '#text=' + arguments[0]); window.dispatchEvent(new PopStateEvent('popstate'))",
                    quote(payload) + "&method=ridge&queries=8&unit=sentence")  # fmt: skip
            page.until("return slalom.panes[0].final && slalom.panes[0].asked.text === arguments[0]", payload)
            assert page.js("return document.getElementById('text').textContent") == payload
        check(page)
        page.open("#corpus")
        page.until("return document.querySelectorAll('#corpus-texts li').length > 0")
        assert PAYLOADS[0] in page.js("return document.getElementById('corpus-texts').textContent")
        check(page)
        for number in (0, 11):
            page.open(f"#corpus=text&number={number}")
            page.until("return document.getElementById('corpus-text')?.textContent === arguments[0]", PAYLOADS[number])
            check(page)
        for path in ("/api/docs", f"/assets/{quote(PAYLOADS[0], safe='')}"):
            hooked.get(page.address + path.removeprefix("/"))
            assert page.js("return window.ran") == 0
        failed = client.post("/api/explain", {"text": "a", "method": PAYLOADS[0]})
        assert json.loads(failed.body)["error"]
