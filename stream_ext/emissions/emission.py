"""An emission: the result of a registered query at one evaluation, as it is stored and as it is sent.

Stored rows carry texts, not ids, so an emission can be read for as long as it is retained, whatever becomes of the
terms. A text that occurs in many rows is stored once; the rows are columns of places in the list of texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from hbase_store.layout.terms import parse_term
from stream_ext.catalog.catalog import QueryDefinition
from stream_ext.errors import QueryTooLarge
from stream_ext.remote.source import MAIN
from stream_ext.rows.key_table import KeyTable
from stream_ext.values.vocabulary import decoder
from stream_ext.windows.part import Ids, Part, WindowBounds
from stream_ext.windows.query_state import LastEvaluation

#: Of each source that the answer was made from, of which time its data were: {"main": {"as_of": {...}}}.
Sources = dict[str, dict[str, Any]]

_PLACES = np.dtype("<i4")
_NUMBERS = np.dtype("<u8")


def with_asked(part: Part, held: Sources | None) -> Sources | None:
    """The times of what is `held` of sources, and of what the source main was asked for."""
    if part.asked_as_of is None:
        return held
    first, last = part.asked_as_of
    found = held or {}
    main = {} if part.all_asked else found.get(MAIN, {})
    if (as_of := main.get("as_of")) is not None:
        first, last = min(first, as_of["from"]), max(last, as_of["to"])
    return found | {MAIN: main | {"as_of": {"from": first, "to": last}}}


class EmissionBody(msgspec.Struct, frozen=True, array_like=True):
    """`columns` has one int32 array for each variable: the place of each row's term in `terms`, -1 = unbound."""

    query: str
    number: int
    r2s: str
    time: int
    windows: list[WindowBounds]
    sn: int
    variables: list[str]
    terms: list[bytes]
    columns: list[bytes]
    boolean: bool | None
    repeated: int
    first: int | None
    gap: bool = False
    graph: bool = False  # the columns are those of triples
    at: LastEvaluation | None = None
    before: LastEvaluation | None = None  # the evaluation before that one
    sources: Sources | None = None


@dataclass(frozen=True, slots=True)
class Emission:
    """One emission as it is sent: its number, and its JSON object in one line."""

    number: int
    json: bytes


def body_of(
    part: Part,
    query: str,
    number: int,
    r2s: str,
    variables: list[str],
    decode: Callable[[Ids], list[bytes]],
    graph: bool = False,
    sources: Sources | None = None,
) -> EmissionBody:
    terms, columns = _texts(part.columns, decoder(part.created, decode))
    return EmissionBody(
        query,
        number,
        r2s,
        part.time,
        part.windows,
        part.sn,
        variables,
        terms,
        [column.tobytes() for column in columns],
        part.boolean,
        part.repeated,
        part.first,
        part.gap,
        graph,
        part.state.evaluated,
        part.before,
        sources,
    )


class SharedBody(msgspec.Struct, frozen=True, array_like=True):
    """The result of queries that are evaluated together, as it is stored: the rows of all queries.

    `whose` has the number of each row's query, ascending. The emission of one query is computed when it is read."""

    time: int
    windows: list[WindowBounds]
    sn: int
    terms: list[bytes]
    whose: bytes
    columns: list[bytes]
    boolean: bool | None  # the result of an ASK that has a row
    repeated: int
    first: int | None
    at: LastEvaluation | None
    before: LastEvaluation | None
    sources: Sources | None = None

    @classmethod
    def of(cls, part: Part, decode: Callable[[Ids], list[bytes]], sources: Sources | None = None) -> SharedBody:
        terms, columns = _texts(part.columns, decoder(part.created, decode))
        whose = part.queries[part.whose].astype(_NUMBERS)
        return cls(
            part.time, part.windows, part.sn, terms, whose.tobytes(), [column.tobytes() for column in columns],
            part.boolean, part.repeated, part.first, part.state.evaluated, part.before, sources,
        )  # fmt: skip

    def own(self, query: QueryDefinition, number: int, gap: bool) -> EmissionBody:
        """The emission of this query, under this number."""
        low, high = np.frombuffer(self.whose, _NUMBERS).searchsorted([query.number, query.number + 1]).tolist()
        columns = [np.frombuffer(column, _PLACES)[low:high] for column in self.columns]
        terms, columns = _of_these(self.terms, columns) if low < high else ([], columns)
        boolean = None if self.boolean is None else low < high
        return EmissionBody(
            query.name, number, query.r2s, self.time, self.windows, self.sn, query.variables, terms,
            [column.tobytes() for column in columns], boolean, self.repeated, self.first, gap, False,
            self.at, self.before, self.sources,
        )  # fmt: skip


def _of_these(
    terms: list[bytes], columns: list[npt.NDArray[np.int32]]
) -> tuple[list[bytes], list[npt.NDArray[np.int32]]]:
    """Only the terms that occur in these columns."""
    if not columns:
        return [], []
    used, places = np.unique(np.concatenate(columns), return_inverse=True)
    unbound = int(used[0] == -1)
    own = np.split((places.reshape(-1) - unbound).astype(_PLACES), len(columns))
    return [terms[place] for place in used[unbound:].tolist()], own


def _texts(
    columns: Sequence[Ids], decode: Callable[[Ids], list[bytes]]
) -> tuple[list[bytes], list[npt.NDArray[np.int32]]]:
    rows = len(columns[0]) if columns else 0
    if not rows:
        return [], [np.empty(0, _PLACES) for _ in columns]
    # Most ids of a large answer occur many times. They are numbered first, so that only distinct ids are sorted.
    table = KeyTable(1)
    slots = [table.number(np.ascontiguousarray(column).reshape(1, -1)) for column in columns]
    ids = table.ids(np.arange(table.used, dtype=np.int32), 0)
    order = np.argsort(ids)
    unbound = int(ids[order[0]] == 0)  # the id 0 is no term, and comes first
    places = np.empty(len(ids), _PLACES)
    places[order] = np.arange(-unbound, len(ids) - unbound)
    return decode(ids[order[unbound:]]), [places[each] for each in slots]


def columns_of(body: EmissionBody) -> list[npt.NDArray[np.int32]]:
    return [np.frombuffer(column, _PLACES) for column in body.columns]


encode_body = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(EmissionBody)
decode_shared_body = msgspec.msgpack.Decoder(SharedBody).decode


def decode_body(data: bytes) -> EmissionBody:
    return _decoder.decode(data)


# ---- JSON ------------------------------------------------------------------------------------------------------

_json = msgspec.json.Encoder().encode
#: The limit for the texts of one emission.
JSON_BYTES_MAX = 256 << 20


def to_json(body: EmissionBody) -> bytes:
    """The object of 'The wire, exactly', in one line."""
    opening = _json(
        {
            "query": body.query,
            "emission": body.number,
            "r2s": body.r2s,
            "time": body.time,
            "windows": [{"stream": w.stream, "from": w.start, "to": w.end, "bounds": w.bounds} for w in body.windows],
            "snapshot": body.sn,
        }
    )[:-1]
    repeated = b"" if not body.repeated else b',"repeated":%d,"first":%s' % (body.repeated, _json(body.first))
    gap = b',"gap":true' if body.gap else b""
    sources = b"" if body.sources is None else b',"sources":' + _json(body.sources)
    return b"".join((opening, repeated, gap, sources, b",", _answer(body), b"}"))


def _answer(body: EmissionBody) -> bytes:
    if body.boolean is not None:
        return b'"head":{},"boolean":' + _json(body.boolean)
    _check_length(body)
    if body.graph:
        return b'"graph":' + _json("".join(_triples(body)))
    rows = b",".join(_rows(body))
    return b'"head":{"vars":%s},"results":{"bindings":[%s]}' % (_json(body.variables), rows)


def _check_length(body: EmissionBody) -> None:
    """A long term may occur in many rows: it is stored once, but would be written for each row."""
    columns = columns_of(body)
    cells, longest = sum(map(len, columns)), max(map(len, [*body.terms, *body.variables]), default=0)
    if 2 * cells * longest <= JSON_BYTES_MAX:
        return
    lengths = np.array([*map(len, body.terms), 0], np.int64)  # the last place is that of what is unbound
    names = [0] * len(columns) if body.graph else [len(variable) for variable in body.variables]
    size = sum(int(lengths[c].sum()) + name * len(c) for c, name in zip(columns, names, strict=True))
    if size > JSON_BYTES_MAX:
        raise QueryTooLarge(
            f"emission {body.number} of {body.query!r} has terms of {size} bytes, more than the "
            f"{JSON_BYTES_MAX >> 20} MiB of one emission; read the query's latest answer as SPARQL "
            "results instead"
        )


def _triples(body: EmissionBody) -> Iterator[str]:
    """N-Triples, a line each."""
    texts = [term.decode() for term in body.terms]
    for s, p, o in zip(*(column.tolist() for column in columns_of(body)), strict=True):
        yield f"{texts[s]} {texts[p]} {texts[o]} .\n"


def _rows(body: EmissionBody) -> list[bytes]:
    shown = [term_json(term) for term in body.terms]
    columns = [
        _members(variable, column, shown) for variable, column in zip(body.variables, columns_of(body), strict=True)
    ]
    if not columns:
        return []
    return [b"{%s}" % b",".join(filter(None, row)) for row in zip(*columns, strict=True)]


def _members(variable: str, column: npt.NDArray[np.int32], shown: Sequence[bytes]) -> list[bytes]:
    """One JSON member for each row, made only of terms that occur in the column: all terms in each column would be far
    more."""
    name, places = _json(variable), column.tolist()
    members = {place: b"%s:%s" % (name, shown[place]) for place in set(places) - {-1}}
    members[-1] = b""  # an unbound variable has none
    return [members[place] for place in places]


def term_json(text: bytes) -> bytes:
    """A term as SPARQL's JSON results write it."""
    term = parse_term(text)
    if term.kind == "iri":
        return b'{"type":"uri","value":%s}' % _json(term.value)
    if term.kind == "blank":
        return b'{"type":"bnode","value":%s}' % _json(term.value)
    if term.language:
        return b'{"type":"literal","xml:lang":%s,"value":%s}' % (_json(term.language), _json(term.value))
    if term.datatype:
        return b'{"type":"literal","datatype":%s,"value":%s}' % (_json(term.datatype), _json(term.value))
    return b'{"type":"literal","value":%s}' % _json(term.value)


class Silence(NamedTuple):
    """A query was evaluated at `time` without an emission; its last emission before has the number `after`."""

    time: int
    after: int
