"""An answer as a page shows it: its first rows as a table, or in one of the formats of the protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from typing import TYPE_CHECKING

from msgspec.structs import replace

from endpoint.console.display import Shown, shown
from endpoint.formats import graph_results, results
from stream_ext.errors import QueryTooLarge

if TYPE_CHECKING:
    from stream_ext.oneshot.answers import Decoded
    from stream_ext.oneshot.evaluate import Answer
    from stream_ext.service.service import Service

ROWS_SHOWN = 1_000
#: The most bytes of an answer on a page: a long term may be in many rows, and is written each time.
_BYTES_SHOWN = 8 << 20
#: The markup around a term.
_CELL_BYTES = 200
TABLE = "table"
#: The forms of an answer, and their names on the page.
FORMS = {TABLE: "Table", "json": "JSON", "xml": "XML", "csv": "CSV", "tsv": "TSV"}
GRAPH_FORMS = {TABLE: "Table", "turtle": "Turtle", "nt": "N-Triples", "xml": "RDF/XML", "json-ld": "JSON-LD"}
#: The formats of a download: media type, suffix of the file, name on the page.
DOWNLOADS = (
    ("text/csv", "csv", "CSV"),
    ("text/tab-separated-values", "tsv", "TSV"),
    ("application/sparql-results+json", "json", "JSON"),
    ("application/sparql-results+xml", "xml", "XML"),
)
GRAPH_DOWNLOADS = (
    ("text/turtle", "ttl", "Turtle"),
    ("application/n-triples", "nt", "N-Triples"),
    ("application/ld+json", "jsonld", "JSON-LD"),
    ("application/rdf+xml", "rdf", "RDF/XML"),
)
_TRIPLE = ("subject", "predicate", "object")


@dataclass(frozen=True, slots=True)
class Table:
    variables: Sequence[str]
    rows: Sequence[Sequence[Shown | None]]
    count: int  # number of all rows, shown or not
    boolean: bool | None = None
    raw: str | None = None  # the answer in another form than a table

    @property
    def cut(self) -> bool:
        return self.count > len(self.rows if self.raw is None else range(ROWS_SHOWN))


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
    return Table(variables, [], answer.count, answer.boolean, _written(pieces))


def _rows(batches: Iterable[Decoded], prefixes: Mapping[str, str]) -> list[list[Shown | None]]:
    """The first rows, as many as a page may show."""
    rows: list[list[Shown | None]] = []
    size = 0
    for texts, places, count in batches:
        cells = [None if text is None else shown(text, prefixes) for text in texts]
        lengths = [_CELL_BYTES if cell is None else _CELL_BYTES + cell.length for cell in cells]
        found: Iterable[Sequence[int]] = zip(*places, strict=True) if places else repeat((), count)
        for row in found:
            size += sum(lengths[place] for place in row)
            if size > _BYTES_SHOWN and rows:
                return rows
            if size > _BYTES_SHOWN:
                raise _too_long("the first row of the answer has")
            rows.append([cells[place] for place in row])
    return rows


def _written(pieces: Iterable[bytes]) -> str:
    whole, size = [], 0
    for piece in pieces:
        whole.append(piece)
        size += len(piece)
        if size > _BYTES_SHOWN:
            raise _too_long(f"the first {ROWS_SHOWN} rows of the answer have")
    return b"".join(whole).decode()


def _too_long(what: str) -> QueryTooLarge:
    return QueryTooLarge(
        f"{what} more than the {_BYTES_SHOWN >> 20} MiB that a page shows: ask for shorter terms, or get "
        "the whole answer from the endpoint (POST /sparql)"
    )


def administration_table(variables: Sequence[str], rows: Sequence[Sequence[bytes]]) -> Table:
    """The result of an administration statement as a table."""
    return Table(variables, [[shown(term) for term in row] for row in islice(rows, ROWS_SHOWN)], len(rows))
