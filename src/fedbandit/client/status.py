"""What an agent tells about itself."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How an agent is doing. Counts are since it was connected, but for what is not delivered yet.

    ``version``: the coordinator's, as last heard. ``open``: decisions without a reward.
    ``pending``: observations that the trigger has not sent off yet. ``undelivered``: observations
    in flight or waiting to be. ``rewards``: those that were given; ``defaults``: decisions that
    were paid the default, none having come in time; ``forgotten``: decisions given up without an
    observation (no reward came and there is no default, or never activated, or pushed out, say).
    ``set_aside``: uploads that the coordinator refused for what is in them, those in the state_dir
    included; ``deleted``: how many of these files had to make room for newer ones. ``saved``:
    whether the disk holds everything (always so without a state_dir). ``trouble``: why the
    last attempt to deliver failed, None once one succeeds.
    """

    version: int
    open: int
    pending: int
    undelivered: int
    decisions: int
    rewards: int
    defaults: int
    forgotten: int
    set_aside: int
    deleted: int
    saved: bool
    uploads: int
    bytes_up: int
    bytes_down: int
    trouble: str | None
