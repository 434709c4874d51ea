"""Parts of an OpenAPI 3.1 description, and an HTML page that shows one without scripts."""

from html import escape
from typing import Any, Final

Described = dict[str, Any]

ERROR: Final[Described] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["field", "message"],
            "properties": {
                "field": {
                    "type": "string",
                    "description": "The part of the request, or of the server, that is at fault.",
                },
                "message": {"type": "string", "description": "What is wrong, and what to do."},
            },
        }
    },
    "examples": [{"error": {"field": "body", "message": "it ended early"}}],
}
"""The schema of every error; descriptions have it at ``components.schemas.Error``."""

PAGE_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of ``page``: its style is inside, and it may load nothing else."""

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem}"
    "code{background:#8882;padding:.1em .3em}td{padding:.1em 1em .1em 0;vertical-align:top}"
    "pre{background:#8882;padding:.7em 1em;white-space:pre-wrap}"
)


def json_of(what: str, schema: Described, example: object = None) -> Described:
    """Describe a request or response body in JSON."""
    body: Described = {"schema": schema}
    if example is not None:
        body["example"] = example
    return {"description": what, "content": {"application/json": body}}


def error_of(what: str, **headers: str) -> Described:
    """Describe an error response and its headers."""
    answer = json_of(what, {"$ref": "#/components/schemas/Error"})
    if headers:
        answer["headers"] = {
            name: {"description": text, "schema": {"type": "string"}}
            for name, text in headers.items()
        }
    return answer


def in_order(*answers: Described) -> Described:
    """Return responses by status, the smallest first; of two for one status, the later one."""
    every = {status: each for some in answers for status, each in some.items()}
    return {status: every[status] for status in sorted(every)}


def with_curl(words: str, *lines: str) -> str:
    """Return the description of an operation, and the command that calls it."""
    shown = " \\\n  ".join(lines)
    return f"{words}\n\n```sh\n{shown}\n```".lstrip()


def page(described: Described) -> str:
    """Return a description as one self-contained HTML page."""
    info = described["info"]
    title = escape(info["title"])
    sections = "".join(
        _section(path, method, operation)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
        if method != "parameters"
    )
    return (
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{title}</title>"
        f"<style>{_STYLE}</style></head><body><h1>{title}</h1><p>{escape(info['description'])}</p>"
        f"{sections}<p>For programs: <a href='openapi.json'>openapi.json</a>.</p></body></html>"
    )


def _section(path: str, method: str, operation: Described) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(status)}</code></td><td>{escape(answer['description'])}</td></tr>"
        for status, answer in operation["responses"].items()
    )
    words, _, command = operation.get("description", "").partition("```sh\n")
    told = escape(f"{operation['summary']} {words}")
    shown = f"<pre>{escape(command.removesuffix('```').strip())}</pre>" if command else ""
    title = f"<code>{method.upper()} {escape(path)}</code>"
    return f"<h2>{title}</h2><p>{told}</p>{shown}<table>{rows}</table>"
