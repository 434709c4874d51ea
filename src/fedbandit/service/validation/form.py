"""Which kind and shape the summary of an upload must have, by the model's recipe."""

import numpy as np

from fedbandit.core.memory.lossy.fitted import Fitted
from fedbandit.core.memory.lossy.memory import LossyMemory
from fedbandit.core.memory.lossy.summary import LossyRows
from fedbandit.core.memory.narrow import Narrow
from fedbandit.core.memory.summary import Gram, Sketch
from fedbandit.core.memory.triangle import Triangle
from fedbandit.service.models.model import Served
from fedbandit.service.validation.evidence import misfit

_SEE_RECIPE = (
    "The answer to joining has the recipe and its parameters; docs/wire.md says what follows."
)


def check_form(served: Served, summary: object) -> None:
    """Raise InvalidMessage unless the summary has the kind and shape of the recipe's."""
    d, wire = served.recipe.dimension, served.params.get("wire", "full")
    match summary, served.empty:
        case Gram(matrix), Gram() if wire == "full":
            _check_fits(matrix.shape == (d, d), "matrix", matrix.shape, f"{d} rows of {d} numbers")
        case Triangle() as triangle, Gram() if wire != "full":
            _check_triangle(triangle)
            _check_fits(triangle.dimension == d, "dimension", triangle.dimension, f"{d}")
            _check_fits(triangle.width == wire, "width", triangle.width, f"{wire!r}")
        case ((Sketch() | Narrow() as sketch), Sketch() as like):
            _check_numbers(sketch)
            _check_size(sketch, like, automatic=served.params.get("sketch_size") == "auto")
            if (sketch.lost is None) != (like.lost is None):
                got, expected = ("nil", "a number") if sketch.lost is None else (sketch.lost, "nil")
                raise misfit("upload.summary.lost", got, expected, fix=_SEE_RECIPE)
            if isinstance(sketch, Narrow):
                _check_fits(sketch.width == wire, "width", sketch.width, f"{wire!r}")
        case ((LossyRows() | Fitted() as rows), LossyRows()) if isinstance(rows, Fitted) == (
            wire == "fitted"
        ):
            shape, most = rows.rows.shape, _largest_size(served)
            expected = f"fewer than {most} rows of {d} numbers, by the recipe's sketch_size"
            _check_fits(shape[1] == d and shape[0] < most, "rows", shape, expected)
            _check_lossy(rows)
        case _, like:
            raise misfit("upload.summary", _said(summary), _kind(like, wire), fix=_SEE_RECIPE)


def arms_field(summary: object) -> str:
    """Return the name of the field of an upload that says which arms were played."""
    match summary:
        case Gram():
            return "upload.summary.matrix"
        case Triangle():
            return "upload.summary.data"
        case _:
            return "upload.summary.rows"


def _check_fits(fits: bool, name: str, got: object, expected: str) -> None:
    if not fits:
        raise misfit(f"upload.summary.{name}", got, expected, fix=_SEE_RECIPE)


def _check_size(sketch: Sketch | Narrow, like: Sketch, *, automatic: bool) -> None:
    """Raise InvalidMessage unless a sketch has a size, and rows, that the recipe allows."""
    size, (rows, length), d = sketch.size, sketch.rows.shape, like.dimension
    fits = 2 <= size <= like.size if automatic else size == like.size
    expected = f"a size from 2 to {like.size}" if automatic else f"{like.size}, its sketch_size"
    _check_fits(fits, "size", size, expected)
    expected = f"fewer rows than the size, {size}, each of {d} numbers"
    _check_fits(rows < size and length == d, "rows", f"{rows} rows of {length}", expected)


def _largest_size(served: Served) -> int:
    """Return the largest sketch size of an upload with a bound for each coordinate."""
    memory = served.recipe.parts.memory
    return memory.size if isinstance(memory, LossyMemory) else 0


def _kind(like: object, wire: str) -> str:
    """Say which summary of docs/wire.md a recipe's uploads have."""
    match like:
        case Gram():
            tag = "gram" if wire == "full" else "triangle"
        case Sketch():
            tag = "sketch" if wire == "float64" else "narrow"
        case _:
            tag = "rows" if wire == "float64" else "fitted"
    return f"a {tag!r}, since the recipe's wire is {wire!r}"


def _check_numbers(sketch: Sketch | Narrow) -> None:
    for name, value in (("shed", sketch.shed), ("lost", sketch.lost)):
        if value is not None:
            _check_number(name, value)


def _check_lossy(rows: LossyRows | Fitted) -> None:
    """Raise InvalidMessage unless there is a bound for every coordinate, none of them negative."""
    for name in ("lost", "weight"):
        _check_number(name, getattr(rows, name))
    if rows.bound.shape != (rows.dimension,) or not (rows.bound >= 0.0).all():
        got = f"{len(rows.bound)} numbers, the least {rows.bound.min():g}"
        raise misfit("upload.summary.bound", got, f"{rows.dimension} numbers of at least 0")


def _check_triangle(triangle: Triangle) -> None:
    """Raise InvalidMessage unless its numbers can be added up."""
    for name, value in (("raised", triangle.raised), ("shed", triangle.shed)):
        _check_number(name, value)


def _check_number(name: str, value: float) -> None:
    if not 0.0 <= value < np.inf:
        raise misfit(f"upload.summary.{name}", value, "a finite number of at least 0")


def _said(summary: object) -> str:
    match summary:
        case Gram(matrix):
            return f"a 'gram' of shape {matrix.shape}"
        case Triangle(width) as triangle:
            return f"a 'triangle' of dimension {triangle.dimension} in {width}"
        case Narrow() as narrow:
            return f"a 'narrow' of rows of shape {narrow.rows.shape} in {narrow.width}"
        case Sketch(rows):
            return f"a 'sketch' of rows of shape {rows.shape}"
        case LossyRows() | Fitted() as lossy:
            tag = "fitted" if isinstance(lossy, Fitted) else "rows"
            return f"a {tag!r} of rows of shape {lossy.rows.shape}"
        case _:
            return f"a {type(summary).__name__}"
