"""The form of answers: a table for people, plain lines for programs. Colour only on a terminal without NO_COLOR."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TextIO

_CELL_MIN = 8
_BARS = "▁▂▃▄▅▆▇█"
_WIDTH_MAX = 1 << 20
_MOMENT_MS, _MOMENT_MS_MAX = 1_000_000_000_000, 253_402_300_800_000  # from 2001 to the year 10000
_NUMBER = re.compile(r"[-+]?(\d[\d,]*)?\.?\d+([eE][-+]?\d+)?…?")
_BREAKS = re.compile(r"[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]+")
_PREFIX = re.compile(r"\bPREFIX\s+([\w.-]*):\s*<([^<>\s]+)>", re.IGNORECASE)
_LONG_DECIMAL = re.compile(r"([-+]?\d+\.0*(?!0)\d{6})\d+")
_LOCAL_NAME = re.compile(r"[A-Za-z_0-9][\w-]*")


def is_live(out: TextIO) -> bool:
    return out.isatty() and os.environ.get("TERM") != "dumb"


def paint(text: str, code: str, out: TextIO | None = None) -> str:
    coloured = is_live(out or sys.stdout) and "NO_COLOR" not in os.environ
    return f"\x1b[{code}m{text}\x1b[0m" if coloured else text


def bold(text: str) -> str:
    return paint(text, "1")


def shown(term: Mapping[str, str] | None, prefixes: Mapping[str, str] | None = None) -> str:
    """A term of JSON results; with `prefixes`, IRIs are shortened."""
    if term is None:
        return ""
    value = term["value"]
    if term["type"] == "uri":
        return _short(value, prefixes or {})
    if term["type"] == "bnode":
        return f"_:{value}"
    if "xml:lang" in term:
        return f'"{value}"@{term["xml:lang"]}'
    if "datatype" not in term:
        return f'"{value}"'
    return value if prefixes is None else _brief(value)


def _brief(number: str) -> str:
    """A number with at most six digits after its point: a mean may have 50."""
    found = _LONG_DECIMAL.fullmatch(number)
    return found[1] + "…" if found else number


def moment(time_ms: int | None) -> str:
    """A time as an xsd:dateTime; a small time is abstract and stays a number."""
    if time_ms is None or not _MOMENT_MS <= time_ms < _MOMENT_MS_MAX:
        return "" if time_ms is None else str(time_ms)
    from stream_ext.times import datetime_text, moment_of

    return datetime_text(moment_of(Fraction(time_ms, 1000), 0))


def stream_time(time_ms: int | None) -> str:
    """The time of a stream: a small one also as a date, as it may be a mistake of units."""
    from stream_ext.times import date_of_ms

    if time_ms is None or abs(time_ms) >= _MOMENT_MS:
        return moment(time_ms)
    return f"{time_ms} ({date_of_ms(time_ms)})"


def prefixes_of(text: str) -> dict[str, str]:
    """The prefixes that the text declares."""
    return {iri: name for name, iri in _PREFIX.findall(text)}


def _short(iri: str, prefixes: Mapping[str, str]) -> str:
    for start, name in prefixes.items():
        if iri.startswith(start) and _LOCAL_NAME.fullmatch(iri, len(start)):
            return f"{name}:{iri[len(start) :]}"
    return f"<{iri}>"


def shortened(text: str, prefixes: Mapping[str, str]) -> str:
    """A text with all its IRIs shortened as in `shown`."""
    return re.sub(r"<([^<>\s]+)>", lambda found: _short(found[1], prefixes), text)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], width: int | None = None) -> list[str]:
    """The lines of a table: a head, a rule, the rows. Numbers are aligned right; cells that are too wide are cut."""
    width = width or (shutil.get_terminal_size((120, 24)).columns if is_live(sys.stdout) else _WIDTH_MAX)
    body = [[_BREAKS.sub(" ", cell) for cell in row] for row in rows]
    sizes = _sizes([max([len(name), *(len(row[i]) for row in body)]) for i, name in enumerate(columns)], width)
    right = [_are_numbers(row[i] for row in body) for i in range(len(columns))]
    fitted = [list(map(_cell, row, sizes, right)) for row in body]
    head = "  ".join(
        bold(_cell(name, size, at_right)) for name, size, at_right in zip(columns, sizes, right, strict=True)
    )
    rule = paint("  ".join("─" * size for size in sizes), "2")
    return [head.rstrip(), rule, *("  ".join(row).rstrip() for row in fitted)]


def _sizes(wanted: Sequence[int], width: int) -> list[int]:
    """The width of each column: columns that need less than their share leave the rest to the others."""
    sizes = [0] * len(wanted)
    left, waiting = width - 2 * (len(wanted) - 1), sorted(range(len(wanted)), key=lambda i: wanted[i])
    for done, i in enumerate(waiting):
        sizes[i] = min(wanted[i], max(_CELL_MIN, left // (len(waiting) - done)))
        left -= sizes[i]
    return sizes


def _are_numbers(cells: Iterable[str]) -> bool:
    filled = [cell for cell in cells if cell]
    return bool(filled) and all(_NUMBER.fullmatch(cell) for cell in filled)


def number(cell: str) -> float | None:
    """The value of a cell that is a number."""
    return float(cell.replace(",", "").rstrip("…")) if _NUMBER.fullmatch(cell) else None


def _cell(text: str, size: int, at_right: bool) -> str:
    if len(text) > size:
        return text[: size - 1] + "…"
    return text.rjust(size) if at_right else text.ljust(size)


def sparkline(values: Sequence[float] | deque[float], width: int) -> str:
    """The last values as a line of bars, each between the least and the greatest of them."""
    shown = list(values)[-width:]
    if not shown:
        return ""
    low, high = min(0.0, *shown), max(shown)
    steps = len(_BARS) - 1
    return "".join(_BARS[round((value - low) / (high - low) * steps) if high > low else 0] for value in shown)


def fitting(lines: Sequence[str], above: int) -> list[str]:
    """The lines of a table that fit on the screen below so many others; then how many there are more."""
    height = shutil.get_terminal_size((120, 24)).lines - above
    return list(lines) if len(lines) <= height else [*lines[: height - 1], f"... {len(lines) - height + 1} more"]


def answer_rows(
    answer: Mapping[str, Any], prefixes: Mapping[str, str] | None = None
) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of JSON results, or of an emission; an ASK is one cell, a graph its triples."""
    if "boolean" in answer:
        return ["answer"], [["yes" if answer["boolean"] else "no"]]
    if "graph" in answer:
        answer = triples(answer["graph"])
    columns = list(answer["head"]["vars"])
    return columns, [[shown(row.get(name), prefixes) for name in columns] for row in answer["results"]["bindings"]]


def triples(body: str) -> dict[str, Any]:
    """A graph in N-Triples as a table of its triples, in the form of JSON results."""
    import json

    from stream_ext.emissions.terms_in_json import term_json
    from stream_ext.rdf import parse_rdf

    parsed = parse_rdf(body.encode(), "application/n-triples", "")
    terms = [json.loads(term_json(term)) for term in parsed.terms]
    columns = {"subject": parsed.s, "predicate": parsed.p, "object": parsed.o}
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    bindings = [dict(zip(columns, map(terms.__getitem__, row), strict=True)) for row in rows]
    return {"head": {"vars": list(columns)}, "results": {"bindings": bindings}}
