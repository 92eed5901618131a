"""What every page is made of: templates and scripts in assets/, a style, and a content security policy."""

import base64
import hashlib
import json
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template
from markupsafe import Markup

from slalom.render.palette import DARK, LIGHT


def policy(style: str, script: str | None = None) -> str:
    """Return a content security policy that allows one style and at most one script, known by their hashes."""
    code = f"'{_hash(script)}'" if script is not None else "'none'"
    return f"default-src 'none'; style-src '{_hash(style)}'; script-src {code}; base-uri 'none'; form-action 'none'"


@cache
def style(follow_system: bool = False) -> str:
    """Return the style of all pages."""
    light, dark = f":root{{{LIGHT.css()}}}", DARK.css()
    turned = f"@media screen and (prefers-color-scheme: dark){{:root{{{dark}}}}}"
    return "\n".join((light, turned if follow_system else f':root[data-theme="dark"]{{{dark}}}', asset("page.css")))


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


def _hash(code: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
