"""A program on a device: decides, is paid, and says on its output what has happened.

Usage: device.py URL AGENT STATE_DIR SEED PACE FIRST LAST [UNPAID ...]. Plays arm i and is paid 1,
for every i from FIRST to LAST, several decisions being open at a time, with up to PACE seconds
between them; UNPAID are decisions of an earlier run whose reward may or may not have been given.
"""

import random
import sys
import time
from contextlib import suppress

import numpy as np

import fedbandit as fb
from fedbandit.errors import SettledDecision, UnknownDecision

DIMENSION = 400


def main(url: str, name: str, state_dir: str, seed: str, pace: str, *played: str) -> None:
    chance, (first, last, *unpaid) = random.Random(int(seed)), played
    agent = fb.connect(url, model="news", agent=name, token="t", state_dir=state_dir)
    for old in unpaid:
        with suppress(UnknownDecision, SettledDecision):
            agent.reward(f"event-{old}", 1.0)
        print("rewarded", old, flush=True)
    waiting: list[int] = []
    for i in range(int(first), int(last)):
        agent.decide(np.eye(DIMENSION)[i : i + 1], id=f"event-{i}")
        print("decided", i, flush=True)
        waiting.append(i)
        time.sleep(chance.uniform(0.0, float(pace)))
        while waiting and (len(waiting) > 4 or chance.random() < 0.6):
            paid = waiting.pop(chance.randrange(len(waiting)))
            agent.reward(f"event-{paid}", 1.0)
            print("rewarded", paid, flush=True)
    for paid in waiting:
        agent.reward(f"event-{paid}", 1.0)
        print("rewarded", paid, flush=True)
    print("delivered", agent.sync(everything=True, timeout=30.0), flush=True)
    agent.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
