"""Past observations that an agent is given to learn from, checked and named by their content."""

from hashlib import sha256

import numpy as np
from numpy.typing import ArrayLike

from fedbandit.core.checks import checked_arms, checked_reward
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.kernels.sparse import SparseArms, SparseLike
from fedbandit.errors import InvalidArms, InvalidReward, complaint


def past_observations(
    arms: ArrayLike | SparseLike, rewards: ArrayLike, dimension: int
) -> tuple[Array, Array, str]:
    """Return arms (n x d) and rewards (n), checked, and a digest of both."""
    given = checked_arms(arms, dimension)
    played = given.dense() if isinstance(given, SparseArms) else given
    try:
        paid = np.array(rewards, dtype=np.float64).ravel()
    except (TypeError, ValueError) as error:
        fix = "Give one number for each arm."
        message = complaint("rewards", got=str(error), expected="numbers", fix=fix)
        raise InvalidReward(message) from error
    if len(paid) != len(played):
        got, expected = f"{len(played)} arms and {len(paid)} rewards", "as many of both"
        fix = "Give one reward for each arm that was played."
        raise InvalidArms(complaint("learn", got=got, expected=expected, fix=fix))
    if not np.isfinite(paid).all():
        checked_reward(float(paid[~np.isfinite(paid)][0]))
    content = sha256(np.ascontiguousarray(played, dtype="<f8").tobytes())
    content.update(paid.astype("<f8").tobytes())
    return played, paid, content.hexdigest()
