"""What the editor completes: the words of the language, and the names that this store has, each with a count."""

from __future__ import annotations

import json
import logging
import time
from contextlib import suppress
from functools import partial
from typing import Any

from flask import Response, jsonify

from endpoint.console.room import Room
from hbase_store.errors import SnapshotGone, StoreError
from hbase_store.layout.terms import parse_term
from stream_ext.errors import RilletError
from stream_ext.language.syntax.words import AGGREGATES, FUNCTIONS, KEYWORDS

log = logging.getLogger(__name__)

_NAMES_MAX = 500
#: The words of the language, as JSON for the editor.
WORDS = json.dumps({"keywords": sorted(KEYWORDS), "functions": sorted({*FUNCTIONS, *AGGREGATES})})
_DEADLINE_S = 5.0
_CLASSES = f"""SELECT ?class (COUNT(*) AS ?count) {{ ?s a ?class }}
GROUP BY ?class ORDER BY DESC(?count) LIMIT {_NAMES_MAX}"""
_STREAMS_MAX = 20
#: The last so many elements; fewer, if so many are not retained.
_LAST_ELEMENTS = (10, 3, 1)
_PREDICATES_MAX = 50  # of a stream
_ALL_S, _STREAM_S = 2.0, 2.0
_RECENT = """SELECT DISTINCT ?predicate
FROM NAMED WINDOW <urn:recent> ON STREAM <{stream}> [ELEMENTS {elements}] {{
  WINDOW <urn:recent> {{ ?subject ?predicate ?object }}
}} ORDER BY ?predicate LIMIT {most}"""


def page(room: Room) -> Response:
    counts, service = room.statistics.counts(), room.service
    queries = service.queries()
    known: dict[str, Any] = {
        "prefixes": room.prefixes(),
        "predicates": _iris(counts.predicates),
        "classes": room.classes.at(counts.sn, partial(_classes, room)),
        "graphs": _iris(counts.named),
        "stream_predicates": _stream_predicates(room),
        "streams": [[stream.name, stream.iri] for stream in service.streams()[:_NAMES_MAX]],
        "queries": [[query.name, query.iri] for query in queries[:_NAMES_MAX]],
    }
    return jsonify(known)


def _iris(counted: dict[bytes, int]) -> list[tuple[str, int]]:
    """The most used ones."""
    first = list(counted.items())[:_NAMES_MAX]
    return [(parsed.value, count) for term, count in first if (parsed := parse_term(term)).kind == "iri"]


def _classes(room: Room) -> list[tuple[str, int]]:
    try:
        with room.control(_DEADLINE_S) as control:
            rows = room.service.decode(room.service.query(_CLASSES, control=control))
    except (RilletError, StoreError) as error:
        log.info("the editor completes no classes: %s", error)
        return []
    named = [(parse_term(name), parse_term(count)) for name, count in rows if name is not None and count is not None]
    return [(name.value, int(count.value)) for name, count in named if name.kind == "iri"]


def _stream_predicates(room: Room) -> list[tuple[str, str]]:
    """Predicates, each with the names of its streams; of some streams only, if they are many or it takes long."""
    ends_s = time.monotonic() + _ALL_S
    found: dict[str, list[str]] = {}
    for stream in room.service.streams()[:_STREAMS_MAX]:
        if time.monotonic() >= ends_s:
            break
        for predicate in _predicates_of(room, stream.name, stream.iri):
            found.setdefault(predicate, []).append(stream.name)
    return [(predicate, ", ".join(names)) for predicate, names in found.items()]


def _predicates_of(room: Room, name: str, iri: str) -> list[str]:
    at = room.service.stream_status(iri)["time"]
    if at is None:
        return []
    try:
        for elements in _LAST_ELEMENTS:
            text = _RECENT.format(stream=iri, elements=elements, most=_PREDICATES_MAX)
            with suppress(SnapshotGone), room.control(_STREAM_S) as control:
                rows = room.service.decode(room.service.query(text, at=at, control=control))
                return [parse_term(term).value for (term,) in rows if term is not None]
    except (RilletError, StoreError) as error:
        log.info("the editor completes no predicates of the stream %s: %s", name, error)
    return []
