"""The catalog: which streams and which registered queries there are, at one snapshot.

A definition is stored as a catalog change in the row of its snapshot, so every process that reads the store finds the
same catalog at the same snapshot. A `Catalog` is immutable: a change makes a new one. The number of a stream or a query
is never used again; its name may be."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import quote

import msgspec

from hbase_store import Store
from stream_ext.catalog.options import StreamOptions
from stream_ext.catalog.past import PastEvent
from stream_ext.catalog.persistent_map import Layered
from stream_ext.catalog.sources import MAIN_NUMBER, HeldPattern, SourceRecord, decoded
from stream_ext.computed_once import computed_once
from stream_ext.errors import BadArgument, NotFound
from stream_ext.names import is_iri, meant
from stream_ext.windows.query_state import QueryState

if TYPE_CHECKING:
    from stream_ext.catalog.registered import Registered

_NAMED_MAX = 5  # names in the error about an unknown one
_NAME = re.compile(r"[A-Za-z_][\w.-]*")


class StreamDefinition(msgspec.Struct, frozen=True, array_like=True):
    """`runs_by` is decided by the first push: by the clock, or by the times of its elements.

    `of_query` is the number of the query whose emissions are its elements; None: it gets pushes.
    `created_by` is the name of the query whose registration created it, until a client creates it or pushes to it: the
    name may have been a slip."""

    number: int
    name: str
    iri: str
    options: StreamOptions
    runs_by: Literal["clock", "elements"] | None = None
    of_query: int | None = None
    created_by: str | None = None


class MovePosition(msgspec.Struct, frozen=True, array_like=True):
    """The position of a query when its move was requested: the other runner continues from there."""

    position: int
    state: QueryState


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """Why a query is not evaluated any more, until it is resumed or replaced; it is stored, so also after a restart.

    `kind`: the query exceeded its budget; its step ended, or hung, one worker process after another; or it stayed
    behind for too long. Example: Failure("budget", "an evaluation took longer than 300 s")."""

    kind: Literal["budget", "worker", "behind"]
    message: str

    @property
    def state(self) -> Literal["failed", "parked"]:
        """What the query's status says."""
        return "failed" if self.kind == "budget" else "parked"


#: Where a query is that is not where all others are.
Home = Literal["inline", "replay"]


class QueryDefinition(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`text` is what was sent; `streams` are the numbers of its windows' streams, in the order of the windows.

    `since` is the snapshot from which it runs, with `state`: that of its registration, or of the last time that it was
    resumed. A query that is `paused` or has a `failure` is not evaluated. One that `constructs` emits triples. A `live`
    one ends with the connection that registered it. `output`: the stream of its emissions. A query that reads
    `any_stream` has a window on a variable: `streams` are those of its other windows. A query with `home` inline stays
    in the server's process when the others are on Spark; with `replay`, until it has caught up. `left`: its position
    when it was last moved. `remote_patterns`: its patterns that the source main is asked for at each evaluation, as too
    many quads match to be held. `placement`: the same number for all queries of a template, by which a shard of Spark
    is chosen; 0: the query's number. `functions`: those of the source's process that it calls, by IRI; with any, the
    source evaluates it as a whole. `past`: what happened to it, and to earlier queries that it replaced; the latest is
    the last."""

    number: int
    name: str
    iri: str
    text: str
    base: str
    r2s: str
    variables: list[str]
    streams: list[int]
    registered_sn: int
    state: QueryState
    since: int = 0
    paused: bool = False
    constructs: bool = False
    live: bool = False
    output: int | None = None
    any_stream: bool = False
    home: Home | None = None
    left: MovePosition | None = None
    failure: Failure | None = None
    remote_patterns: list[HeldPattern] = []
    placement: int = 0
    functions: list[str] = []
    past: list[PastEvent] = []

    @property
    def asks_source(self) -> bool:
        """Whether the source main takes part in each evaluation."""
        return bool(self.remote_patterns or self.functions)

    @property
    def is_evaluated(self) -> bool:
        """Whether a runner evaluates it: it is neither paused nor failed."""
        return not self.paused and self.failure is None

    def current_state(self, stored: QueryState | None) -> QueryState:
        """The state from which it continues: the `stored` one, if that is not older than `since`, else `state`."""
        return stored if stored is not None and stored.sn >= max(self.since, 1) else self.state


@dataclass(frozen=True, slots=True)
class CatalogStep:
    """One change of the catalog: a definition that is new or replaced; None: the definition is deleted.

    `registered`: what the text of a query means, if the change had to know it; it is not stored."""

    kind: Literal["stream", "query", "source"]
    number: int
    definition: StreamDefinition | QueryDefinition | SourceRecord | None
    registered: Registered | None = None

    def body(self) -> bytes | None:
        return None if self.definition is None else encoded(self.definition)


@dataclass(frozen=True)
class Catalog:
    """Streams and queries by number, and the sources of which something is held. Other indexes are built when they are
    first used, and updated with each change."""

    streams: Mapping[int, StreamDefinition] = field(default_factory=dict)
    queries: Mapping[int, QueryDefinition] = field(default_factory=dict)
    sources: Mapping[int, SourceRecord] = field(default_factory=dict)

    @classmethod
    def read(cls, store: Store, sn: int) -> Catalog:
        streams, queries, sources = {}, {}, {}
        for (kind, number), body in store.catalog(sn).items():
            if kind == "stream":
                streams[number] = _stream_of(body)
            elif kind == "query":
                queries[number] = definition_of(body)
            elif kind == "source":
                sources[number] = decoded(body)
        return cls(streams, queries, sources)

    def followed(
        self, store: Store, sn: int, definition: Callable[[int, bytes], QueryDefinition] | None = None
    ) -> Catalog:
        """The catalog at `sn`; this is the one of the snapshot before. `definition`: of a query, from its number and
        what is stored of it."""
        catalog = self
        for kind, number, body in ((each.kind, each.number, each.body) for each in store.row(sn).catalog):
            if kind == "stream":
                catalog = catalog.after(CatalogStep("stream", number, None if body is None else _stream_of(body)))
            elif kind == "query" and body is not None:
                query = definition_of(body) if definition is None else definition(number, body)
                catalog = catalog.after(CatalogStep("query", number, query))
            elif kind == "query":
                catalog = catalog.after(CatalogStep("query", number, None))
            elif kind == "source":
                catalog = catalog.after(CatalogStep("source", number, None if body is None else decoded(body)))
        return catalog

    def after(self, step: CatalogStep) -> Catalog:
        if step.kind == "stream":
            assert not isinstance(step.definition, QueryDefinition | SourceRecord), "kind says which"
            streams = _after(self.streams, step.number, step.definition)
            return replace(self, streams=streams)._with(self.__dict__, _OF_QUERIES)
        if step.kind == "source":
            assert not isinstance(step.definition, QueryDefinition | StreamDefinition), "kind says which"
            sources = _after(self.sources, step.number, step.definition)
            return replace(self, sources=sources)._with(self.__dict__, (*_OF_QUERIES, *_OF_STREAMS))
        assert not isinstance(step.definition, StreamDefinition | SourceRecord), "kind says which"
        queries = Layered.of(self.queries).after({step.number: step.definition})
        changed = replace(self, queries=queries)._with(self.__dict__, _OF_STREAMS)
        before, definition = self.queries.get(step.number), changed.queries.get(step.number)
        if "_queries_by_name" in self.__dict__:
            names: dict[str, QueryDefinition | None] = {} if before is None else {before.name: None, before.iri: None}
            if definition is not None:
                names |= {definition.name: definition, definition.iri: definition}
            changed.__dict__["_queries_by_name"] = self._queries_by_name.after(names)
        if "_special" in self.__dict__:
            changed.__dict__["_special"] = _after_special(self._special, step.number, definition)
        return changed

    @property
    def main(self) -> SourceRecord | None:
        """What is held of the source `main`; None: nothing ever was."""
        return self.sources.get(MAIN_NUMBER)

    @computed_once
    def remote_patterns(self) -> frozenset[HeldPattern]:
        """What the source `main` is asked for by registered queries."""
        return frozenset(pattern for query in self.queries.values() for pattern in query.remote_patterns)

    def _with(self, known: Mapping[str, object], names: Sequence[str]) -> Catalog:
        self.__dict__.update({name: known[name] for name in names if name in known})
        return self

    def find_stream(self, key: str) -> StreamDefinition | None:
        return self._streams_by_name.get(key)

    def find_query(self, key: str) -> QueryDefinition | None:
        return self._queries_by_name.get(key)

    @computed_once
    def _streams_by_name(self) -> dict[str, StreamDefinition]:
        return {key: stream for stream in self.streams.values() for key in (stream.name, stream.iri)}

    @computed_once
    def _queries_by_name(self) -> Layered[str, QueryDefinition]:
        return Layered({key: query for query in self.queries.values() for key in (query.name, query.iri)})

    @computed_once
    def _special(self) -> dict[int, QueryDefinition]:
        """The queries that have an output stream, or read any stream: few."""
        return {number: query for number, query in self.queries.items() if _is_special(query)}

    @computed_once
    def deriving(self) -> list[QueryDefinition]:
        """The queries with an output stream."""
        return [query for query in self._special.values() if query.output is not None]

    def stream(self, key: str, may_make: bool = True) -> StreamDefinition:
        """`may_make`: the error says how to create the stream."""
        if (found := self.find_stream(key)) is None:
            names = list(dict.fromkeys([*self.stream_names(), *(stream.name for stream in self.streams.values())]))
            says = f"there is no stream {key!r}{meant(key, self.stream_names())}{_listed_names(names)}"
            if may_make:
                says += f"; CREATE STREAM {f'<{key}>' if is_iri(key) else key} creates it, or PUT "
                says += f"/streams/{quote(key, safe='')}"
            raise NotFound(says)
        return found

    def stream_names(self) -> list[str]:
        """The names of streams that were not created by a registration alone."""
        return [stream.name for stream in self.streams.values() if stream.created_by is None]

    def query(self, key: str) -> QueryDefinition:
        if (found := self.find_query(key)) is None:
            if self.find_stream(key) is not None:
                raise NotFound(f"there is no registered query {key!r}: it is a stream; SHOW QUERIES lists the queries")
            raise NotFound(
                f"there is no registered query {key!r}{meant(key, self._queries_by_name)}"
                f"{_listed_names([query.name for query in islice(self.queries.values(), _NAMED_MAX + 1)])}; "
                "SHOW QUERIES lists them"
            )
        return found

    @property
    def reads_any_stream(self) -> bool:
        return any(query.any_stream for query in self._special.values())

    def readers_of(self, stream: int) -> list[QueryDefinition]:
        return [query for query in self.queries.values() if query.any_stream or stream in query.streams]

    def streams_of(self, query: QueryDefinition) -> list[int]:
        """The streams that a query reads, as far as they exist."""
        return sorted(self.streams) if query.any_stream else [each for each in query.streams if each in self.streams]

    @property
    def stream_iris(self) -> list[str]:
        """The oldest stream first."""
        return [self.streams[number].iri for number in sorted(self.streams)]


def _listed_names(names: Sequence[str]) -> str:
    if not names:
        return "; there is none yet"
    more = ", ..." if len(names) > _NAMED_MAX else ""
    return f"; there {'is' if len(names) == 1 else 'are'} {', '.join(map(repr, names[:_NAMED_MAX]))}{more}"


def _stream_of(body: bytes) -> StreamDefinition:
    return msgspec.msgpack.decode(body, type=StreamDefinition)


def encoded(definition: StreamDefinition | QueryDefinition | SourceRecord) -> bytes:
    return msgspec.msgpack.encode(definition)


def definition_of(body: bytes) -> QueryDefinition:
    """What many definitions have alike (their variables, their states) is one object in all of them."""
    read = msgspec.msgpack.decode(body, type=QueryDefinition)
    alike = {name: getattr(read, name) for name in _ALIKE}
    return msgspec.structs.replace(read, **_ALIKE_OBJECTS.get(msgspec.msgpack.encode(alike), alike))


#: Fields that are mostly the same in the queries of a template.
_ALIKE = ("base", "r2s", "variables", "streams", "state", "remote_patterns", "functions", "past")


class _AlikeObjects:
    """Equal dicts are stored once: for a key, the first one that had it. They are never changed."""

    def __init__(self, most: int = 1024) -> None:
        self._most = most
        self._seen: dict[bytes, dict[str, Any]] = {}

    def get(self, key: bytes, alike: dict[str, Any]) -> dict[str, Any]:
        """Those with this key that were seen first; or these."""
        if len(self._seen) >= self._most:
            self._seen.clear()
        return self._seen.setdefault(key, alike)


_ALIKE_OBJECTS = _AlikeObjects()


#: The indexes that depend on streams only, and on queries only.
_OF_STREAMS = ("_streams_by_name",)
_OF_QUERIES = ("_queries_by_name", "_special", "deriving")


def _is_special(query: QueryDefinition) -> bool:
    return query.output is not None or query.any_stream


def _after_special(
    now: dict[int, QueryDefinition], number: int, definition: QueryDefinition | None
) -> dict[int, QueryDefinition]:
    if definition is not None and _is_special(definition):
        return now | {number: definition}
    return {other: query for other, query in now.items() if other != number} if number in now else now


Definition = TypeVar("Definition", StreamDefinition, SourceRecord)


def _after(now: Mapping[int, Definition], number: int, definition: Definition | None) -> dict[int, Definition]:
    changed = dict(now)
    if definition is None:
        changed.pop(number, None)
    else:
        changed[number] = definition
    return changed


@dataclass(frozen=True, slots=True)
class Names:
    """The two names of a stream or a query."""

    name: str
    iri: str


def names_of(key: str, folder: str, own_iri: str | None = None) -> Names:
    """`key` is a bare name or an IRI; `folder` is <base>streams/ or <base>queries/.

    Something that has an IRI only is named by its IRI."""
    if _NAME.fullmatch(key):
        return Names(key, own_iri or folder + key)
    if not is_iri(key):
        raise BadArgument(f"{key!r} is neither a name (a letter or _, then letters, digits, _ . -) nor an absolute IRI")
    if own_iri is not None and own_iri != key:
        raise BadArgument(f"the stream is addressed as {key!r}, but its option iri says {own_iri!r}")
    local = key.removeprefix(folder)
    return Names(local if local != key and _NAME.fullmatch(local) else key, key)


def generated_name(is_used: Callable[[str], bool]) -> str:
    """q1, q2, ...: a free name after a used one, found by doubling and halving instead of trying all."""
    if not is_used("q1"):
        return "q1"
    low, high = 1, 2
    while is_used(f"q{high}"):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_used(f"q{middle}") else (low, middle)
    return f"q{high}"
