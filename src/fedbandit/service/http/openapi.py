"""The coordinator's HTTP interface in OpenAPI 3.1."""

from typing import Final

from fedbandit import terms, wire
from fedbandit.web.openapi import ERROR, Described, error_of, json_of, page

__all__ = ["DESCRIPTION", "page"]


def _binary(what: str) -> Described:
    schema = {"type": "string", "format": "binary", "description": "MessagePack; see docs/wire.md"}
    return {"description": what, "content": {wire.MEDIA_TYPE: {"schema": schema}}}


def _name(what: str) -> Described:
    return {
        "name": what,
        "in": "path",
        "required": True,
        "schema": {"type": "string", "pattern": f"^{terms.NAME}$"},
    }


_TEXT = {"schema": {"type": "string"}}
_FOREIGN: Described = {
    "403": error_of(
        "It comes from a web page of another site (only where no tokens are asked for), or from an "
        "agent that is quarantined."
    ),
    "421": error_of("It was meant for another host; see --allow-host (likewise)."),
}
_LATER = error_of("Not now: stopping, too busy, or the store fails.", **{"Retry-After": "seconds"})
_AGENT_ANSWERS: Described = {
    **_FOREIGN,
    "400": error_of("The request ended early."),
    "401": error_of("No token, or one that does not open this agent of this model."),
    "404": error_of("No such model (only said if no tokens are asked for)."),
    "422": error_of("A field that cannot be; nothing has changed."),
    "429": error_of(
        "This agent has too many requests under way, or has used up a quota.",
        **{"Retry-After": "seconds"},
    ),
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
        "408": error_of("The body came too slowly."),
        "409": error_of("The model has another recipe: join again."),
        "410": error_of("A life that may have been forgotten: join again as a new one."),
        "413": error_of("More bytes than a sync of this model can have."),
        "415": error_of(f"The content type is not {wire.MEDIA_TYPE}."),
    },
}
_STATE: Described = {
    "operationId": "state",
    "summary": "Join, or catch up.",
    "security": [{"token": []}],
    "parameters": [
        {
            "name": "format",
            "in": "query",
            "description": "The format of the wire to answer in; 1 if it is left out.",
            "schema": {"type": "string", "enum": [str(form) for form in wire.FORMATS]},
        },
        {
            "name": "have",
            "in": "query",
            "description": "The SHA-256 of the bytes of the download that the agent received last, "
            "in hexadecimal. If that is what it would be sent now, no download is; without it, "
            "one always is.",
            "schema": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        },
        {
            "name": "since",
            "in": "query",
            "description": "The version of that download. No download is sent unless the model was "
            "set back after it.",
            "schema": {"type": "string", "pattern": "^[0-9]{1,19}$"},
        },
    ],
    "responses": {
        "200": _binary("joined"),
        **_AGENT_ANSWERS,
        "409": error_of("The model's recipe cannot be told in this format: upgrade the agent."),
    },
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
                "responses": {"200": json_of("It is.", {"type": "object"}), **_FOREIGN},
            }
        },
        "/readyz": {
            "get": {
                "operationId": "readyz",
                "summary": "Would a sync be answered now?",
                "responses": {
                    "200": json_of("It would.", {"type": "object"}),
                    "503": _LATER,
                    **_FOREIGN,
                },
            }
        },
        "/metrics": {
            "get": {
                "operationId": "metrics",
                "summary": "Counters for Prometheus, for admins.",
                "security": [{"token": []}],
                "responses": {
                    "200": {"description": "text", "content": {"text/plain": _TEXT}},
                    "401": error_of("No admin's token."),
                    "503": _LATER,
                    **_FOREIGN,
                },
            }
        },
    },
    "components": {
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        "schemas": {"Error": ERROR},
    },
}
