"""Events as JSON in Azure Personalizer's terms, one object a line, and back.

Two forms are read. The one that is written is that of its logs, which Vowpal Wabbit reads too
(``--dsjson``): ``c`` is the context with the actions in ``_multi``, ``a`` the actions (from 1) by
rank, the chosen one first, ``p`` their probabilities, ``_label_cost`` the reward with its sign
turned. The other joins a request to Rank, its answer and the reward: ``eventId``,
``contextFeatures``, ``actions``, ``rewardActionId``, ``ranking`` with a probability for each
action, ``reward``.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import Any, Final

import msgspec
import numpy as np

from fedbandit.core.kernels.linalg import Array
from fedbandit.logs.event import Event
from fedbandit.logs.records import LoggedAction

ARM: Final = "arm"


def object_of(event: Event) -> bytes:
    """Return an event as one line of JSON, its end included."""
    order = [event.chosen, *(k for k in range(event.choices) if k != event.chosen)]
    shown: dict[str, Any] = {
        "_label_cost": 0.0 - event.reward,
        "_label_probability": event.probability,
        "_label_Action": event.chosen + 1,
        "_labelIndex": event.chosen,
        "Version": "1",
        "EventId": event.id,
        "a": [k + 1 for k in order],
        "c": {
            **_context(event.context),
            "_multi": [_action(event, k) for k in range(event.choices)],
        },
        "p": _probabilities(event, order),
    }
    if event.time:
        shown["Timestamp"] = datetime.fromtimestamp(event.time, UTC).isoformat()
    return msgspec.json.encode(shown) + b"\n"


def events_in(lines: Iterable[bytes]) -> Iterator[Event | str]:
    """Yield the events of lines; for a line that holds none, a text that says why not."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            given = msgspec.json.decode(line)
            if not isinstance(given, dict):
                raise ValueError("a line that is no object")
            yield _logged(given, number) if "c" in given else _ranked(given, number)
        except (msgspec.DecodeError, UnicodeDecodeError):
            yield "a line that cannot be read"
        except (ValueError, KeyError, TypeError, IndexError) as error:
            missing = isinstance(error, KeyError)
            yield f"{error.args[0]!r} is missing" if missing else str(error)


def _context(features: Any) -> dict[str, Any]:
    if features is None:
        return {}
    if isinstance(features, Mapping):
        return dict(features)
    merged: dict[str, Any] = {}
    for each in features:
        merged |= each
    return merged


def _action(event: Event, place: int) -> dict[str, Any]:
    if event.arms is not None:
        return {"_tag": f"{place}", ARM: event.arms[place].tolist()}
    assert event.actions is not None
    action = event.actions[place]
    features = {"id": action.id} if action.features is None else action.features
    return {"_tag": action.id, **_context(features)}


def _probabilities(event: Event, order: list[int]) -> list[float]:
    """Return the probabilities by rank; those not logged share what the chosen one leaves."""
    rest = max(event.choices - 1, 1)
    return [event.probability, *((1.0 - event.probability) / rest for _ in order[1:])]


def _logged(given: Mapping[str, Any], number: int) -> Event:
    """Return the event in a line of Personalizer's logs."""
    context = {name: value for name, value in given["c"].items() if name != "_multi"}
    actions = [_read_action(each, place) for place, each in enumerate(given["c"]["_multi"])]
    label = given.get("_labelIndex")
    chosen = int(given["_label_Action"]) - 1 if label is None else int(label)
    probability = given.get("_label_probability")
    if probability is None:
        probability = given["p"][0]
    return _event(
        given.get("EventId") or f"line-{number}",
        context,
        actions,
        chosen,
        float(probability),
        -float(given["_label_cost"]),
        _time(given.get("Timestamp")),
    )


def _ranked(given: Mapping[str, Any], number: int) -> Event:
    """Return the event in a request to Rank joined with its answer and its reward."""
    actions = [
        LoggedAction(id=str(each["id"]), features=each.get("features"))
        for each in given["actions"]
        if each["id"] not in (given.get("excludedActions") or ())
    ]
    ids = [action.id for action in actions]
    if len(set(ids)) < len(ids):
        raise ValueError("the id of an action came twice")
    wanted = given["rewardActionId"]
    if wanted not in ids:
        raise ValueError("a chosen arm that is not among the arms")
    by_id = {each["id"]: each.get("probability") for each in given["ranking"]}
    if by_id.get(wanted) is None:
        raise ValueError("no probability of the chosen action")
    reward = given.get("reward")
    if reward is None:
        raise ValueError("no reward")
    return _event(
        given.get("eventId") or f"line-{number}",
        given.get("contextFeatures"),
        actions,
        ids.index(wanted),
        float(by_id[wanted]),
        float(reward),
        _time(given.get("timestamp")),
    )


def _event(
    name: str,
    context: Any,
    actions: list[LoggedAction],
    chosen: int,
    probability: float,
    reward: float,
    time: float,
) -> Event:
    if not 0 <= chosen < len(actions):
        raise ValueError("a chosen arm that is not among the arms")
    if not 0.0 < probability <= 1.0:
        raise ValueError("a chosen arm whose logged probability is 0")
    if not isfinite(reward):
        raise ValueError("a reward that is not finite")
    arms = _arms(actions)
    return Event(
        id=str(name),
        chosen=chosen,
        probability=probability,
        reward=reward + 0.0,
        arms=arms,
        context=None if arms is not None else context,
        actions=None if arms is not None else actions,
        time=time,
    )


def _read_action(given: Mapping[str, Any], place: int) -> LoggedAction:
    features = {name: value for name, value in given.items() if name != "_tag"}
    named = given.get("_tag") or features.get("id") or f"{place}"
    return LoggedAction(id=str(named), features=features)


def _arms(actions: list[LoggedAction]) -> Array | None:
    rows = []
    for action in actions:
        given = action.features
        if (
            not isinstance(given, Mapping)
            or list(given) != [ARM]
            or not isinstance(given[ARM], list)
        ):
            return None
        rows.append(given[ARM])
    try:
        return np.array(rows, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("arms of different lengths") from None


def _time(text: object) -> float:
    if not isinstance(text, str):
        return 0.0
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return 0.0
