"""The API reference as a self-contained page: the usual OpenAPI viewers load scripts from the internet."""

import html
import json
from typing import Any
from urllib.parse import urlsplit


def manual(openapi: dict[str, Any], address: str, *, needs_key: bool = False) -> str:
    """The HTML page that documents the API.

    Args:
        openapi: The OpenAPI description.
        address: The URL of the server, without a trailing slash.
        needs_key: Whether requests must have an API key, for which the examples write KEY.
    """
    key_header = "-H 'authorization: Bearer KEY' " if needs_key else ""
    sections = [
        _section(address + path, method, operation, openapi, key_header)
        for path, operations in openapi["paths"].items()
        for method, operation in operations.items()
    ]
    title = html.escape(openapi["info"]["title"])
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{title}: the interface</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">'
        f'<link rel="stylesheet" href="assets/serve.css"></head>\n<body class="manual">\n<header><h1>{title}</h1>'
        f"<p>{html.escape(openapi['info'].get('description', ''))} "
        'The same for programs: <a href="openapi.json">openapi.json</a>. <a href="./">Back to the page.</a></p>'
        f"</header>\n<main>{''.join(sections)}</main>\n</body>\n</html>\n"
    )


def _section(address: str, method: str, operation: dict[str, Any], openapi: dict[str, Any], key_header: str) -> str:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    path, summary = html.escape(urlsplit(address).path), html.escape(operation["summary"])
    parts = [f"<section><h2><code>{method.upper()} {path}</code> {summary}</h2>"]
    parts.append(f"<p>{html.escape(operation.get('description', ''))}</p>")

    if body is not None:
        example = json.dumps(_example(body, openapi), ensure_ascii=False)
        command = f"curl {key_header}-H 'content-type: application/json' -d {_shell_quoted(example)} {address}"
        parts.append(f"<pre>{html.escape(command)}</pre>{_field_table(body, openapi)}")

    rows = "".join(
        f"<tr><td><code>{html.escape(status)}</code></td><td>{html.escape(answer['description'])}</td></tr>"
        for status, answer in sorted(operation["responses"].items())
    )
    parts.append(f"<table><caption>Answers</caption>{rows}</table></section>")
    return "\n".join(parts)


def _field_table(schema: dict[str, Any], openapi: dict[str, Any]) -> str:
    """A table of the fields of a body."""
    rows = "".join(
        f"<tr><td><code>{html.escape(name)}</code></td><td>{html.escape(type_name)}</td><td>{html.escape(description)}</td></tr>"
        for name, type_name, description in _fields_of(schema, openapi)
    )
    return f"<table><caption>Body</caption>{rows}</table>"


def _fields_of(schema: dict[str, Any], openapi: dict[str, Any], prefix: str = "") -> list[tuple[str, str, str]]:
    """The path, type and description of each field."""
    fields = []
    resolved = _resolved(schema, openapi)
    for name, value in resolved.get("properties", {}).items():
        suffix = "" if name in resolved.get("required", ()) else ", may be left out"
        fields.append((prefix + name, _type_of(value) + suffix, value.get("description", "")))
        inner = value.get("items", value)
        if "$ref" in inner:
            fields += _fields_of(inner, openapi, f"{prefix}{name}{'[]' if 'items' in value else ''}.")
    return fields


def _type_of(field: dict[str, Any]) -> str:
    """The type of a field, in words."""
    if "anyOf" in field:
        return " or ".join(_type_of(option) for option in field["anyOf"])
    if "enum" in field or "const" in field:
        return " or ".join(str(choice) for choice in field.get("enum", [field.get("const")])[:20])
    bounds = {"minLength": "at least {} characters", "maxLength": "at most {:,} characters", "maxItems": "at most {:,}"}
    limits = [words.format(field[name]) for name, words in bounds.items() if field.get(name, 0) > 1]
    type_name = "object" if "$ref" in field else field.get("type", "object")
    return ", ".join([str(type_name), *limits])


def _resolved(schema: dict[str, Any], openapi: dict[str, Any]) -> dict[str, Any]:
    """The schema that a reference points to, or the schema itself."""
    return openapi["components"]["schemas"][schema["$ref"].split("/")[-1]] if "$ref" in schema else schema


def _example(schema: dict[str, Any], openapi: dict[str, Any]) -> Any:
    """The smallest example of a schema: the required fields and nothing else."""
    resolved = _resolved(schema, openapi)
    if "anyOf" in resolved:
        return _example(resolved["anyOf"][0], openapi)  # such as a number that may be null
    type_name = resolved.get("type")
    if type_name == "object":
        return {name: _example(resolved["properties"][name], openapi) for name in resolved.get("required", ())}
    if type_name == "array":
        return [_example(resolved["items"], openapi)]
    return 300 if type_name in ("number", "integer") else "CCO" if "SMILES" in resolved.get("description", "") else "…"


def _shell_quoted(text: str) -> str:
    """The text quoted for a shell."""
    return "'" + text.replace("'", "'\\''") + "'"
