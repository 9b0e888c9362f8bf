"""Changes of the catalog: creating and dropping a stream; pausing, resuming, moving, failing and dropping a query."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from stream_ext.catalog.catalog import (
    Catalog,
    CatalogStep,
    Failure,
    Home,
    MovePosition,
    QueryDefinition,
    StreamDefinition,
    names_of,
)
from stream_ext.catalog.options import CHANGEABLE, StreamOptions, parse_options
from stream_ext.catalog.past import PastEvent, What, with_event
from stream_ext.catalog.registered import Registered
from stream_ext.errors import NameInUse
from stream_ext.windows.schedule import initial_state
from stream_ext.writer.change import Change, HeadView, Intent


def create_stream(key: str, options: Mapping[str, object], base: str) -> Change:
    """Its result: the definition, and whether it is new."""
    own_iri, parsed = parse_options(options)
    names = names_of(key, base + "streams/", own_iri)

    def change(view: HeadView) -> Intent:
        existing = view.catalog.find_stream(key)
        if existing is not None:
            _check_same(existing, parsed, own_iri)
            meant = msgspec.structs.replace(existing, created_by=None)
            steps = [] if meant == existing else [CatalogStep("stream", existing.number, meant)]
            return Intent(result=lambda _: (meant, False), steps=steps)
        for other in (view.catalog.find_stream(names.name), view.catalog.find_stream(names.iri)):
            if other is not None:
                raise NameInUse(f"{key!r} is also a name of stream {other.name!r} (<{other.iri}>); use another name")
        number = view.new_number("stream")
        definition = StreamDefinition(number, names.name, names.iri, parsed)
        return Intent(result=lambda _: (definition, True), steps=[CatalogStep("stream", number, definition)])

    return change


def change_stream(key: str, options: Mapping[str, object]) -> Change:
    """Gives a stream other options, of those that may be changed; what else is given may only be as it is there. Its
    result: the definition."""
    own_iri, wanted = parse_options(options)

    def change(view: HeadView) -> Intent:
        existing = view.catalog.stream(key, may_make=False)
        given, there = wanted.as_json() | {"iri": own_iri}, existing.options.as_json() | {"iri": existing.iri}
        fixed = [name for name in options if name not in CHANGEABLE and given[name] != there[name]]
        if fixed:
            raise NameInUse(
                f"stream {existing.name!r} keeps its option {fixed[0]!r} ({_json(there[fixed[0]])}); only "
                f"{', '.join(CHANGEABLE)} can be changed: drop the stream first, or use another name"
            )
        fields = {field: getattr(wanted, field) for name, field in CHANGEABLE.items() if name in options}
        changed = msgspec.structs.replace(existing.options, **fields)
        definition = msgspec.structs.replace(existing, options=changed, created_by=None)
        step = CatalogStep("stream", existing.number, definition)
        return Intent(result=lambda _: definition, steps=[] if definition == existing else [step])

    return change


def _check_same(existing: StreamDefinition, options: StreamOptions, own_iri: str | None) -> None:
    if own_iri is not None and own_iri != existing.iri:
        raise NameInUse(
            f"stream {existing.name!r} already exists with the IRI <{existing.iri}>; drop it first, or use another name"
        )
    if options != existing.options:
        given, there = options.as_json(), existing.options.as_json()
        differing = [
            f'"{name}": {_json(given[name])} requested, {_json(there[name])} in use'
            for name in given
            if given[name] != there[name]
        ]
        raise NameInUse(
            f"stream {existing.name!r} already exists with other options ({'; '.join(differing)}): drop "
            "it first, or use another name"
        )


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def drop_stream(key: str) -> Change:
    def change(view: HeadView) -> Intent:
        stream = view.catalog.stream(key, may_make=False)
        if stream.of_query is not None:
            query = view.catalog.queries[stream.of_query]
            raise NameInUse(f"stream {stream.name!r} is the output of query {query.name!r}: drop the query")
        _check_unread(view.catalog, stream)
        return Intent(result=lambda _: None, steps=[CatalogStep("stream", stream.number, None)])

    return change


def _check_unread(catalog: Catalog, stream: StreamDefinition) -> None:
    readers = [query.name for query in catalog.readers_of(stream.number)]
    if readers:
        raise NameInUse(f"stream {stream.name!r} is read by {', '.join(map(repr, readers))}: drop these queries first")


def drop_query(key: str) -> Change:
    def change(view: HeadView) -> Intent:
        query = view.catalog.query(key)
        steps = [CatalogStep("query", query.number, None)]
        if query.output is not None:
            _check_unread(view.catalog, view.catalog.streams[query.output])
            steps.append(CatalogStep("stream", query.output, None))
        unused = [stream for stream in dict.fromkeys(query.streams) if _is_dropped_with(view, stream, query.number)]
        steps += [CatalogStep("stream", stream, None) for stream in unused]
        return Intent(result=lambda _: None, steps=steps)

    return change


def _is_dropped_with(view: HeadView, stream: int, query: int) -> bool:
    """Whether a registration has made the stream, and nobody else has anything to do with it."""
    definition = view.catalog.streams.get(stream)
    if definition is None or definition.created_by is None:
        return False
    return all(reader.number == query for reader in view.catalog.readers_of(stream))


def pause_query(key: str) -> Change:
    """From the next snapshot on it is evaluated no more. Its result: the snapshot."""

    def change(view: HeadView) -> Intent:
        query = view.catalog.query(key)
        if not query.is_evaluated:
            return Intent(result=int)
        paused = msgspec.structs.replace(query, paused=True, past=_past(query, view, "paused"))
        return Intent(result=int, steps=[CatalogStep("query", query.number, paused)])

    return change


def fail_query(number: int, failure: Failure, since: int) -> Change:
    """From the next snapshot on it is evaluated no more, and its status says why. Its result: whether that is so.

    What failed is the query as it ran `since` then. One that is gone, paused or failed by the time that this is
    published, or that somebody has resumed, stays as it is."""

    def change(view: HeadView) -> Intent:
        query = view.catalog.queries.get(number)
        if query is None or not query.is_evaluated or query.since != since:
            return Intent(result=lambda _: False)
        failed = msgspec.structs.replace(
            query, failure=failure, past=_past(query, view, failure.state, failure.message)
        )
        return Intent(result=lambda _: True, steps=[CatalogStep("query", number, failed)])

    return change


def resume_query(key: str, t0: int | None, failed: bool) -> Change:
    """It goes on as if registered now; but T0, once it was decided (`t0`), stays. Its result: the snapshot."""

    def change(view: HeadView) -> Intent:
        query = view.catalog.query(key)
        if query.is_evaluated and not failed:
            return Intent(result=int)
        registered = Registered.of(query, view.catalog)
        begins = initial_state(registered.timing_from(t0), view.positions, view.head, query.state)
        state = msgspec.structs.replace(begins, t0=t0, gap=True)
        resumed = msgspec.structs.replace(
            query, paused=False, failure=None, since=view.head + 1, state=state, past=_past(query, view, "resumed")
        )
        return Intent(result=int, steps=[CatalogStep("query", query.number, resumed, registered)])

    return change


_WHERE_TO: dict[Home | None, str] = {
    "inline": "to the server's process",
    "replay": "to the server's process, until tasks have evaluated what it has missed",
    None: "to Spark",
}


def move_query(key: str, home: Home | None, left: Callable[[QueryDefinition], MovePosition]) -> Change:
    """After the next snapshot another runner steps it. Its result: the snapshot."""

    def change(view: HeadView) -> Intent:
        query = view.catalog.query(key)
        if query.home == home:
            return Intent(result=int)
        past = _past(query, view, "moved", _WHERE_TO[home])
        moved = msgspec.structs.replace(query, home=home, left=left(query), past=past)
        return Intent(result=int, steps=[CatalogStep("query", query.number, moved)])

    return change


def _past(query: QueryDefinition, view: HeadView, what: What, why: str = "") -> list[PastEvent]:
    return with_event(query.past, PastEvent(view.store.now_ms(), view.head + 1, what, why))
