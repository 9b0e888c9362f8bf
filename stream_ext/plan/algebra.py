"""The algebra: what a text means, as immutable values.

The parser makes it, the planner's passes rewrite it, nothing else interprets a text. A node of a triple
pattern is a `Variable` or a `Constant`; a constant is a term in canonical N-Triples bytes
(`hbase_store.terms`). A blank node of a pattern is a variable that no one can name (`hidden`)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Position:
    """Where in the text something stands; both count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Variable:
    name: str
    hidden: bool = False  # a blank node of the pattern: joins like a variable, is never projected


@dataclass(frozen=True, slots=True)
class Constant:
    text: bytes  # canonical N-Triples bytes: <iri>, "literal"@en, "1"^^<...integer>


Node = Variable | Constant


# ---- expressions -------------------------------------------------------------------------------------------


class CompareOp(StrEnum):
    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


class ArithmeticOp(StrEnum):
    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"


@dataclass(frozen=True, slots=True)
class Compare:
    op: CompareOp
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Arithmetic:
    op: ArithmeticOp
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Negate:
    inner: Expression


@dataclass(frozen=True, slots=True)
class Not:
    inner: Expression


@dataclass(frozen=True, slots=True)
class And:
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Or:
    left: Expression
    right: Expression


Expression = Variable | Constant | Compare | Arithmetic | Negate | Not | And | Or


# ---- patterns ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TriplePattern:
    subject: Node
    predicate: Node
    object: Node
    position: Position


@dataclass(frozen=True, slots=True)
class Bgp:
    patterns: tuple[TriplePattern, ...]


@dataclass(frozen=True, slots=True)
class Join:
    left: Pattern
    right: Pattern


@dataclass(frozen=True, slots=True)
class Filter:
    """The solutions of `inner` for which the effective boolean value of `condition` is true (an error is not true)."""

    condition: Expression
    inner: Pattern


@dataclass(frozen=True, slots=True)
class Graph:
    """`GRAPH node { inner }` over the store's named graphs."""

    graph: Node
    inner: Pattern


@dataclass(frozen=True, slots=True)
class InWindow:
    """`WINDOW name { inner }`: `inner` over the content of the window `name` (its IRI)."""

    window: str
    inner: Pattern


Pattern = Bgp | Join | Filter | Graph | InWindow


# ---- windows and queries -----------------------------------------------------------------------------------


class R2S(StrEnum):
    """What of an answer is emitted: the whole, what came, what went."""

    RSTREAM = "RSTREAM"
    ISTREAM = "ISTREAM"
    DSTREAM = "DSTREAM"


@dataclass(frozen=True, slots=True)
class StreamRef:
    """A stream as a text names it: an IRI, or a bare name."""

    iri: str | None
    name: str | None
    position: Position


@dataclass(frozen=True, slots=True)
class WindowClause:
    """`FROM NAMED WINDOW name ON stream [RANGE range STEP step]`; without STEP, step = range."""

    name: str  # the window's IRI
    stream: StreamRef
    range_ms: int
    step_ms: int
    t0_ms: int | None  # written `T0`, else None
    position: Position


class Form(StrEnum):
    SELECT = "SELECT"
    ASK = "ASK"


@dataclass(frozen=True, slots=True)
class Query:
    form: Form
    pattern: Pattern
    variables: tuple[str, ...]  # what is projected, in order; () for ASK
    distinct: bool
    offset: int
    limit: int | None
    windows: tuple[WindowClause, ...]
    r2s: R2S | None  # None: not written


@dataclass(frozen=True, slots=True)
class Register:
    """`REGISTER RSTREAM name AS query`."""

    name: str | None  # the bare name, where one was written
    iri: str | None  # the IRI (an IRI or prefixed name was written)
    query: Query  # its r2s is the one in force as written (from REGISTER or after SELECT)
    position: Position


@dataclass(frozen=True, slots=True)
class BlankLabel:
    """A blank node of INSERT DATA: a fresh node for each label and request."""

    label: str


@dataclass(frozen=True, slots=True)
class Quad:
    subject: Constant | BlankLabel
    predicate: Constant
    object: Constant | BlankLabel
    graph: Constant | None  # None: the default graph


@dataclass(frozen=True, slots=True)
class InsertData:
    quads: tuple[Quad, ...]


@dataclass(frozen=True, slots=True)
class DeleteData:
    quads: tuple[Quad, ...]


@dataclass(frozen=True, slots=True)
class Update:
    operations: tuple[InsertData | DeleteData, ...]


Unit = Query | Register | Update
