"""The sidecar's HTTP interface in OpenAPI 3.1."""

from typing import Final

import msgspec

from fedbandit.edge.ranking import RankRequest, RankResponse, RewardRequest
from fedbandit.web.openapi import ERROR, Described, error_of, json_of

_SCHEMAS, _COMPONENTS = msgspec.json.schema_components(
    (RankRequest, RankResponse, RewardRequest), ref_template="#/components/schemas/{name}"
)
_RANK, _RANKED, _REWARD = _SCHEMAS


_EVENT: Described = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "The eventId that rank answered with.",
    "schema": {"type": "string", "minLength": 1},
}
_OTHER_HOSTS: Described = {
    "403": error_of("The request comes from a web page of another site."),
    "421": error_of("The Host header names another host; see --allow-host."),
}
_BODY_ERRORS: Described = {
    "400": error_of("The body is not JSON, or ended early."),
    "408": error_of("The body took too long to arrive."),
    "413": error_of("The body is too large."),
    "415": error_of("The content type is not application/json."),
    "422": error_of("A field has an invalid value; nothing was changed."),
}
_EVENT_ERRORS: Described = {
    "404": error_of("No event with this id is waiting for a reward."),
    "409": error_of("The event has its reward already, or was dropped."),
}
_DISK: Described = {"503": error_of("The disk cannot be written; nothing was recorded. Try again.")}

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
                "summary": "Choose one of these actions in this context.",
                "description": "Features are objects of numbers, texts and booleans; or every "
                "action's features are its arm, as many numbers as the model has dimensions.",
                "requestBody": {**json_of("context and actions", _RANK), "required": True},
                "responses": {
                    "201": json_of("the action to take, and all of them compared", _RANKED),
                    **_BODY_ERRORS,
                    "409": error_of("The eventId was used before."),
                    **_DISK,
                    **_OTHER_HOSTS,
                },
            }
        },
        "/events/{id}/reward": {
            "parameters": [_EVENT],
            "post": {
                "operationId": "reward",
                "summary": "Report the reward of the chosen action, once per event.",
                "requestBody": {**json_of("a reward", _REWARD), "required": True},
                "responses": {
                    "204": {
                        "description": "It is recorded; with a --state-dir it survives a crash."
                    },
                    **_BODY_ERRORS,
                    **_EVENT_ERRORS,
                    **_DISK,
                    **_OTHER_HOSTS,
                },
            },
        },
        "/events/{id}/activate": {
            "parameters": [_EVENT],
            "post": {
                "operationId": "activate",
                "summary": "Report that the deferred action was taken.",
                "responses": {
                    "204": {"description": "It waits for its reward from now on."},
                    **_EVENT_ERRORS,
                    **_DISK,
                    **_OTHER_HOSTS,
                },
            },
        },
        "/healthz": {
            "get": {
                "operationId": "healthz",
                "summary": "The status of the agent; trouble says why uploads are not delivered.",
                "responses": {"200": json_of("the status", {"type": "object"}), **_OTHER_HOSTS},
            }
        },
        "/metrics": {
            "get": {
                "operationId": "metrics",
                "summary": "Counts in Prometheus' text format, those of shadow mode among them.",
                "responses": {
                    "200": {
                        "description": "lines of text",
                        "content": {"text/plain": {"schema": {"type": "string"}}},
                    },
                    **_OTHER_HOSTS,
                },
            }
        },
    },
    "components": {"schemas": {**_COMPONENTS, "Error": ERROR}},
}
