"""The sidecar's interface in OpenAPI 3.1."""

from typing import Final

import msgspec

from fedbandit.edge.ranking import RankRequest, RankResponse, RewardRequest
from fedbandit.web.described import ERROR, Described, error_of, json_of

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
_STRANGERS: Described = {
    "403": error_of("It comes from a web page of another site."),
    "421": error_of("It was meant for another host; see --allow-host."),
}
_BODY_ERRORS: Described = {
    "400": error_of("The body is not JSON, or ended early."),
    "408": error_of("The body came too slowly."),
    "413": error_of("The body is too large."),
    "415": error_of("The content type is not application/json."),
    "422": error_of("A field that cannot be; nothing has changed."),
}
_EVENT_ERRORS: Described = {
    "404": error_of("No open event has this id."),
    "409": error_of("The event has its reward already, or was given up."),
}
_DISK: Described = {"503": error_of("The disk cannot be written; nothing was counted. Try again.")}

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
                "requestBody": {**json_of("a question", _RANK), "required": True},
                "responses": {
                    "201": json_of("the action to take, and all of them compared", _RANKED),
                    **_BODY_ERRORS,
                    "409": error_of("The eventId was used before."),
                    **_DISK,
                    **_STRANGERS,
                },
            }
        },
        "/events/{id}/reward": {
            "parameters": [_EVENT],
            "post": {
                "operationId": "reward",
                "summary": "What did the action pay? Once for every event.",
                "requestBody": {**json_of("a reward", _REWARD), "required": True},
                "responses": {
                    "204": {"description": "It is counted; with a --state-dir it survives."},
                    **_BODY_ERRORS,
                    **_EVENT_ERRORS,
                    **_DISK,
                    **_STRANGERS,
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
                    **_STRANGERS,
                },
            },
        },
        "/healthz": {
            "get": {
                "operationId": "healthz",
                "summary": "How is the agent doing? trouble says why nothing can be delivered.",
                "responses": {"200": json_of("alive", {"type": "object"}), **_STRANGERS},
            }
        },
    },
    "components": {"schemas": {**_COMPONENTS, "Error": ERROR}},
}
