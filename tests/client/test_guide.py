"""What docs/agents.md says can be done, is done: its Python runs, its JSON is answered."""

import json
import re
from pathlib import Path

import pytest

import fedbandit as fb
from fedbandit.cli import main
from fedbandit.service.metrics import _GAUGES, Metrics
from fedbandit.service.private import private_coordinator
from fedbandit.service.serve import connection_gauges
from fedbandit.service.storage.opening import open_store
from tests.client.twin import Twin, joined_to
from tests.edge.sidecar import sidecar

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = (DOCS / "agents.md").read_text(encoding="utf-8")
UNUSED = fb.FSCLB(dimension=3, sketch_size=2, agents=2)  # where the model is made already


@pytest.mark.parametrize("page", ["README.md", "docs/deploy.md"])
def test_the_python_runs_with_the_model_that_is_made(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", GUIDE, flags=re.DOTALL)
    told = (DOCS.parent / page).read_text(encoding="utf-8")
    (made,) = re.findall(r"^fedbandit (model create news .*)$", told, flags=re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    store = f"sqlite:///{tmp_path}/c.db"
    assert main([*made.split(), "--store", store]) == 0
    capsys.readouterr()
    with private_coordinator(store, model="news", recipe=UNUSED) as url:
        exec(block.replace("http://127.0.0.1:8400", url), {})
    assert re.match(r"\d \[", capsys.readouterr().out)
    assert (tmp_path / "phone-7-state" / "journal").exists()
    open_store(store).close()


def test_the_json_is_answered_as_shown() -> None:
    question, reward = re.findall(r"-d '(.*?)'", GUIDE, flags=re.DOTALL)
    (shown,) = re.findall(r"```json\n(.*?)```", GUIDE, flags=re.DOTALL)
    twin = Twin(fb.FSCLB(dimension=50, sketch_size=20, agents=2))
    with sidecar(joined_to(twin)) as client:
        ranked = client.post("/rank", json=json.loads(question))
        assert ranked.status_code == 201
        expected = json.loads(shown)
        found = ranked.json()
        assert found["eventId"] == expected["eventId"]
        assert found["rewardActionId"] == expected["rewardActionId"]
        for ours, theirs in zip(found["ranking"], expected["ranking"], strict=True):
            assert ours == pytest.approx(theirs)
        paid = client.post("/events/visit-81/reward", json=json.loads(reward))
        assert paid.status_code == 204


def test_every_metric_is_explained_and_no_other() -> None:
    page = (DOCS / "deploy.md").read_text(encoding="utf-8")
    told = set(re.findall(r"`(fedbandit_\w+)", page))
    gauges = dict.fromkeys(_GAUGES, 0.0)  # those of a relay too
    assert gauges.keys() >= connection_gauges([]).keys()
    shown = Metrics().text({}, gauges, batches={})
    assert told == set(re.findall(r"^# TYPE (\S+)", shown, flags=re.MULTILINE))
