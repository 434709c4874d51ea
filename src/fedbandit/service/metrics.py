"""Counters in Prometheus' text format. Used by one thread, that of the event loop.

``prometheus_client`` was tried: 5 to 20 us more a sync unless labels are cached by hand, floats for
counts, a ``_created`` series for each counter unless switched off for the whole process, and a
collector of our own for what is read from the store.
"""

import bisect
import json
from collections import Counter
from collections.abc import Mapping
from typing import Final

from fedbandit.service.board.doubts import doubts_view
from fedbandit.service.board.savings import savings_of
from fedbandit.service.bookkeeping.progress import NO_PROGRESS
from fedbandit.service.bookkeeping.recipes import server_at
from fedbandit.service.models.model import recipe_of
from fedbandit.service.models.shadows import fleet_shadow
from fedbandit.service.storage.contract import Model, Store

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]


class Metrics:
    """What has happened since the start."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, Labels]] = Counter()
        self._buckets = [0] * (len(_SECONDS) + 1)
        self._seconds = 0.0

    def count(self, name: str, amount: int = 1, **labels: str) -> None:
        """Add to a counter."""
        self._counts[name, tuple(sorted(labels.items()))] += amount

    def synced(
        self, model: str, *, merged: bool, cut: bool, received: int, sent: int, seconds: float
    ) -> None:
        """Count a sync that was answered, its bytes, and how long it took from its first byte."""
        of_model = ("model", model)
        outcome = ("outcome", "merged" if merged else "copy")
        self._counts["fedbandit_uploads_total", (of_model, outcome)] += 1
        if merged and cut:
            self._counts["fedbandit_cut_total", (of_model,)] += 1
        self._counts["fedbandit_received_bytes_total", (of_model,)] += received
        self._counts["fedbandit_sent_bytes_total", (of_model,)] += sent
        self._buckets[bisect.bisect_left(_SECONDS, seconds)] += 1
        self._seconds += seconds

    def text(
        self,
        models: Mapping[str, Mapping[str, float]],
        gauges: Mapping[str, float],
        *,
        batches: Mapping[str, int],
    ) -> str:
        """Return everything as text; ``models`` are ``measured`` in the store, so copies agree."""
        for model, number in batches.items():
            self._counts["fedbandit_batches_total", (("model", model),)] = number
        lines = []
        for name, what in _COUNTERS.items():
            lines += [f"# HELP {name} {what}", f"# TYPE {name} counter"]
            found = sorted(
                (labels, n) for (each, labels), n in self._counts.items() if each == name
            )
            lines += [f"{name}{_written(labels)} {n}" for labels, n in found]
        for name, value in gauges.items():
            lines += [f"# HELP {name} {_GAUGES[name]}", f"# TYPE {name} gauge", f"{name} {value:g}"]
        for name, what in _OF_MODELS.items():
            lines += [f"# HELP {name} {what}", f"# TYPE {name} gauge"]
            lines += [
                f"{name}{_written((('model', model),))} {found[name]}"
                for model, found in models.items()
            ]
        return "\n".join([*lines, *self._histogram(), ""])

    def _histogram(self) -> list[str]:
        name = "fedbandit_sync_seconds"
        lines = [
            f"# HELP {name} Seconds from the head of a sync to its answer, merged or copy.",
            f"# TYPE {name} histogram",
        ]
        total = 0
        for bound, number in zip((*_SECONDS, "+Inf"), self._buckets, strict=True):
            total += number
            lines.append(f'{name}_bucket{{le="{bound}"}} {total}')
        return [*lines, f"{name}_sum {self._seconds:.6f}", f"{name}_count {total}"]


def measured(store: Store) -> dict[str, dict[str, float]]:
    """Return what the store knows of models, by model and the name of the metric."""
    totals, found = store.totals(), dict[str, dict[str, float]]()
    for model in store.models():
        total = totals.get(model.name, NO_PROGRESS)
        dimension = int(json.loads(model.params)["dimension"])
        values = (
            model.version,
            model.count,
            total.uploads,
            total.refused,
            total.received,
            total.sent,
            savings_of(total, dimension=dimension).saved,
            total.rewards,
            total.total,
            total.squares,
            total.judged,
            total.earned,
            total.estimated,
            total.errors,
            total.moved,
            *_shadow_values(model, store),
            *_standing_out(model, store),
        )
        found[model.name] = dict(zip(_OF_MODELS, values, strict=True))
    return found


def _standing_out(model: Model, store: Store) -> tuple[int, int]:
    """Return how many groups of agents contradict the others, and how many have too much mass."""
    if not (model.weighed and model.told):
        return 0, 0
    recipe, state = recipe_of(model), store.state(model.name)[1]
    found = doubts_view(store, model, recipe, server_at(recipe, state), {})
    return sum(each["contradicts"] for each in found), sum(each["share"] > 0.0 for each in found)


def _shadow_values(model: Model, store: Store) -> tuple[float, ...]:
    """Return how its agents compare with the rules that they shadow; all 0 if none does."""
    found = fleet_shadow(model, store.shadows(model.name))
    if found is None:
        return (0,) * 9
    told = found.together
    gains = (told.gain, told.gain_low, told.gain_high)
    counts = (found.agents, found.safe, told.decisions, told.rewarded)
    return (*counts, told.agreement, *gains, int(told.safe))


def _written(labels: Labels) -> str:
    inside = ",".join(f'{name}="{value}"' for name, value in labels)
    return f"{{{inside}}}" if inside else ""


_COUNTERS: Final = {
    "fedbandit_uploads_total": "Uploads answered, merged or copies of merged ones.",
    "fedbandit_cut_total": "Uploads merged whose correction was cut: arms or rewards out of scale.",
    "fedbandit_states_total": "States told to agents that join or catch up.",
    "fedbandit_refused_total": "Requests refused, by status.",
    "fedbandit_batches_total": "Transactions in which uploads were merged.",
    "fedbandit_received_bytes_total": "Bytes of bodies received that were answered.",
    "fedbandit_sent_bytes_total": "Bytes of bodies sent as answers to syncs and joins.",
    "fedbandit_store_errors_total": "Times that the store could not be read or written.",
}
_GAUGES: Final = {
    "fedbandit_waiting": "Syncs under way now.",
    "fedbandit_connections": "Connections being served now, known or not.",
    "fedbandit_connections_waiting": "Connections without a whole request, or not served yet.",
    "fedbandit_connections_cut": "Connections cut off to make room for others, since the start.",
    "fedbandit_upstream_uploads": "Uploads of this relay that were acknowledged above.",
    "fedbandit_upstream_bytes_up": "Bytes of these uploads.",
    "fedbandit_upstream_bytes_down": "Bytes of what the coordinator above answered.",
    "fedbandit_upstream_troubled": "Models that cannot be passed on now.",
}
_OF_MODELS: Final = {
    "fedbandit_model_version": "Uploads merged into a model, ever, and times it was set back.",
    "fedbandit_model_observations": "Observations in a model.",
    "fedbandit_model_uploads": "Uploads merged since progress is kept.",
    "fedbandit_model_refused_uploads": "Uploads refused since progress is kept.",
    "fedbandit_model_received_bytes": "Bytes of syncs since progress is kept.",
    "fedbandit_model_sent_bytes": "Bytes of answers and joins since progress is kept.",
    "fedbandit_model_saved_bytes": "Bytes that FedLinUCB would have sent more, in as many syncs.",
    "fedbandit_model_rewards": "Rewards that agents told of.",
    "fedbandit_model_reward_sum": "Their sum.",
    "fedbandit_model_reward_squares_sum": "The sum of their squares.",
    "fedbandit_model_judged": "Rewards of which agents told what they had estimated them to be.",
    "fedbandit_model_judged_reward_sum": "The sum of those rewards.",
    "fedbandit_model_estimate_sum": "The sum of the estimates.",
    "fedbandit_model_error_squares_sum": "The sum of squares of reward less estimate.",
    "fedbandit_model_theta_moved": "How far the estimate theta went, from minute to minute.",
    "fedbandit_model_shadow_agents": "Agents that shadow a rule, and told how they compare.",
    "fedbandit_model_shadow_safe_agents": "Those that are safe to switch by their own decisions.",
    "fedbandit_model_shadow_decisions": "Their decisions in shadow mode.",
    "fedbandit_model_shadow_rewarded": "Those of them that were rewarded.",
    "fedbandit_model_shadow_agreement": "Probability of doing what the rule did, on average.",
    "fedbandit_model_shadow_gain": "What the model would have earned more a decision.",
    "fedbandit_model_shadow_gain_low": "The lower end of its 95 % interval.",
    "fedbandit_model_shadow_gain_high": "The upper end of it.",
    "fedbandit_model_shadow_safe": "1 if switching is safe by the decisions of all agents.",
    "fedbandit_model_doubted": "Groups of agents that contradict the others, and count less.",
    "fedbandit_model_heavy": "Groups that have so much of all mass that groups are weighed.",
}
