"""Which column of a table holds the labels: taken where it is clear, asked for where it is not."""

from typing import Any

from fedbandit.errors import DataError, complaint

LABEL_NAMES = (
    "target", "label", "labels", "class", "classes", "y", "species", "outcome", "category", "kind",
)  # fmt: skip
INDEX_NAMES = ("", "Unnamed: 0", "__index_level_0__")
MOST_CLASSES = 50
SHOWN = 6


def target_of(who: str, table: Any) -> int:
    """Return the index of the label column of a table whose columns tell it.

    That is the only column with a name such as target or label. If there is none, it is the last
    column, if that is text or the only one that could be classes. Else raises DataError, with the
    columns that could be meant.
    """
    names = table.column_names
    last = len(names) - 1
    named = [index for index, name in enumerate(names) if name.lower() in LABEL_NAMES]
    if len(named) == 1:
        return named[0]
    if not named and _is_text(table.column(last).type):
        return last
    possible = named or [index for index in range(len(names)) if _could_be_classes(table, index)]
    if possible in ([last], []):
        return last
    raise _unclear(who, [names[index] for index in possible])


def refuse_index(who: str, table: Any) -> None:
    """Raise DataError if a column counts the rows, as pandas writes its index."""
    for name in table.column_names:
        if name in INDEX_NAMES and table.column(name).to_pylist() == list(range(table.num_rows)):
            got = f"a column {name!r} that counts the rows, as pandas writes its index"
            expected, fix = "features and labels alone", "Write the file again with index=False."
            raise DataError(complaint(who, got=got, expected=expected, fix=fix))


def candidates(table: Any) -> str:
    """Return the names of the columns that could be labels, for an error."""
    names = table.column_names
    found = [
        name
        for index, name in enumerate(names)
        if _is_text(table.column(index).type) or _could_be_classes(table, index)
    ]
    return _listed(found or names)


def _could_be_classes(table: Any, index: int) -> bool:
    """Whether a column has whole numbers, or text, of which some are repeated."""
    from pyarrow import compute, types

    column = table.column(index)
    kind = column.type
    if not (types.is_integer(kind) or types.is_boolean(kind) or _is_text(kind)):
        return False
    distinct = int(compute.count_distinct(column).as_py())
    return bool(distinct <= min(MOST_CLASSES, table.num_rows - 1))


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _unclear(who: str, possible: list[str]) -> DataError:
    return DataError(
        complaint(
            who,
            got=f"{len(possible)} columns that could be the labels: {_listed(possible)}",
            expected="one that is clear",
            fix="Name it: target_column = "
            f'"{possible[0]}", say (in Python target_column="{possible[0]}").',
        )
    )


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:SHOWN])
    return shown + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
