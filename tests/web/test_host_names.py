"""Which names a server takes for its own."""

import pytest

from fedbandit.web.host_names import LOCAL, HostNames
from tests.web.hosts import OURS, STRANGERS


@pytest.mark.parametrize("name", OURS)
def test_who_listens_elsewhere_answers_to_that_and_to_local_names(name: str) -> None:
    assert LOCAL.include(name)
    assert HostNames(listen="10.0.0.1").include(name)


def test_who_listens_everywhere_answers_to_any_number() -> None:
    for listen in ("0.0.0.0", "::"):
        assert HostNames(listen=listen).include("10.0.0.1:8401")
        assert HostNames(listen=listen).include("[fe80::1]:8401")
        assert not HostNames(listen=listen).include("evil.example")
    assert HostNames(listen="10.0.0.1").include("10.0.0.1:8401")
    assert not HostNames(listen="10.0.0.1").include("10.0.0.2")
    assert HostNames(listen="box.local").include("BOX.local:80")
    assert not HostNames(listen="box.local").include("10.0.0.2")


@pytest.mark.parametrize("name", STRANGERS)
def test_other_names_are_not_its_own(name: str) -> None:
    assert not LOCAL.include(name)
