"""Events survive a journey through the formats of others, and broken ones are counted."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings

from fedbandit.errors import DataError, OutputError, UnknownName
from fedbandit.features.flat import flat
from fedbandit.features.spec import PLAIN
from fedbandit.logs import Event, convert, read
from tests.logs.made_logs import events, same, write

DSJSON = """{"_label_cost":-1,"_label_probability":0.8,"_label_Action":2,"_labelIndex":1,\
"Timestamp":"2026-11-01T10:00:00.0000000Z","EventId":"e1","a":[2,1],"c":{"hour":{"of":"day"},\
"_multi":[{"_tag":"pasta","taste":"salty"},{"_tag":"ice","taste":"sweet"}]},"p":[0.8,0.2]}"""
RANK = """{"eventId":"e2","contextFeatures":[{"time":"morning"}],"actions":[{"id":"a","features":\
[{"topic":"sport"}]},{"id":"b","features":[{"topic":"news"}]}],"rewardActionId":"b",\
"ranking":[{"id":"b","probability":0.9},{"id":"a","probability":0.1}],"reward":0.5}"""
TEXT = """shared |user age:0.5 lang=de
|item price:2
0:-1.5:0.25 |item:2 price:3 new

|a x
"""


@given(events(named=False))
@settings(max_examples=10, deadline=None)
def test_arms_come_back_from_every_format(given: list[Event]) -> None:
    for to in ("vw", "personalizer", "ndjson", "parquet"):
        found = _there_and_back(given, to)
        assert all(map(same, given, found)), to


@given(events(named=True))
@settings(max_examples=10, deadline=None)
def test_named_features_come_back_as_the_same_terms(given: list[Event]) -> None:
    for to in ("vw", "personalizer"):
        for one, other in zip(given, _there_and_back(given, to), strict=True):
            assert _terms(one.context) == _terms(other.context), to
            assert one.actions is not None
            assert other.actions is not None
            for action, again in zip(one.actions, other.actions, strict=True):
                assert (action.id, _terms(action.features)) == (again.id, _terms(again.features))
            assert (one.chosen, one.probability) == (other.chosen, other.probability)
            assert one.reward == other.reward


def _there_and_back(given: list[Event], to: str) -> list[Event]:
    with TemporaryDirectory() as name:
        place = Path(name)
        write(place / "log", given)
        there = place / ("there.parquet" if to == "parquet" else "there")
        convert(place / "log", there, to=to)
        if to in ("ndjson", "parquet"):
            return list(read(there))
        tally = convert(there, place / "back.ndjson", source=to)
        assert not tally.skipped
        return list(read(place / "back.ndjson"))


def _terms(features: object) -> dict[str, float]:
    """Return what is hashed: the sum of the values of every name."""
    found: dict[str, float] = {}
    for each in flat(features, PLAIN, field="features"):
        found[each.name] = found.get(each.name, 0.0) + each.value
    return found


def test_vw_text_is_read_with_its_namespaces(tmp_path: Path) -> None:
    (tmp_path / "data.vw").write_text(TEXT)
    tally = convert(tmp_path / "data.vw", tmp_path / "log.ndjson", source="vw")
    (event,) = read(tmp_path / "log.ndjson")
    assert (event.chosen, event.probability, event.reward) == (1, 0.25, 1.5)
    assert event.context == {"user.age": 0.5, "user.lang=de": 1.0}
    assert event.actions is not None
    assert event.actions[1].features == {"item.price": 6.0, "item.new": 2.0}
    assert tally.skipped == {"no action with a label": 1}


@pytest.mark.parametrize(("line", "reward", "chosen"), [(DSJSON, 1.0, "ice"), (RANK, 0.5, "b")])
def test_both_forms_of_personalizer_are_read(
    tmp_path: Path, line: str, reward: float, chosen: str
) -> None:
    (tmp_path / "data.json").write_text(line + "\n")
    convert(tmp_path / "data.json", tmp_path / "log.ndjson", source="personalizer")
    (event,) = read(tmp_path / "log.ndjson")
    assert event.actions is not None
    assert (event.actions[event.chosen].id, event.reward) == (chosen, reward)


@pytest.mark.parametrize(
    ("source", "text", "reason"),
    [
        ("vw", "shared |c a\n0:x:0.5 |a b\n", "a label that is not ACTION:COST:PROBABILITY"),
        ("vw", "shared |c a\n0:1:0 |a b\n", "a chosen arm whose logged probability is 0"),
        ("vw", "0:1:0.5 |a b:nan\n", "a feature that is not finite"),
        ("vw", "0:1:0.5 |a b:x\n", "a feature whose value is no number"),
        ("personalizer", RANK.replace("0.9", "0"), "a chosen arm whose logged probability is 0"),
        (
            "personalizer",
            RANK.replace('"id":"b","f', '"id":"a","f'),
            "the id of an action came twice",
        ),
        ("personalizer", RANK.replace(',"reward":0.5', ""), "no reward"),
        ("personalizer", RANK.replace('"rewardActionId":"b"', '"rewardActionId":"z"'), "among"),
        ("personalizer", '{"c":{}}', "'_multi' is missing"),
        ("personalizer", "[1]", "a line that is no object"),
        ("personalizer", "{", "a line that cannot be read"),
    ],
)
def test_what_cannot_be_used_is_counted(
    tmp_path: Path, source: str, text: str, reason: str
) -> None:
    good = {"vw": "\nshared |c a\n0:1:0.5 |a b\n", "personalizer": "\n" + RANK + "\n"}[source]
    (tmp_path / "data").write_text(text + good)
    tally = convert(tmp_path / "data", tmp_path / "out.ndjson", source=source)
    assert tally.events == 1
    assert len(tally.skipped) == 1
    assert reason in next(iter(tally.skipped))


def test_a_file_of_another_kind_and_a_file_that_is_there_are_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("id,price\n1,2\n")
    for source in ("vw", "personalizer", "log"):
        with pytest.raises(DataError, match="data: got"):
            convert(tmp_path / "data", tmp_path / "out", source=source)
        assert not (tmp_path / "out").exists()
    with pytest.raises(OutputError, match="is there already"):
        convert(tmp_path / "data", tmp_path / "data", source="vw")
    with pytest.raises(UnknownName, match="one of ndjson, parquet, personalizer, vw"):
        convert(tmp_path / "data", tmp_path / "out", to="wv")


def test_minus_zero_is_no_reward(tmp_path: Path) -> None:
    (tmp_path / "data.vw").write_text("0:0:0.5 |a b\n")
    convert(tmp_path / "data.vw", tmp_path / "log.ndjson", source="vw")
    (event,) = read(tmp_path / "log.ndjson")
    assert not np.signbit(event.reward)
