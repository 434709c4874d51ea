"""How coordinators in this process look at groups: whenever a look is due."""

from functools import partial

import pytest

from fedbandit.service.groups.weighed import WeighedGroups
from fedbandit.service.merging import commit


@pytest.fixture(autouse=True)
def looks_take_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is; tests of what happens while there is no time set a clock."""
    monkeypatch.setattr(commit, "WeighedGroups", partial(WeighedGroups, clock=float))
