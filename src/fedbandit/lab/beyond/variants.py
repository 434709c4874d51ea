"""The paper's algorithm, one step after another away from it, and what it is compared with."""

from typing import Any

from fedbandit.core.memory.sizing import lean_budget
from fedbandit.lab.study.settings import Algorithm

LITERAL, FED, RANDOM, LEAN = "FSCLB", "FedLinUCB", "Random", "FSCLB.lean"


def _step(name: str, *, tuned_as: str | None = None, **extra: Any) -> Algorithm:
    return Algorithm(name, "FSCLB", tuned_as or name, lambda _: extra)


def _budgeted(share: float) -> Algorithm:
    """Return FSCLB.lean with another share of a matrix as its budget."""
    return Algorithm(
        f"FSCLB.lean, {100 * share:g} %",
        LEAN,
        LEAN,
        lambda setting: {"budget": lean_budget(setting.dimension, share=share)},
    )


def _sent(name: str, wire: str) -> Algorithm:
    """Return FedLinUCB with the upper triangle of its matrix in this width."""
    return Algorithm(f"{FED}, {name}", FED, FED, lambda _: {"wire": wire})


CORRECTED = {"cadence": "buffered", "estimate": "corrected"}

VARIANTS = (
    _step(LITERAL),
    _step("buffered", cadence="buffered"),
    _step("averaged", cadence="buffered", estimate="averaged"),
    _step("corrected", **CORRECTED),
    *(
        _step(f"corrected, {width}", tuned_as="corrected", wire=width, **CORRECTED)
        for width in ("float32", "float16", "bfloat16", "int8")
    ),
    Algorithm(LEAN, LEAN, LEAN),
    *(_budgeted(share) for share in (0.01, 0.05, 0.1)),
    Algorithm(FED, FED, FED),
    _sent("triangle", "float64"),
    *(_sent(width, width) for width in ("float32", "float16", "int8")),
    Algorithm(RANDOM, RANDOM, ""),
)
