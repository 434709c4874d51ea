"""The status of a sidecar's agent in Prometheus' text format."""

from typing import Final

from fedbandit.client.status import Status

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_COUNTERS: Final = {
    "decisions": "Decisions made since the start.",
    "rewards": "Rewards given since the start.",
    "defaults": "Decisions that got the default reward.",
    "forgotten": "Decisions given up without an observation.",
    "uploads": "Uploads delivered since the start.",
    "bytes_up": "Bytes delivered since the start.",
    "bytes_down": "Bytes received since the start.",
    "learned": "Rewards learned from, defaults included.",
    "log_lost": "Records that the log could not take.",
}
_GAUGES: Final = {
    "version": "Version of the coordinator's state last received.",
    "open": "Decisions without a reward.",
    "pending": "Observations in no upload yet.",
    "undelivered": "Observations in uploads that are in flight or wait.",
    "set_aside": "Uploads that the coordinator refused for good.",
    "cut": "Uploads of the whole fleet whose correction was cut.",
    "reward_total": "Sum of the rewards learned from.",
    "estimate_total": "Sum of what they were estimated to be just before.",
    "squared_errors": "Sum of squares of reward less estimate.",
}
_SHADOW: Final = {
    "decisions": "Decisions in shadow mode.",
    "rewarded": "Those of them with a reward.",
    "agreement": "Share in which the agent would have done as the baseline did.",
    "baseline": "Average reward of the baseline.",
    "gain": "What the agent would have earned more, by its own estimate.",
    "gain_low": "Lower end of its 95 % interval.",
    "gain_high": "Upper end of its 95 % interval.",
}


def metrics_text(status: Status) -> str:
    """Return a status as text; 1 for ``saved`` and ``troubled`` means yes."""
    lines = []
    for names, kind, ending in ((_COUNTERS, "counter", "_total"), (_GAUGES, "gauge", "")):
        for name, what in names.items():
            lines += _metric(f"{name}{ending}", kind, what, getattr(status, name))
    for name, what in _SHADOW.items():
        lines += _metric(f"shadow_{name}", "gauge", what, getattr(status.shadow, name))
    safe = "Whether switching is safe by that estimate."
    lines += _metric("shadow_safe", "gauge", safe, int(status.shadow.safe))
    lines += _metric("saved", "gauge", "Whether the disk holds everything.", int(status.saved))
    told = "Whether the last delivery failed or has to wait; /healthz says why."
    lines += _metric("troubled", "gauge", told, int(status.trouble is not None))
    return "\n".join([*lines, ""])


def _metric(name: str, kind: str, what: str, value: float) -> list[str]:
    full = f"fedbandit_agent_{name}"
    return [f"# HELP {full} {what}", f"# TYPE {full} {kind}", f"{full} {value}"]
