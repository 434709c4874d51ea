"""What every store must do with tokens and codes; part of ``StoreContract``."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import pytest

from fedbandit.core.algorithms.baselines import FedLinUCB
from fedbandit.core.algorithms.fsclb import FSCLB
from fedbandit.errors import InvalidParameter
from fedbandit.service.bookkeeping.token import MOST_TOKENS, Token, TooManyTokens
from fedbandit.service.models.model import new_model
from fedbandit.service.storage.contract import Store

NEWS, NEWS_STATE = new_model("news", FSCLB(dimension=4, sketch_size=3, agents=2))
SHOP, SHOP_STATE = new_model("shop", FedLinUCB(dimension=3, agents=2))
PHONE = Token(digest=bytes(32), name="phone", model="news", agent="phone-7", created=1.5)
ADMIN = Token(digest=b"\xff" * 32, name="boss", model=None, agent=None, created=2.5)


class TokenContract:
    """Tests of tokens, by the words of ``fedbandit.service.storage.contract.Store``."""

    def test_a_lock_says_nothing_of_tokens_that_are_over_and_of_codes(self, store: Store) -> None:
        store.create(NEWS, NEWS_STATE)
        good = replace(PHONE, expires=time.time() + 1e6)
        over = replace(PHONE, digest=b"3" * 32, name="over", expires=time.time() - 1.0)
        code = replace(PHONE, digest=b"4" * 32, name="code", code=True)
        for token in (good, over, code):
            store.add_token(token)
        with store.lock("news") as locked:
            found = locked.opened([each.digest for each in (good, over, code)])
        assert found == {good.digest: "phone-7"}

    def test_a_token_is_kept_with_all_its_times(self, store: Store) -> None:
        store.create(NEWS, NEWS_STATE)
        token = replace(PHONE, expires=7.25, used=6.5, lifetime=86400.0, code=True)
        store.add_token(token)
        assert store.token(PHONE.digest) == token
        assert store.tokens() == store.archive("news").tokens == [token]

    def test_a_token_that_has_a_successor_ends(self, store: Store) -> None:
        store.create(NEWS, NEWS_STATE)
        store.add_token(PHONE)
        heirs = [replace(PHONE, digest=bytes([k] * 32), name=f"heir-{k}") for k in range(1, 6)]
        soon = float(int(time.time()) + 50_000)
        assert store.succeed(PHONE.digest, heirs[0], ends=soon)
        assert store.token(PHONE.digest) == replace(PHONE, expires=soon)
        assert store.succeed(PHONE.digest, heirs[1], ends=soon + 9)  # no later than it would have
        assert store.token(PHONE.digest) == replace(PHONE, expires=soon)
        assert store.succeed(PHONE.digest, heirs[2], ends=None)
        assert store.token(PHONE.digest) is None
        assert not store.succeed(PHONE.digest, heirs[3], ends=None)  # once
        assert [each.name for each in store.tokens()] == ["heir-1", "heir-2", "heir-3"]
        with pytest.raises(InvalidParameter):
            store.succeed(heirs[0].digest, replace(heirs[4], name="heir-2"), ends=None)
        assert store.token(heirs[0].digest) == heirs[0]

    def test_an_agent_has_no_end_of_tokens_and_those_that_are_over_make_room(
        self, store: Store
    ) -> None:
        store.create(NEWS, NEWS_STATE)
        store.add_token(PHONE)
        forever, until = time.time() + 1e6, time.time() - 1.0

        def heir(number: int, expires: float) -> Token:
            digest = number.to_bytes(32, "big")
            return replace(PHONE, digest=digest, name=f"heir-{number}", expires=expires)

        for number in range(1, MOST_TOKENS + 1):
            assert store.succeed(PHONE.digest, heir(number, forever), ends=forever)
        before = store.tokens()
        with pytest.raises(TooManyTokens):
            store.succeed(PHONE.digest, heir(99, forever), ends=forever)
        assert store.tokens() == before
        store.revoke("heir-1")
        store.add_token(heir(50, until))
        assert store.succeed(PHONE.digest, heir(99, forever), ends=forever)
        assert "heir-50" not in [token.name for token in store.tokens()]

    def test_an_agent_that_exchanges_many_tokens_at_once_has_no_more_of_them(
        self, store: Store
    ) -> None:
        store.create(NEWS, NEWS_STATE)
        first = [replace(PHONE, digest=bytes([k] * 32), name=f"t{k}") for k in range(MOST_TOKENS)]
        for token in first:
            store.add_token(token)
        forever, begin = time.time() + 1e6, Barrier(MOST_TOKENS)

        def exchange(token: Token) -> bool:
            digest = bytes([token.digest[0] + 100] * 32)
            begin.wait()
            try:
                heir = replace(token, digest=digest, name=f"{token.name}-heir")
                return store.succeed(token.digest, heir, ends=forever)
            except TooManyTokens:
                return False

        with ThreadPoolExecutor(MOST_TOKENS) as pool:
            won = list(pool.map(exchange, first))
        assert won.count(True) == 1
        assert len(store.tokens()) == MOST_TOKENS + 1

    def test_of_many_that_redeem_one_code_one_gets_a_token(self, store: Store) -> None:
        store.create(NEWS, NEWS_STATE)
        store.add_token(replace(PHONE, code=True))
        heirs = [replace(PHONE, digest=bytes([k] * 32), name=f"heir-{k}") for k in range(1, 9)]
        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(lambda heir: store.succeed(PHONE.digest, heir, ends=None), heirs))
        assert won.count(True) == 1
        assert store.tokens() == [heirs[won.index(True)]]

    def test_uses_of_tokens_are_noted(self, store: Store) -> None:
        store.create(NEWS, NEWS_STATE)
        store.add_token(PHONE)
        store.add_token(ADMIN)
        store.note_uses({PHONE.digest: 9.5, b"unknown" + bytes(25): 9.5})
        assert store.tokens() == [ADMIN, replace(PHONE, used=9.5)]

    def test_tokens_are_found_by_their_digest_until_they_are_revoked(self, store: Store) -> None:
        store.create(NEWS, NEWS_STATE)
        store.add_token(PHONE)
        store.add_token(ADMIN)
        assert store.token(PHONE.digest) == PHONE
        assert store.token(ADMIN.digest) == ADMIN
        assert store.token(b"1" * 32) is None
        assert store.tokens() == [ADMIN, PHONE]
        with pytest.raises(InvalidParameter, match="Token 'phone' exists already"):
            store.add_token(replace(PHONE, digest=b"1" * 32))
        store.revoke("phone")
        assert store.token(PHONE.digest) is None
        assert store.tokens() == [ADMIN]

    def test_a_lock_says_whom_tokens_of_its_model_open(self, store: Store) -> None:
        store.create(NEWS, NEWS_STATE)
        store.create(SHOP, SHOP_STATE)
        other = replace(PHONE, digest=b"\x01" * 32, name="other", model="shop")
        for token in (PHONE, ADMIN, other):
            store.add_token(token)
        with store.lock("news") as locked:
            digests = [PHONE.digest, ADMIN.digest, other.digest, b"\x02" * 32]
            assert locked.opened(digests) == {PHONE.digest: "phone-7"}
            assert locked.opened([]) == {}
