"""How long a connected agent takes to decide and to learn, with its journal on disk."""

import logging
from itertools import islice
from tempfile import TemporaryDirectory
from time import perf_counter

import fedbandit as fb
from benchmarks.contenders import buffered
from benchmarks.play import tape

D, SIZE, FIRST, TIMED = 100, 40, 20_000, 20_000
NOWHERE = "http://127.0.0.1:9"


def on_the_device() -> dict[str, list[float]]:
    """Return the microseconds of each ``decide`` and ``reward``, after as many that are not timed.

    No coordinator answers: what becomes due is merged on the device, and waits there.
    """
    spent: dict[str, list[float]] = {"decide": [], "reward": []}
    logging.getLogger("fedbandit.client").setLevel(logging.ERROR)  # nothing will be delivered
    with TemporaryDirectory() as place:
        agent = fb.connect(
            NOWHERE, model="m", agent="a", recipe=buffered(D, SIZE), state_dir=f"{place}/state"
        )
        for this in islice(tape(D, agents=1), FIRST + TIMED):
            start = perf_counter()
            decision = agent.decide(this.arms)
            decided, reward = perf_counter(), float(this.rewards[decision.index])
            between = perf_counter()
            agent.reward(decision.id, reward)
            spent["decide"].append(1e6 * (decided - start))
            spent["reward"].append(1e6 * (perf_counter() - between))
        agent.close(timeout=0.0)
    return {act: times[FIRST:] for act, times in spent.items()}
