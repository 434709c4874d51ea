"""The sidecar's HTTP interface in OpenAPI 3.1."""

from typing import Final

import msgspec

from fedbandit.client.status import Status
from fedbandit.edge.ranking import RankRequest, RankResponse, RewardRequest
from fedbandit.web.openapi import ERROR, Described, error_of, in_order, json_of, with_curl

_SCHEMAS, _COMPONENTS = msgspec.json.schema_components(
    (RankRequest, RankResponse, RewardRequest, Status),
    ref_template="#/components/schemas/{name}",
)
_RANK, _RANKED, _REWARD, _STATUS = _SCHEMAS
_HOST = "http://127.0.0.1:8401"
_JSON = "-H 'Content-Type: application/json'"
_RANK_EXAMPLE: Described = {
    "contextFeatures": {"daypart": "evening", "device": "phone"},
    "actions": [
        {"id": "football", "features": {"topic": "sport", "length": 0.4}},
        {"id": "markets", "features": {"topic": "business", "length": 0.9}},
    ],
}
_RANKED_EXAMPLE: Described = {
    "eventId": "8c1f0a9d2b3e4f56",
    "rewardActionId": "football",
    "ranking": [
        {"id": "football", "score": 0.71, "mean": 0.42, "bonus": 0.29},
        {"id": "markets", "score": 0.55, "mean": 0.31, "bonus": 0.24},
    ],
}
_STATUS_EXAMPLE: Described = {
    "version": 1204,
    "open": 3,
    "pending": 17,
    "undelivered": 0,
    "decisions": 5210,
    "rewards": 5190,
    "defaults": 12,
    "forgotten": 5,
    "set_aside": 0,
    "deleted": 0,
    "saved": True,
    "uploads": 96,
    "bytes_up": 180_412,
    "bytes_down": 260_880,
    "cut": 0,
    "learned": 5202,
    "reward_total": 2211.5,
    "estimate_total": 2190.2,
    "squared_errors": 610.3,
    "trouble": None,
    "retry_in": None,
}


_EVENT: Described = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "The eventId that rank answered with.",
    "schema": {"type": "string", "minLength": 1, "examples": ["8c1f0a9d2b3e4f56"]},
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
        'other agents of its model. Every error is JSON: `{"error": {"field": ..., "message": '
        "...}}`.",
    },
    "tags": [
        {"name": "Decisions", "description": "What programs ask: choose, reward."},
        {"name": "Status", "description": "How the agent is."},
    ],
    "paths": {
        "/rank": {
            "post": {
                "operationId": "rank",
                "tags": ["Decisions"],
                "summary": "Choose one of these actions in this context.",
                "description": with_curl(
                    "Features are objects of numbers, texts and booleans; or every action's "
                    "features are its arm, as many numbers as the model has dimensions.",
                    f"curl {_HOST}/rank",
                    _JSON,
                    '--data \'{"contextFeatures": {"daypart": "evening"}, "actions": '
                    '[{"id": "football"}, {"id": "markets"}]}\'',
                ),
                "requestBody": {
                    **json_of("Context and actions.", _RANK, _RANK_EXAMPLE),
                    "required": True,
                },
                "responses": in_order(
                    _BODY_ERRORS,
                    _DISK,
                    _OTHER_HOSTS,
                    {
                        "201": json_of(
                            "The action to take, and all of them compared.",
                            _RANKED,
                            _RANKED_EXAMPLE,
                        ),
                        "409": error_of("The eventId was used before."),
                    },
                ),
            }
        },
        "/events/{id}/reward": {
            "parameters": [_EVENT],
            "post": {
                "operationId": "reward",
                "tags": ["Decisions"],
                "summary": "Report the reward of the chosen action, once per event.",
                "description": with_curl(
                    "",
                    f"curl {_HOST}/events/8c1f0a9d2b3e4f56/reward",
                    _JSON,
                    "--data '{\"value\": 1.0}'",
                ),
                "requestBody": {**json_of("A reward.", _REWARD, {"value": 1.0}), "required": True},
                "responses": in_order(
                    _BODY_ERRORS,
                    _EVENT_ERRORS,
                    _DISK,
                    _OTHER_HOSTS,
                    {
                        "204": {
                            "description": "It is recorded; with a --state-dir it survives a crash."
                        }
                    },
                ),
            },
        },
        "/events/{id}/activate": {
            "parameters": [_EVENT],
            "post": {
                "operationId": "activate",
                "tags": ["Decisions"],
                "summary": "Report that the deferred action was taken.",
                "description": with_curl(
                    "For decisions that were asked for with deferActivation.",
                    f"curl -X POST {_HOST}/events/8c1f0a9d2b3e4f56/activate",
                ),
                "responses": in_order(
                    _EVENT_ERRORS,
                    _DISK,
                    _OTHER_HOSTS,
                    {"204": {"description": "It waits for its reward from now on."}},
                ),
            },
        },
        "/healthz": {
            "get": {
                "operationId": "healthz",
                "tags": ["Status"],
                "summary": "The status of the agent; trouble says why uploads are not delivered.",
                "description": with_curl("", f"curl {_HOST}/healthz"),
                "responses": in_order(
                    _OTHER_HOSTS, {"200": json_of("The status.", _STATUS, _STATUS_EXAMPLE)}
                ),
            }
        },
        "/metrics": {
            "get": {
                "operationId": "metrics",
                "tags": ["Status"],
                "summary": "The status, average reward and estimates, for Prometheus.",
                "description": with_curl("", f"curl {_HOST}/metrics"),
                "responses": in_order(
                    _OTHER_HOSTS,
                    {
                        "200": {
                            "description": "Prometheus' text format.",
                            "content": {
                                "text/plain": {
                                    "schema": {"type": "string"},
                                    "example": "fedbandit_agent_decisions_total 5210\n",
                                }
                            },
                        }
                    },
                ),
            }
        },
    },
    "components": {"schemas": {**_COMPONENTS, "Error": ERROR}},
}
