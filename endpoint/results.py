"""SPARQL results as text: JSON, XML, CSV, TSV, from rows of term bytes (canonical N-Triples; None is unbound).

A writer is a generator of pieces, so that a large answer leaves while it is written. Every distinct term is
translated once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from xml.sax.saxutils import escape

import msgspec

from endpoint.negotiation import Offer
from hbase_store.terms import Term, parse_term
from stream_ext.emission import term_json
from stream_ext.errors import NotAcceptable

Row = Sequence[bytes | None]
Writer = Callable[[Sequence[str], Sequence[Row], bool | None], Iterator[bytes]]

#: Under a wildcard the first is taken. The plain types are what some clients ask for; they get that label back.
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
)

_ROWS_PER_PIECE = 2_000
_ASK_COLUMN = "_askResult"  # CSV and TSV have no word for true and false; this is Jena's
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def content_type(offer: Offer) -> bytes:
    charset = "; charset=utf-8" if offer.media_type.startswith("text/") else ""
    return (offer.media_type + charset).encode()


def write(format: str, variables: Sequence[str], rows: Sequence[Row], boolean: bool | None) -> Iterator[bytes]:
    return WRITERS[format](variables, rows, boolean)


class _Memo(dict[bytes, str]):
    """Term bytes to how the format writes them."""

    def __init__(self, translate: Callable[[bytes], str]) -> None:
        super().__init__()
        self._translate = translate

    def __missing__(self, term: bytes) -> str:
        self[term] = text = self._translate(term)
        return text


def _pieces(head: str, rows: Iterable[str], separator: str, tail: str) -> Iterator[bytes]:
    """`head`, the rows with `separator` between, `tail`: joined to pieces of a useful size."""
    block, start = [], head
    for row in rows:
        block.append(row)
        if len(block) == _ROWS_PER_PIECE:
            yield (start + separator.join(block)).encode()
            block, start = [], separator
    if block:
        yield (start + separator.join(block) + tail).encode()
    else:
        yield ((head if start is head else "") + tail).encode()


# ---- JSON ----


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def json_term(text: bytes) -> str:
    return term_json(text).decode()


def write_json(variables: Sequence[str], rows: Sequence[Row], boolean: bool | None) -> Iterator[bytes]:
    if boolean is not None:
        yield f'{{"head":{{}},"boolean":{"true" if boolean else "false"}}}'.encode()
        return
    memo = _Memo(json_term)
    names = [_quoted(name) + ":" for name in variables]
    written = (
        "{" + ",".join(name + memo[term] for name, term in zip(names, row, strict=True) if term is not None) + "}"
        for row in rows
    )
    head = ",".join(_quoted(name) for name in variables)
    yield from _pieces(f'{{"head":{{"vars":[{head}]}},"results":{{"bindings":[', written, ",\n", "]}}")


# ---- XML ----

_XML_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<sparql xmlns="http://www.w3.org/2005/sparql-results#">\n'


def xml_term(text: bytes) -> str:
    term = parse_term(text)
    if _NOT_IN_XML.search(term.value):
        raise NotAcceptable(f"XML cannot say {term.value!r}: it has a control character; ask for JSON, CSV or TSV")
    # A reader would turn a bare carriage return into a newline.
    value = escape(term.value, {"\r": "&#13;"})
    if term.kind == "iri":
        return f"<uri>{value}</uri>"
    if term.kind == "blank":
        return f"<bnode>{value}</bnode>"
    return f"<literal{_xml_attribute(term)}>{value}</literal>"


def _xml_attribute(term: Term) -> str:
    if term.language:
        return f' xml:lang="{_attribute(term.language)}"'
    return f' datatype="{_attribute(term.datatype)}"' if term.datatype else ""


def _attribute(text: str) -> str:
    return escape(text, {'"': "&quot;", "\r": "&#13;", "\n": "&#10;", "\t": "&#9;"})


def write_xml(variables: Sequence[str], rows: Sequence[Row], boolean: bool | None) -> Iterator[bytes]:
    if boolean is not None:
        yield f"{_XML_HEAD}<head></head>\n<boolean>{'true' if boolean else 'false'}</boolean>\n</sparql>\n".encode()
        return
    memo = _Memo(xml_term)
    for term in {term for row in rows for term in row if term is not None}:
        memo[term]  # all before the first piece: what XML cannot say is refused, not cut off
    opening = [f'<binding name="{_attribute(name)}">' for name in variables]
    written = ("<result>" + _xml_bindings(opening, row, memo) + "</result>" for row in rows)
    head = "".join(f'<variable name="{_attribute(name)}"/>' for name in variables)
    yield from _pieces(f"{_XML_HEAD}<head>{head}</head>\n<results>\n", written, "\n", "\n</results>\n</sparql>\n")


def _xml_bindings(opening: Sequence[str], row: Row, memo: _Memo) -> str:
    return "".join(
        f"{start}{memo[term]}</binding>" for start, term in zip(opening, row, strict=True) if term is not None
    )


# ---- CSV and TSV ----


def csv_term(text: bytes) -> str:
    term = parse_term(text)
    return _csv_field(f"_:{term.value}" if term.kind == "blank" else term.value)


def _csv_field(value: str) -> str:
    if any(sign in value for sign in ',"\r\n'):
        return '"' + value.replace('"', '""') + '"'
    return value


def tsv_term(text: bytes) -> str:
    return text.decode().replace("\t", "\\t")  # N-Triples is what TSV wants, but for a bare tab


def write_csv(variables: Sequence[str], rows: Sequence[Row], boolean: bool | None) -> Iterator[bytes]:
    return _write_table(variables, rows, boolean, csv_term, "", ",", "\r\n")


def write_tsv(variables: Sequence[str], rows: Sequence[Row], boolean: bool | None) -> Iterator[bytes]:
    return _write_table(variables, rows, boolean, tsv_term, "?", "\t", "\n")


def _write_table(
    variables: Sequence[str],
    rows: Sequence[Row],
    boolean: bool | None,
    translate: Callable[[bytes], str],
    mark: str,
    comma: str,
    end: str,
) -> Iterator[bytes]:
    if boolean is not None:
        yield f"{mark}{_ASK_COLUMN}{end}{'true' if boolean else 'false'}{end}".encode()
        return
    memo = _Memo(translate)
    written = (comma.join("" if term is None else memo[term] for term in row) + end for row in rows)
    yield from _pieces(comma.join(mark + name for name in variables) + end, written, "", "")


WRITERS: dict[str, Writer] = {"json": write_json, "xml": write_xml, "csv": write_csv, "tsv": write_tsv}
