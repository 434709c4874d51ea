"""Our estimates beside obp's, on real logs: the sample of the Open Bandit Dataset in obp's wheel.

Two policies served fashion items on ZOZOTOWN: ``random``, uniform, and ``bts``, Bernoulli Thompson
sampling. For each of three campaigns: from the 10,000 rows that ``random`` logged, what would
``bts`` have earned? By us, by obp's own estimators on the same rows, and by what the rows that
``bts`` logged show.

It needs obp, which needs torch, in an environment of its own: ``make open-bandit``. The data is
CC BY 4.0 (Saito, Aihara, Matsutani and Narita, "Open Bandit Dataset and Pipeline", 2021); it comes
inside obp's wheel and is not part of this repository.
"""

from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from obp.ope import (
    DoublyRobust,
    InverseProbabilityWeighting,
    SelfNormalizedInverseProbabilityWeighting,
)
from obp.policy import BernoulliTS

from fedbandit.logs import Event
from fedbandit.offline import Estimate, Evaluation, evaluate
from fedbandit.offline.estimates import Method, Weighed
from fedbandit.offline.reward_model import RewardModel

CAMPAIGNS = ("all", "men", "women")
POSITIONS = 3
FOLDS = 5
AGREES = 1e-9

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Rows:
    """Rows of a log: what was shown where, whether it was clicked, and the arms (n x K x d)."""

    action: NDArray[np.int64]
    position: NDArray[np.int64]
    click: Array
    propensity: Array
    arms: Array


def rows_of(policy: str, campaign: str) -> Rows:
    """Read the rows that a policy logged.

    An arm is: how often the user clicked on the item before, a number about the item, and the
    position.
    """
    place = files("obp.dataset") / "obd" / policy / campaign
    with (place / f"{campaign}.csv").open() as file:
        logged = pd.read_csv(file, index_col=0)
    with (place / "item_context.csv").open() as file:
        items = pd.read_csv(file, index_col=0).sort_values("item_id")
    many, n = len(items), len(logged)
    position = logged["position"].to_numpy() - 1
    affinity = logged[[f"user-item_affinity_{k}" for k in range(many)]].to_numpy(float)
    arms = np.zeros((n, many, 2 + POSITIONS))
    arms[:, :, 0], arms[:, :, 1] = affinity, items["item_feature_0"].to_numpy(float)
    arms[np.arange(n), :, 2 + position] = 1.0
    return Rows(
        logged["item_id"].to_numpy(),
        position,
        logged["click"].to_numpy(float),
        logged["propensity_score"].to_numpy(float),
        arms,
    )


def bts(campaign: str, many: int) -> Array:
    """Return the probability of each item at each position (K x 3), by obp's copy of the policy."""
    policy = BernoulliTS(
        n_actions=many,
        len_list=POSITIONS,
        is_zozotown_prior=True,
        campaign=campaign,
        random_state=12345,
    )
    dist: Array = policy.compute_batch_action_dist(n_sim=100_000, n_rounds=1)[0]
    return dist


def ours(rows: Rows, wanted: Array) -> Evaluation:
    """Evaluate with fedbandit, from events."""
    events = [
        Event(
            id=f"{i}",
            chosen=int(rows.action[i]),
            probability=float(rows.propensity[i]),
            reward=float(rows.click[i]),
            arms=rows.arms[i],
        )
        for i in range(len(rows.click))
    ]
    return evaluate(events, {"bts": lambda event: wanted[:, rows.position[int(event.id)]]})


def theirs(rows: Rows, wanted: Array) -> dict[str, float]:
    """Evaluate with obp, the doubly robust one by the same model of clicks."""
    n, many = rows.arms.shape[:2]
    given: dict[str, Any] = {
        "reward": rows.click,
        "action": rows.action,
        "pscore": rows.propensity,
        "position": rows.position,
        "action_dist": np.broadcast_to(wanted, (n, many, POSITIONS)),
    }
    expected = np.repeat(predicted(rows)[:, :, None], POSITIONS, axis=2)
    return {
        "ips": InverseProbabilityWeighting().estimate_policy_value(**given),
        "snips": SelfNormalizedInverseProbabilityWeighting().estimate_policy_value(**given),
        "dr": DoublyRobust().estimate_policy_value(
            **given, estimated_rewards_by_reg_model=expected
        ),
    }


def predicted(rows: Rows) -> Array:
    """Return what the cross-fitted ridge model expects of every item (n x K)."""
    n = len(rows.click)
    folds, model = np.arange(n) % FOLDS, RewardModel(rows.arms.shape[2], folds=FOLDS)
    model.add(folds, rows.arms[np.arange(n), rows.action], rows.click)
    return np.stack([model.predicted(int(folds[i]), rows.arms[i]) for i in range(n)])


def shown(rows: Rows) -> Estimate:
    """Return what a log shows of the policy that wrote it."""
    weighed = Weighed()
    weighed.add(rows.click, np.ones(len(rows.click)))
    return weighed.estimate("ips")


def interval(found: Estimate) -> str:
    """Return value and interval, in clicks per 1,000."""
    return f"{1e3 * found.value:5.2f} [{1e3 * found.low:.2f}, {1e3 * found.high:.2f}]"


def compared(found: Estimate, seen: Estimate) -> str:
    """Return the difference to what another sample showed, with its 95 % interval.

    Both are uncertain, and their rows are not the same ones, so variances add up. An interval of
    the estimate alone says less: it does not know that what was seen is a sample too.
    """
    apart = found.value - seen.value
    half = np.hypot(found.high - found.value, seen.high - seen.value)
    agree = "agrees with" if abs(apart) <= half else "differs from"
    alone = "holds" if found.low <= seen.value <= found.high else "misses"
    return (
        f"{agree} what bts logged: {1e3 * apart:+.2f} [{1e3 * (apart - half):.2f}, "
        f"{1e3 * (apart + half):.2f}]; its own interval {alone} that number"
    )


def main() -> None:
    methods: tuple[Method, ...] = ("ips", "snips", "dr")
    worst = 0.0
    print("clicks per 1,000 [95 % interval]")
    for campaign in CAMPAIGNS:
        rows, known = rows_of("random", campaign), rows_of("bts", campaign)
        wanted = bts(campaign, rows.arms.shape[1])
        evaluation, other = ours(rows, wanted), theirs(rows, wanted)
        print(
            f"\n{campaign}: {rows.click.sum():.0f} clicks by random, {known.click.sum():.0f} by bts"
        )
        print(f"  random, logged  {interval(shown(rows))}")
        print(f"  bts, logged     {interval(shown(known))}")
        for method in methods:
            found = evaluation.of("bts", method)
            apart = abs(found.value - other[method])
            worst = max(worst, apart)
            print(f"  bts by {method:6}   {interval(found)}: {compared(found, shown(known))}")
            print(
                f"    {found.effective:.0f} effective rows, {found.rewarded:.1f} effective clicks; "
                f"against random: {found.verdict}; {apart:.0e} from obp's"
            )
    print(f"\nlargest difference to obp: {worst:.1e}")
    if worst > AGREES:
        raise SystemExit(f"The estimates differ by more than {AGREES}.")


if __name__ == "__main__":
    main()
