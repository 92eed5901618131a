"""What pages are put together from: files of this package, a style, a policy that lets nothing else in."""

import base64
import hashlib
from functools import cache
from importlib import resources

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template

from slalom.render import palette as colours


def policy(style: str, script: str | None = None) -> str:
    """Return a content security policy that allows one style and at most one script, known by their hashes."""
    code = f"'{_hash(script)}'" if script is not None else "'none'"
    return f"default-src 'none'; style-src '{_hash(style)}'; script-src {code}; base-uri 'none'; form-action 'none'"


@cache
def style() -> str:
    """Return the style of all pages."""
    parts = {"for": colours.FOR, "against": colours.AGAINST, "loud": colours.LOUD}
    names = "".join(f"--{name}:{' '.join(map(str, rgb))};" for name, rgb in parts.items())
    return f":root{{{names}--strongest:{colours.STRONGEST};}}\n{asset('page.css')}"


@cache
def template(name: str) -> Template:
    """Return a template in assets/, which may include others; what it is given is escaped."""
    return Environment(autoescape=True, undefined=StrictUndefined, loader=FunctionLoader(asset)).get_template(name)


@cache
def asset(name: str) -> str:
    """Return the content of a file in assets/."""
    return (resources.files("slalom.render.page") / "assets" / name).read_text(encoding="utf-8")


def _hash(code: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
