"""A page that is open in a browser."""

from contextlib import contextmanager

from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.waiting import DEADLINE


class Opened:
    """What tests of all pages do with a driver and the address of a server or a file."""

    def __init__(self, driver, address):
        self.driver, self.address = driver, address

    def open(self, fragment=""):
        self.driver.get("about:blank")
        self.driver.get(self.address + fragment)
        self.until("return Boolean(window.slalom)")
        return self

    @contextmanager
    def watched(self):
        """The page, which must neither log a problem nor run what is in a text."""
        self.media()
        yield self
        problems = [entry for entry in self.driver.get_log("browser") if "favicon" not in entry["message"]]
        assert self.js("return window.hacked") is None
        self.driver.get("about:blank")
        assert not problems

    def choose(self, selector, value):
        self.js("const [box, v] = arguments; box.value = v; box.dispatchEvent(new Event('change'))", self.one(selector), value)

    def js(self, code, *arguments):
        return self.driver.execute_script(code, *arguments)

    def until(self, code, *arguments, seconds=DEADLINE):
        return WebDriverWait(self.driver, seconds, 0.02).until(lambda _: self.js(code, *arguments))

    def one(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def prefer(self, scheme):
        """Colours for light or dark, which do not move: what moves would be read half-way."""
        wanted = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
        features = [{"name": name, "value": value} for name, value in wanted.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def media(self, scheme="light", width=1280):
        self.prefer(scheme)
        size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
