"""The inputs of a query as its text declares them: graphs of the store, streams, and windows on them.

The three dialects declare windows in three places (FROM NAMED WINDOW, FROM STREAM, STREAM in the pattern); here all of
them are one `WindowClause` with a name. What is not written is None or the language's default; what the defaults of a
dialect are is said in `policy`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from stream_ext.language.algebra.terms import Constant, Position


class Dialect(StrEnum):
    NONE = "none"
    CQELS = "CQELS-QL"
    CSPARQL = "C-SPARQL"
    RSPQL = "RSP-QL"


class R2S(StrEnum):
    """What of an answer is emitted: the whole, what came, what went."""

    RSTREAM = "RSTREAM"
    ISTREAM = "ISTREAM"
    DSTREAM = "DSTREAM"


class Declared(StrEnum):
    """Which construct a window comes from."""

    WINDOW = "FROM NAMED WINDOW"
    STREAM = "FROM STREAM"
    NAMED_STREAM = "FROM NAMED STREAM"
    BARE_NAME = "FROM name [...]"
    PATTERN = "STREAM in a pattern"

    @property
    def is_nameless(self) -> bool:
        """Whether the dialect has no names for windows."""
        return self is not Declared.WINDOW

    @property
    def of_stream(self) -> bool:
        """Whether GRAPH with the stream's name means the window (C-SPARQL)."""
        return self in (Declared.STREAM, Declared.NAMED_STREAM, Declared.BARE_NAME)


class Extent(StrEnum):
    """What decides which elements of its stream a window holds."""

    RANGE = "RANGE"  # those of the last range_ms
    SPAN = "NOW -"  # those from range_ms to until_ms before
    HISTORY = "START"  # as RANGE, replayed from start_ms to end_ms
    NOW = "NOW"  # those of the evaluation's very time
    ALL = "ALL"
    TRIPLES = "TRIPLES"  # the last `count` triples
    ELEMENTS = "ELEMENTS"  # the last `count` elements

    @property
    def is_timed(self) -> bool:
        """Whether it is a length of time, which has two ends."""
        return self in (Extent.RANGE, Extent.SPAN, Extent.HISTORY)


class Trigger(StrEnum):
    WINDOW_CLOSE = "WINDOW_CLOSE"
    CONTENT_CHANGE = "CONTENT_CHANGE"
    NON_EMPTY_CONTENT = "NON_EMPTY_CONTENT"
    PERIODIC = "PERIODIC"


class Bounds(StrEnum):
    """Whether the two ends of a window's interval belong to it."""

    CLOSED_OPEN = "[)"
    OPEN_CLOSED = "(]"
    CLOSED = "[]"


@dataclass(frozen=True, slots=True)
class Report:
    trigger: Trigger
    every_ms: int = 0  # of PERIODIC


@dataclass(frozen=True, slots=True)
class StreamRef:
    """A stream as a text names it: an IRI, a bare name, or a variable that ranges over all streams."""

    iri: str | None
    name: str | None
    position: Position = field(compare=False)
    variable: str | None = None


@dataclass(frozen=True, slots=True)
class ClauseInText:
    """Something of a window's clause that stands in the text, under the name that a refusal gives it."""

    clause: str
    position: Position


@dataclass(frozen=True, slots=True)
class WindowClause:
    """A window: its name, its stream, its extent and step, and what was written of its policy."""

    name: str  # the window's IRI; a generated one where the dialect has no names for windows
    stream: StreamRef
    range_ms: int  # 0 where the extent is no length of time
    step_ms: int  # 0: no step, and the dialect gives none
    t0_ms: int | None  # written `T0`, else None
    position: Position = field(compare=False)
    extent: Extent = Extent.RANGE
    step_written: bool = False
    count: int = 0  # of TRIPLES and ELEMENTS
    count_step: int = 0  # 0: none written
    until_ms: int = 0  # of SPAN
    start_ms: int = 0  # of HISTORY
    end_ms: int = 0
    time_predicate: str | None = None  # RANGE ... ON predicate
    bounds: Bounds | None = None
    lateness_ms: int | None = None
    reports: tuple[Report, ...] = ()
    declared: Declared = Declared.WINDOW
    written: tuple[ClauseInText, ...] = field(default=(), compare=False)
    without_unit: tuple[str, ...] = field(default=(), compare=False)  # its lengths that are bare numbers: RANGE 10

    def place(self, clause: str) -> Position | None:
        """Where the clause stands; None: it is not written."""
        return next((each.position for each in self.written if each.clause == clause), None)


@dataclass(frozen=True, slots=True)
class GraphClause:
    """FROM and its kin: a graph of the store that a query (or USING: an update) reads."""

    graph: Constant | None  # None: FROM DEFAULT, the store's default graph
    named: bool
    written_as: str = field(compare=False)  # as a refusal names it
    position: Position = field(compare=False)
