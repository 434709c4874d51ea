"""Whether observations keep the coordinator's limits; none are known before the first contact."""

import numpy as np

from fedbandit import wire
from fedbandit.core.checks import checked_reward, too_large
from fedbandit.core.kernels.linalg import Array, fits
from fedbandit.errors import InvalidArms, InvalidReward, complaint

_LOOSE = 1.0 + 1e-10
"""An arm scaled to length 1 may be longer by rounding; the coordinator allows ten times as much."""


def arm_fits(arm: Array, limits: wire.Limits | None) -> bool:
    """Say whether an arm is short enough."""
    return limits is None or bool(arm.dot(arm) <= _LOOSE * limits.arm_norm**2)


def check_arm(arm: Array, limits: wire.Limits | None) -> None:
    """Raise InvalidArms for an arm that the coordinator would refuse."""
    if limits is not None and not arm_fits(arm, limits):
        expected = f"at most {limits.arm_norm}, the coordinator's limit"
        fix = "Scale the features, or make the model with a larger limit."
        got = f"length {float(np.linalg.norm(arm)):.3g}"
        raise InvalidArms(complaint("arm", got=got, expected=expected, fix=fix))


def check_observation(arm: Array, reward: float, limits: wire.Limits | None) -> None:
    """Raise InvalidArms for an arm that would be refused, or is too large with this reward."""
    check_arm(arm, limits)
    if not fits(arm, reward):
        raise too_large(arm, reward)


def checked_reward_within(reward: float, limits: wire.Limits | None) -> float:
    """Return a reward as a finite float; raise InvalidReward if it is none, or too large."""
    value = checked_reward(reward)
    if limits is not None and abs(value) > limits.reward:
        expected = f"at most {limits.reward} in size, the coordinator's limit"
        fix = "Scale rewards, or make the model with a larger limit."
        raise InvalidReward(complaint("reward", got=value, expected=expected, fix=fix))
    return value
