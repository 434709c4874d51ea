"""Corrections that were cut are told: by the status of every agent, and once in the log."""

import logging
from pathlib import Path

import numpy as np
import pytest

import fedbandit as fb
from tests.client.twin import Twin, joined_to


def test_cuts_are_in_the_status_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Rewards of 50 make theta' longer than four times parameter_norm, which is 1."""
    recipe = fb.FSCLB(
        dimension=4,
        sketch_size=3,
        agents=2,
        cadence="buffered",
        estimate="corrected",
        alpha=0.5,
        wire="int8",
    )
    twin, rng = Twin(recipe), np.random.default_rng(0)
    with (
        caplog.at_level(logging.WARNING, logger="fedbandit"),
        joined_to(twin, state_dir=tmp_path) as agent,
    ):
        assert agent.status().cut == 0
        for _ in range(60):
            decision = agent.decide(rng.standard_normal((3, 4)))
            agent.reward(decision.id, 50.0)
            agent.sync(timeout=5.0)
        cut = agent.status().cut
    assert cut == twin.server.statistics.cut > 0
    assert sum("were cut" in record.getMessage() for record in caplog.records) == 1
    with joined_to(twin, state_dir=tmp_path) as again:
        assert again.status().cut == cut
