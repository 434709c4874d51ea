"""The coordinator's HTTP interface in OpenAPI 3.1."""

from collections.abc import Sequence
from typing import Final

from fedbandit import terms, wire
from fedbandit.web.openapi import (
    ERROR,
    Described,
    error_of,
    in_order,
    json_of,
    with_curl,
)

_HOST = "http://127.0.0.1:8400"
_BEARER = "-H 'Authorization: Bearer TOKEN'"
_AGENT_URL = f"{_HOST}/v1/models/news/agents/phone-7"


def _array(fields: Sequence[str]) -> str:
    """Describe a body in MessagePack by the fields of its array, in their order."""
    listed = "\n".join(f"{place}. {each}" for place, each in enumerate(fields))
    return f"MessagePack, an array of {len(fields)} (docs/wire.md has every bit):\n\n{listed}"


def _binary(what: str, *fields: str) -> Described:
    """Describe a body in MessagePack."""
    told = _array(fields)
    schema = {"type": "string", "format": "binary", "description": told}
    return {
        "description": f"{what}\n\n{told}",
        "content": {wire.MEDIA_TYPE: {"schema": schema}},
    }


def _name(what: str, example: str) -> Described:
    return {
        "name": what,
        "in": "path",
        "required": True,
        "description": f"The {what}'s name, {example} for example.",
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
_WRONG = error_of("This address showed too many wrong tokens.", **{"Retry-After": "seconds"})
_AGENT_ANSWERS: Described = {
    **_FOREIGN,
    "400": error_of("The request ended early."),
    "401": error_of("No token, or one that does not open this agent of this model."),
    "404": error_of("No such model (only said if no tokens are asked for)."),
    "422": error_of("A field that cannot be; nothing has changed."),
    "429": error_of(
        "This agent has too many requests under way, asks too often for what changes nothing, or "
        "has used up a quota; or this address has shown too many wrong tokens.",
        **{"Retry-After": "seconds"},
    ),
    "503": _LATER,
}
_SYNC_FIELDS: Final = (
    '`"sync"`',
    "the format of the wire, 2",
    "the recipe's fingerprint, 16 of 0-9 a-f",
    "the width of numbers, 8",
    "the life, 16 random bytes",
    "how many lives of this agent the coordinator knew when this one joined",
    "the number of this upload in its life, from 1",
    "the upload: summary, moment, number of observations, sums of rewards and estimates",
    "a map for later versions, empty",
)
_SYNC: Described = {
    "operationId": "sync",
    "summary": "Upload what was observed, download everything merged.",
    "description": with_curl(
        "Exactly once by (agent, life, sequence): a copy changes nothing and is answered. The "
        "answer comes once the upload is durable. The Python package does all this: "
        f"`fedbandit.connect`. The body is {_array(_SYNC_FIELDS)}",
        f"curl {_AGENT_URL}/sync",
        _BEARER,
        f"-H 'Content-Type: {wire.MEDIA_TYPE}'",
        "--data-binary @sync.msgpack --output synced.msgpack",
    ),
    "tags": ["Agents"],
    "security": [{"token": []}],
    "requestBody": {
        **_binary("A sync: an upload in its envelope.", *_SYNC_FIELDS),
        "required": True,
    },
    "responses": in_order(
        _AGENT_ANSWERS,
        {
            "200": _binary(
                "Synced: it is merged, and durable.",
                '`"synced"`',
                "the format of the wire",
                "the recipe's fingerprint",
                "the width of numbers, 8",
                "whether it was merged now; false for a copy",
                "the number of the upload",
                "the version that it was merged as",
                "the download: everything that the coordinator has merged, and its version",
                "a map for later versions",
            ),
            "408": error_of("The body came too slowly."),
            "409": error_of("The model has another recipe: join again."),
            "410": error_of("A life that may have been forgotten: join again as a new one."),
            "413": error_of("More bytes than a sync of this model can have."),
            "415": error_of(f"The content type is not {wire.MEDIA_TYPE}."),
        },
    ),
}
_STATE: Described = {
    "operationId": "state",
    "summary": "Join, or catch up.",
    "description": with_curl(
        "Tells the recipe, its limits, and everything merged, unless the agent has that already.",
        f"curl '{_AGENT_URL}/state?format=2'",
        _BEARER,
        "--output joined.msgpack",
    ),
    "tags": ["Agents"],
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
    "responses": in_order(
        _AGENT_ANSWERS,
        {
            "200": _binary(
                "Joined.",
                '`"joined"`',
                "the format of the wire",
                "the recipe's fingerprint",
                "the width of numbers, 8",
                "the recipe's name",
                "its parameters, as JSON",
                "the limits: longest arm, largest reward, observations an upload may stand for",
                "how many lives of this agent are known",
                "the download, or nil if the agent has it",
                "a map for later versions",
            ),
            "409": error_of("The model's recipe cannot be told in this format: upgrade the agent."),
        },
    ),
}
_TOKEN: Described = {
    "operationId": "token",
    "summary": "Exchange an enrolment code, or a token, for a new token.",
    "description": with_curl(
        "The agent draws the token and sends its SHA-256 in hexadecimal, so that only the agent "
        "knows it. A code is used up; a token stays good for a day.",
        "openssl rand -base64 32 | tr '+/' '-_' | tr -d '=\\n' > token && curl",
        f"{_AGENT_URL}/token -H 'Authorization: Bearer CODE'",
        '--data "$(sha256sum < token | cut -c -64)"',
    ),
    "tags": ["Agents"],
    "security": [{"token": []}],
    "requestBody": {
        "description": "the digest",
        "content": {
            "text/plain": {
                "schema": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
                "example": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            }
        },
        "required": True,
    },
    "responses": in_order(
        _AGENT_ANSWERS,
        {
            "200": json_of(
                "The name of the token, and when it expires, in seconds since 1970.",
                {
                    "type": "object",
                    "required": ["name", "expires"],
                    "properties": {
                        "name": {"type": "string"},
                        "expires": {"type": ["number", "null"]},
                    },
                },
                {"name": "phone-7-9f86d081", "expires": None},
            ),
            "408": error_of("The body came too slowly."),
            "409": error_of("This digest is there already."),
            "413": error_of("More bytes than a digest has."),
        },
    ),
}
_SAYS: Described = {"type": "object", "additionalProperties": {"type": "boolean"}}
_ADMIN_ANSWERS: Described = {
    **_FOREIGN,
    "401": error_of("No admin's token, and no session."),
    "429": _WRONG,
    "503": _LATER,
}
_NUMBER: Described = {"type": ["number", "null"]}
_MODEL: Described = {
    "type": "object",
    "description": "A model and how it does; `docs/board.md` says what each number is.",
    "required": ["name", "recipe", "version", "observations", "average"],
    "properties": {
        "name": {"type": "string"},
        "recipe": {"type": "string"},
        "dimension": {"type": ["integer", "null"]},
        "created": {"type": "number", "description": "seconds since 1970"},
        "version": {"type": "integer", "description": "uploads merged, and times it was set back"},
        "observations": {"type": "integer"},
        "average": {**_NUMBER, "description": "average reward, of all time"},
        "early": {"description": "averages over its first day, hour or minutes"},
        "lately": {"description": "averages over its last day, hour or minutes"},
        "verdict": {"description": "by how much the average changed, and its standard error"},
        "agents": {"type": "integer"},
        "seen": {**_NUMBER, "description": "the last sync, in seconds since 1970"},
    },
}
_EXAMPLE: Described = {
    "name": "news",
    "recipe": "FSCLB",
    "dimension": 100,
    "created": 1_760_000_000.0,
    "version": 1204,
    "observations": 51_820,
    "average": 0.41,
    "early": {"label": "first day", "rewards": 9120, "average": 0.33},
    "lately": {"label": "last day", "rewards": 8410, "average": 0.44},
    "verdict": {"change": 0.11, "error": 0.003, "share": 0.33, "clear": True},
    "agents": 12,
    "seen": 1_760_400_000.0,
}
_RANGE: Described = {
    "name": "range",
    "in": "query",
    "description": "How far back the lines go; a day if it is left out.",
    "schema": {"type": "string", "enum": ["hour", "day", "month", "all"]},
}
_MODELS: Described = {
    "operationId": "models",
    "summary": "All models and how they do.",
    "description": with_curl("", f"curl {_HOST}/board/models", _BEARER),
    "tags": ["Operators"],
    "security": [{"token": []}],
    "responses": in_order(
        _ADMIN_ANSWERS,
        {"200": json_of("The models.", {"type": "array", "items": _MODEL}, [_EXAMPLE])},
    ),
}
_ONE_MODEL: Described = {
    "operationId": "model",
    "summary": "One model: its lines over time, its agents, its spectrum, what was refused.",
    "description": with_curl("", f"curl '{_HOST}/board/models/news?range=day'", _BEARER),
    "tags": ["Operators"],
    "security": [{"token": []}],
    "parameters": [_RANGE],
    "responses": in_order(
        _ADMIN_ANSWERS,
        {
            "200": json_of("The model.", _MODEL, _EXAMPLE),
            "404": error_of("No such model."),
            "422": error_of("No such range."),
        },
    ),
}
_METRICS: Described = {
    "operationId": "metrics",
    "summary": "Counters for Prometheus, for admins.",
    "description": with_curl("", f"curl {_HOST}/metrics", _BEARER),
    "tags": ["Operators"],
    "security": [{"token": []}],
    "responses": in_order(
        _ADMIN_ANSWERS,
        {
            "200": {
                "description": "Prometheus' text format.",
                "content": {
                    "text/plain": {
                        **_TEXT,
                        "example": 'fedbandit_uploads_total{model="news",outcome="merged"} 1204\n',
                    }
                },
            },
            "401": error_of("No admin's token."),
        },
    ),
}
DESCRIPTION: Final[Described] = {
    "openapi": "3.1.0",
    "info": {
        "title": "fedbandit coordinator",
        "version": str(wire.FORMAT),
        "description": "Merges what agents upload, exactly once and durably. Agents show a token "
        "of their own, operators one that `fedbandit token create --admin` made. Every "
        'error is JSON: `{"error": {"field": ..., "message": ...}}`.',
    },
    "tags": [
        {"name": "Agents", "description": "What agents on devices ask, in MessagePack."},
        {"name": "Operators", "description": "What people and their tools ask."},
    ],
    "paths": {
        "/v1/models/{model}/agents/{agent}/sync": {
            "parameters": [_name("model", "news"), _name("agent", "phone-7")],
            "post": _SYNC,
        },
        "/v1/models/{model}/agents/{agent}/state": {
            "parameters": [_name("model", "news"), _name("agent", "phone-7")],
            "get": _STATE,
        },
        "/v1/models/{model}/agents/{agent}/token": {
            "parameters": [_name("model", "news"), _name("agent", "phone-7")],
            "post": _TOKEN,
        },
        "/healthz": {
            "get": {
                "operationId": "healthz",
                "summary": "Is the process alive?",
                "description": with_curl("", f"curl {_HOST}/healthz"),
                "tags": ["Operators"],
                "responses": in_order(_FOREIGN, {"200": json_of("It is.", _SAYS, {"alive": True})}),
            }
        },
        "/readyz": {
            "get": {
                "operationId": "readyz",
                "summary": "Would a sync be answered now?",
                "description": with_curl("", f"curl {_HOST}/readyz"),
                "tags": ["Operators"],
                "responses": in_order(
                    _FOREIGN,
                    {"200": json_of("It would.", _SAYS, {"ready": True}), "503": _LATER},
                ),
            }
        },
        "/metrics": {"get": _METRICS},
        "/board/models": {"get": _MODELS},
        "/board/models/{model}": {"parameters": [_name("model", "news")], "get": _ONE_MODEL},
    },
    "components": {
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        "schemas": {"Error": ERROR},
    },
}
