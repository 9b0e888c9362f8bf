"""One resource: what is stored of it, as subject and as object, in the default graph and in named graphs; and what the
last elements of streams say of it."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass

from flask import render_template, request
from flask.typing import ResponseReturnValue

from endpoint.console.display import Shown, shown
from endpoint.console.room import Room
from hbase_store.errors import StoreError
from hbase_store.layout.terms import iri as iri_term
from stream_ext.errors import BadArgument, RilletError

log = logging.getLogger(__name__)

_DEADLINE_S = 10.0
_TRIPLES_MAX = 200
#: What streams say: of so many streams, in so many last elements of each.
_STREAMS_MAX = 20
_ELEMENTS = 100
_FROM_STREAM_MAX = 20
_STREAMS_DEADLINE_S = 2.0
_OF_STREAM = """SELECT DISTINCT ?subject ?predicate ?object
FROM NAMED WINDOW <urn:lately> ON STREAM <{stream}> [ELEMENTS {elements}]
WHERE {{
  WINDOW <urn:lately> {{ ?subject ?predicate ?object }}
  FILTER (?subject = <{iri}> || ?object = <{iri}>)
}} LIMIT {limit}"""
_IRI = re.compile(r'[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>"{}|^`\\]*')


@dataclass(frozen=True, slots=True)
class Triples:
    """Rows of graph (None: the default graph), predicate, and the other end."""

    rows: list[tuple[Shown | None, Shown | None, Shown | None]]
    cut: bool


@dataclass(frozen=True, slots=True)
class FromStream:
    """Triples of the last elements of a stream: subject, predicate and object."""

    stream: str
    rows: list[tuple[Shown | None, ...]]
    cut: bool


def page(room: Room) -> ResponseReturnValue:
    iri = request.args.get("iri", "").strip()
    if not _IRI.fullmatch(iri):
        raise BadArgument(f"{iri[:200]!r} is not an IRI: give one as ?iri=http://example.org/a")
    return render_template(
        "console/resource.html",
        iri=iri,
        name=shown(iri_term(iri), room.prefixes()),
        outgoing=_triples(room, f"<{iri}> ?predicate ?other"),
        incoming=_triples(room, f"?other ?predicate <{iri}>"),
        uses=_triples(room, f"?predicate <{iri}> ?other"),
        limit=_TRIPLES_MAX,
        from_streams=list(_from_streams(room, iri)),
        elements=_ELEMENTS,
    )


def _from_streams(room: Room, iri: str) -> Iterator[FromStream]:
    """Triples about the resource in the last elements of streams, until the deadline: other streams are left out."""
    prefixes = room.prefixes()
    with room.control(_STREAMS_DEADLINE_S) as control:
        for stream in room.service.streams()[:_STREAMS_MAX]:
            text = _OF_STREAM.format(iri=iri, stream=stream.iri, elements=_ELEMENTS, limit=_FROM_STREAM_MAX + 1)
            try:
                time = room.service.stream_status(stream.iri)["time"]
                if time is None:
                    continue
                rows = room.service.decode(room.service.query(text, at=time, control=control))
            except (RilletError, StoreError) as error:
                log.info("the page of a resource leaves out the stream %s: %s", stream.name, error)
                continue
            if rows:
                found = [tuple(None if term is None else shown(term, prefixes) for term in row) for row in rows]
                yield FromStream(stream.name, found[:_FROM_STREAM_MAX], len(found) > _FROM_STREAM_MAX)


def _triples(room: Room, pattern: str) -> Triples:
    text = f"SELECT ?graph ?predicate ?other {{ {{ {pattern} }} UNION {{ GRAPH ?graph {{ {pattern} }} }} }}"
    with room.control(_DEADLINE_S) as control:
        rows = room.service.decode(room.service.query(f"{text} LIMIT {_TRIPLES_MAX + 1}", control=control))
    prefixes = room.prefixes()
    found = [tuple(None if term is None else shown(term, prefixes) for term in row) for row in rows]
    return Triples(
        [(graph, predicate, other) for graph, predicate, other in found[:_TRIPLES_MAX]], len(found) > _TRIPLES_MAX
    )
