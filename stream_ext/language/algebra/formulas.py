"""Expressions and property paths: the parts of the algebra that stand inside of patterns and clauses."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from stream_ext.language.algebra.terms import Constant, Position, Variable

if TYPE_CHECKING:
    from stream_ext.language.algebra.algebra import Pattern

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


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function of SPARQL by its name in upper case, or another one by its IRI (then `name` is ``<iri>``)."""

    name: str
    arguments: tuple[Expression, ...]
    distinct: bool  # only after the IRI of an aggregate that SPARQL does not know
    position: Position = field(compare=False)
    base: str | None = None  # of the function IRI: what it resolves against


@dataclass(frozen=True, slots=True)
class Membership:
    """`inner IN (items)`, or NOT IN."""

    inner: Expression
    items: tuple[Expression, ...]
    negated: bool
    position: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class Exists:
    pattern: Pattern
    negated: bool
    position: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class Aggregate:
    name: str  # COUNT, SUM, MIN, MAX, AVG, SAMPLE, GROUP_CONCAT
    argument: Expression | None  # None: COUNT(*)
    distinct: bool
    separator: str | None  # of GROUP_CONCAT; None: not written
    position: Position = field(compare=False)


Expression = (
    Variable
    | Constant
    | Compare
    | Arithmetic
    | Negate
    | Not
    | And
    | Or
    | FunctionCall
    | Membership
    | Exists
    | Aggregate
)


# ---- property paths ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PathSequence:
    parts: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class PathAlternative:
    parts: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class PathInverse:
    inner: Path


class Repeat(StrEnum):
    ZERO_OR_MORE = "*"
    ONE_OR_MORE = "+"
    ZERO_OR_ONE = "?"


@dataclass(frozen=True, slots=True)
class PathRepeat:
    inner: Path
    times: Repeat


@dataclass(frozen=True, slots=True)
class PathNegated:
    """Any predicate but these, forward; any but those, backward. With neither: any predicate forward."""

    forward: tuple[Constant, ...]
    backward: tuple[Constant, ...]


Path = Constant | PathSequence | PathAlternative | PathInverse | PathRepeat | PathNegated
