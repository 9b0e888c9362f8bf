"""Elements: a push after parsing and checking, before it has ids.

This is done in the caller's thread, so that it never delays the writer. The writer does what depends on the order of
pushes: the time of arrival, ids, and the stream's time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from hbase_store.errors import BadRow
from hbase_store.layout.slab import check_lengths
from hbase_store.layout.terms import iri, parse_term
from stream_ext.catalog.catalog import StreamDefinition
from stream_ext.errors import BadArgument, BadData, TooLarge
from stream_ext.rdf import MISSING, Parsed, Pushed, parse_push
from stream_ext.rdf.reading import ReadingBudget
from stream_ext.times import parse_time

Ids = npt.NDArray[np.uint64]
Indexes = npt.NDArray[np.int32]
Times = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


_first_byte = itemgetter(0)
_UNDERSCORE = ord("_")  # no other term begins with one


def is_blank(term: bytes) -> bool:
    return term[:2] == b"_:"


@dataclass(frozen=True, slots=True)
class BlankPlaces:
    """Which fresh blank node a label stands for: one a (scope, label), a scope being the push or an element."""

    keys: npt.NDArray[np.int64]  # sorted; scope * number of terms + term
    blank: Mask  # of each term
    per_element: bool

    @classmethod
    def of(cls, pushed: Pushed) -> BlankPlaces:
        parsed, per_element = pushed.parsed, pushed.blanks_per_element
        blank = np.fromiter(map(_first_byte, parsed.terms), np.uint8, len(parsed.terms)) == _UNDERSCORE
        places = cls(np.empty(0, np.int64), blank, per_element)
        if not blank.any():
            return places
        named, in_graphs = np.flatnonzero(pushed.graph >= 0), parsed.g >= 0
        used = [
            places._keys(parsed.s, pushed.element),
            places._keys(parsed.o, pushed.element),
            places._keys(parsed.g[in_graphs], pushed.element[in_graphs]),
            places._keys(pushed.graph[named], named.astype(np.int32)),  # of elements without triples, too
        ]
        return cls(np.unique(np.concatenate(used)), blank, per_element)

    def _keys(self, terms: Indexes, scope: Indexes) -> npt.NDArray[np.int64]:
        mask = self.blank[terms]
        scopes = scope[mask].astype(np.int64) if self.per_element else np.int64(0)
        return scopes * len(self.blank) + terms[mask]

    def fill(self, ids: Ids, blanks: Ids, terms: Indexes, scope: Indexes) -> Ids:
        if not len(terms) or not len(ids):
            return np.zeros(len(terms), np.uint64)
        filled = ids[terms]
        if len(self.keys):
            filled[self.blank[terms]] = blanks[np.searchsorted(self.keys, self._keys(terms, scope))]
        return filled


@dataclass(frozen=True, slots=True)
class Elements:
    """A push whose times (but for arrival), graphs and absorbed triples are known; terms are still texts."""

    parsed: Parsed
    element: Indexes  # of each triple
    time: Times  # of each element; MISSING where it is the time of arrival
    graph: Indexes  # of each element, into `parsed.terms`; -1 = none named
    absorbed: Mask | None  # of each triple; None: none is
    places: BlankPlaces
    of_several_graphs: bool = False  # some element has triples in several graphs; else all are in that of their element

    @property
    def timed(self) -> bool | None:
        """Whether the elements carry their times; None if there are no elements."""
        return bool(self.time[0] != MISSING) if len(self.time) else None


@dataclass(frozen=True, slots=True)
class EncodedElements:
    """Ids, aligned as in the store's stream columns."""

    graph: Ids
    s: Ids
    p: Ids
    o: Ids
    g: Ids | None  # None: the triples are in the graphs of their elements


def no_blanks(terms: Sequence[bytes]) -> BlankPlaces:
    """No term is given a fresh node: what blank nodes there are have ids of the store."""
    return BlankPlaces(np.empty(0, np.int64), np.zeros(len(terms), np.bool_), per_element=False)


def read_push(
    stream: StreamDefinition,
    data: bytes,
    media_type: str,
    timestamp: int | None,
    base: str,
    reading: ReadingBudget | None = None,
) -> Elements:
    """Parses a push, and applies the stream's options to it."""
    pushed = parse_push(data, media_type, timestamp, base, reading)
    check_terms(pushed.parsed.terms)
    time = _times(stream, pushed)
    missing = time == MISSING
    if missing.any() and not missing.all():
        raise BadArgument(
            "some elements of this push have a time and others do not: give every element a time, or "
            "give ?timestamp= for the others"
        )
    return Elements(
        pushed.parsed,
        pushed.element,
        time,
        pushed.graph,
        absorbed_of(stream, pushed.parsed),
        BlankPlaces.of(pushed),
        bool((pushed.parsed.g != pushed.graph[pushed.element]).any()),
    )


def check_terms(terms: Iterable[bytes]) -> None:
    """Terms that the store cannot hold are refused here, where they concern one request alone."""
    try:
        check_lengths(terms)
    except BadRow as error:
        raise TooLarge(str(error)) from error


def _times(stream: StreamDefinition, pushed: Pushed) -> Times:
    """The `time` predicate goes before all else; an element without it is an error."""
    if stream.options.time is None:
        return pushed.time
    parsed, times = pushed.parsed, np.full(len(pushed.time), MISSING, np.int64)
    predicate = _index_of(parsed.terms, iri(stream.options.time))
    rows = np.flatnonzero(parsed.p == predicate) if predicate is not None else np.empty(0, np.int64)
    for row in rows.tolist():
        element = int(pushed.element[row])
        try:
            time = _time_of(parsed.terms[parsed.o[row]])
        except BadArgument as error:
            raise BadArgument(f"element {element + 1}, by <{stream.options.time}>: {error}") from None
        if times[element] not in (MISSING, time):
            raise BadData(
                f"element {element + 1} has two times by <{stream.options.time}>: {times[element]} and {time}"
            )
        times[element] = time
    lacking = np.flatnonzero(times == MISSING)
    if len(lacking):
        raise BadArgument(
            f"element {int(lacking[0]) + 1} has no <{stream.options.time}>, "
            f"from which stream {stream.name!r} takes its times"
        )
    return times


def _time_of(term: bytes) -> int:
    if not term.startswith(b'"'):
        what = "a blank node" if is_blank(term) else term.decode()
        raise BadArgument(f"{what} is not a time: write milliseconds since the epoch or an xsd:dateTime")
    return parse_time(parse_term(term).value)


def absorbed_of(stream: StreamDefinition, parsed: Parsed) -> Mask | None:
    """Which triples the store absorbs; None: none."""
    timeless = stream.options.timeless
    if isinstance(timeless, bool):
        return np.ones(len(parsed.p), np.bool_) if timeless else None
    found = [_index_of(parsed.terms, iri(predicate)) for predicate in timeless]
    return np.isin(parsed.p, np.array([index for index in found if index is not None], np.int32))


def _index_of(terms: list[bytes], term: bytes) -> int | None:
    """The index of a term in a parsed push; None: no triple of the push has it."""
    try:
        return terms.index(term)
    except ValueError:
        return None


def assemble(elements: Elements, ids: Ids, blanks: Ids, default_graph: int) -> EncodedElements:
    """The columns, from the id of each term (0 for blank nodes) and as many fresh blank ids as there are places."""
    parsed, element, places = elements.parsed, elements.element, elements.places

    def graphs_of(graph: Indexes, scope: Indexes) -> Ids:
        found, named = np.full(len(graph), default_graph, np.uint64), graph >= 0
        found[named] = places.fill(ids, blanks, graph[named], scope[named])
        return found

    return EncodedElements(
        graphs_of(elements.graph, np.arange(len(elements.graph), dtype=np.int32)),
        places.fill(ids, blanks, parsed.s, element),
        ids[parsed.p],
        places.fill(ids, blanks, parsed.o, element),
        graphs_of(parsed.g, element) if elements.of_several_graphs else None,
    )
