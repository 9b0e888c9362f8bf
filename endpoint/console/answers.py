"""An answer as a page shows it: its first rows as a table, or written in one of the forms of the protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, repeat
from typing import TYPE_CHECKING

from endpoint import graph_results, results
from endpoint.console.shown import Shown, shown

if TYPE_CHECKING:
    from stream_ext.answers import Decoded
    from stream_ext.evaluate import Answer
    from stream_ext.service import Service

ROWS_SHOWN = 1_000
TABLE = "table"
#: How an answer may be looked at, and what the page calls it.
FORMS = {TABLE: "Table", "json": "JSON", "xml": "XML", "csv": "CSV", "tsv": "TSV"}
GRAPH_FORMS = {TABLE: "Table", "turtle": "Turtle", "nt": "N-Triples", "xml": "RDF/XML", "json-ld": "JSON-LD"}
_TRIPLE = ("subject", "predicate", "object")


@dataclass(frozen=True, slots=True)
class Table:
    variables: Sequence[str]
    rows: Sequence[Sequence[Shown | None]]
    count: int  # of all rows, shown or not
    boolean: bool | None = None
    raw: str | None = None  # written in another form

    @property
    def cut(self) -> bool:
        return self.count > ROWS_SHOWN


def table_of(service: Service, answer: Answer, form: str, prefixes: Mapping[str, str]) -> Table:
    graph = answer.graph
    variables = answer.variables if graph is None else _TRIPLE
    columns = [column[:ROWS_SHOWN] for column in (answer.columns if graph is None else graph)]
    batches = service.decoded(columns, replace(answer, count=min(answer.count, ROWS_SHOWN)))
    if form == TABLE:
        return Table(variables, _rows(batches, prefixes), answer.count, answer.boolean)
    if graph is not None:
        pieces = graph_results.write(form, batches)
    else:
        pieces = results.write(form, variables, batches, answer.boolean)
    return Table(variables, [], answer.count, answer.boolean, b"".join(pieces).decode())


def _rows(batches: Iterable[Decoded], prefixes: Mapping[str, str]) -> list[list[Shown | None]]:
    rows: list[list[Shown | None]] = []
    for texts, places, count in batches:
        cells = [None if text is None else shown(text, prefixes) for text in texts]
        found: Iterable[Sequence[int]] = zip(*places, strict=True) if places else repeat((), count)
        rows += [[cells[place] for place in row] for row in found]
    return rows


def told(variables: Sequence[str], rows: Sequence[Sequence[bytes]]) -> Table:
    """What a statement of administration says."""
    return Table(variables, [[shown(term) for term in row] for row in islice(rows, ROWS_SHOWN)], len(rows))
