"""The sidecar's counts in Prometheus' text format."""

from typing import Final

from fedbandit.client.status import Status

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def metrics_text(status: Status) -> str:
    """Return the status of an agent as text: counters, gauges, and those of shadow mode."""
    shadow = status.shadow
    counters = {
        "decisions": status.decisions,
        "rewards": status.rewards,
        "default_rewards": status.defaults,
        "forgotten": status.forgotten,
        "uploads": status.uploads,
        "log_lost": status.log_lost,
        "shadow_decisions": shadow.decisions,
        "shadow_rewarded": shadow.rewarded,
    }
    gauges = {
        "open": status.open,
        "undelivered": status.undelivered + status.pending,
        "version": status.version,
        "saved": int(status.saved),
        "shadow_agreement": shadow.agreement,
        "shadow_baseline_reward": shadow.baseline,
        "shadow_gain": shadow.gain,
        "shadow_gain_low": shadow.gain_low,
        "shadow_gain_high": shadow.gain_high,
        "shadow_safe": int(shadow.safe),
    }
    lines = []
    for name, value in counters.items():
        full = f"fedbandit_edge_{name}_total"
        lines += [f"# TYPE {full} counter", f"{full} {value}"]
    for name, level in gauges.items():
        full = f"fedbandit_edge_{name}"
        lines += [f"# TYPE {full} gauge", f"{full} {level:.17g}"]
    return "\n".join(lines) + "\n"
