"""The worlds on which shipped and literal algorithms are compared."""

from functools import partial

import fedbandit as fb
from fedbandit.testing import ChangingArms

M = 5
synthetic = partial(fb.worlds.Synthetic, dimension=12, arms=6, agents=M, noise=0.1)
shifting = ChangingArms(dimension=12, agents=M, seed=7)
