"""The shops of the quickstart: visitors, drinks, and who buys what."""

from dataclasses import dataclass

import numpy as np

DIMENSION = 64
DRINKS = (
    {"id": "tea", "temperature": "hot", "price": 0.3},
    {"id": "coffee", "temperature": "hot", "price": 0.5},
    {"id": "juice", "temperature": "cold", "price": 0.6},
    {"id": "water", "temperature": "cold", "price": 0.1},
)
HOURS = ("morning", "noon", "evening")
WEATHERS = ("hot", "cold")
_WANTED, _OTHER = 0.75, 0.15  # how often somebody buys what suits the moment, and anything else
BY_CHANCE = (_WANTED + (len(DRINKS) - 1) * _OTHER) / len(DRINKS)
"""How often somebody buys if the drink is drawn by lot."""


@dataclass(frozen=True)
class Visitor:
    """Somebody who comes in, and how likely each drink is to be bought."""

    context: dict[str, str]
    chances: dict[str, float]


def visitor(chance: np.random.Generator) -> Visitor:
    """Draw a visitor: on cold mornings they want coffee, on hot days juice, in the evening tea."""
    hour, weather = HOURS[chance.integers(3)], WEATHERS[chance.integers(2)]
    wanted = {"morning": "coffee", "noon": "water", "evening": "tea"}[hour]
    if weather == "hot":
        wanted = "juice"
    names = [str(drink["id"]) for drink in DRINKS]
    chances = {name: _WANTED if name == wanted else _OTHER for name in names}
    return Visitor({"hour": hour, "weather": weather}, chances)
