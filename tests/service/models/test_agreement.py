"""A store whose parts are of different instants is not served."""

from collections.abc import Callable

import pytest

from fedbandit.cli.entry import main
from fedbandit.errors import StoreError
from fedbandit.service.models.agreement import check_agreement
from fedbandit.service.storage.opening import open_store
from tests.service.made_uploads import RECIPE, sync_for
from tests.service.running import client_of, make_model, overwrite, post


@pytest.fixture
def url(store_url: str) -> str:
    make_model(store_url, "news", RECIPE)
    with client_of(store_url) as client:
        for number in range(1, 4):
            post(client, sync_for(RECIPE, number, sequence=number))
    return store_url


def _check(url: str) -> None:
    store = open_store(url)
    try:
        check_agreement(store)
    finally:
        store.close()


def test_what_was_merged_agrees(url: str) -> None:
    make_model(url, "empty", RECIPE)
    _check(url)


def test_more_in_the_records_than_in_the_model_is_refused(url: str) -> None:
    overwrite(url, "UPDATE agents SET uploads = uploads + 70")
    with pytest.raises(StoreError, match=r"Model news has merged 3 uploads, .* 73\. .* mixed up"):
        _check(url)


def test_less_can_be_right(url: str) -> None:
    overwrite(url, "DELETE FROM agents")  # as the advice for unreadable ones says
    _check(url)


def test_such_a_store_is_not_served(
    sqlite_url: Callable[[], str], capsys: pytest.CaptureFixture[str]
) -> None:
    url = sqlite_url()
    make_model(url, "news", RECIPE)
    with client_of(url) as client:
        post(client, sync_for(RECIPE, 1))
    overwrite(url, "UPDATE models SET version = 0")
    assert main(["serve", "--store", url, "--listen", "127.0.0.1:0"]) == 2
    assert "The store is mixed up." in capsys.readouterr().err
