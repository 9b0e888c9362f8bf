"""Pushes to a stream: which triples are one element, and what time each element carries."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import msgspec
import numpy as np

from hbase_store.layout import terms
from stream_ext.errors import BadArgument, BadData, UnsupportedMedia
from stream_ext.rdf.documents import (
    DOCUMENT_TYPES,
    JSON_LD,
    N_QUADS,
    NDJSON,
    TRIG,
    parameters_of,
    parse_rdf,
    read_rows,
)
from stream_ext.rdf.iris import is_absolute, resolve
from stream_ext.rdf.messages import MESSAGE_TYPES, Messages, parse_messages
from stream_ext.rdf.nesting import TOO_DEEP
from stream_ext.rdf.ntriples import check_lines, line_pieces, statement_rows
from stream_ext.rdf.parsed import MISSING, Numbering, Parsed, Pushed, Row
from stream_ext.rdf.plain_lines import PlainElements, plain_elements
from stream_ext.rdf.reading import ReadingBudget
from stream_ext.rdf.versions import VERSION_LABELS, is_of_messages
from stream_ext.times import checked_time, parse_time

PUSH_TYPES = (*DOCUMENT_TYPES, NDJSON)


def parse_push(
    data: bytes, media_type: str, timestamp: int | None, base: str, reading: ReadingBudget | None = None
) -> Pushed:
    """The elements of one push; `timestamp` is the time of those that carry none of their own."""
    media_type, is_log = _media_type(media_type)
    reading = reading or ReadingBudget()
    if media_type == NDJSON:
        return _parse_lines(data, timestamp, base, reading)
    if media_type in MESSAGE_TYPES:
        found = parse_messages(data, media_type, base, is_log, reading)
        if isinstance(found, Messages):
            return _message_an_element(found, timestamp)
        parsed = found
    else:
        parsed = parse_rdf(data, media_type, base, reading)
    if media_type in (N_QUADS, TRIG):
        return _graph_an_element(parsed, timestamp)
    if not len(parsed.s):
        if media_type == JSON_LD:
            _refuse_nameless(data)
        raise BadData(
            "the body has no triple, so it is not an element; to advance the time of the stream, send a heartbeat"
        )
    return Pushed(parsed, np.zeros(len(parsed.s), np.int32), _times(1, timestamp), parsed.g[:1].copy())


@lru_cache(maxsize=64)  # a producer writes the same one in each push
def _media_type(written: str) -> tuple[str, bool]:
    """The media type, and whether its parameters announce a message log. Other parameters than those that have a
    meaning here would be ignored in silence, so they are refused."""
    media_type, parameters = parameters_of(written, PUSH_TYPES)
    version = parameters.pop("version", None)
    parameters.pop("charset", None)
    if parameters:
        raise UnsupportedMedia(
            f"the parameter {next(iter(parameters))}= of {media_type} is not supported here; version= and charset= are"
        )
    if version is None:
        return media_type, False
    if version not in VERSION_LABELS or media_type == NDJSON:
        raise UnsupportedMedia(
            f"version={version} of {media_type} is not supported here; send one of {', '.join(VERSION_LABELS)}, "
            f"of {', '.join(t for t in PUSH_TYPES if t != NDJSON)}"
        )
    if is_of_messages(version) and media_type not in MESSAGE_TYPES:
        raise UnsupportedMedia(
            f"{media_type} has no delimiter of messages; send a message log as one of {', '.join(MESSAGE_TYPES)}, or "
            f"as {NDJSON}, in which each line is an element"
        )
    return media_type, is_of_messages(version)


def _message_an_element(found: Messages, timestamp: int | None) -> Pushed:
    """Each message is an element, whatever its graphs."""
    graph = np.full(found.count, -1, np.int32)
    first = np.searchsorted(found.message, np.arange(found.count))
    has_triples = np.bincount(found.message, minlength=found.count) > 0
    graph[has_triples] = found.parsed.g[first[has_triples]]
    return Pushed(found.parsed, found.message, _times(found.count, timestamp), graph, blanks_per_element=True)


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
    lines = _ElementLines(timestamp, base, reading)
    # A piece is not split before those ahead of it are read.
    for start, end in line_pieces(data, _PIECE_BYTES, returns=False):
        reading.check()
        piece = data[start:end]
        plain = plain_elements(piece)
        if plain is None:
            lines.add(piece)
        else:
            lines.add_plain(plain, piece.count(b"\n"))
    return lines.pushed()


class _ElementLines:
    """The elements of all lines that were added."""

    def __init__(self, timestamp: int | None, base: str, reading: ReadingBudget) -> None:
        self._timestamp, self._base, self._reading = timestamp, base, reading
        self._numbering, self._rows = Numbering(), list[Row]()
        self._sizes: list[int] = []
        self._times: list[int] = []
        self._graphs: list[bytes] = []
        self._lines = 0  # before those that are added next

    def add_plain(self, plain: PlainElements, lines: int) -> None:
        self._number()
        self._numbering.add_triples(plain.s, plain.p, plain.o, plain.iris)
        count = len(plain.times)
        self._sizes += [1] * count
        self._times += plain.times
        self._graphs += [b""] * count
        self._lines += lines

    def add(self, piece: bytes) -> None:
        lines = piece.split(b"\n")
        if piece.endswith(b"\n"):
            lines.pop()
        for line in lines:
            self._lines += 1
            if line.strip():
                self._add_line(line, self._lines)

    def _add_line(self, line: bytes, line_number: int) -> None:
        base, reading = self._base, self._reading
        try:
            element = _ELEMENT.decode(line)
            time = _time(element.timestamp, self._timestamp)
            found, graph = _element_rows(bytes(element.data), _graph(element.graph, base), base, reading)
        except (msgspec.MsgspecError, UnicodeError) as error:
            problem, column = _placed(str(error), line)
            raise BadData(f"this is not an element: {problem}; {_AN_ELEMENT}", line_number, column) from None
        except RecursionError:
            raise BadData(f"in this element: {TOO_DEEP}", line_number, 1) from None
        except (BadData, BadArgument) as error:
            raise BadData(f"in this element: {error}", line_number, 1) from None
        self._rows += _scoped(found, line_number)
        if len(self._rows) >= _ROWS_AT_ONCE:
            self._number()
        self._sizes.append(len(found))
        self._times.append(time)
        self._graphs.append(graph)

    def _number(self) -> None:
        rows, self._rows = self._rows, []
        self._numbering.add(rows)

    def pushed(self) -> Pushed:
        self._number()
        named = any(self._graphs)
        graphs = self._numbering.numbers(self._graphs) if named else np.full(len(self._graphs), -1, np.int32)
        element_of = np.arange(len(self._sizes), dtype=np.int32)
        if self._sizes.count(1) != len(self._sizes):
            element_of = np.repeat(element_of, self._sizes)
        return Pushed(self._numbering.parsed(), element_of, np.array(self._times, dtype=np.int64), graphs, True)


def _placed(message: str, line: bytes) -> tuple[str, int]:
    """The message of msgspec without its byte offset, and the column of that byte."""
    found = _AT_BYTE.search(message)
    if found is None:
        return message, 1
    return message[: found.start()], len(line[: int(found[1])].decode(errors="replace")) + 1


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
    """The triples of one line with their graphs, and the graph of the first; of an element without triples the
    `graph` of the line."""
    if data.startswith(b'"'):
        text, quads = _STRING.decode(data).encode(), not graph
        rows = statement_rows(text, quads)
        if b"\\" in text:
            check_lines(text, quads, one_a_line=False)  # escapes, while it is known whose they are
        return _in_graph(rows, graph)
    if not data.startswith(b"{") and not data.startswith(b"["):
        raise BadData("`data` must be a string of N-Triples or a JSON-LD object")
    rows = list[Row]()
    read_rows(data, JSON_LD, base, rows.extend, reading)
    if not rows:
        _refuse_nameless(data)
    if graph and {g for _, _, _, g in rows} not in ({b""}, {graph}, set()):
        raise BadData("`graph` gives the element one graph, and its JSON-LD names another: leave out `graph`")
    return _in_graph(rows, graph)


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


def _in_graph(rows: list[Row], graph: bytes) -> tuple[list[Row], bytes]:
    if graph:
        return [(s, p, o, graph) for s, p, o, _ in rows], graph
    return rows, rows[0][3] if rows else b""


def _scoped(rows: Sequence[Row], line_number: int) -> list[Row]:
    """The same rows with labels of their own: each line is a document, and labels end with their document."""
    scope = b"_:e%d." % line_number

    def scoped(text: bytes) -> bytes:
        return scope + text[2:] if text.startswith(b"_:") else text

    if not any(s.startswith(b"_:") or o.startswith(b"_:") or g.startswith(b"_:") for s, _, o, g in rows):
        return list(rows)
    return [(scoped(s), p, scoped(o), scoped(g)) for s, p, o, g in rows]
