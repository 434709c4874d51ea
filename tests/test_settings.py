"""``--set NAME=VALUE``: what it means, and what it refuses."""

from argparse import ArgumentTypeError
from typing import Any

import pytest

from fedbandit.cli.settings import setting, settings


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (["alpha=2"], {"alpha": 2}),
        (["alpha = 2.5"], {"alpha": 2.5}),
        (["target=yes"], {"target": "yes"}),
        (["target='5'"], {"target": "5"}),
        (['target="a b"'], {"target": "a b"}),
        (["target=a \\ b 'ä' = 😀"], {"target": "a \\ b 'ä' = 😀"}),
        (["unbiased=true", "budget=none"], {"unbiased": True, "budget": "none"}),
        (["bounds.noise=0.1", "bounds.delta=0.2"], {"bounds": {"noise": 0.1, "delta": 0.2}}),
        (["bounds={noise=0.1}"], {"bounds": {"noise": 0.1}}),
        ([], {}),
    ],
)
def test_a_value_is_that_of_a_spec_file_or_a_text(written: list[str], meant: Any) -> None:
    assert settings(map(setting, written)) == meant


@pytest.mark.parametrize("written", ["", "=", "alpha", "alpha=", "=2", "a b=2", "[a]=2", "a.=2"])
def test_other_words_are_refused(written: str) -> None:
    with pytest.raises(ArgumentTypeError, match="expected NAME=VALUE"):
        setting(written)
