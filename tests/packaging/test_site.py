"""scripts/check_site.py finds what a page loads from elsewhere, and nothing else."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "check_site.py"


def check(folder):
    return subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True, check=False)


ELSEWHERE = [
    ("page.html", '<script src="https://cdn.example/a.js"></script>', "page.html: <script> https://cdn.example/a.js"),
    ("page.html", '<link rel="stylesheet" href="//fonts.example/f.css">', "<link> //fonts.example/f.css"),
    ("page.html", '<link rel="preconnect" href="https://fonts.example">', "<link> https://fonts.example"),
    ("page.html", '<img srcset="a.png 1x, https://img.example/b.png 2x">', "<img> https://img.example/b.png"),
    ("page.html", "<style>@import 'https://css.example/x.css';</style>", "<style> https://css.example/x.css"),
    ("page.html", '<p style="background:url(https://img.example/p.png)">', "<p style> https://img.example/p.png"),
    ("page.html", '<div class="mermaid">graph</div>', "<div class=mermaid>"),
    (
        "style.css",
        '@font-face { src: url("https://fonts.example/a.woff2") }',
        "style.css: url https://fonts.example/a.woff2",
    ),
]


def test_what_is_loaded_from_elsewhere_is_named(tmp_path):
    for number, (name, content, said) in enumerate(ELSEWHERE):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "index.html").write_text("<p>nothing</p>", encoding="utf-8")
        (folder / name).write_text(content, encoding="utf-8")
        found = check(folder)
        assert found.returncode == 1, said
        assert said in found.stderr, said


def test_links_and_files_of_the_site_itself_are_fine(tmp_path):
    page = """<link rel="canonical" href="https://here.example/"><link rel="stylesheet" href="a.css">
    <script src="b.js"></script><a href="https://arxiv.org/abs/2405.13536">paper</a><img src="data:image/png;base64,AAAA"><pre>src="https://x.example"</pre>"""
    (tmp_path / "index.html").write_text(page, encoding="utf-8")
    (tmp_path / "a.css").write_text("/* https://example.org */ p { background: url(x.png) }", encoding="utf-8")
    found = check(tmp_path)
    assert (found.returncode, found.stderr) == (0, "")
    assert "1 pages" in found.stdout


def test_a_site_that_cannot_be_searched_in_a_folder_is_an_error(tmp_path):
    (tmp_path / "index.html").write_text("<p>nothing</p>", encoding="utf-8")
    (tmp_path / "search").mkdir()
    (tmp_path / "search" / "search_index.json").write_text("{}", encoding="utf-8")
    assert "search/search_index.js: missing" in check(tmp_path).stderr
    (tmp_path / "search" / "search_index.js").write_text("var __index = {}", encoding="utf-8")
    assert check(tmp_path).returncode == 0


def test_a_worker_answers_in_a_folder(browser, tmp_path):
    """The search is a worker, which no browser starts from file://."""
    shutil.copy(ROOT / "docs" / "assets" / "iframe-worker.js", tmp_path)
    (tmp_path / "worker.js").write_text('addEventListener("message", ({ data }) => postMessage(2 * data));', encoding="utf-8")
    (tmp_path / "page.html").write_text('<script src="iframe-worker.js"></script><p>a page</p>', encoding="utf-8")
    browser.get((tmp_path / "page.html").as_uri())
    answer = browser.execute_async_script(
        "const done = arguments[0], worker = new Worker(new URL('worker.js', location));"
        "worker.addEventListener('message', ({ data }) => done(data)); worker.postMessage(21);"
    )
    assert answer == 42


def test_a_folder_without_pages_is_an_error(tmp_path):
    assert check(tmp_path).returncode == 1
