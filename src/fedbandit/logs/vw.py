"""Events as Vowpal Wabbit's ``cb_adf`` text, and back.

An event is a block of lines, ended by an empty one::

    shared 'EVENT|context hour:0.5 lang=de
    'shoes|action colour=red price:0.3
    0:-1:0.25 'hat|action colour=blue price:0.9

The line of the chosen action begins with ``0:COST:PROBABILITY``; a cost is a reward with the sign
turned. Tags (after the quote) are ids. Arms that are numbers stand in a namespace ``arm``. What
has a meaning in this format (blanks, ``:``, ``|``, ``%``, quotes) is written as %XX in names.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from typing import Any, Final
from urllib.parse import unquote

import numpy as np

from fedbandit.core.kernels.linalg import Array
from fedbandit.features.flat import flat
from fedbandit.features.spec import PLAIN
from fedbandit.logs.event import Event
from fedbandit.logs.records import LoggedAction

ARM: Final = "arm"
_OWN = ("context", "action")  # namespaces whose features keep their bare names
_SPECIAL = re.compile(r"[\s:|%']")
_LABEL = re.compile(r"(\d+):([^:\s]+):([^:\s]+)$")


def block_of(event: Event) -> str:
    """Return an event as a block of lines, the empty one at the end included."""
    lines = [f"shared {_tag(event.id)}|context{_named(event.context)}"]
    for place in range(event.choices):
        label = f"0:{0.0 - event.reward!r}:{event.probability!r} " if place == event.chosen else ""
        lines.append(label + _action(event, place))
    return "\n".join(lines) + "\n\n"


def events_in(lines: Iterable[bytes]) -> Iterator[Event | str]:
    """Yield the events of blocks; for a block that is none, a text that says why not."""
    block: list[str] = []
    number = 0
    for line in lines:
        text = line.decode("utf-8", errors="replace").strip()
        if text:
            block.append(text)
        elif block:
            number += 1
            yield _event(block, number)
            block = []
    if block:
        yield _event(block, number + 1)


def _tag(name: str) -> str:
    return f"'{_quoted(name)}" if name else ""


def _quoted(name: str) -> str:
    return _SPECIAL.sub(lambda found: "".join(f"%{b:02X}" for b in found[0].encode()), name)


def _named(features: object) -> str:
    """Return features as agents flatten them before hashing, numbers as they came."""
    found = [] if features is None else flat(features, PLAIN, field="features")
    return "".join(
        f" {_quoted(each.name)}" if each.value == 1.0 else f" {_quoted(each.name)}:{each.value!r}"
        for each in found
    )


def _action(event: Event, place: int) -> str:
    if event.arms is not None:
        numbers = "".join(f" {i}:{value!r}" for i, value in enumerate(event.arms[place].tolist()))
        return f"|{ARM}{numbers}"
    assert event.actions is not None
    action = event.actions[place]
    features = {"id": action.id} if action.features is None else action.features
    return f"{_tag(action.id)}|action{_named(features)}"


def _event(block: list[str], number: int) -> Event | str:
    try:
        return _parsed(block, number)
    except ValueError as error:
        return str(error)


def _parsed(block: list[str], number: int) -> Event:
    shared = block[0] if block[0].split("|")[0].split()[:1] == ["shared"] else None
    name, context = "", dict[str, Any]()
    if shared is not None:
        head, context = _line(shared)
        name = _tag_in(head)
    actions, chosen, cost, probability = [], None, 0.0, 0.0
    for place, line in enumerate(block[shared is not None :]):
        head, features = _line(line)
        label = head.split()[0] if head and not head.startswith("'") else ""
        if label:
            if chosen is not None:
                raise ValueError("two actions with a label")
            chosen, (cost, probability) = place, _label(label)
        actions.append(LoggedAction(id=_tag_in(head) or f"{place}", features=features))
    if chosen is None:
        raise ValueError("no action with a label")
    if not 0.0 < probability <= 1.0:
        raise ValueError("a chosen arm whose logged probability is 0")
    numbers = _arms(actions)
    return Event(
        id=name or f"vw-{number}",
        chosen=chosen,
        probability=probability,
        reward=-cost if cost else 0.0,
        arms=numbers,
        context=None if numbers is not None else context,
        actions=None if numbers is not None else actions,
    )


def _label(text: str) -> tuple[float, float]:
    found = _LABEL.match(text)
    try:
        cost, probability = float(found[2]), float(found[3])  # type: ignore[index]
    except (TypeError, ValueError):
        raise ValueError("a label that is not ACTION:COST:PROBABILITY") from None
    if not isfinite(cost):
        raise ValueError("a cost that is not finite")
    return cost, probability


def _line(text: str) -> tuple[str, dict[str, Any]]:
    """Return what stands before the first bar, and the features of all namespaces."""
    head, *spaces = text.split("|")
    features: dict[str, Any] = {}
    for space in spaces:
        named = bool(space) and not space[0].isspace()
        first, *rest = space.split() if space.strip() else [""]
        label, scale = _scaled(first) if named else ("", 1.0)
        for word in rest if named else [first, *rest]:
            if not word:
                continue
            name, value = _scaled(word)
            if not isfinite(value * scale):
                raise ValueError("a feature that is not finite")
            features[name if label in ("", *_OWN) else f"{label}.{name}"] = value * scale
    return head.strip(), features


def _scaled(word: str) -> tuple[str, float]:
    name, _, value = word.rpartition(":")
    if not name:
        return unquote(word), 1.0
    try:
        return unquote(name), float(value)
    except ValueError:
        raise ValueError("a feature whose value is no number") from None


def _tag_in(head: str) -> str:
    last = head.split()[-1] if head.split() else ""
    return unquote(last[1:]) if last.startswith("'") else ""


def _arms(actions: Sequence[LoggedAction]) -> Array | None:
    """Return the matrix of arms if every action is numbers 0, 1, ... of the namespace ``arm``."""
    rows = []
    for action in actions:
        names = [f"{ARM}.{i}" for i in range(len(action.features))]
        if not names or list(action.features) != names:
            return None
        rows.append(list(action.features.values()))
    return np.array(rows) if len({len(row) for row in rows}) == 1 else None
