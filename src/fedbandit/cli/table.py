"""Print tables: drawn on a terminal, row by row on a narrow one, aligned text in a pipe."""

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from fedbandit.cli.reporting import columns, folded

if TYPE_CHECKING:
    from rich.table import Table


def show_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, wraps: Sequence[str] = ()
) -> None:
    """Print a table to standard output; only the columns named in ``wraps`` may break lines."""
    terminal = sys.stdout.isatty()
    if terminal and find_spec("rich") and _draw(title, header, rows, wraps):
        return
    plain = plain_table(title, header, rows)
    fits = max(map(len, plain.splitlines())) <= columns()
    print(plain if fits or not terminal else row_by_row(title, header, rows))


def row_by_row(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table for a narrow terminal: a paragraph for each row, a line for each cell."""
    parts = [folded(title)]
    for row in rows:
        lines = [folded(row[0] or "-")]
        for name, cell in zip(header[1:], row[1:], strict=True):
            if cell:
                lines.append(folded(f"  {name}: {cell}" if name else f"  {cell}", indent="    "))
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def plain_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as lines of text, two spaces between columns, numbers to the right."""
    columns = []
    for cells in zip(header, *rows, strict=True):
        width = max(map(len, cells))
        right = _numeric(cells[1:])
        columns.append([cell.rjust(width) if right else cell.ljust(width) for cell in cells])
    lines = ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]
    return "\n".join([title, *lines])


def _draw(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], wraps: Sequence[str]
) -> bool:
    """Draw the table, with intervals below their means if need be; return whether it fits.

    It is not drawn on a terminal that is too narrow, which would cut names and numbers.
    """
    from rich.console import Console
    from rich.measure import Measurement

    console = Console()
    boundless = console.options.update(max_width=sys.maxsize)
    stacked = [[cell.replace(" ± ", "\n± ") for cell in row] for row in rows]
    for cells, padding in ((rows, 1), (stacked, 0)):
        table = _table(title, header, cells, wraps=wraps, padding=padding)
        if Measurement.get(console, boundless, table).minimum <= console.width:
            console.print(table)
            return True
    return False


def _table(
    title: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    wraps: Sequence[str],
    padding: int,
) -> "Table":
    """Make the table. Text is shown as it is: brackets are not markup."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(title),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, padding),
        pad_edge=False,
    )
    for name, *cells in zip(header, *rows, strict=True):
        pieces = [piece for cell in (name, *cells) for piece in _pieces(cell, words=name in wraps)]
        table.add_column(
            Text(name),
            justify="right" if _numeric(cells) else "left",
            no_wrap=name not in wraps,
            min_width=max(map(len, pieces)),
        )
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _pieces(cell: str, *, words: bool) -> list[str]:
    return cell.split() if words else cell.splitlines()


def _numeric(cells: Sequence[str]) -> bool:
    return all(cell.lstrip("-")[:1].isdigit() for cell in cells)
