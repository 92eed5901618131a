"""The model that made a corpus, as far as the command line confirms it.

A folder of a corpus may come from someone else. Its manifest says how to load the model again; it must not say where texts and
the key of an API go, nor make slalom read or write files that came along with it.
"""

import os
import shlex
from pathlib import Path
from typing import Any

from slalom.cli.language_models import NAMES
from slalom.cli.printing import UsageError
from slalom.errors import InputError

_TEXTS = ("model", "lm", "api", "base_url", "template", "labels", "mode", "method", "unit", "target", "long", "device")
_OTHERS = ("queries", "tolerance", "max_queries", "seed")


def confirmed_options(
    out: str, model: str | None, lm: str | None, api: str | None, base_url: str | None, template: str | None
) -> dict[str, Any] | None:
    """Return the options of `slalom corpus run` that a manifest keeps; None where the run was begun in Python."""
    import slalom.corpus  # noqa: PLC0415

    manifest = slalom.corpus.open(out).manifest.get("command") or {}
    if not isinstance(manifest, dict) or any(name not in manifest for name in (*NAMES, *_TEXTS, *_OTHERS)):
        return None
    for name in _TEXTS:
        if not isinstance(manifest[name], (str, type(None))):
            raise InputError(f"the manifest of {out!r} must have a text as {name}; got {type(manifest[name]).__name__}")
    named = {"model": model, "lm": lm, "api": api}
    kind = next((kind for kind, name in named.items() if name is not None), None)
    if kind is None and base_url is not None:
        raise UsageError("--base-url is for a model behind an API; name one with --api MODEL")
    if kind is not None and manifest[kind] is None:
        before = next((f"--{name}" for name in named if manifest[name] is not None), "the bundled classifier")
        raise InputError(f"{out!r} was begun with {before}, not with --{kind}; name the same model")
    missing = [] if kind else [name for name in ("api", "model", "lm") if _must_be_named(name, manifest[name], out)]
    if manifest["api"] is not None and manifest["base_url"] is not None and base_url is None:
        missing.append("base_url")
    if template is None and (manifest["template"] or "").startswith("@"):
        missing.append("template")
    if missing:
        options = " ".join(f"--{name.replace('_', '-')} {_quoted(manifest[name])}" for name in missing)
        raise InputError(
            f"the manifest of {out!r}, which may come from someone else, does not decide where texts and keys go and which"
            f" files are read; if you know what it names, add {options}"
        )
    address = {} if kind is None else {**named, "base_url": base_url}
    return {**manifest, **address, "template": template or manifest["template"], "cache": None}


def _must_be_named(name: str, value: str | None, out: str) -> bool:
    """Return whether a manifest alone does not suffice: for a model behind an API, or a folder that may have come along."""
    if value is None or name == "api":
        return value is not None
    if value.startswith(("\\\\", "//")):  # a folder of another machine, which would see who asks
        return True
    from slalom.corpus.folder import Folder  # noqa: PLC0415

    place, root = Path(os.path.expanduser(value)), Path(Folder(out).root)
    if not place.exists():
        return False  # a name on the hub
    if not place.is_absolute():
        return True
    spellings = (Path(os.path.abspath(place)), place.resolve())
    return root.exists() and any(folder.samefile(root) for path in spellings for folder in (path, *path.parents))


def _quoted(value: str) -> str:
    return shlex.quote(value) if value.isprintable() else ascii(value)
