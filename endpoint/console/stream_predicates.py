"""Which predicates the last elements of the streams have: the editor offers them, as the store may have none of them.

city_buses: the last 10 elements have city:bus, city:delay
=>  city:bus  of the stream city_buses"""

from __future__ import annotations

import logging
import time
from contextlib import suppress

from endpoint.console.room import Room
from hbase_store.errors import SnapshotGone, StoreError
from hbase_store.layout.terms import parse_term
from stream_ext.errors import RilletError

log = logging.getLogger(__name__)

_STREAMS_MAX = 20
#: The last so many elements; fewer, if so many are not retained.
_ELEMENTS = (10, 3, 1)
_PREDICATES_MAX = 50  # of a stream
_ALL_S, _STREAM_S = 2.0, 2.0
_RECENT = """SELECT DISTINCT ?predicate
FROM NAMED WINDOW <urn:recent> ON STREAM <{stream}> [ELEMENTS {elements}] {{
  WINDOW <urn:recent> {{ ?subject ?predicate ?object }}
}} ORDER BY ?predicate LIMIT {most}"""


def stream_predicates(room: Room) -> list[tuple[str, str]]:
    """Predicates, each with the names of its streams; of some streams only, if they are many or it takes long."""
    ends_s = time.monotonic() + _ALL_S
    found: dict[str, list[str]] = {}
    for stream in room.service.streams()[:_STREAMS_MAX]:
        if time.monotonic() >= ends_s:
            break
        for predicate in _of(room, stream.name, stream.iri):
            found.setdefault(predicate, []).append(stream.name)
    return [(predicate, ", ".join(names)) for predicate, names in found.items()]


def _of(room: Room, name: str, iri: str) -> list[str]:
    at = room.service.stream_status(iri)["time"]
    if at is None:
        return []
    try:
        for elements in _ELEMENTS:
            text = _RECENT.format(stream=iri, elements=elements, most=_PREDICATES_MAX)
            with suppress(SnapshotGone), room.control(_STREAM_S) as control:
                rows = room.service.decode(room.service.query(text, at=at, control=control))
                return [parse_term(term).value for (term,) in rows if term is not None]
    except (RilletError, StoreError) as error:
        log.info("the editor completes no predicates of the stream %s: %s", name, error)
    return []
