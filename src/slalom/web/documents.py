"""The documentation of the API as a plain page, from its OpenAPI document: no script, nothing from outside."""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any


def documentation(openapi: Mapping[str, Any]) -> str:
    """Return the page."""
    info = openapi["info"]
    title = f"{escape(info['title'])} {escape(info['version'])}: REST API"
    body = "\n".join(_routes(openapi))
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width">'
        '<link rel="stylesheet" href="/assets/docs.css"></head>\n'
        f"<body><main>\n<h1>{title}</h1>\n<p>{escape(info['description'])}</p>\n"
        '<p>The same for programs: <a href="/api/openapi.json">/api/openapi.json</a>. Bodies are JSON'
        " (<code>Content-Type: application/json</code>); errors are <code>{error: one line}</code>.</p>\n"
        f"{body}\n</main></body>\n</html>\n"
    )


def _routes(openapi: Mapping[str, Any]) -> Iterator[str]:
    schemas = openapi.get("components", {}).get("schemas", {})
    for path, operations in openapi["paths"].items():
        for verb, operation in operations.items():
            yield f"<section><h2><code>{verb.upper()} {escape(path)}</code></h2>"
            yield f"<p>{escape(operation.get('summary', ''))}. {escape(operation.get('description', ''))}</p>"
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            if body is not None:
                yield "<h3>Body</h3>" + _fields(body, schemas)
            answer = operation["responses"].get("200", {}).get("content", {}).get("application/json", {}).get("schema")
            if answer:
                yield "<h3>Answer</h3>" + _fields(answer, schemas)
            yield "</section>"


def _fields(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    """Return the fields of an object as a table; of anything else its type."""
    known = _resolved(schema, schemas)
    if "properties" not in known:
        return f"<p><code>{escape(_type(schema, schemas))}</code></p>"
    rows = []
    for name, field in known["properties"].items():
        note = field.get("description", "")
        needed = " (needed)" if name in known.get("required", ()) and note else ""
        rows.append(f"<tr><td><code>{escape(name)}</code></td><td><code>{escape(_type(field, schemas))}</code></td>"
                    f"<td>{escape(note)}{needed}</td></tr>")  # fmt: skip
    return f"<table><tr><th>field</th><th>type</th><th>meaning</th></tr>{''.join(rows)}</table>"


def _resolved(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    known: Mapping[str, Any] = schemas.get(schema.get("$ref", "").rpartition("/")[2], schema)
    return known


def _type(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    """Return a type in words."""
    if "anyOf" in schema:
        return " or ".join(_type(option, schemas) for option in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(str(option) for option in schema["enum"])
    known = _resolved(schema, schemas)
    if "properties" in known:
        return "{" + ", ".join(known["properties"]) + "}"
    if known.get("type") == "array":
        return f"list of {_type(known.get('items', {}), schemas)}"
    return str(known.get("type", "any"))
