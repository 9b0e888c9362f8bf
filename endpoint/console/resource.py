"""One resource: what is stored of it, as subject and as object, in the default graph and in named graphs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from flask import render_template, request
from flask.typing import ResponseReturnValue

from endpoint.console.room import Room
from endpoint.console.shown import Shown, shown
from hbase_store.layout.terms import iri as iri_term
from stream_ext.errors import BadArgument

_DEADLINE_S = 10.0
_TRIPLES_MAX = 200
_IRI = re.compile(r'[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>"{}|^`\\]*')


@dataclass(frozen=True, slots=True)
class Triples:
    """Rows of graph (None: the default graph), predicate, and the other end."""

    rows: list[tuple[Shown | None, Shown | None, Shown | None]]
    cut: bool


def page(room: Room) -> ResponseReturnValue:
    iri = request.args.get("iri", "").strip()
    if not _IRI.fullmatch(iri):
        raise BadArgument(f"{iri[:200]!r} is not an IRI: give one as ?iri=http://example.org/a")
    return render_template(
        "console/resource.html",
        iri=iri,
        name=shown(iri_term(iri)),
        outgoing=_triples(room, f"<{iri}> ?predicate ?other"),
        incoming=_triples(room, f"?other ?predicate <{iri}>"),
        uses=_triples(room, f"?predicate <{iri}> ?other"),
        limit=_TRIPLES_MAX,
    )


def _triples(room: Room, pattern: str) -> Triples:
    text = f"SELECT ?graph ?predicate ?other {{ {{ {pattern} }} UNION {{ GRAPH ?graph {{ {pattern} }} }} }}"
    with room.control(_DEADLINE_S) as control:
        rows = room.service.decode(room.service.query(f"{text} LIMIT {_TRIPLES_MAX + 1}", control=control))
    found = [tuple(None if term is None else shown(term) for term in row) for row in rows]
    return Triples(
        [(graph, predicate, other) for graph, predicate, other in found[:_TRIPLES_MAX]], len(found) > _TRIPLES_MAX
    )
