"""The options by which a model is given its limits, its quotas and its history."""

from argparse import ArgumentTypeError, BooleanOptionalAction, Namespace
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fedbandit.cli.command import Add
from fedbandit.cli.values import above_zero, whole_number
from fedbandit.errors import InvalidParameter, complaint

if TYPE_CHECKING:
    from fedbandit.service.bookkeeping.history import History
    from fedbandit.service.bookkeeping.quotas import Quotas
    from fedbandit.service.storage.contract import Model
    from fedbandit.wire import Limits

NONE = "none"
AUTO = "auto"
WATCHED_FEATURES = 512  # beyond, the sums of groups take more room and time than most models


def _or_none(read: Callable[[str], float]) -> Callable[[str], Any]:
    """Return a reader that takes the word none too."""

    def read_or_none(text: str) -> Any:
        if text == NONE:
            return NONE
        try:
            return read(text)
        except ArgumentTypeError as error:
            raise ArgumentTypeError(f"{error}, or none") from error

    return read_or_none


def _from_zero(text: str) -> int:
    if text == "0":
        return 0
    try:
        return whole_number(text)
    except ArgumentTypeError as error:
        raise ArgumentTypeError(f"{error}, or 0") from error


def _groups(text: str) -> int | str:
    if text == AUTO:
        return AUTO
    try:
        return _from_zero(text)
    except ArgumentTypeError as error:
        raise ArgumentTypeError(f"{error}, or {AUTO}") from error


def add_rules(add: Add, *, new: bool) -> None:
    """Add the options; ``new``: for a model that is being made, so they have defaults."""

    def told(text: str, default: str) -> str:
        return f"{text} (default: {default})" if new else text

    def number(option: str, read: Callable[[str], Any], metavar: str, text: str) -> None:
        add(option, type=read, metavar=metavar, help=text)

    text = told("refuse uploads of arms longer than this", "1e6")
    number("--max-arm-norm", float, "X", text)
    text = told("refuse uploads of rewards larger than this in size", "1e6")
    number("--max-reward", float, "X", text)
    text = told("refuse uploads of more observations than this", "10000, or 10 d with --max-share")
    number("--max-count", whole_number, "N", text)
    text = told("let one agent send this many observations an hour, then wait", NONE)
    number("--hourly-observations", _or_none(whole_number), "N", text)
    usual = f"3600, {NONE} with --relays"
    text = told("let one agent send this many uploads an hour, then wait", usual)
    number("--hourly-uploads", _or_none(whole_number), "N", text)
    text = told("let one agent hold this share of the model, then wait for others", NONE)
    number("--max-share", _or_none(above_zero), "X", text)
    text = told("seconds from one snapshot to the next", "3600")
    number("--snapshot-every", above_zero, "SECONDS", text)
    text = told("most snapshots to keep, 0 for none", "24")
    number("--snapshots", _from_zero, "N", text)
    text = told("levels of relays (serve --upstream) that may be below this coordinator", "0")
    number("--relays", _from_zero, "N", text)
    text = "sort agents into N groups, and let those that contradict the others count less or not "
    text += "at all, so that few liars cannot sway the model; auto: 24 groups, from the eighth "
    text += "on that has sent something; 0 for none"
    text = told(text, f"auto; 0 above {WATCHED_FEATURES} features")
    number("--groups", _groups, "N", text)
    add(
        "--keep-parts",
        action=BooleanOptionalAction,
        default=None,
        help="keep what each agent sent, so that it can be taken out again "
        "(fedbandit agent forget); takes room for a state or more per agent",
    )


def limits_from(
    arguments: Namespace, limits: "Limits", quotas: "Quotas", *, dimension: int | None = None
) -> "Limits":
    """Return limits changed as asked for; no upload is larger than what an hour allows.

    ``dimension``: of a model that is being made. Then none is larger than what a share lets in,
    unless it is said how large.
    """
    from fedbandit.service.bookkeeping.quotas import FREE

    changed = replace(
        limits,
        arm_norm=_given(arguments.max_arm_norm, limits.arm_norm),
        reward=_given(arguments.max_reward, limits.reward),
        count=_given(arguments.max_count, limits.count),
    )
    allowed = [changed.count]
    if quotas.observations is not None:
        allowed.append(quotas.observations)
    if quotas.share is not None and dimension is not None and arguments.max_count is None:
        allowed.append(FREE * dimension)
    return replace(changed, count=min(allowed))


def quotas_from(arguments: Namespace, quotas: "Quotas") -> "Quotas":
    """Return quotas changed as asked for."""
    asked = {
        "observations": arguments.hourly_observations,
        "uploads": arguments.hourly_uploads,
        "share": arguments.max_share,
    }
    given = {
        name: None if value == NONE else value for name, value in asked.items() if value is not None
    }
    return replace(quotas, **given)


def history_from(arguments: Namespace, history: "History") -> "History":
    """Return a history changed as asked for."""
    return replace(
        history,
        every=_given(arguments.snapshot_every, history.every),
        keep=_given(arguments.snapshots, history.keep),
        by_agent=_given(arguments.keep_parts, history.by_agent),
    )


def groups_from(given: int | str | None, *, dimension: int) -> tuple[int, bool]:
    """Return how many groups of agents are asked for, and whether they are only watched.

    ``given`` is what was said of a model of so many features; None for nothing.
    """
    from fedbandit.service.groups.membership import ADVISED_GROUPS

    watched = given == AUTO or (given is None and dimension <= WATCHED_FEATURES)
    if watched and dimension > WATCHED_FEATURES:
        expected = (
            f"a number: auto is for at most {WATCHED_FEATURES} features, this has {dimension}"
        )
        fix = f"Write --groups {ADVISED_GROUPS}, which costs time (docs/security.md), or 0."
        raise InvalidParameter(complaint("--groups", got=AUTO, expected=expected, fix=fix))
    return (ADVISED_GROUPS if watched else int(given or 0)), watched


def advice(
    limits: "Limits", quotas: "Quotas", *, agents: int, groups: int, watched: bool, relays: int = 0
) -> list[str]:
    """Return what to set where agents are not one's own, and what nothing helps, a line each."""
    from fedbandit.service.bookkeeping.quotas import USUAL_QUOTAS
    from fedbandit.service.groups.membership import ADVISED_GROUPS, FEWEST_AGENTS, WATCHED_FROM
    from fedbandit.service.models.model import DEFAULT_LIMITS

    said = []
    if limits.arm_norm == DEFAULT_LIMITS.arm_norm or limits.reward == DEFAULT_LIMITS.reward:
        said.append(
            "an agent may send arms and rewards as large as 1e6; set --max-arm-norm and "
            "--max-reward to the largest that can occur"
        )
    missing = [
        option
        for option, is_missing in (
            ("--hourly-observations", quotas.observations is None),
            ("--hourly-uploads", quotas.uploads in (None, USUAL_QUOTAS.uploads)),
            (f"--max-share {min(1.0, 5.0 / agents):g}", quotas.share is None),
        )
        if is_missing
    ]
    if missing:
        said.append(
            f"one agent can outweigh all others; where agents are not yours, set "
            f"{', '.join(missing)}: a few times what the busiest honest agent sends"
        )
    if (watched or not groups) and agents >= FEWEST_AGENTS:
        risk = "liars that lie alike can sway a young" if watched else "one liar can own the"
        said.append(
            f"{risk} model; where agents are not yours, set --groups "
            f"{ADVISED_GROUPS} (fedbandit model set)"
        )
    if relays and groups:
        said.append(
            "groups are of relays here, and an agent that lies speaks for its whole relay: they "
            f"hold one from {WATCHED_FROM} relays on, and set --groups 0 for fewer"
        )
    return said


def rules_text(model: "Model") -> list[str]:
    """Return limits, quotas, history and groups of a model in words, a line each."""
    limits, quotas, history = model.limits, model.quotas, model.history
    said = [f"limits: arm norm {limits.arm_norm:g}, reward {limits.reward:g}, count {limits.count}"]
    shown = [
        (f"{quotas.observations} observations an hour", quotas.observations),
        (f"{quotas.uploads} uploads an hour", quotas.uploads),
        (f"{quotas.share or 0:g} of the model", quotas.share),
    ]
    set_ones = [text for text, value in shown if value is not None]
    said.append(f"quotas of an agent: {', '.join(set_ones) or 'none'}")
    parts = "what each agent sent is kept" if history.by_agent else "parts are not kept"
    said.append(f"history: {history.keep} snapshots, {history.every:g} seconds apart; {parts}")
    return [*said, f"groups: {_groups_text(model)}"]


def _groups_text(model: "Model") -> str:
    if not model.groups:
        return "none"
    if not model.weighed:
        return f"{model.groups}; agents are told the median of their estimates"
    if model.watched:
        return f"{model.groups}, watched; those that contradict the others count less"
    return f"{model.groups}; those that contradict the others count less"


def _given(value: Any, default: Any) -> Any:
    return default if value is None else value
