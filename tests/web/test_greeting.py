"""Greetings of TLS that would cost a hundred times an honest one are refused, and no others."""

import asyncio
import ssl

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbandit.web.greeting import REFUSAL, is_cheap
from tests.web.certificates import contexts
from tests.web.serving import answer_to, head_of, serving
from tests.web.shaken import greeting

THEIRS = contexts()[1]
CURVES = ["X25519", "P-256", "P-384", "P-521", "X448"]
FIELDS = ["ffdhe2048", "ffdhe3072", "ffdhe4096", "ffdhe6144", "ffdhe8192"]


@settings(max_examples=30)
@given(curves=st.permutations(CURVES), fields=st.lists(st.sampled_from(FIELDS), unique=True))
def test_who_offers_a_curve_is_heard_whatever_else_it_knows(
    curves: list[str], fields: list[str]
) -> None:
    assert is_cheap(greeting(THEIRS, ":".join([*curves[:2], *fields])))


@settings(max_examples=30)
@given(
    fields=st.lists(st.sampled_from(FIELDS), unique=True, min_size=1),
    curves=st.lists(st.sampled_from(CURVES), unique=True),
)
def test_who_offers_a_finite_field_is_not(fields: list[str], curves: list[str]) -> None:
    assert not is_cheap(greeting(THEIRS, ":".join([*fields, *curves])))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("name", ["127.0.0.1", "coordinator.example.com"])
def test_clients_as_they_come_are_heard(version: ssl.TLSVersion, name: str) -> None:
    context = ssl.create_default_context()
    context.maximum_version = version
    assert is_cheap(greeting(context, name=name))


@settings(max_examples=30)
@given(cut=st.integers(0, 600))
def test_half_a_greeting_or_one_in_several_records_is_refused(cut: int) -> None:
    whole = greeting(THEIRS)
    begun = whole[5 : 5 + cut % (len(whole) - 5)]
    assert not is_cheap(whole[:3] + len(begun).to_bytes(2) + begun)


@given(data=st.binary(max_size=300))
def test_whatever_else_comes_is_refused_or_heard_but_never_fails(data: bytes) -> None:
    assert is_cheap(data) in (False, True)


def test_a_gate_refuses_them_before_tls_has_any_work() -> None:
    ours, theirs = contexts()

    async def run() -> tuple[bytes, bytes]:
        async with serving(ours) as port:
            costly = await answer_to([greeting(theirs, "ffdhe8192")], port)
            return costly, await answer_to([head_of("GET", "/nothing")], port, theirs)

    costly, honest = asyncio.run(run())
    assert costly == REFUSAL
    assert honest.startswith(b"HTTP/1.1 404")
