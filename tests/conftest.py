"""What tests share besides tests/factories.py: a browser, started once, and axe-core, fetched once."""

import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest

from tests.waiting import DEADLINE

os.environ.setdefault("NUMBA_DISABLE_JIT", "1")  # what numba compiles for shap takes five seconds, and runs once


def pytest_addoption(parser):
    said = "milliseconds by which the browser reports later what it reports after the fact: finds tests that do not wait"
    parser.addoption("--slow-browser", type=int, default=0, help=said)


@pytest.fixture(scope="session")
def browser(request, tmp_path_factory):
    """Chromium without a window, which keeps its console; skips where it is not installed."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("chromium or chromedriver is not installed")
    from selenium import webdriver  # noqa: PLC0415

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    flags = "headless=new no-sandbox disable-gpu disable-quic no-first-run disable-background-networking"
    flags += " disable-component-update disable-sync disable-dev-shm-usage window-size=1280,1000"
    for flag in [*flags.split(), f"user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options, webdriver.ChromeService(driver))
    started.set_script_timeout(DEADLINE)
    started.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})  # some versions leave the page without it
    if wait := request.config.getoption("--slow-browser", 0):
        script = Path(__file__).with_name("slow_browser.js").read_text(encoding="utf-8")
        started.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": f"{script.rstrip()}({wait});"})
    yield started
    started.quit()


def _fetch_axe(folder, file):
    """Fetch axe-core into a folder; other test processes may do the same at the same time."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("axe-core is fetched with npm, which is not installed")
    with tempfile.TemporaryDirectory(dir=folder) as own:
        try:
            command = [npm, "pack", "axe-core@4", "--silent"]
            packed = subprocess.run(command, cwd=own, capture_output=True, text=True, timeout=60, check=True)
        except subprocess.SubprocessError:
            pytest.skip("npm cannot fetch axe-core here")
        with tarfile.open(Path(own) / packed.stdout.split()[-1]) as archive:
            archive.extract("package/axe.min.js", own, filter="data")
        file.parent.mkdir(exist_ok=True)
        (Path(own) / "package" / "axe.min.js").replace(file)  # whole, or not at all


@pytest.fixture(scope="session")
def axe(request):
    """What axe-core finds on the page that a driver shows, by all rules or some: [(rule, elements)]; skips without npm."""
    folder = request.config.cache.mkdir("axe-core")
    file = folder / "package" / "axe.min.js"
    if not file.exists():
        _fetch_axe(folder, file)
    script = file.read_text(encoding="utf-8")

    def violations(driver, *rules):
        driver.execute_script(script)
        options = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
        found = driver.execute_async_script("axe.run(document, arguments[0]).then(r => arguments[1](r.violations))", options)
        return [(one["id"], [node["target"] for node in one["nodes"]]) for one in found]

    return violations
