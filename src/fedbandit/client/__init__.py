"""Agents on devices: they decide by themselves and deliver sketches when it matters.

Needs numpy, msgspec and the standard library.
"""

from fedbandit.client.connected import ConnectedAgent, Status
from fedbandit.client.connecting import connect
from fedbandit.client.decision import Decision

__all__ = ["ConnectedAgent", "Decision", "Status", "connect"]
