"""How answers look: a table for people, plain lines for programs. Colour only on a terminal, and not with NO_COLOR."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

_CELL_MAX = 60


def is_live(out: TextIO) -> bool:
    return out.isatty() and os.environ.get("TERM") != "dumb"


def paint(text: str, code: str, out: TextIO | None = None) -> str:
    coloured = is_live(out or sys.stdout) and "NO_COLOR" not in os.environ
    return f"\x1b[{code}m{text}\x1b[0m" if coloured else text


def bold(text: str) -> str:
    return paint(text, "1")


def shown(term: Mapping[str, str] | None) -> str:
    """A term of JSON results, short enough to read."""
    if term is None:
        return ""
    value = term["value"]
    if term["type"] == "uri":
        return f"<{value}>"
    if term["type"] == "bnode":
        return f"_:{value}"
    if "xml:lang" in term:
        return f'"{value}"@{term["xml:lang"]}'
    return value if "datatype" in term else f'"{value}"'


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], width: int | None = None) -> list[str]:
    """Lines; cells that are too wide for the terminal are cut."""
    width = width or shutil.get_terminal_size((120, 24)).columns
    body = [[" ".join(cell.split()) for cell in row] for row in rows]
    sizes = [max([len(name), *(len(row[i]) for row in body)]) for i, name in enumerate(columns)]
    room = max(8, (width - 2 * len(columns)) // max(1, len(columns)))
    sizes = [min(size, max(room, _CELL_MAX if sum(sizes) < width else room)) for size in sizes]
    head = "  ".join(bold(_cell(name, size)) for name, size in zip(columns, sizes, strict=True))
    lines = ["  ".join(_cell(cell, size) for cell, size in zip(row, sizes, strict=True)).rstrip() for row in body]
    return [head, *lines]


def _cell(text: str, size: int) -> str:
    return text.ljust(size) if len(text) <= size else text[: size - 1] + "…"


def answer_rows(answer: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of JSON results; an ASK is one cell."""
    if "boolean" in answer:
        return ["answer"], [["yes" if answer["boolean"] else "no"]]
    columns = list(answer["head"]["vars"])
    return columns, [[shown(row.get(name)) for name in columns] for row in answer["results"]["bindings"]]
