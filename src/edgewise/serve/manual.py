"""The description of the interface as a page that loads nothing: usual viewers of OpenAPI come from the internet."""

import html
import json
from typing import Any
from urllib.parse import urlsplit


def manual(described: dict[str, Any], address: str) -> str:
    """The page.

    Args:
        described: The interface as OpenAPI describes it.
        address: Where it is reached, without a slash at the end.
    """
    sections = [
        _section(address + path, method, operation, described)
        for path, operations in described["paths"].items()
        for method, operation in operations.items()
    ]
    title = html.escape(described["info"]["title"])
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{title}: the interface</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">'
        f'<link rel="stylesheet" href="assets/serve.css"></head>\n<body class="manual">\n<header><h1>{title}</h1>'
        f"<p>{html.escape(described['info'].get('description', ''))} "
        'The same for programs: <a href="openapi.json">openapi.json</a>. <a href="./">Back to the page.</a></p>'
        f"</header>\n<main>{''.join(sections)}</main>\n</body>\n</html>\n"
    )


def _section(address: str, method: str, operation: dict[str, Any], described: dict[str, Any]) -> str:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    path, summary = html.escape(urlsplit(address).path), html.escape(operation["summary"])
    parts = [f"<section><h2><code>{method.upper()} {path}</code> {summary}</h2>"]
    parts.append(f"<p>{html.escape(operation.get('description', ''))}</p>")
    if body is not None:
        example = json.dumps(_example(body, described), ensure_ascii=False)
        command = f"curl -H 'content-type: application/json' -d {_quoted(example)} {address}"
        parts.append(f"<pre>{html.escape(command)}</pre>{_fields(body, described)}")
    rows = "".join(
        f"<tr><td><code>{html.escape(status)}</code></td><td>{html.escape(answer['description'])}</td></tr>"
        for status, answer in sorted(operation["responses"].items())
    )
    parts.append(f"<table><caption>Answers</caption>{rows}</table></section>")
    return "\n".join(parts)


def _fields(schema: dict[str, Any], described: dict[str, Any]) -> str:
    """A table of what may stand in a body."""
    rows = "".join(
        f"<tr><td><code>{html.escape(name)}</code></td><td>{html.escape(kind)}</td><td>{html.escape(about)}</td></tr>"
        for name, kind, about in _listed(schema, described)
    )
    return f"<table><caption>Body</caption>{rows}</table>"


def _listed(schema: dict[str, Any], described: dict[str, Any], prefix: str = "") -> list[tuple[str, str, str]]:
    """Each field with its place, its kind and what it is."""
    found = []
    whole = _resolved(schema, described)
    for name, field in whole.get("properties", {}).items():
        needed = "" if name in whole.get("required", ()) else ", may be left out"
        found.append((prefix + name, _kind(field) + needed, field.get("description", "")))
        inner = field.get("items", field)
        if "$ref" in inner:
            found += _listed(inner, described, f"{prefix}{name}{'[]' if 'items' in field else ''}.")
    return found


def _kind(field: dict[str, Any]) -> str:
    """What a field is, in words."""
    if "anyOf" in field:
        return " or ".join(_kind(each) for each in field["anyOf"])
    if "enum" in field or "const" in field:
        return " or ".join(str(each) for each in field.get("enum", [field.get("const")])[:20])
    bounds = {"minLength": "at least {} characters", "maxLength": "at most {:,} characters", "maxItems": "at most {:,}"}
    limits = [words.format(field[name]) for name, words in bounds.items() if field.get(name, 0) > 1]
    kind = "object" if "$ref" in field else field.get("type", "object")
    return ", ".join([str(kind), *limits])


def _resolved(schema: dict[str, Any], described: dict[str, Any]) -> dict[str, Any]:
    """A schema itself, where it is only referred to."""
    return described["components"]["schemas"][schema["$ref"].split("/")[-1]] if "$ref" in schema else schema


def _example(schema: dict[str, Any], described: dict[str, Any]) -> Any:
    """The smallest thing of a schema: what is required and nothing else."""
    whole = _resolved(schema, described)
    kind = whole.get("type")
    if kind == "object":
        return {name: _example(whole["properties"][name], described) for name in whole.get("required", ())}
    if kind == "array":
        return [_example(whole["items"], described)]
    return 300 if kind in ("number", "integer") else "CCO" if "SMILES" in whole.get("description", "") else "…"


def _quoted(text: str) -> str:
    """A word of the shell."""
    return "'" + text.replace("'", "'\\''") + "'"
