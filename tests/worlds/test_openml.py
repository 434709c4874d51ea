"""OpenML, played by a real HTTP server on this machine."""

import hashlib
import json
import shutil
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedbandit.errors import DataError, MissingExtra, OutputError
from fedbandit.worlds import Classification, load_dataset
from fedbandit.worlds.recorded.openml import cache_directory

HEADER = "@relation toy\n@attribute a numeric\n@attribute b real\n@attribute class {10,9,2}\n"
ROWS = "1.5,-2,10\n2,0.5,9\n3,0,2\n4,1,9\n"
COLUMNS = [("a", "numeric"), ("b", "numeric"), ("class", "nominal")]
NUMBERS_ONLY = {
    "arff": "@relation toy\n@attribute a numeric\n@attribute b real\n@data\n1,-2\n2,0.5\n3,0\n",
    "columns": COLUMNS[:2],
}


@dataclass
class OpenML:
    """What the server answers, by path, and what it has been asked."""

    address: str
    answers: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def publish(
        self,
        data_id: int,
        arff: str = HEADER + "@data\n" + ROWS,
        *,
        columns: list[tuple[str, str]] = COLUMNS,
        targets: tuple[str, ...] = ("class",),
        md5: str | None = None,
        form: str = "ARFF",
    ) -> None:
        file = f"/data/v1/download/{data_id}/toy.arff"
        description = {
            "id": str(data_id),
            "name": "toy",
            "version": "1",
            "description": "a toy",
            "format": form,
            "status": "active",
            "url": self.address + file,
            "md5_checksum": md5 or hashlib.md5(arff.encode()).hexdigest(),
        }
        features = [
            {
                "index": str(index),
                "name": name,
                "data_type": kind,
                "is_target": str(name in targets).lower(),
                "is_ignore": "false",
                "is_row_identifier": "false",
                "number_of_missing_values": "0",
            }
            for index, (name, kind) in enumerate(columns)
        ]
        rows = len(arff.partition("@data\n")[2].splitlines())
        quality = [{"name": "NumberOfInstances", "value": str(rows)}]
        for path, content in (
            ("", {"data_set_description": description}),
            ("features/", {"data_features": {"feature": features}}),
            ("qualities/", {"data_qualities": {"quality": quality}}),
        ):
            self.answers[f"/api/v1/json/data/{path}{data_id}"] = json.dumps(content).encode()
        self.answers[file] = arff.encode()


@pytest.fixture
def openml(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[OpenML]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.asked.append(self.path)
            answer = served.answers.get(self.path)
            self.send_response(412 if answer is None else 200)
            self.end_headers()
            self.wfile.write(answer or b"{}")

        def log_message(self, format: str, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served = OpenML(f"http://127.0.0.1:{server.server_port}")
        point_scikit_learn_at(served.address, monkeypatch)
        monkeypatch.setenv("FEDBANDIT_CACHE", str(tmp_path / "cache"))
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield served
        server.shutdown()
        thread.join()


def point_scikit_learn_at(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.datasets import _openml  # scikit-learn has no public way to ask elsewhere

    for name, path in (
        ("_DATA_INFO", ""),
        ("_DATA_FEATURES", "features/"),
        ("_DATA_QUALITIES", "qualities/"),
    ):
        monkeypatch.setattr(_openml, name, f"{address}/api/v1/json/data/{path}{{}}")
    monkeypatch.setenv("no_proxy", "*")


def test_a_data_set_by_its_number(openml: OpenML) -> None:
    openml.publish(22)
    data = load_dataset("openml:22")
    assert data.name == "openml:22"
    assert data.classes == ("2", "9", "10")
    assert data.labels.tolist() == [2, 1, 0, 1]
    np.testing.assert_array_equal(data.features, [[1.5, -2], [2, 0.5], [3, 0], [4, 1]])
    assert load_dataset("OpenML:22") == data
    assert Classification(data="openml:22", target="10").params["digest"] == data.digest


def test_the_second_load_needs_no_server(openml: OpenML, tmp_path: Path) -> None:
    openml.publish(22)
    first = load_dataset("openml:22")
    asked = len(openml.asked)
    openml.answers.clear()
    assert load_dataset("openml:22") == first
    assert len(openml.asked) == asked
    with pytest.raises(DataError, match="openml:22"):
        load_dataset("openml:22", cache=tmp_path / "another")


def test_a_cached_file_that_was_damaged_is_fetched_again(openml: OpenML, tmp_path: Path) -> None:
    openml.publish(22)
    first = load_dataset("openml:22")
    (cached,) = (tmp_path / "cache").rglob("toy.arff.gz")
    cached.write_bytes(b"damaged")
    assert load_dataset("openml:22") == first
    assert openml.asked.count("/data/v1/download/22/toy.arff") == 2


def test_a_wrong_checksum(openml: OpenML, tmp_path: Path) -> None:
    openml.publish(22, md5="0" * 32)
    cache = tmp_path / "cache"
    with pytest.raises(DataError, match=r"openml:22: got ValueError .*md5") as caught:
        load_dataset("openml:22")
    assert f"remove {cache / 'openml'} and" in str(caught.value)
    assert "satimage, mfeat-zernike" in str(caught.value)
    shutil.rmtree(cache / "openml")
    openml.publish(22)
    assert len(load_dataset("openml:22").labels) == 4


def test_an_unknown_number(openml: OpenML) -> None:
    with pytest.raises(
        DataError, match=r"openml:404: got OpenMLError .*not found.*Check the number"
    ) as caught:
        load_dataset("openml:404")
    assert "remove" not in str(caught.value)
    assert openml.asked == ["/api/v1/json/data/404"]


def test_nobody_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        address = f"http://127.0.0.1:{server.server_port}"
    point_scikit_learn_at(address, monkeypatch)
    with pytest.raises(DataError, match=r"openml:22: got URLError .*download it by hand"):
        load_dataset("openml:22", cache=tmp_path)


@pytest.mark.parametrize(
    ("published", "message"),
    [
        (
            {"arff": HEADER + "@data\n" + ROWS.replace("-2", "?")},
            "got nan in feature column 1, row 0",
        ),
        ({"arff": HEADER + "@data\n1,2,blue\n"}, "got BadNominalValue"),
        ({"targets": ()}, "feature columns that are categories .class."),
        ({"targets": ("a", "b", "class")}, "got ValueError"),
        ({**NUMBERS_ONLY, "targets": ("a", "b")}, "got 2 default label columns"),
        ({**NUMBERS_ONLY, "targets": ("b",)}, "the label 0.5 .*measurement"),
        ({"columns": [*COLUMNS[:2], ("class", "string")]}, "STRING attributes"),
        (
            {"arff": HEADER + "@data\n{0 1,2 9}\n{1 1,2 2}\n{0 3,2 9}\n", "form": "Sparse_ARFF"},
            "got a sparse file",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_world_cannot_use(openml: OpenML, published: dict[str, Any], message: str) -> None:
    openml.publish(5, **published)
    with pytest.raises(DataError, match=rf"openml:5.*{message}"):
        load_dataset("openml:5")


@pytest.mark.parametrize(
    "source", ["openml:", "openml:iris", "openml:-3", "openml:0", "openml:1.5"]
)
def test_a_number_is_needed(source: str) -> None:
    with pytest.raises(DataError, match=f"got '{source}'; expected openml: and the number"):
        load_dataset(source)


def test_a_cache_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputError, match=r"cache directory .*Set FEDBANDIT_CACHE"):
        load_dataset("openml:22", cache=tmp_path / "file" / "cache")


def test_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(MissingExtra, match=r"scikit-learn.*pip install 'fedbandit\[openml\]'"):
        load_dataset("openml:22")


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"FEDBANDIT_CACHE": "/chosen"}, "/chosen"),
        ("linux", {"XDG_CACHE_HOME": "/shared"}, "/shared/fedbandit"),
        ("linux", {}, "/home/me/.cache/fedbandit"),
        ("darwin", {}, "/home/me/Library/Caches/fedbandit"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/fedbandit"),
        ("win32", {}, "/home/me/AppData/Local/fedbandit"),
    ],
)
def test_where_downloads_are_kept(
    monkeypatch: pytest.MonkeyPatch, platform: str, variables: dict[str, str], expected: str
) -> None:
    for name in ("FEDBANDIT_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/home/me", **variables}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert cache_directory() == Path(expected)
