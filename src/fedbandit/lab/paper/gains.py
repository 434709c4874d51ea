"""What FSCLB.lean gains: bytes against FedLinUCB, regret against chance."""

from collections.abc import Sequence
from dataclasses import dataclass

from fedbandit.lab.analysis.curves import Curves, pick
from fedbandit.lab.analysis.statistics import Estimate, gap_loss, ratio
from fedbandit.lab.paper.algorithms import BEST, LEAN, RANDOM
from fedbandit.lab.study.settings import Setting


@dataclass(frozen=True)
class Gain:
    """FSCLB.lean at one setting, on the same tapes as the others.

    ``bytes`` is its share of FedLinUCB's bytes, ``regret`` its share of Random's regret, and
    ``loss`` the reward it lost to FedLinUCB, as a share of FedLinUCB's lead over Random.
    """

    setting: str
    bytes: Estimate
    regret: Estimate
    loss: Estimate


def gains(found: Sequence[Curves], settings: Sequence[Setting]) -> tuple[Gain, ...]:
    """Return what was gained at each setting where all three were run, with tuned radii."""
    made = []
    for setting in settings:
        lean = pick(found, setting=setting.name, algorithm=LEAN, radius="tuned")
        fed = pick(found, setting=setting.name, algorithm=BEST, radius="tuned")
        floor = pick(found, setting=setting.name, algorithm=RANDOM)
        if lean and fed and floor:
            made.append(
                Gain(
                    setting.name,
                    ratio(lean.final("bytes"), fed.final("bytes")),
                    ratio(lean.final("regret"), floor.final("regret")),
                    gap_loss(*(each.final("reward") for each in (lean, fed, floor))),
                )
            )
    return tuple(made)
