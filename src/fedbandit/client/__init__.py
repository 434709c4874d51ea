"""Agents on devices: they decide by themselves and deliver sketches when it matters.

Needs numpy, msgspec and the standard library.
"""

from fedbandit.client.agent import ConnectedAgent
from fedbandit.client.connecting import connect
from fedbandit.client.decisions import Decision
from fedbandit.client.enrolment import enrol, renew
from fedbandit.client.status import Status

__all__ = ["ConnectedAgent", "Decision", "Status", "connect", "enrol", "renew"]
