"""A program on a device: decides, is paid, and says on its output what has happened.

Usage: device.py URL AGENT STATE_DIR SEED PACE FIRST LAST [UNPAID ...]. Plays arm i and is paid 1,
for every i from FIRST to LAST, several decisions being open at a time, with up to PACE seconds
between them; UNPAID are decisions of an earlier run whose reward may or may not have been given.
A reward that the disk does not take is given again until it does. It is impatient: whatever failed
a moment ago, it asks to deliver again and again, so that there is always something on its way.
"""

import random
import sys
import time

import numpy as np

import fedbandit as fb
from fedbandit.errors import OutputError, SettledDecision, UnknownDecision

DIMENSION = 400


def pay(agent: fb.ConnectedAgent, arm: int) -> None:
    """Give a reward and say so; or that its decision is not known any more."""
    while True:
        try:
            agent.reward(f"event-{arm}", 1.0)
        except OutputError:
            time.sleep(0.005)
            continue
        except SettledDecision:
            pass
        except UnknownDecision:
            print("unknown", arm, flush=True)
            return
        print("rewarded", arm, flush=True)
        return


def main(url: str, name: str, state_dir: str, seed: str, pace: str, *played: str) -> None:
    chance, (first, last, *unpaid) = random.Random(int(seed)), played
    agent = fb.connect(url, model="news", agent=name, token="t", state_dir=state_dir)
    for old in unpaid:
        pay(agent, int(old))
    waiting: list[int] = []
    for i in range(int(first), int(last)):
        agent.decide(np.eye(DIMENSION)[i : i + 1], id=f"event-{i}")
        print("decided", i, flush=True)
        waiting.append(i)
        time.sleep(chance.uniform(0.0, float(pace)))
        while waiting and (len(waiting) > 4 or chance.random() < 0.6):
            pay(agent, waiting.pop(chance.randrange(len(waiting))))
            agent.sync(timeout=0.005)
    for arm in waiting:
        pay(agent, arm)
    print("delivered", agent.sync(everything=True, timeout=60.0), flush=True)
    agent.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
