"""Rules that agents, coordinators and commands share: valid names, limits, served recipes."""

import re
from math import isfinite
from typing import Final

from fedbandit.core.parts.reply import ToSender
from fedbandit.core.recipe import Recipe
from fedbandit.errors import InvalidParameter, complaint
from fedbandit.wire import Limits

NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
"""The pattern of a name of a model, an agent or a token."""

NAME_RULE: Final = "1 to 64 letters, digits, dots, dashes and underscores, a letter or digit first"
SERVED: Final = ("FSCLB", "FedLinUCB")
"""The recipes that a coordinator can serve."""

LOG_PREFIX: Final = "warm-"
"""How the names begin that logs are merged under (``fedbandit model warm``)."""

_PATTERN = re.compile(NAME)
_LOG = re.compile(LOG_PREFIX + "[0-9a-f]{12}")


def is_name(name: str) -> bool:
    """Say whether a model, an agent or a token can have this name."""
    return _PATTERN.fullmatch(name) is not None


def check_name(kind: str, name: str) -> str:
    """Return the name of a model, an agent or a token; raise InvalidParameter if not valid."""
    if isinstance(name, str) and is_name(name):
        return name
    fix = "Choose a name that needs no quoting in a URL."
    raise InvalidParameter(complaint(kind, got=repr(name), expected=NAME_RULE, fix=fix))


def is_log_name(name: str) -> bool:
    """Say whether a log that an operator merged has this name; no agent may."""
    return _LOG.fullmatch(name) is not None


def check_agent_name(name: str) -> str:
    """Return the name of an agent; raise InvalidParameter if none may have it."""
    if is_log_name(check_name("agent", name)):
        expected, fix = "a name that no log has", f"Leave out the prefix {LOG_PREFIX}."
        raise InvalidParameter(complaint("agent", got=repr(name), expected=expected, fix=fix))
    return name


def check_limits(limits: Limits) -> Limits:
    """Return the limits of a model; raise InvalidParameter if one is out of range."""
    for name, value in (("arm norm", limits.arm_norm), ("reward", limits.reward)):
        if not (isfinite(value) and 0 < value <= 1e30):
            raise _bad_limit(name, value, "a number above 0 and at most 1e30")
    if not 1 <= limits.count <= 10**15:
        raise _bad_limit("count", limits.count, "a whole number from 1 to 1e15")
    return limits


def check_served(recipe: Recipe) -> Recipe:
    """Return the recipe if a coordinator can serve it; raise InvalidParameter if not.

    A coordinator answers every upload on its own, whenever it comes. So agents must decide with
    their last download, learn separately, and expect an answer to their own uploads alone.
    """
    parts = recipe.parts
    alone = parts.own_data or parts.shared or not parts.choice.learns
    if alone or not isinstance(parts.reply, ToSender):
        raise InvalidParameter(
            f"recipe: a coordinator cannot serve {recipe.label}. Use {' or '.join(SERVED)}; other "
            "recipes run in simulations only (fedbandit run)."
        )
    return recipe


def _bad_limit(name: str, value: float, expected: str) -> InvalidParameter:
    fix = "Choose the largest value that can occur, with some room."
    return InvalidParameter(complaint(f"largest {name}", got=value, expected=expected, fix=fix))
