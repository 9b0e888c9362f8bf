"""Statements: what a whole text may be besides a query: updates, administration, EXPLAIN."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from stream_ext.language.algebra.algebra import Pattern, QuadPattern, Query, Register
from stream_ext.language.algebra.terms import BlankLabel, Constant, Position
from stream_ext.language.algebra.windows import GraphClause


class Quad(msgspec.Struct, frozen=True, gc=False):
    subject: Constant | BlankLabel
    predicate: Constant
    object: Constant | BlankLabel
    graph: Constant | None  # None: the default graph


@dataclass(frozen=True, slots=True)
class InsertData:
    quads: tuple[Quad, ...]
    position: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class DeleteData:
    quads: tuple[Quad, ...]
    position: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class DeleteWhere:
    """`DELETE WHERE { quads }`: the quads are the pattern too."""

    quads: tuple[QuadPattern, ...]
    position: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class Modify:
    """`WITH graph DELETE { deletes } INSERT { inserts } USING graphs WHERE { pattern }`."""

    graph: Constant | None
    deletes: tuple[QuadPattern, ...] | None  # None: no DELETE is written
    inserts: tuple[QuadPattern, ...] | None
    using: tuple[GraphClause, ...]
    pattern: Pattern
    position: Position = field(compare=False)


class Whole(StrEnum):
    """Graphs that are meant without their names."""

    DEFAULT = "DEFAULT"
    NAMED = "NAMED"
    ALL = "ALL"


@dataclass(frozen=True, slots=True)
class Load:
    source: Constant
    into: Constant | None  # None: the default graph
    silent: bool
    position: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class Manage:
    """CLEAR, DROP and CREATE of graphs."""

    verb: str
    target: Constant | Whole
    silent: bool
    position: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class Transfer:
    """ADD, MOVE and COPY; None is the default graph."""

    verb: str
    source: Constant | None
    target: Constant | None
    silent: bool
    position: Position = field(compare=False)


Operation = InsertData | DeleteData | DeleteWhere | Modify | Load | Manage | Transfer


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Update:
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class Named:
    """A stream or query as administration names it: by IRI or by bare name."""

    iri: str | None
    name: str | None


@dataclass(frozen=True, slots=True, weakref_slot=True)
class CreateStream:
    stream: Named
    options: tuple[tuple[str, Constant], ...]
    position: Position = field(compare=False)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Drop:
    """DROP STREAM, DROP QUERY, UNREGISTER QUERY."""

    kind: str  # STREAM or QUERY
    target: Named
    written_as: str = field(compare=False)  # the verb as written
    position: Position = field(compare=False)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Show:
    kind: str  # STREAMS or QUERIES
    position: Position = field(compare=False)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Explain:
    unit: Unit
    position: Position = field(compare=False)


Admin = CreateStream | Drop | Show | Explain
Unit = Query | Register | Update | Admin
