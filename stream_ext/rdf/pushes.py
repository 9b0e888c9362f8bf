"""Pushes to a stream: which triples are one element, and what time each element carries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from hbase_store.layout import terms
from stream_ext.errors import BadArgument, BadData
from stream_ext.rdf.documents import (
    DOCUMENT_TYPES,
    JSON_LD,
    N_QUADS,
    NDJSON,
    TRIG,
    essence,
    parse_rdf,
    read_rows,
)
from stream_ext.rdf.iris import is_absolute, resolve
from stream_ext.rdf.nesting import TOO_DEEP
from stream_ext.rdf.ntriples import check_lines, line_pieces, statement_rows
from stream_ext.rdf.parsed import MISSING, Numbering, Parsed, Pushed, Row
from stream_ext.rdf.reading import ReadingBudget
from stream_ext.times import checked_time, parse_time

PUSH_TYPES = (*DOCUMENT_TYPES, NDJSON)


def parse_push(
    data: bytes, media_type: str, timestamp: int | None, base: str, reading: ReadingBudget | None = None
) -> Pushed:
    """The elements of one push; `timestamp` is the time of those that carry none of their own."""
    media_type, reading = essence(media_type, PUSH_TYPES), reading or ReadingBudget()
    if media_type == NDJSON:
        return _parse_lines(data, timestamp, base, reading)
    parsed = parse_rdf(data, media_type, base, reading)
    if media_type in (N_QUADS, TRIG):
        return _graph_an_element(parsed, timestamp)
    if not len(parsed.s):
        if media_type == JSON_LD:
            _refuse_nameless(data)
        raise BadData(
            "the body has no triple, so it is not an element; to advance the time of the stream, send a heartbeat"
        )
    graphs = np.unique(parsed.g)
    if len(graphs) > 1:
        raise BadData("the body is one element, and an element has one graph; send graphs as application/trig")
    return Pushed(parsed, np.zeros(len(parsed.s), np.int32), _times(1, timestamp), graphs.astype(np.int32))


def _times(count: int, timestamp: int | None) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.full(count, MISSING if timestamp is None else timestamp, dtype=np.int64)


def _graph_an_element(parsed: Parsed, timestamp: int | None) -> Pushed:
    """Each graph (the default one too) is an element, in order of first appearance."""
    graphs, first, inverse = np.unique(parsed.g, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    element = rank[inverse]
    if np.any(element[1:] < element[:-1]):
        by_element = np.argsort(element, kind="stable")
        element = element[by_element]
        s, p, o, g = (column[by_element] for column in (parsed.s, parsed.p, parsed.o, parsed.g))
        parsed = Parsed(parsed.terms, s, p, o, g)
    return Pushed(parsed, element, _times(len(graphs), timestamp), graphs[order].astype(np.int32))


# ---- application/x-ndjson ------------------------------------------------------------------------------------


class _Element(msgspec.Struct, forbid_unknown_fields=True):
    data: msgspec.Raw
    timestamp: int | str | None = None
    graph: str | None = None


_AN_ELEMENT = (
    'an element is a line {"timestamp": T, "graph": "IRI", "data": "<s> <p> <o> ."}, in which only data is required'
)
_AT_BYTE = re.compile(r" \(byte (\d+)\)$")
_ELEMENT = msgspec.json.Decoder(_Element)
_IRI_FORBIDDEN = re.compile(r'[\x00-\x20<>"{}|^`\\]')
_STRING = msgspec.json.Decoder(str)


#: So many rows are numbered together.
_ROWS_AT_ONCE = 1 << 12
#: So many bytes are taken apart into lines together.
_PIECE_BYTES = 1 << 17


def _parse_lines(data: bytes, timestamp: int | None, base: str, reading: ReadingBudget) -> Pushed:
    numbering, rows = Numbering(), list[Row]()
    sizes: list[int] = []
    times: list[int] = []
    graphs: list[bytes] = []
    for line_number, line in enumerate(_lines(data, reading), start=1):
        if not line.strip():
            continue
        try:
            element = _ELEMENT.decode(line)
            time = _time(element.timestamp, timestamp)
            found, graph = _element_rows(bytes(element.data), _graph(element.graph, base), base, reading)
        except (msgspec.MsgspecError, UnicodeError) as error:
            problem, column = _placed(str(error), line)
            raise BadData(f"this is not an element: {problem}; {_AN_ELEMENT}", line_number, column) from None
        except RecursionError:
            raise BadData(f"in this element: {TOO_DEEP}", line_number, 1) from None
        except (BadData, BadArgument) as error:
            raise BadData(f"in this element: {error}", line_number, 1) from None
        rows += _scoped(found, line_number)
        if len(rows) >= _ROWS_AT_ONCE:
            numbering.add(rows)
            rows = []
        sizes.append(len(found))
        times.append(time)
        graphs.append(graph)
    numbering.add(rows)
    element_graphs = numbering.numbers(graphs)
    element_of = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    return Pushed(numbering.parsed(), element_of, np.array(times, dtype=np.int64), element_graphs)


def _placed(message: str, line: bytes) -> tuple[str, int]:
    """The message of msgspec without its byte offset, and the column of that byte."""
    found = _AT_BYTE.search(message)
    if found is None:
        return message, 1
    return message[: found.start()], len(line[: int(found[1])].decode(errors="replace")) + 1


def _lines(data: bytes, reading: ReadingBudget) -> Iterator[bytes]:
    """A piece is not split before those ahead of it are read."""
    for start, end in line_pieces(data, _PIECE_BYTES, returns=False):
        reading.check()
        lines = data[start:end].split(b"\n")
        if data[end - 1 : end] == b"\n":
            lines.pop()
        yield from lines


def _time(written: int | str | None, default: int | None) -> int:
    time = parse_time(written) if isinstance(written, str) else written
    if time is None:
        return MISSING if default is None else default
    return checked_time(time)


def _graph(written: str | None, base: str) -> bytes:
    """The graph of an element as a term; <...> around the IRI is taken for what it means."""
    if written is None:
        return b""
    reference = written[1:-1] if written.startswith("<") and written.endswith(">") else written
    absolute = resolve(reference, base) if base else reference
    if not is_absolute(absolute) or _IRI_FORBIDDEN.search(absolute):
        raise BadArgument(f"the graph {written[:80]!r} is not an IRI")
    return terms.iri(absolute)


def _element_rows(data: bytes, graph: bytes, base: str, reading: ReadingBudget) -> tuple[list[Row], bytes]:
    """The triples of one line, each in the graph of their element, and that graph."""
    if data.startswith(b'"'):
        text = _STRING.decode(data).encode()
        rows = statement_rows(text)
        if b"\\" in text:
            check_lines(text, quads=False, one_a_line=False)  # escapes, while it is known whose they are
        return (rows if not graph else [(s, p, o, graph) for s, p, o, _ in rows]), graph
    if not data.startswith(b"{") and not data.startswith(b"["):
        raise BadData("`data` must be a string of N-Triples or a JSON-LD object")
    rows = list[Row]()
    read_rows(data, JSON_LD, base, rows.extend, reading)
    if not rows:
        _refuse_nameless(data)
    return _one_graph(rows, graph)


_LOOKED_THROUGH_BYTES = 1 << 18


def _refuse_nameless(data: bytes) -> None:
    """Refuses JSON-LD that has members, but no triple. JSON-LD ignores names that no context defines: plain JSON of a
    device would become an element without triples."""
    if len(data) > _LOOKED_THROUGH_BYTES:
        return  # no device sends so much by mistake
    written = msgspec.json.decode(data)
    for node in written if isinstance(written, list) else [written]:
        if not isinstance(node, dict) or "@context" in node:
            continue
        for name, value in node.items():
            if not name.startswith("@") and ":" not in name and value not in (None, [], {}):
                raise BadData(
                    f"this JSON-LD has no triple: {name!r} is not an IRI, and no @context maps it to one; "
                    'write {"@context": {"@vocab": "http://example.org/"}, ...} for example'
                )


def _one_graph(rows: list[Row], graph: bytes) -> tuple[list[Row], bytes]:
    named = {g for _, _, _, g in rows}
    if len(named) > 1 or (graph and named and named != {b""} and named != {graph}):
        raise BadData("an element has one graph, and this JSON-LD names another or several")
    graph = graph or next(iter(named), b"")
    return [(s, p, o, graph) for s, p, o, _ in rows], graph


def _scoped(rows: Sequence[Row], line_number: int) -> list[Row]:
    """The same rows with labels of their own: each line is a document, and labels end with their document."""
    scope = b"_:e%d." % line_number

    def scoped(text: bytes) -> bytes:
        return scope + text[2:] if text.startswith(b"_:") else text

    if not any(s.startswith(b"_:") or o.startswith(b"_:") for s, _, o, _ in rows):
        return list(rows)
    return [(scoped(s), p, scoped(o), scoped(g)) for s, p, o, g in rows]
