"""What every page is made of: templates and scripts in assets/, a style, and a content security policy."""

import base64
import hashlib
import json
import math
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template
from markupsafe import Markup

from slalom.render.palette import DARK, LIGHT
from slalom.text import printable


def rendered(name: str, title: str, look: str, code: str | None = None, allowed: str = "", **parts: Any) -> str:
    """Return a page of a template, with a policy that allows its style and at most one script, known by their hashes."""
    script = "'none'" if code is None else f"'{_hash(code)}'"
    policy = f"default-src 'none'; style-src '{_hash(look)}'; script-src {script}; base-uri 'none'; form-action 'none'{allowed}"
    known = {"title": printable(title), "policy": Markup(policy), "style": Markup(look), "script": Markup(code or "")}
    return template(name).render(**known, **parts)


@cache
def style(follow_system: bool = False) -> str:
    """Return the style of all pages."""
    light, dark = f":root{{{LIGHT.css()}}}", DARK.css()
    turned = f"@media screen and (prefers-color-scheme: dark){{:root{{{dark}}}}}"
    return "\n".join(
        (light, turned if follow_system else f':root[data-theme="dark"]{{{dark}}}', asset("page.css"), asset("answer.css"))
    )


@cache
def template(name: str) -> Template:
    """Return a template in assets/, which may include others; what it is given is escaped."""
    return Environment(autoescape=True, undefined=StrictUndefined, loader=FunctionLoader(asset)).get_template(name)


@cache
def asset(name: str) -> str:
    """Return the content of a file in assets/."""
    return (resources.files("slalom.render.page") / "assets" / name).read_text(encoding="utf-8")


@cache
def script(*names: str) -> str:
    """Return the scripts in assets/ as one, in a scope of its own."""
    return '(() => {\n"use strict";\n' + "\n".join(map(asset, names)) + "})();"


def embedded(data: Any) -> Markup:
    """Return data as JSON in ASCII that no HTML parser can take for markup; JSON.parse gives it back."""
    plain = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Markup(plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def rounded(data: Any, digits: int = 6) -> Any:
    """Return plain data with all its numbers to some digits; None for those without end."""
    match data:
        case float():
            return float(f"{data:.{digits}g}") if math.isfinite(data) else None
        case dict():
            return {name: rounded(value, digits) for name, value in data.items()}
        case list() | tuple():
            return [rounded(value, digits) for value in data]
        case _:
            return data


def _hash(code: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
