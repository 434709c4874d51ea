"""Tables for people: drawn on a terminal, aligned text where output is piped or rich is missing."""

import sys
from collections.abc import Sequence
from importlib.util import find_spec


def show_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table to standard output."""
    if sys.stdout.isatty() and find_spec("rich") is not None:
        _draw(title, header, rows)
    else:
        print(plain_table(title, header, rows))


def plain_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as lines of text, two spaces between columns, numbers to the right."""
    columns = []
    for cells in zip(header, *rows, strict=True):
        width = max(map(len, cells))
        right = _numeric(cells[1:])
        columns.append([cell.rjust(width) if right else cell.ljust(width) for cell in cells])
    lines = ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]
    return "\n".join([title, *lines])


def _draw(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Draw the table; where the terminal is too narrow for it, intervals go below their means."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    narrow = max(map(len, plain_table(title, header, rows).splitlines())) > console.width
    table = Table(
        title=title,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 0 if narrow else 1),
        pad_edge=False,
    )
    for position, name in enumerate(header):
        numbers = _numeric([row[position] for row in rows])
        table.add_column(name, justify="right" if numbers else "left", no_wrap=numbers)
    for row in rows:
        table.add_row(*(Text(cell.replace(" ± ", "\n± ") if narrow else cell) for cell in row))
    console.print(table)


def _numeric(cells: Sequence[str]) -> bool:
    return all(cell.lstrip("-")[:1].isdigit() for cell in cells)
