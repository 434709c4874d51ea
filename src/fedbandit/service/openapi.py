"""The HTTP interface in OpenAPI 3.1, and a page that shows it without fetching anything."""

from html import escape
from typing import Any, Final

from fedbandit import wire

Described = dict[str, Any]


def _binary(what: str) -> Described:
    schema = {"type": "string", "format": "binary", "description": "MessagePack; see docs/wire.md"}
    return {"description": what, "content": {wire.MEDIA_TYPE: {"schema": schema}}}


def _json(what: str, schema: Described) -> Described:
    return {"description": what, "content": {"application/json": {"schema": schema}}}


def _error(what: str, **headers: str) -> Described:
    answer = _json(what, {"$ref": "#/components/schemas/Error"})
    if headers:
        answer["headers"] = {
            name: {"description": text, "schema": {"type": "string"}}
            for name, text in headers.items()
        }
    return answer


def _name(what: str) -> Described:
    return {
        "name": what,
        "in": "path",
        "required": True,
        "schema": {"type": "string", "pattern": f"^{wire.NAME}$"},
    }


_TEXT = {"schema": {"type": "string"}}
_LATER = _error("Not now: stopping, too busy, or the store is away.", **{"Retry-After": "seconds"})
_AGENT_ANSWERS: Described = {
    "400": _error("The request ended early."),
    "401": _error("No token, or one that does not open this agent of this model."),
    "404": _error("No such model (only told where no tokens are asked for)."),
    "422": _error("A field that cannot be; nothing has changed."),
    "429": _error("This agent has too many requests under way.", **{"Retry-After": "seconds"}),
    "503": _LATER,
}
_SYNC: Described = {
    "operationId": "sync",
    "summary": "Upload what was observed, download everything merged.",
    "description": "Exactly once by (agent, life, sequence): a copy changes nothing and is "
    "answered. The answer comes once the upload is durable.",
    "security": [{"token": []}],
    "requestBody": {**_binary("a sync"), "required": True},
    "responses": {
        "200": _binary("synced"),
        **_AGENT_ANSWERS,
        "408": _error("The body came too slowly."),
        "409": _error("The model has another recipe: join again."),
        "410": _error("A life that may have been forgotten: join again as a new one."),
        "413": _error("More bytes than a sync of this model can have."),
        "415": _error(f"The content type is not {wire.MEDIA_TYPE}."),
    },
}
_STATE: Described = {
    "operationId": "state",
    "summary": "Join, or catch up.",
    "security": [{"token": []}],
    "parameters": [
        {
            "name": "version",
            "in": "query",
            "description": "What the agent has; if that is current, no download is sent.",
            "schema": {"type": "integer", "minimum": 0, "maximum": wire.LARGEST},
        }
    ],
    "responses": {"200": _binary("joined"), **_AGENT_ANSWERS},
}
DESCRIPTION: Final[Described] = {
    "openapi": "3.1.0",
    "info": {
        "title": "fedbandit coordinator",
        "version": str(wire.FORMAT),
        "description": "Merges what agents upload, exactly once and durably.",
    },
    "paths": {
        "/v1/models/{model}/agents/{agent}/sync": {
            "parameters": [_name("model"), _name("agent")],
            "post": _SYNC,
        },
        "/v1/models/{model}/agents/{agent}/state": {
            "parameters": [_name("model"), _name("agent")],
            "get": _STATE,
        },
        "/healthz": {
            "get": {
                "operationId": "healthz",
                "summary": "Is the process alive?",
                "responses": {"200": _json("It is.", {"type": "object"})},
            }
        },
        "/readyz": {
            "get": {
                "operationId": "readyz",
                "summary": "Would a sync be answered now?",
                "responses": {"200": _json("It would.", {"type": "object"}), "503": _LATER},
            }
        },
        "/metrics": {
            "get": {
                "operationId": "metrics",
                "summary": "Counters for Prometheus, for admins.",
                "security": [{"token": []}],
                "responses": {
                    "200": {"description": "text", "content": {"text/plain": _TEXT}},
                    "401": _error("No admin's token."),
                    "503": _LATER,
                },
            }
        },
    },
    "components": {
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        "schemas": {
            "Error": {
                "type": "object",
                "required": ["error"],
                "properties": {
                    "error": {
                        "type": "object",
                        "required": ["field", "message"],
                        "properties": {
                            "field": {"type": "string"},
                            "message": {"type": "string"},
                        },
                    }
                },
            }
        },
    },
}

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem}"
    "code{background:#8882;padding:.1em .3em}td{padding:.1em 1em .1em 0;vertical-align:top}"
)


def page(described: Described) -> str:
    """Return a description as one self-contained HTML page."""
    info = described["info"]
    parts = [f"<h1>{escape(info['title'])}</h1><p>{escape(info['description'])}</p>"]
    for path, methods in described["paths"].items():
        parts += [
            _section(path, method, operation)
            for method, operation in methods.items()
            if method != "parameters"
        ]
    title = escape(info["title"])
    head = f"<meta charset='utf-8'><title>{title}</title><style>{_STYLE}</style>"
    told = "<p>The same for programs: <a href='openapi.json'>openapi.json</a>.</p>"
    body = "".join(parts) + told
    return f"<!doctype html><html lang='en'><head>{head}</head><body>{body}</body></html>"


def _section(path: str, method: str, operation: Described) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(status)}</code></td><td>{escape(answer['description'])}</td></tr>"
        for status, answer in operation["responses"].items()
    )
    words = escape(f"{operation['summary']} {operation.get('description', '')}")
    title = f"<code>{method.upper()} {escape(path)}</code>"
    return f"<h2>{title}</h2><p>{words}</p><table>{rows}</table>"
