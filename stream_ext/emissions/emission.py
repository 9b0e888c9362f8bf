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

from stream_ext.catalog.catalog import QueryDefinition
from stream_ext.emissions.known_texts import KnownTexts, Texts
from stream_ext.emissions.terms_in_json import terms_json
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


def with_source_times(part: Part, held: Sources | None) -> Sources | None:
    """The times of what is `held` of sources, and of what the source main was asked for."""
    if part.source_as_of is None:
        return held
    first, last = part.source_as_of
    found = held or {}
    main = {} if part.none_held else found.get(MAIN, {})
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


def bodies_of(
    part: Part,
    query: QueryDefinition,
    first: int,
    decode: Callable[[Ids], list[bytes]],
    sources: Sources | None = None,
) -> Iterator[EmissionBody]:
    """Of a part with many emissions, of which the first gets the number `first`."""
    assert part.many is not None, "it has many emissions"
    if (known := part.terms) is None:
        decode = decoder(part.created, decode)
    else:
        decode = lambda places: [known[place - 1] for place in places.tolist()]  # noqa: E731
    texts = _texts_of_each(part.columns, np.array(part.many.stops), decode)
    for place, (each, (terms, columns)) in enumerate(zip(part.each(), texts, strict=True)):
        yield EmissionBody(
            query.name,
            first + place,
            query.r2s,
            part.many.times[place],
            each.windows,
            part.sn,
            query.variables,
            terms,
            columns,
            part.boolean,
            0,
            None,
            part.gap and not place,
            query.constructs,
            each.at,
            each.before,
            sources,
        )


def body_of(
    part: Part,
    query: str,
    number: int,
    r2s: str,
    variables: list[str],
    decode: Callable[[Ids], list[bytes]],
    graph: bool = False,
    sources: Sources | None = None,
    known: KnownTexts | None = None,
) -> EmissionBody:
    terms, columns = texts_of(part, decode, known)
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
    def of(
        cls,
        part: Part,
        decode: Callable[[Ids], list[bytes]],
        sources: Sources | None = None,
        known: KnownTexts | None = None,
    ) -> SharedBody:
        terms, columns = texts_of(part, decode, known)
        whose = part.queries[part.whose].astype(_NUMBERS)
        return cls(
            part.time, part.windows, part.sn, terms, whose.tobytes(), [column.tobytes() for column in columns],
            part.boolean, part.repeated, part.first, part.state.evaluated, part.before, sources,
        )  # fmt: skip

    def own(self, query: QueryDefinition, number: int, gap: bool) -> EmissionBody:
        """The emission of this query, under this number."""
        low, high = np.frombuffer(self.whose, _NUMBERS).searchsorted([query.number, query.number + 1]).tolist()
        columns = [np.frombuffer(column, _PLACES)[low:high] for column in self.columns]
        terms, columns = _only_used(self.terms, columns) if low < high else ([], columns)
        boolean = None if self.boolean is None else low < high
        return msgspec.structs.replace(
            self.without_rows(query, number, gap), terms=terms, columns=[column.tobytes() for column in columns],
            boolean=boolean,
        )  # fmt: skip

    def without_rows(self, query: QueryDefinition, number: int, gap: bool) -> EmissionBody:
        """The same, for one whose rows are known as JSON."""
        return EmissionBody(
            query.name, number, query.r2s, self.time, self.windows, self.sn, query.variables, [], [], None,
            self.repeated, self.first, gap, False, self.at, self.before, self.sources,
        )  # fmt: skip


def _only_used(
    terms: list[bytes], columns: list[npt.NDArray[np.int32]]
) -> tuple[list[bytes], list[npt.NDArray[np.int32]]]:
    """Only the terms that occur in these columns."""
    if not columns:
        return [], []
    used, places = np.unique(np.concatenate(columns), return_inverse=True)
    unbound = int(used[0] == -1)
    own = np.split((places.reshape(-1) - unbound).astype(_PLACES), len(columns))
    return [terms[place] for place in used[unbound:].tolist()], own


def texts_of(part: Part, decode: Callable[[Ids], list[bytes]], known: KnownTexts | None = None) -> Texts:
    """The distinct terms of a part, and of each column the places of its terms there. `known`: those of earlier
    parts."""
    if part.terms is None and known is not None and not part.created:
        return known.of(part.columns, lambda: _texts(part.columns, decode))
    if part.terms is None:
        return _texts(part.columns, decoder(part.created, decode))
    return part.terms, [column.astype(_PLACES) - 1 for column in part.columns]


def with_texts(part: Part, decode: Callable[[Ids], list[bytes]]) -> Part:
    """The part with texts instead of ids: nobody needs to decode it again."""
    terms, columns = texts_of(part, decode)
    places = [(column + 1).astype(np.uint64) for column in columns]
    return msgspec.structs.replace(part, terms=terms, columns=places, created=[])


def _texts(columns: Sequence[Ids], decode: Callable[[Ids], list[bytes]]) -> Texts:
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


def _texts_of_each(
    columns: Sequence[Ids], stops: npt.NDArray[np.int64], decode: Callable[[Ids], list[bytes]]
) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """As `_texts`, of emissions whose rows end at `stops`: the terms of each, and its columns as bytes."""
    starts = np.concatenate([stops[:1] * 0, stops[:-1]])
    if not columns:
        yield from (([], []) for _ in stops)
        return
    ids, ranks = np.unique(np.stack(columns), return_inverse=True)
    unbound = int(ids[0] == 0)
    # Of each emission the distinct ids in order: the terms, as each emission has them by itself.
    owners = np.repeat(np.arange(len(stops)), stops - starts)
    used, cells = np.unique(owners * len(ids) + ranks.reshape(len(columns), -1), return_inverse=True)
    owner, rank = np.divmod(used, len(ids))
    is_term = rank >= unbound
    firsts = np.searchsorted(owner[is_term], np.arange(len(stops) + 1))
    places = np.where(is_term, np.cumsum(is_term) - 1 - firsts[owner], -1).astype(_PLACES)
    texts = np.array([*decode(ids[unbound:]), b""], object)[rank[is_term] - unbound].tolist()
    lines = [line.tobytes() for line in places[cells].reshape(len(columns), -1)]
    size = _PLACES.itemsize
    rows, bounds = zip(starts.tolist(), stops.tolist(), strict=True), firsts.tolist()
    for place, (low, high) in enumerate(rows):
        yield texts[bounds[place] : bounds[place + 1]], [line[low * size : high * size] for line in lines]


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


def to_json(body: EmissionBody, answer: bytes | None = None) -> bytes:
    """The object of 'The wire, exactly', in one line. `answer`: its `answer_json`, if that is known; then the rows of
    `body` are not read."""
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
    return b"".join((opening, repeated, gap, sources, b",", answer_json(body) if answer is None else answer, b"}"))


def answer_json(body: EmissionBody) -> bytes:
    """The result of an emission as members of its JSON object: `head` and `results` (`boolean`, `graph`)."""
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
    shown, found = terms_json(body.terms), columns_of(body)
    if not found:
        return []
    if all(column.min(initial=0) >= 0 for column in found):  # each variable is bound in each row
        members = (_json(variable).replace(b"%", b"%%") + b":%s" for variable in body.variables)
        row_of = b"{%s}" % b",".join(members)
        return [
            row_of % row for row in zip(*([shown[place] for place in column.tolist()] for column in found), strict=True)
        ]
    columns = [_members(variable, column, shown) for variable, column in zip(body.variables, found, strict=True)]
    return [b"{%s}" % b",".join(filter(None, row)) for row in zip(*columns, strict=True)]


def _members(variable: str, column: npt.NDArray[np.int32], shown: Sequence[bytes]) -> list[bytes]:
    """One JSON member for each row, made only of terms that occur in the column: all terms in each column would be far
    more."""
    name, places = _json(variable), column.tolist()
    members = {place: b"%s:%s" % (name, shown[place]) for place in set(places) - {-1}}
    members[-1] = b""  # an unbound variable has none
    return [members[place] for place in places]


class Silence(NamedTuple):
    """A query was evaluated without an emission; its last emission before has the number `after`."""

    at: LastEvaluation
    after: int
