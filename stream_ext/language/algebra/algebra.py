"""The algebra: what a text means, as immutable values.

The parser makes it, the planner's passes rewrite it, printers write it down again; nothing else interprets a text.
A position says where a value is in the text; two values that differ in their positions only are equal. Expressions and
property paths are in `formulas`, streams and windows in `windows`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from stream_ext.language.algebra.formulas import (
    Aggregate,
    And,
    Arithmetic,
    ArithmeticOp,
    Compare,
    CompareOp,
    Exists,
    Expression,
    FunctionCall,
    Membership,
    Negate,
    Not,
    Or,
    Path,
    PathAlternative,
    PathInverse,
    PathNegated,
    PathRepeat,
    PathSequence,
    Repeat,
)
from stream_ext.language.algebra.terms import BlankLabel, Constant, Node, Position, TemplateNode, Variable
from stream_ext.language.algebra.windows import R2S, Declared, Dialect, GraphClause, StreamRef, WindowClause

__all__ = [
    "R2S",
    "Aggregate",
    "And",
    "Arithmetic",
    "ArithmeticOp",
    "BlankLabel",
    "Compare",
    "CompareOp",
    "Constant",
    "Declared",
    "Dialect",
    "Exists",
    "Expression",
    "FunctionCall",
    "GraphClause",
    "Membership",
    "Negate",
    "Node",
    "Not",
    "Or",
    "Path",
    "PathAlternative",
    "PathInverse",
    "PathNegated",
    "PathRepeat",
    "PathSequence",
    "Position",
    "Repeat",
    "StreamRef",
    "TemplateNode",
    "Variable",
    "WindowClause",
]


# ---- patterns ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TriplePattern:
    subject: Node
    predicate: Node
    object: Node
    position: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class PathPattern:
    subject: Node
    path: Path
    object: Node
    position: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class Bgp:
    """A basic graph pattern: all of these. It has triples and paths, as both share its blank nodes."""

    patterns: tuple[TriplePattern, ...]
    paths: tuple[PathPattern, ...] = ()


@dataclass(frozen=True, slots=True)
class Join:
    left: Pattern
    right: Pattern


@dataclass(frozen=True, slots=True)
class LeftJoin:
    """`left OPTIONAL { right }`; filters of the optional group itself are its condition (they see `left` too)."""

    left: Pattern
    right: Pattern
    condition: Expression | None
    position: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class Minus:
    left: Pattern
    right: Pattern
    position: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class Union:
    parts: tuple[Pattern, ...]
    position: Position = field(compare=False)  # of the first UNION


@dataclass(frozen=True, slots=True)
class Filter:
    """The solutions of `inner` for which the effective boolean value of `condition` is true (an error is not true)."""

    condition: Expression
    inner: Pattern


@dataclass(frozen=True, slots=True)
class Extend:
    """`inner BIND(expression AS variable)`."""

    inner: Pattern
    variable: str
    expression: Expression
    position: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class Values:
    """A table of solutions; None where a row binds nothing (UNDEF)."""

    variables: tuple[str, ...]
    rows: tuple[tuple[Constant | None, ...], ...]
    position: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class Graph:
    """`GRAPH node { inner }` over the store's named graphs; inside a window, over those of its elements."""

    graph: Node
    inner: Pattern
    position: Position = field(default=Position(1, 1), compare=False)


@dataclass(frozen=True, slots=True)
class ServicePattern:
    service: Node
    inner: Pattern
    silent: bool
    position: Position = field(compare=False)
    written: str | None = field(default=None, compare=False)  # a relative IRI as it is written: the name of a source


@dataclass(frozen=True, slots=True)
class InWindow:
    """`WINDOW name { inner }`, `STREAM ... { inner }`: `inner` over the content of the window `name` (its IRI)."""

    window: str
    inner: Pattern
    position: Position = field(default=Position(1, 1), compare=False)


@dataclass(frozen=True, slots=True)
class InAnyWindow:
    """`WINDOW ?name { inner }`: over each named window in turn, which `name` is bound to."""

    name: str
    inner: Pattern
    position: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class SubSelect:
    query: Query
    position: Position = field(compare=False)


Pattern = (
    Bgp
    | Join
    | LeftJoin
    | Minus
    | Union
    | Filter
    | Extend
    | Values
    | Graph
    | ServicePattern
    | InWindow
    | InAnyWindow
    | SubSelect
)


# ---- queries -----------------------------------------------------------------------------------------------


class Form(StrEnum):
    SELECT = "SELECT"
    ASK = "ASK"
    CONSTRUCT = "CONSTRUCT"
    DESCRIBE = "DESCRIBE"


@dataclass(frozen=True, slots=True)
class Assigned:
    """`(expression AS variable)` after SELECT; after GROUP BY the variable may be missing."""

    variable: str | None
    expression: Expression
    position: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class Ordering:
    expression: Expression
    descending: bool


class QuadPattern(msgspec.Struct, frozen=True, gc=False):
    """A quad of a template: what CONSTRUCT makes, what DELETE removes and INSERT adds.

    A text may have millions of them, as of constants, so neither are tracked by the garbage collector."""

    subject: TemplateNode
    predicate: Node
    object: TemplateNode
    graph: Node | None = None  # None: the default graph, or the one that WITH names


@dataclass(frozen=True, slots=True)
class Shape:
    """The parts of a query that a short one does not have, such as GROUP BY and ORDER BY: each may be missing."""

    reduced: bool = False
    expressions: tuple[Assigned, ...] = ()  # of SELECT; their variables are among the query's, in order
    template: tuple[QuadPattern, ...] | None = None  # of CONSTRUCT; None: CONSTRUCT WHERE, the pattern itself
    described: tuple[Node, ...] = ()  # of DESCRIBE; () is *
    group_by: tuple[Assigned, ...] = ()
    having: tuple[Expression, ...] = ()
    order_by: tuple[Ordering, ...] = ()
    values: Values | None = None  # behind the query
    graphs: tuple[GraphClause, ...] = ()
    every_ms: int = 0  # COMPUTED EVERY; 0: not written
    places: tuple[tuple[str, Position], ...] = field(default=(), compare=False)  # of the clauses, by name

    def place(self, clause: str) -> Position | None:
        return next((position for name, position in self.places if name == clause), None)


PLAIN = Shape()


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Query:
    form: Form
    pattern: Pattern
    variables: tuple[str, ...]  # what is projected, in order; () but for SELECT
    distinct: bool
    offset: int
    limit: int | None
    windows: tuple[WindowClause, ...]
    r2s: R2S | None  # None: not written
    shape: Shape = PLAIN
    dialect_without_windows: Dialect = Dialect.NONE  # that of a text whose windows are on no stream, for there is none

    @property
    def dialect(self) -> Dialect:
        """The first window construct decides; the parser refuses to mix them."""
        return DIALECTS[self.windows[0].declared] if self.windows else self.dialect_without_windows

    @property
    def emits(self) -> R2S:
        """What of its answers is emitted, as written or by its dialect."""
        return self.r2s or (R2S.ISTREAM if self.dialect is Dialect.CQELS else R2S.RSTREAM)

    @property
    def is_cut_by_appearance(self) -> bool:
        """Whether LIMIT and OFFSET cut the order of first appearance."""
        return (self.limit is not None or self.offset > 0) and not self.shape.order_by

    @property
    def emits_new(self) -> bool:
        """Whether it emits what would not be in the answer without what has arrived since the last evaluation."""
        return self.dialect is Dialect.CQELS and self.emits is R2S.ISTREAM


DIALECTS = {
    Declared.WINDOW: Dialect.RSPQL,
    Declared.STREAM: Dialect.CSPARQL,
    Declared.NAMED_STREAM: Dialect.CSPARQL,
    Declared.BARE_NAME: Dialect.CSPARQL,
    Declared.PATTERN: Dialect.CQELS,
}


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Register:
    """`REGISTER RSTREAM name AS query`."""

    name: str | None  # the bare name, where one was written
    iri: str | None  # the IRI (an IRI or prefixed name was written)
    query: Query  # its r2s is the one in force as written (from REGISTER or after SELECT)
    position: Position = field(compare=False)


# ---- updates and administration ----------------------------------------------------------------------------
