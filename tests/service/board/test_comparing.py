"""How a model does, told from its periods."""

from math import sqrt

import numpy as np
import pytest

from fedbandit import wire
from fedbandit.core.algorithms.baselines import FedLinUCB
from fedbandit.core.messages import Download, Upload
from fedbandit.core.statistics import Rewards, Statistics
from fedbandit.service.board.comparing import as_told, beginning_and_lately, error_of, verdict
from fedbandit.service.board.savings import savings_of
from fedbandit.service.bookkeeping.progress import DAY, HOUR, MINUTE, Period, Progress

START = 20_000 * DAY


def _earned(rewards: list[float]) -> Progress:
    squares = sum(each * each for each in rewards)
    return Progress(rewards=len(rewards), total=sum(rewards), squares=squares)


@pytest.mark.parametrize(
    ("spans", "labels"),
    [
        ([(MINUTE, 0)], None),
        ([(MINUTE, 0), (MINUTE, MINUTE)], ("first minute", "last minute")),
        ([(MINUTE, k * MINUTE) for k in range(50)], ("first 10 minutes", "last 10 minutes")),
        ([(MINUTE, k * MINUTE) for k in range(120)], ("first hour", "last hour")),
        ([(HOUR, k * HOUR) for k in range(48)], ("first day", "last day")),
    ],
)
def test_the_stretches_grow_with_the_model(
    spans: list[tuple[int, int]], labels: tuple[str, str] | None
) -> None:
    periods = [Period(span, START + after, _earned([1.0])) for span, after in spans]
    found = beginning_and_lately(periods)
    assert (found and (found[0].label, found[1].label)) == labels


def test_the_first_day_is_compared_with_the_last_even_if_it_is_long_ago() -> None:
    periods = [Period(HOUR, START + k * HOUR, _earned([0.0, 1.0])) for k in range(24)]
    periods += [Period(DAY, START + k * DAY, _earned([9.0])) for k in range(1, 90)]
    periods += [Period(MINUTE, START + 90 * DAY + k * MINUTE, _earned([2.0])) for k in range(1440)]
    found = beginning_and_lately(periods)
    assert found is not None
    assert found[0].progress.average == 0.5
    assert found[1].progress.average == 2.0


def test_a_change_is_clear_once_it_is_more_than_chance() -> None:
    rng = np.random.default_rng(1)
    before, after = rng.normal(0.3, 0.1, 400).tolist(), rng.normal(0.4, 0.1, 400).tolist()
    found = verdict(_earned(before), _earned(after))
    assert found["clear"]
    assert found["change"] == pytest.approx(np.mean(after) - np.mean(before))
    assert found["error"] == pytest.approx(sqrt(np.var(before) / 400 + np.var(after) / 400))
    assert found["share"] == pytest.approx(found["change"] / np.mean(before))
    assert not verdict(_earned(before[:200]), _earned(before[200:]))["clear"]


def test_the_prediction_error_is_that_of_the_estimates() -> None:
    rewards, estimates = np.array([0.2, 0.9, 0.4]), np.array([0.1, 1.0, 0.7])
    missed = rewards - estimates
    progress = Progress(judged=3, errors=float(missed @ missed))
    assert error_of(progress) == pytest.approx(np.sqrt(np.mean(missed**2)))
    assert error_of(Progress()) is None


def test_averages_are_none_where_nothing_was_told() -> None:
    periods = [Period(MINUTE, START + k * MINUTE, _earned([1.0])) for k in range(5)]
    found = beginning_and_lately(periods)
    assert found is not None
    told = as_told(found[0])
    assert (told["average"], told["estimate"], told["error"]) == (1.0, None, None)
    assert beginning_and_lately([]) is None
    assert beginning_and_lately([Period(MINUTE, START, Progress(uploads=1))]) is None


@pytest.mark.parametrize("d", [1, 7, 60])
def test_savings_are_told_by_the_messages_that_fedlinucb_sends(d: int) -> None:
    recipe = FedLinUCB(dimension=d, agents=2)
    empty = recipe.parts.memory.empty().summary
    upload = Upload(0, Statistics(empty, np.zeros(d), 100, Rewards(100)))
    download = Download(Statistics(empty, np.zeros(d), 10_000, Rewards(10_000)), 1000)
    name = wire.fingerprint(recipe)
    up = len(wire.encode_sync(wire.Sync(name, bytes(16), 100, upload)))
    down = len(wire.encode_synced(wire.Synced(name, True, 100, 1000, download)))
    found = savings_of(Progress(uploads=3, copies=1, joins=2, received=50, sent=60), dimension=d)
    room = 6 * 2 * 16  # lengths of arrays are written in one to five bytes
    assert abs(found.fedlinucb - (4 * (up + down) + 2 * down)) <= room
    assert found.sent == 110
    assert found.saved == found.fedlinucb - 110
    assert savings_of(Progress(), dimension=d).times is None
