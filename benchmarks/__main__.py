"""Run the benchmarks: ``python -m benchmarks [SECTION ...] [--out FILE]``."""

import argparse
import sys
from pathlib import Path

from threadpoolctl import threadpool_limits

from benchmarks.sections import SECTIONS, Table
from fedbandit.core.kernels import compiler
from fedbandit.lab.runs.machine import environment


def markdown(table: Table) -> str:
    lines = [table.columns, ("---",) * len(table.columns), *table.rows]
    return "\n".join([f"## {table.title}", "", *(f"| {' | '.join(row)} |" for row in lines), ""])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help="default: all")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results.md"))
    asked = parser.parse_args()
    text = "\n".join(f"- {name}: {value}" for name, value in environment().items()) + "\n"
    compiler.load()
    threadpool_limits(limits=1)
    for section in asked.sections or SECTIONS:
        print(f"measuring: {section}", file=sys.stderr)
        table = markdown(SECTIONS[section]())
        print(table)
        text += "\n" + table
        asked.out.write_text(f"# Benchmarks\n\n{text}")


main()
