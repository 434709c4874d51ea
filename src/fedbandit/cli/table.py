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
    if terminal and not rows:
        print(f"{title}: none yet")
        return
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

    console = Console()
    stacked = [[cell.replace(" ± ", "\n± ") for cell in row] for row in rows]
    for cells, padding in ((rows, 1), (stacked, 0)):
        between = (len(header) - 1) * (1 + 2 * padding)
        widths = _widths(header, cells, wraps, console.width - between)
        if widths is not None:
            console.print(_table(title, header, cells, widths=widths, padding=padding))
            return True
    return False


def _widths(
    header: Sequence[str], rows: Sequence[Sequence[str]], wraps: Sequence[str], room: int
) -> list[int] | None:
    """Return the width of every column; those that wrap share what is left. None if none fits."""
    columns = list(zip(header, *rows, strict=True))
    longest = [_longest(cells, words=False) for cells in columns]
    least = [
        _longest(cells, words=True) if cells[0] in wraps else most
        for cells, most in zip(columns, longest, strict=True)
    ]
    left = room - sum(least)
    if left < 0:
        return None
    wanted = [most - few for most, few in zip(longest, least, strict=True)]
    share = min(1.0, left / max(sum(wanted), 1))
    return [few + int(share * more) for few, more in zip(least, wanted, strict=True)]


def _longest(cells: Sequence[str], *, words: bool) -> int:
    return max((len(piece) for cell in cells for piece in _pieces(cell, words=words)), default=0)


def _table(
    title: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    widths: Sequence[int],
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
        show_edge=False,
    )
    for width, name, *cells in zip(widths, header, *rows, strict=True):
        table.add_column(Text(name), justify="right" if _numeric(cells) else "left", width=width)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _pieces(cell: str, *, words: bool) -> list[str]:
    return cell.split() if words else cell.splitlines()


def _numeric(cells: Sequence[str]) -> bool:
    return all(cell.lstrip("-")[:1].isdigit() for cell in cells)
