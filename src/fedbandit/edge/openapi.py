"""The sidecar's interface in OpenAPI 3.1, and a page that shows it without fetching anything."""

from html import escape
from typing import Any, Final

import msgspec

from fedbandit.edge.ranking import RankRequest, RankResponse, RewardRequest

Described = dict[str, Any]

_SCHEMAS, _COMPONENTS = msgspec.json.schema_components(
    (RankRequest, RankResponse, RewardRequest), ref_template="#/components/schemas/{name}"
)
_RANK, _RANKED, _REWARD = _SCHEMAS


def _json(what: str, schema: Described) -> Described:
    return {"description": what, "content": {"application/json": {"schema": schema}}}


def _error(what: str) -> Described:
    return _json(what, {"$ref": "#/components/schemas/Error"})


_EVENT: Described = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "The eventId that rank answered with.",
    "schema": {"type": "string", "minLength": 1},
}
_BODY_ERRORS: Described = {
    "400": _error("The body is not JSON, or ended early."),
    "408": _error("The body came too slowly."),
    "413": _error("The body is too large."),
    "415": _error("The content type is not application/json."),
    "422": _error("A field that cannot be; nothing has changed."),
}
_EVENT_ERRORS: Described = {
    "404": _error("No open event has this id."),
    "409": _error("The event has its reward already, or was given up."),
}
_DISK: Described = {"503": _error("The disk cannot be written; nothing was counted. Try again.")}

DESCRIPTION: Final[Described] = {
    "openapi": "3.1.0",
    "info": {
        "title": "fedbandit edge",
        "version": "1",
        "description": "Ranks actions on this machine, and learns from rewards together with all "
        "other agents of its model.",
    },
    "paths": {
        "/rank": {
            "post": {
                "operationId": "rank",
                "summary": "Which of these actions, in this context?",
                "description": "Features are objects of numbers, texts and booleans; or every "
                "action's are the arm itself, as many numbers as the model has dimensions.",
                "requestBody": {**_json("a question", _RANK), "required": True},
                "responses": {
                    "201": _json("the action to take, and all of them compared", _RANKED),
                    **_BODY_ERRORS,
                    "409": _error("The eventId was used before."),
                    **_DISK,
                },
            }
        },
        "/events/{id}/reward": {
            "parameters": [_EVENT],
            "post": {
                "operationId": "reward",
                "summary": "What did the action pay? Once for every event.",
                "requestBody": {**_json("a reward", _REWARD), "required": True},
                "responses": {
                    "204": {"description": "It is counted, and survives this process."},
                    **_BODY_ERRORS,
                    **_EVENT_ERRORS,
                    **_DISK,
                },
            },
        },
        "/events/{id}/activate": {
            "parameters": [_EVENT],
            "post": {
                "operationId": "activate",
                "summary": "The deferred action was taken after all.",
                "responses": {
                    "204": {"description": "It waits for its reward from now on."},
                    **_EVENT_ERRORS,
                    **_DISK,
                },
            },
        },
        "/healthz": {
            "get": {
                "operationId": "healthz",
                "summary": "How is the agent doing? trouble says why nothing can be delivered.",
                "responses": {"200": _json("alive", {"type": "object"})},
            }
        },
    },
    "components": {
        "schemas": {
            **_COMPONENTS,
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
            },
        }
    },
}

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem}"
    "code{background:#8882;padding:.1em .3em}td{padding:.1em 1em .1em 0;vertical-align:top}"
)


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
    words = escape(f"{operation['summary']} {operation.get('description', '')}")
    return (
        f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{words}</p><table>{rows}</table>"
    )
