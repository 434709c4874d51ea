"""What an evaluation found, as values, sentences and JSON."""

from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import Any

from fedbandit.offline.estimates import Estimate, Method

LOG_WITH_CHANCE = (
    "Log with some chance in every decision, such as choice=fb.Mixed(0.1), or with uniform "
    "decisions for a while."
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """An estimate of what a candidate would have earned, by one method."""

    name: str
    method: Method
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class Best:
    """The candidate that did best on the first half, as estimated on the second.

    Picked among ``among`` candidates. The best of several looks better than it is on the rows that
    it was picked on; on the other half it does not.
    """

    outcome: Outcome
    among: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What candidates would have earned a decision, against what was done.

    ``now``: what was logged, on all rows. ``uniform``: every arm was logged with the same
    probability. ``skipped``: what the reader left out, by reason.
    """

    rows: int
    now: Estimate
    outcomes: tuple[Outcome, ...]
    best: Best | None
    uniform: bool
    least_probability: float
    level: float
    skipped: dict[str, int] = field(default_factory=dict)

    def of(self, name: str, method: Method) -> Estimate:
        """Return the estimate of a candidate by a method."""
        for each in self.outcomes:
            if (each.name, each.method) == (name, method):
                return each.estimate
        raise KeyError(f"{name}, {method}")

    @property
    def sentence(self) -> str:
        """What it comes to, in words: with an interval, or that nothing can be concluded."""
        if self.best is None:
            return f"Nothing can be concluded from these logs. {LOG_WITH_CHANCE}"
        name, how = self.best.outcome.name, self.best.outcome.method
        found, share = self.best.outcome.estimate, f"{100 * self.level:g} %"
        picked = ""
        if self.best.among > 1:
            picked = f"best of {self.best.among} on the first half, judged on the second; "
        earned = f"{found.value:.4g} a decision ({found.low:.4g} to {found.high:.4g})"
        more = f"{found.gain:+.4g} ({found.gain_low:+.4g} to {found.gain_high:+.4g})"
        text = f"{name} ({picked}{how}): {earned}, {more} against what was done, at {share}"
        words = {
            "better": "It would have earned more.",
            "worse": "It would have earned less.",
            "cannot tell": "Whether it would have earned more cannot be told from these logs.",
        }
        told = words.get(found.verdict)
        return f"{text}. {told or f'Nothing is concluded: {found.verdict}. {LOG_WITH_CHANCE}'}"

    def plain(self) -> dict[str, Any]:
        """Return everything as plain values, fit for JSON: what is not finite is None."""
        plain: dict[str, Any] = _finite(asdict(self))
        for shown, outcome in zip(plain["outcomes"], self.outcomes, strict=True):
            shown["verdict"] = outcome.estimate.verdict
        if self.best is not None:
            plain["best"]["outcome"]["verdict"] = self.best.outcome.estimate.verdict
        plain["sentence"] = self.sentence
        return plain


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not isfinite(value) else value
