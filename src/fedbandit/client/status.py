"""What an agent reports about itself."""

from dataclasses import dataclass

from fedbandit.offline.shadow import Shadow


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Counts since the agent was connected, and what it has not delivered yet.

    ``version``: of the coordinator's state last received. ``open``: decisions without a reward.
    ``pending``: observations in no upload yet, since the trigger has not fired. ``undelivered``:
    observations in uploads that are in flight or wait. ``rewards``: those given; ``defaults``:
    decisions that got the default reward because none came in time; ``taught``: past observations
    that were learned; ``forgotten``: decisions given up without an observation (no reward in time
    and no default, never activated, or too many open).
    ``set_aside``: uploads whose content the coordinator refused, those found in the state_dir
    included; ``deleted``: how many of these files were deleted to make room for newer ones.
    ``saved``: whether the disk holds everything (always True without a state_dir). ``uploads``,
    ``bytes_up``, ``bytes_down``: what was delivered and received. ``cut``: uploads of the whole
    fleet whose correction was too long and was cut, which should be 0 (``Statistics.cut``).
    ``learned``: rewards learned from, defaults included; ``reward_total``: their sum;
    ``estimate_total``: that of what they were estimated to be just before; ``squared_errors``: that
    of the squared differences.
    ``trouble``: why the last delivery failed, or has to wait (a quota of the coordinator); None
    once one succeeds.
    ``retry_in``: seconds until it is tried again; None if nothing is to be delivered, 0 if it is
    being tried. ``log_lost``: records of the log that could not be written. ``shadow``: how the
    agent compares with the baseline of decisions in shadow mode.
    """

    version: int
    open: int
    pending: int
    undelivered: int
    decisions: int
    rewards: int
    defaults: int
    taught: int
    forgotten: int
    set_aside: int
    deleted: int
    saved: bool
    uploads: int
    bytes_up: int
    bytes_down: int
    cut: int
    learned: int
    reward_total: float
    estimate_total: float
    squared_errors: float
    trouble: str | None
    retry_in: float | None
    log_lost: int
    shadow: Shadow
