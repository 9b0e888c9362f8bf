"""SPARQL results as text: JSON, XML, CSV, TSV and one JSON object for each line.

A writer is a generator of pieces, one for each batch of rows, so that a large answer is sent while it is decoded and
at most one batch of it is in memory. A batch has each distinct term once, and each is escaped once; the rows are
joined by loops in C."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from xml.sax.saxutils import escape

import msgspec

from endpoint.negotiation import Offer
from hbase_store.layout.terms import Term, parse_term
from stream_ext.emissions.terms_in_json import term_json
from stream_ext.errors import NotAcceptable
from stream_ext.oneshot.answers import Decoded

Batches = Iterable[Decoded]
Writer = Callable[[Sequence[str], Batches, bool | None], Iterator[bytes]]

#: Under a wildcard the first is chosen. Some clients ask for the plain types, and get them as the Content-Type.
OFFERS = (
    Offer("application/sparql-results+json", "json"),
    Offer("application/json", "json"),
    Offer("application/sparql-results+xml", "xml"),
    Offer("application/xml", "xml"),
    Offer("text/xml", "xml"),
    Offer("text/csv", "csv"),
    Offer("application/sparql-results+csv", "csv"),
    Offer("text/tab-separated-values", "tsv"),
    Offer("application/sparql-results+tsv", "tsv"),
    Offer("application/x-ndjson", "ndjson"),
)

#: So few rows are written cell by cell.
_FEW_ROWS = 4
_ASK_COLUMN = "_askResult"  # CSV and TSV define no boolean results; this is the form of Jena
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def content_type(offer: Offer) -> bytes:
    charset = "; charset=utf-8" if offer.media_type.startswith("text/") else ""
    return (offer.media_type + charset).encode()


def write(format: str, variables: Sequence[str], batches: Batches, boolean: bool | None) -> Iterator[bytes]:
    return WRITERS[format](variables, batches, boolean)


def few(rows: Sequence[Sequence[bytes | None]]) -> Batches:
    """Rows that are texts already, as one batch."""
    width = len(rows[0]) if rows else 0
    places = [list(range(column, len(rows) * width, width)) for column in range(width)]
    return [Decoded([text for row in rows for text in row], places, len(rows))] if rows else []


def _cells(batch: Decoded, translate: Callable[[bytes], str], marks: Sequence[str] = ()) -> list[list[str]]:
    """The columns as they are written, with `marks` before each bound term; "" for an unbound variable."""
    texts = ["" if text is None else translate(text) for text in batch.texts]
    if not marks:
        return [[texts[place] for place in column] for column in batch.columns]
    columns = []
    for mark, column in zip(marks, batch.columns, strict=True):
        # Only the terms that occur in the column: all terms for each column would be far more work.
        marked = {place: mark + texts[place] if texts[place] else "" for place in set(column)}
        columns.append([marked[place] for place in column])
    return columns


def _rows(columns: Sequence[Sequence[str]], count: int) -> Iterable[tuple[str, ...]]:
    """The rows. A SELECT without variables has empty rows."""
    return zip(*columns, strict=True) if columns else [()] * count


def _pieces(head: str, blocks: Iterable[str], separator: str, tail: str) -> Iterator[bytes]:
    """`head`, the blocks with `separator` between them, `tail`. Each block is yielded as soon as it is written."""
    before = head
    for block in blocks:
        yield (before + block).encode()
        before = separator
    yield (tail if before is separator else head + tail).encode()


# ---- JSON ----


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def json_term(text: bytes) -> str:
    return term_json(text).decode()


def write_json(variables: Sequence[str], batches: Batches, boolean: bool | None) -> Iterator[bytes]:
    if boolean is not None:
        yield f'{{"head":{{}},"boolean":{"true" if boolean else "false"}}}'.encode()
        return
    head = ",".join(_quoted(name) for name in variables)
    blocks = (",\n".join(_objects(variables, batch)) for batch in batches)
    yield from _pieces(f'{{"head":{{"vars":[{head}]}},"results":{{"bindings":[', blocks, ",\n", "]}}")


def _objects(variables: Sequence[str], batch: Decoded) -> Iterator[str]:
    """Each row as the JSON object of its bindings."""
    if batch.rows <= _FEW_ROWS:
        return _few_objects(variables, batch)
    cells = _cells(batch, json_term, [_quoted(name) + ":" for name in variables])
    rows: Iterable[Iterable[str]] = _rows(cells, batch.rows)
    if None in batch.texts:
        rows = map(_bound, rows)
    return map("{%s}".__mod__, map(",".join, rows))


def _few_objects(variables: Sequence[str], batch: Decoded) -> Iterator[str]:
    """The same, cell by cell: for few rows that is quicker than doing each step for all of them."""
    names, texts = [_quoted(name) for name in variables], batch.texts
    for row in range(batch.rows):
        cells = [(name, texts[column[row]]) for name, column in zip(names, batch.columns, strict=True)]
        bound = [f"{name}:{json_term(text)}" for name, text in cells if text is not None]
        yield f"{{{','.join(bound)}}}"


def _bound(cells: Iterable[str]) -> Iterator[str]:
    return filter(None, cells)


def write_lines(variables: Sequence[str], batches: Batches, boolean: bool | None) -> Iterator[bytes]:
    if boolean is not None:
        yield f'{{"boolean":{"true" if boolean else "false"}}}\n'.encode()
        return
    yield from _pieces("", ("\n".join([*_objects(variables, batch), ""]) for batch in batches), "", "")


# ---- XML ----

_XML_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<sparql xmlns="http://www.w3.org/2005/sparql-results#">\n'


def xml_text(value: str) -> str:
    if _NOT_IN_XML.search(value):
        raise NotAcceptable(f"XML cannot express {value!r}: it has a control character; request another media type")
    # An XML parser reads a bare carriage return as a newline.
    return escape(value, {"\r": "&#13;"})


def xml_term(text: bytes) -> str:
    term = parse_term(text)
    value = xml_text(term.value)
    if term.kind == "iri":
        return f"<uri>{value}</uri>"
    if term.kind == "blank":
        return f"<bnode>{value}</bnode>"
    return f"<literal{_xml_attribute(term)}>{value}</literal>"


def _xml_attribute(term: Term) -> str:
    if term.language:
        return f' xml:lang="{xml_attribute(term.language)}"'
    return f' datatype="{xml_attribute(term.datatype)}"' if term.datatype else ""


def xml_attribute(text: str) -> str:
    return escape(text, {'"': "&quot;", "\r": "&#13;", "\n": "&#10;", "\t": "&#9;"})


def write_xml(variables: Sequence[str], batches: Batches, boolean: bool | None) -> Iterator[bytes]:
    if boolean is not None:
        yield f"{_XML_HEAD}<head></head>\n<boolean>{'true' if boolean else 'false'}</boolean>\n</sparql>\n".encode()
        return
    marks = [f'<binding name="{xml_attribute(name)}">' for name in variables]
    blocks = ("".join(map(_XML_ROW, map("".join, _xml_rows(batch, marks)))) for batch in batches)
    head = "".join(f'<variable name="{xml_attribute(name)}"/>' for name in variables)
    yield from _pieces(f"{_XML_HEAD}<head>{head}</head>\n<results>\n", blocks, "", "</results>\n</sparql>\n")


_XML_ROW = "<result>%s</result>\n".__mod__


def _xml_rows(batch: Decoded, marks: Sequence[str]) -> Iterable[tuple[str, ...]]:
    return _rows(_cells(batch, lambda text: xml_term(text) + "</binding>", marks), batch.rows)


# ---- CSV and TSV ----


def csv_term(text: bytes) -> str:
    term = parse_term(text)
    return _csv_field(f"_:{term.value}" if term.kind == "blank" else term.value)


def _csv_field(value: str) -> str:
    if any(sign in value for sign in ',"\r\n'):
        return '"' + value.replace('"', '""') + '"'
    return value


def tsv_term(text: bytes) -> str:
    return text.decode().replace("\t", "\\t")  # TSV uses the form of N-Triples, except for a bare tab


def write_csv(variables: Sequence[str], batches: Batches, boolean: bool | None) -> Iterator[bytes]:
    return _write_table(variables, batches, boolean, csv_term, "", ",", "\r\n")


def write_tsv(variables: Sequence[str], batches: Batches, boolean: bool | None) -> Iterator[bytes]:
    return _write_table(variables, batches, boolean, tsv_term, "?", "\t", "\n")


def _write_table(
    variables: Sequence[str],
    batches: Batches,
    boolean: bool | None,
    translate: Callable[[bytes], str],
    mark: str,
    comma: str,
    end: str,
) -> Iterator[bytes]:
    if boolean is not None:
        yield f"{mark}{_ASK_COLUMN}{end}{'true' if boolean else 'false'}{end}".encode()
        return
    blocks = (end.join([*map(comma.join, _rows(_cells(batch, translate), batch.rows)), ""]) for batch in batches)
    yield from _pieces(comma.join(mark + name for name in variables) + end, blocks, "", "")


WRITERS: dict[str, Writer] = {
    "json": write_json,
    "xml": write_xml,
    "csv": write_csv,
    "tsv": write_tsv,
    "ndjson": write_lines,
}
