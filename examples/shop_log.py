"""Make the log of a shop, to try offline evaluation on: ``python examples/shop_log.py --out DIR``.

An outdoor shop shows each visitor one of five products at the top of its page. Its rule is to show
the tent, which sells best on the whole, to half of all visitors, and any product, at random, to
the rest: so it is known with which probability each product was shown. The reward is 1 for a click.

What visitors like (``click_probability``) is known here alone: what evaluation, shadow
mode and live decisions say can be compared with it. A twentieth of rewards never arrives, as in any
real log.
"""

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedbandit.logs import LogTo, LogWriter
from fedbandit.logs.records import Decided, LoggedAction

PRODUCTS: tuple[dict[str, Any], ...] = (
    {"id": "tent", "kind": "camping", "price": 420},
    {"id": "stove", "kind": "camping", "price": 95},
    {"id": "boots", "kind": "hiking", "price": 180},
    {"id": "lamp", "kind": "camping", "price": 35},
    {"id": "canoe", "kind": "water", "price": 1800},
)
SHOWN_ANYHOW = 0.5
LOST = 0.05


@dataclass(frozen=True)
class Visit:
    """A visitor, and what the shop's own rule shows."""

    context: Mapping[str, Any]
    shown: int
    probability: float


def visits(rng: np.random.Generator, many: int) -> Iterator[Visit]:
    """Yield visitors, each with what the rule shows and how probable that was."""
    for _ in range(many):
        context = {
            "device": "phone" if rng.random() < 0.6 else "desktop",
            "season": "summer" if rng.random() < 0.5 else "winter",
            "returning": bool(rng.random() < 0.4),
        }
        anyhow = bool(rng.random() < SHOWN_ANYHOW)
        shown = int(rng.integers(len(PRODUCTS))) if anyhow else 0
        yield Visit(context, shown, probability_shown(shown))


def probability_shown(product: int) -> float:
    """Return the probability with which the rule shows a product."""
    by_chance = SHOWN_ANYHOW / len(PRODUCTS)
    return 1.0 - SHOWN_ANYHOW + by_chance if product == 0 else by_chance


def click_probability(context: Mapping[str, Any], product: int) -> float:
    """Return what is really so: who clicks on what."""
    what = PRODUCTS[product]["id"]
    chance = {"tent": 0.10, "stove": 0.07, "boots": 0.08, "lamp": 0.06, "canoe": 0.05}[what]
    if context["season"] == "summer":
        chance += {"canoe": 0.13, "tent": 0.03}.get(what, 0.0)
    else:
        chance += {"stove": 0.12, "tent": -0.05}.get(what, 0.0)
    if context["device"] == "phone":
        chance += {"canoe": -0.06, "lamp": 0.05}.get(what, 0.0)
    if context["returning"]:
        chance += {"boots": 0.10}.get(what, 0.0)
    return chance


def clicked(rng: np.random.Generator, context: Mapping[str, Any], product: int) -> float:
    """Return 1 if this visitor clicks on this product, else 0."""
    return float(rng.random() < click_probability(context, product))


def write_log(out: Path, *, many: int, seed: int) -> None:
    """Write the log of so many visits."""
    rng = np.random.default_rng(seed)
    actions = [
        LoggedAction(id=each["id"], features={k: v for k, v in each.items() if k != "id"})
        for each in PRODUCTS
    ]
    everything = LogTo(out, total_bytes=2**50)  # the writer deletes the oldest files beyond that
    log = LogWriter(everything, agent="shop", clock=lambda: 0.0)
    for number, visit in enumerate(visits(rng, many)):
        log.decided(
            Decided(
                id=f"visit-{number}",
                chosen=visit.shown,
                probability=visit.probability,
                context=visit.context,
                actions=actions,
            )
        )
        reward = clicked(rng, visit.context, visit.shown)
        if rng.random() >= LOST:
            log.rewarded(f"visit-{number}", reward)
    log.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the log of a shop.")
    parser.add_argument("--out", type=Path, required=True, help="directory for the log")
    parser.add_argument("--visits", type=int, default=20_000, help="how many (default: 20000)")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    write_log(given.out, many=given.visits, seed=given.seed)
    print(f"{given.out}: {given.visits:,} visits")


if __name__ == "__main__":
    main()
