"""What is shown is what was counted, whatever the range; and what is counted besides merging."""

import json
from http import HTTPStatus
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandit as fb
from fedbandit.cli import main
from fedbandit.core.memory.lossy.summary import LossyGram, LossyRows
from fedbandit.core.memory.summary import Gram, Sketch
from fedbandit.service.board.spectrum import spectrum_of
from fedbandit.service.board.traffic import Told, TrafficTally
from fedbandit.service.board.views import RANGES, Range, points_of
from fedbandit.service.bookkeeping.progress import (
    DAY,
    HOUR,
    MINUTE,
    Period,
    Progress,
    Refused,
    summed,
)
from fedbandit.service.refusal import Refusal
from tests.service.made_uploads import sync_for
from tests.service.running import client_of, make_model, post

NOW = 20_000 * DAY + 12_345.5
SHOWN = ("uploads", "observations", "received", "sent", "refused")
SPANS = st.sampled_from([(MINUTE, DAY), (HOUR, 30 * DAY), (DAY, 300 * DAY)])


@st.composite
def periods(draw: st.DrawFn) -> list[Period]:
    found = dict[tuple[int, int], Progress]()
    for _ in range(draw(st.integers(0, 12))):
        span, oldest = draw(SPANS)
        start = int((NOW - draw(st.integers(0, oldest))) // span) * span
        n = draw(st.integers(1, 50))
        found[span, start] = Progress(
            uploads=1,
            observations=n,
            sent=n,
            rewards=n,
            total=0.5 * n,
            judged=n,
            estimated=0.25 * n,
        )
    made = [Period(*key, each) for key, each in found.items()]
    return sorted(made, key=lambda each: (each.start, each.span))


@given(periods(), st.sampled_from(RANGES))
def test_points_add_up_to_what_was_counted(made: list[Period], shown: Range) -> None:
    points = points_of(made, shown, NOW)
    seconds = {"hour": HOUR, "day": DAY, "month": 30 * DAY}.get(shown, NOW)
    kept = summed(each.progress for each in made if each.start + each.span > NOW - seconds)
    for name in SHOWN:
        assert sum(points[name]) == getattr(kept, name)
    assert len(points["t"]) <= 102
    assert all(len(points[name]) == len(points["t"]) for name in SHOWN)
    for average, estimate, count in zip(
        points["average"], points["estimate"], points["observations"], strict=True
    ):
        assert (average, estimate) == ((0.5, 0.25) if count else (None, None))


def test_the_spectrum_is_that_of_each_kind_of_summary() -> None:
    rows = np.array([[3.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
    bound = np.array([0.5, 0.25, 0.0])
    for summary, shed, kind in (
        (Sketch(rows, 0.75, 3, 1.0), 0.75, "sketch"),
        (LossyRows(rows, bound, 1.0, 1.0), 0.5, "sketch"),
        (LossyGram(rows.T @ rows, bound, 1.0, 1.0), 0.5, "matrix"),
    ):
        found = spectrum_of(summary)
        assert found["values"][:2] == pytest.approx([9.0, 4.0])
        assert (found["shed"], found["kind"], found["directions"]) == (shed, kind, 2)
        assert found["lost"] == pytest.approx(1.0 / 14.0)
    whole = spectrum_of(Gram(rows.T @ rows))
    assert (whole["shed"], whole["lost"]) == (0.0, 0.0)
    assert spectrum_of(Gram(np.zeros((3, 3))))["directions"] == 0
    few = np.random.default_rng(0).normal(size=(5, 40))
    assert spectrum_of(Gram(few.T @ few))["directions"] == 5  # the rest is rounding


def test_traffic_is_counted_by_model_and_minute() -> None:
    clock = iter([0.0, 30.0, 61.0, 61.5, 62.0, 63.0, 64.0])
    tally = TrafficTally(clock=lambda: next(clock))
    tally.synced("news", merged=True, received=100, sent=10)
    tally.synced("news", merged=False, received=100, sent=10)
    tally.joined("news", "phone", Told(b"12345", True, 7))
    tally.refused("news", "phone", Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "life", "why"))
    tally.joined("shop", "till", Told(b"1", False, None))
    for status, field in ((HTTPStatus.UNAUTHORIZED, "authorization"), (HTTPStatus.NOT_FOUND, "x")):
        tally.refused("news", "phone", Refusal(status, field, "not about an upload"))
    first, second, other = taken = tally.take()
    assert (first.start, first.progress) == (0, Progress(sent=20, copies=1, received=100))
    assert (second.start, second.progress) == (60, Progress(joins=1, sent=5, refused=1))
    assert second.held == {"phone": 7}
    expected = Refused(status=422, field="life", count=1, agent="phone", message="why", at=62.0)
    assert second.refused == (expected,)
    assert (other.model, other.progress, other.held) == ("shop", Progress(sent=1), {})
    assert tally.take() == []
    tally.put_back(taken)  # the store was away
    assert [each.progress for each in tally.take()] == [each.progress for each in taken]


def test_model_show_tells_what_the_board_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, recipe = f"sqlite:///{tmp_path}/c.db", fb.FSCLB(dimension=4, sketch_size=3, agents=2)
    make_model(url, "news", recipe)
    main(["model", "show", "news", "--store", url])
    assert "average reward" not in capsys.readouterr().out
    with client_of(url) as client:
        post(client, sync_for(recipe, 1), agent="early")
        post(client, sync_for(recipe, 2), agent="late")
    main(["agent", "quarantine", "news", "stranger", "--store", url])  # was never there
    main(["model", "show", "news", "--store", url])
    told = capsys.readouterr().out
    assert told.splitlines()[-1].split()[:2] == ["stranger", "0"]
    assert told.splitlines()[-1].endswith("quarantined")
    assert "1970" not in told
    for words in (
        "average reward: no agent told of rewards yet",
        "theta moved by",
        "the sketch holds",
        "in 2 uploads; FedLinUCB sends",
        "1 (1 behind)",
    ):
        assert words in told
    main(["model", "show", "news", "--store", url, "--json"])
    progress = json.loads(capsys.readouterr().out)["progress"]
    assert (progress["average"], progress["totals"]["uploads"]) == (None, 2)
