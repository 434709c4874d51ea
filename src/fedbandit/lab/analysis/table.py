"""A table as text, for pages and for Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Cells as text, with a head."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    @property
    def markdown(self) -> str:
        """The table in Markdown."""
        lines = [self.head, ["---"] * len(self.head), *self.rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)

    @property
    def latex(self) -> str:
        """The table in LaTeX, for the package booktabs; numbers are aligned to the right."""
        right = [all(_begins_with_a_digit(cell) for cell in column) for column in self._columns]
        alignment = "".join("r" if each else "l" for each in right)
        body = [" & ".join(map(_escaped, row)) + r" \\" for row in (self.head, *self.rows)]
        lines = [rf"\begin{{tabular}}{{{alignment}}}", r"\toprule", body[0], r"\midrule"]
        return "\n".join([*lines, *body[1:], r"\bottomrule", r"\end{tabular}"])

    @property
    def _columns(self) -> list[list[str]]:
        return [[row[place] for row in self.rows] for place in range(len(self.head))]


_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "\N{MINUS SIGN}": "$-$",
    "\N{EN DASH}": "--",
    **{sign: rf"\{sign}" for sign in "&%$#_{}"},
}


def _escaped(text: str) -> str:
    return "".join(_SPECIAL.get(letter, letter) for letter in text)


def _begins_with_a_digit(cell: str) -> bool:
    return cell.lstrip("-")[:1].isdigit()
