"""Learners of other packages: what is asked for where a package is missing."""

import sys

import pytest

from fedbandit.errors import MissingExtra
from fedbandit.peers import PEERS

PACKAGES = {
    "VowpalWabbit": "vowpalwabbit",
    "MABWiser": "mabwiser",
    "ContextualBandits": "contextualbandits",
}


@pytest.mark.parametrize("name", PEERS)
def test_a_missing_package_is_named_with_its_extra(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, PACKAGES[name], None)
    with pytest.raises(MissingExtra, match=rf"{PACKAGES[name]}.*pip install 'fedbandit\[peers\]'"):
        PEERS[name]()
