"""Data sets in local files."""

import pickle
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from fedbandit.errors import DataError, InvalidParameter, MissingExtra, UnknownName
from fedbandit.worlds import Classification, Dataset, load_dataset

TABLE = {
    "width": [1.5, 2.0, -3.25, 4.0],
    "count": [3, 1, 4, 1],
    "odd": [True, False, True, False],
    "kind": ["b", "a", "b", "b"],
}
EXPECTED = Dataset(
    "whatever",
    np.array([[1.5, 3, 1], [2, 1, 0], [-3.25, 4, 1], [4, 1, 0]]),
    np.array([1, 0, 1, 1]),
    ("a", "b"),
)
CSV = "width,count,odd,kind\n1.5,3,true,b\n2.0,1,false,a\n-3.25,4,true,b\n4.0,1,false,b\n"


def write(path: Path, content: str | bytes) -> Path:
    if isinstance(content, str):
        content = content.encode()
    path.write_bytes(content)
    return path


def same(data: Dataset, name: str) -> bool:
    return data == Dataset(name, EXPECTED.features, EXPECTED.labels, EXPECTED.classes)


def test_csv(tmp_path: Path) -> None:
    path = write(tmp_path / "toy.csv", CSV)
    assert same(load_dataset(str(path)), "toy.csv")
    assert same(load_dataset(path), "toy.csv")


def test_parquet(tmp_path: Path) -> None:
    table = pa.table(TABLE)
    parquet.write_table(table, tmp_path / "toy.parquet")
    assert same(load_dataset(tmp_path / "toy.parquet"), "toy.parquet")


def test_parquet_with_a_dictionary_of_labels(tmp_path: Path) -> None:
    table = pa.table({**TABLE, "kind": pa.array(TABLE["kind"]).dictionary_encode()})
    parquet.write_table(table, tmp_path / "toy.PARQUET")
    assert same(load_dataset(tmp_path / "toy.PARQUET"), "toy.PARQUET")


def test_npz(tmp_path: Path) -> None:
    np.savez(tmp_path / "toy.npz", X=EXPECTED.features, y=np.array(TABLE["kind"]))
    assert same(load_dataset(tmp_path / "toy.npz"), "toy.npz")


@pytest.mark.parametrize("extension", ["csv", "parquet"])
def test_labels_in_another_column(tmp_path: Path, extension: str) -> None:
    path = tmp_path / f"toy.{extension}"
    table = pa.table({name: TABLE[name] for name in ("kind", "width", "count", "odd")})
    if extension == "csv":
        csv.write_csv(table, path)
    else:
        parquet.write_table(table, path)
    assert same(load_dataset(path, target_column="kind"), path.name)
    world = Classification(data=str(path), target="b", target_column="kind")
    assert world.params["digest"] == EXPECTED.digest
    assert world.params["target"] == 1
    with pytest.raises(UnknownName, match=r"target column of toy\..*Did you mean 'kind'"):
        load_dataset(path, target_column="kinds")


def test_a_path_in_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    write(tmp_path / "toy.csv", CSV)
    assert same(load_dataset("~/toy.csv"), "toy.csv")


def test_a_file_that_moved_is_the_same_world(tmp_path: Path) -> None:
    first = write(tmp_path / "toy.csv", CSV)
    (tmp_path / "elsewhere").mkdir()
    second = write(tmp_path / "elsewhere" / "toy.csv", CSV)
    assert Classification(data=first).params == Classification(data=second).params


def test_a_header_that_counts_columns_is_a_header(tmp_path: Path) -> None:
    path = write(tmp_path / "toy.csv", "0,1\n0.5,1\n0.25,2\n0.75,1\n")
    assert load_dataset(path).features.ravel().tolist() == [0.5, 0.25, 0.75]


def test_features_that_are_counted_may_stand_beside_named_labels(tmp_path: Path) -> None:
    path = write(tmp_path / "toy.csv", "0,1,kind\n0.5,1,a\n0.25,2,b\n0.75,1,a\n")
    assert load_dataset(path).features.tolist() == [[0.5, 1], [0.25, 2], [0.75, 1]]


@pytest.mark.parametrize(
    ("written", "classes"),
    [
        (("01", "1"), ("01", "1")),
        (("1E2", "100"), ("100", "1E2")),
        (("9007199254740992", "9007199254740993"), ("9007199254740992", "9007199254740993")),
        (("10.0", " 9"), ("9", "10")),
        (("true", "false"), ("false", "true")),
    ],
)
def test_labels_are_read_as_they_are_written(
    tmp_path: Path, written: tuple[str, str], classes: tuple[str, str]
) -> None:
    one, other = written
    path = write(tmp_path / "toy.csv", f"a,kind\n1,{one}\n2,{other}\n3,{one}\n")
    data = load_dataset(path)
    assert data.classes == classes
    assert data.labels[0] == data.labels[2] != data.labels[1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "does not read"),
        ("a,kind\n", "got no rows"),
        ("a,kind\n1,x\n2\n", "does not read"),
        ("a,kind\n1,x\nred,y\n2,x\n", r"column 'a' of type string \('red', say\); .* numbers"),
        ('a,kind\n"1,5",x\n"2,5",y\n"3,5",x\n', r"\('1,5', say\); expected .*decimal points"),
        ("a;b;kind\n1;2;x\n2;3;y\n3;4;x\n", "separated by ';'; expected commas"),
        ("a;b;kind\n1,5;2;x\n2,5;3;y\n3;4;x\n", "separated by ';'; expected commas"),
        ("a\tb\tkind\n1\t2\tx\n", r"separated by '\\t'; expected commas"),
        ("a,kind\n1,x\n,y\n2,x\n", "got nan in feature column 'a', row 1"),
        ("a,b,kind\n1,1,x\n2,inf,y\n2,1,x\n", "got inf in feature column 'b', row 1"),
        ("a,kind\n1,x\n2,\n3,x\n", "got the label None in row 1"),
        ("a,kind\n1,x\n2,x\n3,x\n", "got 1 class; expected two or more classes"),
        ("a,kind\n1,x\n2,y\n", "2 rows in 2 classes"),
        ("a,kind\n1,0.25\n2,0.5\n3,0.5\n", r"the label 0\.25 .*measurement"),
        ("kind\nx\ny\nx\n", r"features of shape \(3, 0\)"),
        ("5.1,3.5,0\n4.9,3.0,1\n4.7,3.2,0\n", "a first line with numbers"),
        ("5.1,3.5,setosa\n4.9,3.0,virginica\n4.7,3.2,setosa\n", "a first line with numbers"),
        (b"\xff\xfe\x00,kind\n1,x", "does not read"),
    ],
)
def test_csv_that_is_no_data_set(tmp_path: Path, content: str | bytes, message: str) -> None:
    path = write(tmp_path / "bad.csv", content)
    with pytest.raises(DataError, match=rf"bad\.csv.*{message}"):
        load_dataset(path)


def test_parquet_that_does_not_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"bad\.parquet: got a file that does not read"):
        load_dataset(write(tmp_path / "bad.parquet", "PAR1 not really"))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": np.eye(3)}, "got arrays X; expected features 'X'"),
        ({}, "got arrays none"),
        ({"X": np.eye(3), "y": np.array([1, 2])}, r"labels of shape \(2,\)"),
        ({"X": np.eye(3), "y": np.array([1, 2, 2], dtype=object)}, "without pickled objects"),
        ({"X": np.array([["a"], ["b"], ["c"]]), "y": np.array([1, 2, 2])}, "type <U1"),
    ],
)
def test_npz_that_is_no_data_set(
    tmp_path: Path, arrays: dict[str, np.ndarray], message: str
) -> None:
    np.savez(tmp_path / "bad.npz", allow_pickle=True, **arrays)
    with pytest.raises(DataError, match=rf"bad\.npz.*{message}"):
        load_dataset(tmp_path / "bad.npz")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04torn", b"not a zip"])
def test_npz_that_does_not_read(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(DataError, match=r"bad\.npz: got a file that does not read"):
        load_dataset(write(tmp_path / "bad.npz", content))


def test_npz_that_is_one_array_in_disguise(tmp_path: Path) -> None:
    with (tmp_path / "bad.npz").open("wb") as file:
        np.save(file, np.eye(2))
    with pytest.raises(DataError, match=r"bad\.npz"):
        load_dataset(tmp_path / "bad.npz")


@pytest.mark.parametrize("name", ["gone.csv", "gone.npz", "some/where/gone.parquet"])
def test_a_file_that_is_not_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=r"gone.*No such file.*Check the path"):
        load_dataset(tmp_path / name)


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match=r"folder\.csv: got Is a directory"):
        load_dataset(tmp_path / "folder.csv")


@pytest.mark.parametrize("name", ["x" * 300 + ".csv", "x\0.csv", "~nobody-of-that-name/x.csv"])
def test_a_path_that_cannot_be_one(name: str) -> None:
    with pytest.raises(DataError, match=r"data file .*Check the path"):
        load_dataset(name)


@pytest.mark.parametrize("name", ["mydata", "OpenMl", "\0"])
def test_a_name_that_nobody_knows_is_told_every_form(name: str) -> None:
    with pytest.raises(UnknownName, match=r"\.csv, \.parquet or \.npz.*openml:ID.*satimage"):
        load_dataset(name)


@pytest.mark.parametrize("name", ["data.xlsx", "data.txt", "folder/data"])
def test_an_extension_that_nobody_reads(name: str) -> None:
    with pytest.raises(DataError, match=r"expected one of \.csv, \.parquet, \.npz"):
        load_dataset(name)


@pytest.mark.parametrize("source", ["satimage", "openml:22", "toy.npz"])
def test_only_tables_have_a_target_column(source: str) -> None:
    with pytest.raises(InvalidParameter, match=f"target_column: got 'kind' for '{source}'"):
        load_dataset(source, target_column="kind")


@pytest.mark.parametrize("name", ["toy.csv", "toy.parquet"])
def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"pyarrow.*pip install 'fedbandit\[lab\]'"):
        load_dataset(write(tmp_path / name, CSV))


@pytest.mark.parametrize(
    ("content", "target"),
    [
        ("label,a,b\n0,1.5,2\n1,2.5,3\n0,3.5,2\n", 0),
        ("a,b,c\n1.5,2.5,0\n1.0,2.0,1\n2.0,3.0,0\n", 2),
        ("a,b,Target\n1,2,0\n1,2,1\n2,3,0\n", 2),
        ("a,b,c\n1,2,x\n1,2,y\n2,3,x\n", 2),
    ],
)
def test_a_clear_target_is_taken(tmp_path: Path, content: str, target: int) -> None:
    data = load_dataset(write(tmp_path / "toy.csv", content))
    header = content.partition("\n")[0].split(",")
    assert data.label_name == header[target]
    assert data.feature_names == tuple(header[:target] + header[target + 1 :])


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("c0,c1,c2\n0,1,2\n1,1,3\n0,2,2\n", "'c0', 'c1', 'c2'"),
        ("label,y,a\n0,0,1.5\n1,1,2.5\n0,0,3.5\n", "'label', 'y'"),
    ],
)
def test_an_unclear_target_is_asked_for(tmp_path: Path, content: str, named: str) -> None:
    path = write(tmp_path / "toy.csv", content)
    with pytest.raises(DataError, match=rf"could be the labels: {named}.*target_column = "):
        load_dataset(path)
    first = content.partition(",")[0]
    assert load_dataset(path, target_column=first).label_name == first


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_an_index_that_pandas_wrote_is_refused(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "toy.csv", f"{name},a,kind\n0,1,x\n1,2,y\n2,3,x\n")
    with pytest.raises(DataError, match=r"counts the rows.*index=False"):
        load_dataset(path, target_column="kind")


def test_an_index_in_parquet_is_refused(tmp_path: Path) -> None:
    table = pa.table({"a": [1.0, 2.0], "y": [0, 1], "__index_level_0__": [0, 1]})
    parquet.write_table(table, tmp_path / "toy.parquet")
    with pytest.raises(DataError, match="counts the rows"):
        load_dataset(tmp_path / "toy.parquet")


def test_text_becomes_numbers_when_asked(tmp_path: Path) -> None:
    path = write(tmp_path / "toy.csv", "colour,size,kind\nred,1,x\nblue,2,y\nred,3,x\n,4,y\n")
    with pytest.raises(DataError, match=r"target_column: 'colour', 'kind'.*one-hot.*hashed"):
        load_dataset(path)
    data = load_dataset(path, categories="one-hot")
    assert data.feature_names == ("colour=", "colour=blue", "colour=red", "size")
    assert data.features.tolist() == [[0, 0, 1, 1], [0, 1, 0, 2], [0, 0, 1, 3], [1, 0, 0, 4]]
    places = load_dataset(path, categories="hashed").features[:, :-1]
    assert places.shape == (4, 32)
    assert np.abs(places).sum(axis=1).tolist() == [1.0] * 4
    np.testing.assert_array_equal(places[0], places[2])
    assert Classification(data=path, target="x", categories="one-hot").dimension == 5
    with pytest.raises(UnknownName, match="one-hot"):
        load_dataset(path, categories="onehot")  # type: ignore[arg-type]


def test_what_was_read_is_told(tmp_path: Path) -> None:
    data = load_dataset(write(tmp_path / "toy.csv", CSV))
    assert data.reading == (
        "toy.csv: 4 rows, 3 features (width, count, odd), 2 classes of 'kind' (a, b)"
    )
    again = pickle.loads(pickle.dumps(data))
    assert again.reading == data.reading
