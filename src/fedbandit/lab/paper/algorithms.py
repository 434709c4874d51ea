"""The algorithms that the paper compares, ours, the others, and what all runs assume."""

from collections.abc import Iterable

from fedbandit.lab.study.settings import AGENTS, ALPHA, DELTA, NOISE, RIDGE, Algorithm


def _own(name: str) -> Algorithm:
    return Algorithm(name, recipe=name, tuned_as=name)


FSCLB = "FSCLB"
BEST = "FedLinUCB"
PUBLISHED = "FedLinUCB (published)"
RANDOM = "Random"
LEAN = "FSCLB.lean"
BUFFERED = "FSCLB (buffered)"

PAPER_ALGORITHMS = (
    _own(FSCLB),
    Algorithm(BEST, BEST, tuned_as=BEST, extra=lambda _: {"determinant": "when-needed"}),
    Algorithm(PUBLISHED, BEST, tuned_as=BEST, extra=lambda _: {"determinant": "every-round"}),
    Algorithm(RANDOM, RANDOM, tuned_as=""),
)
OURS = (
    Algorithm(BUFFERED, FSCLB, tuned_as=FSCLB, extra=lambda _: {"cadence": "buffered"}),
    _own(LEAN),
)
OTHER_ALGORITHMS = tuple(
    _own(name) for name in ("AsyncLinUCB", "DisLinUCB", "LinUCB", "Centralised", "SOFUL", "CBSCFD")
)


def assumptions(algorithms: Iterable[Algorithm]) -> dict[str, str]:
    """Return in words what all settings share, and what the paper leaves open."""
    shared = {
        "Agents": f"M = {AGENTS}; the active one is uniform at random every round",
        "Trigger": f"alpha = {ALPHA:g}",
        "Ridge": f"lambda = {RIDGE:g}",
        "Synthetic rewards": f"mean plus Gaussian noise of standard deviation {NOISE:g}",
        "Data set rewards": "1 for the target class, 0 for the others, without noise",
        "Tapes": "all algorithms of a trial see the same agents, arms and noise",
        "FedLinUCB": "best form: the determinant only when a bound on it reaches the threshold",
        LEAN: "ours, not the paper's: its size, widths and budget by default; tuned radius alone",
        BUFFERED: "ours: FSCLB that shrinks its sketch when a buffer is full or sent, not at every "
        "observation; with FSCLB's radius",
        PUBLISHED: "the determinant from scratch every round; the same decisions",
        "Theoretical radius": f"S = 1, L = 1, delta = {DELTA:g}, T = the rounds, R as above. S = 1 "
        "is true of the synthetic settings and an assumption for the data sets",
    }
    if any(each.name == "AsyncLinUCB" for each in algorithms):
        shared |= {
            "AsyncLinUCB": "gamma_U = gamma_D = 2, the growth that alpha = 1 asks for",
            "DisLinUCB": "D = T / (M d log T), which matches regret",
            "SOFUL, CBSCFD": "the setting's sketch size; like LinUCB, learners that never talk",
            "Centralised": "one learner that sees everything; its communication is not counted",
        }
    return shared
