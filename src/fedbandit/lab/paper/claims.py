"""What the paper claims and what was measured; every verdict is computed from the numbers."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedbandit.core.memory.summary import Sketch, empty_gram
from fedbandit.lab.analysis.curves import Curves, pick
from fedbandit.lab.analysis.statistics import Estimate, estimate, gap_loss, ratio
from fedbandit.lab.analysis.text import percent
from fedbandit.lab.analysis.verdicts import Verdict, at_least, at_most, worst
from fedbandit.lab.paper.algorithms import BEST, BUFFERED, FSCLB, LEAN, PUBLISHED, RANDOM
from fedbandit.lab.study.settings import Setting

REWARD_LINE = 0.03
SAVING_LINE = 0.90


@dataclass(frozen=True)
class RewardFinding:
    """Reward lost to FedLinUCB as a share of its lead over Random (``lead``: reward)."""

    setting: str
    lead: Estimate
    loss: Estimate
    verdict: Verdict


@dataclass(frozen=True)
class TimeFinding:
    """Share of FedLinUCB's time saved: against the published form, the best form, and both."""

    setting: str
    published: Estimate
    against_published: Verdict
    best: Estimate
    against_best: Verdict
    verdict: Verdict


@dataclass(frozen=True)
class OwnTimeFinding:
    """Share of the published FedLinUCB's time that one of our variants of FSCLB saves."""

    setting: str
    algorithm: str
    published: Estimate
    verdict: Verdict


@dataclass(frozen=True)
class ScalarFinding:
    """Scalars against FedLinUCB's: how many uploads, how large each exchange, and the product.

    ``uploads`` and ``size`` are FSCLB's share of FedLinUCB's; ``largest_size`` is the share that a
    full sketch of l - 1 rows would take in both directions; ``saving`` is the share saved in total.
    """

    setting: str
    uploads: Estimate
    size: Estimate
    largest_size: float
    saving: Estimate
    against_prediction: Verdict
    against_claim: Verdict

    @property
    def predicted_saving(self) -> float:
        """What l and d alone predict: as many uploads, each with a full sketch."""
        return 1.0 - self.largest_size


@dataclass(frozen=True)
class Findings:
    """What was found with one kind of radius ("tuned" or "paper").

    ``forms_agree``: FedLinUCB's two forms earned and sent the same in every trial. They are timed
    with the tuned radius alone.
    """

    radius: str
    forms_agree: bool
    reward: tuple[RewardFinding, ...]
    time: tuple[TimeFinding, ...]
    scalars: tuple[ScalarFinding, ...]
    own_time: tuple[OwnTimeFinding, ...] = ()


@dataclass(frozen=True)
class Claim:
    """One line of the comparison: the paper's words, our test, what was measured, the verdicts."""

    paper: str
    test: str
    measured: str
    verdicts: tuple[Verdict, ...]

    @property
    def counts(self) -> tuple[tuple[Verdict, str], ...]:
        """The verdicts that occur, from best to worst, each with the settings it holds for."""
        counts, total = Counter(self.verdicts), len(self.verdicts)
        plural = "s" if total != 1 else ""
        return tuple(
            (each, f"{each} at {counts[each]} of {total} setting{plural}")
            for each in Verdict
            if counts[each]
        )


def largest_size(setting: Setting) -> float:
    """Return what l and d predict of a message: full sketches both ways, as a share of matrices."""
    rows = np.zeros((setting.sketch_size - 1, setting.dimension))
    sketch = Sketch(rows=rows, shed=0.0, size=setting.sketch_size)
    gram = empty_gram(setting.dimension)
    sent = sketch.upload_scalars + sketch.download_scalars
    return sent / (gram.upload_scalars + gram.download_scalars)


def findings(found: Sequence[Curves], settings: Sequence[Setting], *, radius: str) -> Findings:
    """Compare FSCLB with FedLinUCB in every setting that was run with this kind of radius."""
    reward, time, scalars = [], [], []
    own_time: list[OwnTimeFinding] = []
    forms_agree = True
    for setting in settings:
        sketched = pick(found, setting=setting.name, algorithm=FSCLB, radius=radius)
        best = pick(found, setting=setting.name, algorithm=BEST, radius=radius)
        published = pick(found, setting=setting.name, algorithm=PUBLISHED, radius=radius)
        floor = pick(found, setting=setting.name, algorithm=RANDOM)
        if sketched and best and floor:
            reward.append(_reward(setting.name, sketched, best, floor))
            scalars.append(_scalars(setting, sketched, best))
        if sketched and best and published:
            time.append(_time(setting.name, sketched, published, best))
            forms_agree &= _same_play(best, published)
        for name in (BUFFERED, LEAN) if published else ():
            ours = pick(found, setting=setting.name, algorithm=name, radius=radius)
            if ours and published:
                own_time.append(_own_time(setting.name, ours, published))
    return Findings(
        radius, forms_agree, tuple(reward), tuple(time), tuple(scalars), tuple(own_time)
    )


def claims(found: Findings) -> list[Claim]:
    """Return the comparison of the paper's claims with the findings, a line for each test."""
    if not found.reward:
        return []
    time = _time_claims(found.time) if found.time else []
    time += [
        _own_time_claim(name, [each for each in found.own_time if each.algorithm == name])
        for name in dict.fromkeys(each.algorithm for each in found.own_time)
    ]
    return [_reward_claim(found.reward), *time, *_scalar_claims(found.scalars)]


def best_first(found: Sequence[Claim]) -> list[Claim]:
    """Sort claims by the worst of their verdicts: those that hold everywhere first."""
    order = list(Verdict)
    return sorted(found, key=lambda each: max(map(order.index, each.verdicts), default=0))


def _reward_claim(found: Sequence[RewardFinding]) -> Claim:
    known = [each.loss.mean for each in found if each.verdict != Verdict.UNDEFINED]
    return Claim(
        "a negligible loss of reward",
        f"at most {100 * REWARD_LINE:g} % of FedLinUCB's lead over Random",
        f"{_range(known)} of the lead lost" if known else "FedLinUCB is not ahead of Random",
        tuple(each.verdict for each in found),
    )


def _time_claims(found: Sequence[TimeFinding]) -> list[Claim]:
    claim = "computation cut by over 90 %"
    return [
        Claim(
            claim,
            "against FedLinUCB as published (a determinant every round)",
            _taken("time", [each.published for each in found]),
            tuple(each.against_published for each in found),
        ),
        Claim(
            claim,
            "against FedLinUCB in its best form (a determinant only when needed)",
            _taken("time", [each.best for each in found]),
            tuple(each.against_best for each in found),
        ),
        Claim(
            claim,
            "against both forms",
            "the worse of the two lines above",
            tuple(each.verdict for each in found),
        ),
    ]


def _own_time_claim(name: str, found: Sequence[OwnTimeFinding]) -> Claim:
    return Claim(
        "computation cut by over 90 %",
        f"{name}, ours, against FedLinUCB as published",
        _taken("time", [each.published for each in found]),
        tuple(each.verdict for each in found),
    )


def _scalar_claims(found: Sequence[ScalarFinding]) -> list[Claim]:
    measured = _taken("scalars", [each.saving for each in found])
    return [
        Claim(
            "communication cut by over 90 %",
            "scalars sent in both directions, Com(T)",
            measured,
            tuple(each.against_claim for each in found),
        ),
        Claim(
            "O(ld) scalars in place of O(d²)",
            "Com(T) falls by at least what full sketches of l - 1 rows predict",
            f"{measured}; predicted at most {_range([each.largest_size for each in found])}",
            tuple(each.against_prediction for each in found),
        ),
    ]


def _reward(setting: str, sketched: Curves, best: Curves, floor: Curves) -> RewardFinding:
    top, bottom = best.final("reward"), floor.final("reward")
    lead = estimate(top - bottom)
    loss = gap_loss(sketched.final("reward"), top, bottom)
    learned = not lead.low <= 0.0 and lead.mean > 0.0
    return RewardFinding(
        setting, lead, loss, at_most(loss, REWARD_LINE) if learned else Verdict.UNDEFINED
    )


def _time(setting: str, sketched: Curves, published: Curves, best: Curves) -> TimeFinding:
    spent = sketched.final("seconds")
    over_published = ratio(spent, published.final("seconds")).complement()
    over_best = ratio(spent, best.final("seconds")).complement()
    first, second = at_least(over_published, SAVING_LINE), at_least(over_best, SAVING_LINE)
    return TimeFinding(setting, over_published, first, over_best, second, worst([first, second]))


def _own_time(setting: str, ours: Curves, published: Curves) -> OwnTimeFinding:
    saved = ratio(ours.final("seconds"), published.final("seconds")).complement()
    return OwnTimeFinding(setting, ours.algorithm, saved, at_least(saved, SAVING_LINE))


def _same_play(first: Curves, second: Curves) -> bool:
    measures = ("reward", "uploads", "scalars")
    return all(np.array_equal(first.values[name], second.values[name]) for name in measures)


def _scalars(setting: Setting, sketched: Curves, best: Curves) -> ScalarFinding:
    ours, theirs = sketched.final("scalars"), best.final("scalars")
    largest = largest_size(setting)
    saving = ratio(ours, theirs).complement()
    return ScalarFinding(
        setting=setting.name,
        uploads=ratio(sketched.final("uploads"), best.final("uploads")),
        size=_size(sketched, best),
        largest_size=largest,
        saving=saving,
        against_prediction=at_least(saving, 1.0 - largest),
        against_claim=at_least(saving, SAVING_LINE),
    )


def _size(sketched: Curves, best: Curves) -> Estimate:
    """Scalars per exchange, FSCLB's as a share of FedLinUCB's."""
    ours = sketched.final("scalars") / sketched.final("uploads").clip(min=1)
    theirs = best.final("scalars") / best.final("uploads").clip(min=1)
    return ratio(ours, theirs)


def _taken(what: str, savings: Sequence[Estimate]) -> str:
    known = [1.0 - each.mean for each in savings if not math.isnan(each.mean)]
    return f"{_range(known)} of its {what}" if known else f"FedLinUCB needed no {what}"


def _range(shares: Sequence[float]) -> str:
    low, high = percent(min(shares)), percent(max(shares))
    return low if low == high else f"{low} to {high}"
