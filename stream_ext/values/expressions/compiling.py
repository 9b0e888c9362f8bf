"""From the expressions of the algebra to nodes.

`only_true`: it only matters whether the expression is true, not whether it is false or an error. This is so at the root
of a filter, and under && and || from there. Then two different terms, one of them a string, are simply not equal; it
need not be found out whether their comparison is an error."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from stream_ext.errors import BadArgument, QueryTooLarge
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.formulas import (
    And,
    Arithmetic,
    Compare,
    CompareOp,
    Expression,
    FunctionCall,
    Membership,
    Negate,
    Not,
    Or,
)
from stream_ext.language.algebra.terms import Constant, Variable
from stream_ext.language.algebra.volatile import VOLATILE
from stream_ext.language.algebra.walk import walk
from stream_ext.values.expressions.chance import FreshNode, Rand, Uuid
from stream_ext.values.expressions.equality import AnyOf, IdEquality, OneOf, SameTerm, TermTest
from stream_ext.values.expressions.nodes import (
    Apply,
    ApplyInScope,
    Both,
    Bound,
    ByKind,
    Calculation,
    Choice,
    Column,
    Comparison,
    Disjunction,
    FirstOf,
    Fixed,
    Negative,
    Node,
    Opposite,
)
from stream_ext.values.expressions.rows import ExpressionContext, Rows
from stream_ext.values.expressions.vectors import constant_numbers
from stream_ext.values.functions import CASTS, FUNCTIONS, ArgumentView, Function, Makes, custom, moments, terms
from stream_ext.values.values import value_of
from stream_ext.values.vocabulary import Vocabulary

_FOLDED_MAX = 1024
_TERM_TESTS = {"ISIRI": (1, -1, -1), "ISBLANK": (-1, 1, -1), "ISLITERAL": (-1, -1, 1)}


def compiled(
    expression: Expression, columns: Mapping[str, int], resources: frozenset[int], only_true: bool = False
) -> Node:
    """`resources` are the columns that hold no literal."""
    return _Compiler(columns, resources).node(expression, only_true)


class _Compiler:
    def __init__(self, columns: Mapping[str, int], resources: frozenset[int]) -> None:
        self._columns, self._resources = columns, resources

    def node(self, expression: Expression, only_true: bool = False) -> Node:
        built = self._node(expression, only_true)
        return built if built.used or isinstance(built, Fixed) or not _is_constant(expression) else _folded(built)

    def _node(self, expression: Expression, only_true: bool) -> Node:
        match expression:
            case Variable(name):
                return Column(self._columns[name]) if name in self._columns else Fixed.of(None)
            case Constant(text):
                return Fixed.of(text)
            case And(left, right):
                a, b = self.node(left, only_true), self.node(right, only_true)
                return Both(a, b, only_true, a.used | b.used)
            case Or(left, right):
                a, b = self.node(left, only_true), self.node(right, only_true)
                return Disjunction(a, b, a.used | b.used)
            case Not(inner):
                return Opposite(self.node(inner))
            case Compare(op, left, right):
                return self._comparison(op, self.node(left), self.node(right), only_true)
            case Arithmetic() | Negate():
                return _by_kind(self._calculation(expression))
            case Membership(inner, items, negated):
                found = self._membership(self.node(inner), items, only_true and not negated)
                return Opposite(found) if negated else found
            case FunctionCall():
                return self._call(expression)
            case _:
                raise AssertionError(f"{type(expression).__name__} must be planned, it cannot be compiled")

    # ---- operators

    def _comparison(self, op: CompareOp, left: Node, right: Node, only_true: bool) -> Node:
        by_value = _by_kind(Comparison(op, _plain(left), _plain(right), left.used | right.used))
        if op not in (CompareOp.EQ, CompareOp.NE):
            return by_value
        if isinstance(left, Fixed):
            left, right = right, left
        if not isinstance(left, Column) or not isinstance(right, (Column, Fixed)):
            return by_value
        if isinstance(right, Fixed) and right.text is None:
            return by_value
        decides = self._decides(left, right, only_true and op is CompareOp.EQ)
        return IdEquality(left, right, op is CompareOp.NE, decides, by_value, by_value.used)

    def _decides(self, left: Column, right: Column | Fixed, only_true: bool) -> bool:
        if left.at in self._resources:
            return True
        if isinstance(right, Column):
            return right.at in self._resources
        return right.text is not None and _is_decisive(right.text, only_true)

    def _membership(self, inner: Node, items: tuple[Expression, ...], only_true: bool) -> Node:
        nodes = [self.node(item) for item in items]
        by_id: list[bytes] = []
        others: list[Node] = []
        for node in nodes:
            fixed = node.text if isinstance(node, Fixed) else None
            if isinstance(inner, Column) and fixed is not None and _is_decisive(fixed, only_true):
                by_id.append(fixed)
            else:
                others.append(self._comparison(CompareOp.EQ, inner, node, only_true))
        used = inner.used.union(*(node.used for node in nodes))
        if not isinstance(inner, Column) or not by_id:
            return AnyOf(tuple(others), used)
        return OneOf(inner, tuple(by_id), tuple(others), used)

    def _calculation(self, expression: Arithmetic | Negate) -> Calculation | Negative:
        if isinstance(expression, Negate):
            return Negative(_plain(self.node(expression.inner)))
        left, right = _plain(self.node(expression.left)), _plain(self.node(expression.right))
        return Calculation(expression.op, left, right, left.used | right.used)

    # ---- calls

    def _call(self, call: FunctionCall) -> Node:
        nodes = tuple(map(self.node, call.arguments))
        used = frozenset().union(*(node.used for node in nodes))
        salt = f"{call.position.line}:{call.position.column}"
        match call.name, nodes:
            case "BOUND", (Column(at),):
                return Bound(at)
            case "BOUND", _:
                return Fixed.of(b'"false"^^<http://www.w3.org/2001/XMLSchema#boolean>')
            case "IF", (condition, then, otherwise):
                return Choice(condition, then, otherwise, used)
            case "COALESCE", _:
                return FirstOf(nodes, used)
            case "SAMETERM", (left, right):
                return SameTerm(left, right, used)
            case "RAND", _:
                return Rand(salt)
            case (("UUID" | "STRUUID"), _):
                return Uuid(salt, call.name == "UUID")
            case "BNODE", _:
                return FreshNode(salt, nodes[0] if nodes else None, used)
            case "NOW", _:
                return ApplyInScope(_now, (), used)
            case "IRI", _:
                return ApplyInScope(partial(_iri, call.base), nodes, used)
            case _:
                return self._function(call.name, nodes, used)

    def _function(self, name: str, nodes: tuple[Node, ...], used: frozenset[int]) -> Node:
        if not name.startswith("<"):
            if name in _TERM_TESTS and isinstance(nodes[0], Column):
                return TermTest(nodes[0], *_TERM_TESTS[name])
            return Apply(FUNCTIONS[name], nodes, used)
        cast = CASTS.get(name[1:-1])
        if cast is not None and len(nodes) == 1:
            return Apply(cast, nodes, used)
        return ApplyInScope(partial(_custom, name[1:-1]), nodes, used)


def _is_constant(expression: Expression) -> bool:
    """Whether the expression has the same value in every scope: it does not depend on the time of the evaluation,
    chance, the base IRI or custom functions."""
    return not any(isinstance(part, FunctionCall) and _needs_scope(part.name) for part in walk(expression))


#: The one has the base of the request, patterns may take long: they are matched within the time of the query.
_NOT_FOLDED = frozenset(("IRI", "REGEX", "REPLACE"))


def _needs_scope(name: str) -> bool:
    return name in VOLATILE or name in _NOT_FOLDED or (name.startswith("<") and name[1:-1] not in CASTS)


def _folded(node: Node) -> Node:
    """Constant folding: worked out here, so that what is compared with it is compared by id, or as one array.

    Long results are left to the evaluation, and its budget: a plan in the cache stays small."""
    rows = Rows((), ExpressionContext(Vocabulary.of_its_own(), control=Control(term_bytes=_FOLDED_MAX)), 1)
    try:
        found = rows.factored(node.evaluate(rows))
    except QueryTooLarge:
        return node
    at = 0 if found.codes is None else int(found.codes[0])
    value = found.pool.values[at]
    return Fixed(found.pool.texts[at], value, constant_numbers(value))


def _is_decisive(text: bytes, only_true: bool) -> bool:
    """Whether no other term equals this constant: an IRI, or a string where errors need not be told from false."""
    return text.startswith(b"<") or (only_true and isinstance(value_of(text), str))


def _plain(node: Node) -> Node:
    """What is inside of a larger operator is not split again by types."""
    return node.inner if isinstance(node, ByKind) and not isinstance(node.inner, Comparison) else node


def _by_kind(node: Comparison | Calculation | Negative) -> Node:
    numeric = sorted(_operands(node))
    return ByKind(node, tuple(numeric)) if numeric else node


def _operands(node: Node) -> set[int]:
    """The columns that meet in arithmetic and comparison, and in nothing else on the way."""
    match node:
        case Column(at):
            return {at}
        case Comparison(_, left, right) | Calculation(_, left, right):
            return _operands(left) | _operands(right)
        case Negative(inner):
            return _operands(inner)
        case _:
            return set()


def _now(rows: Rows) -> Function:
    return Function(partial(moments.now, rows.scope.now_ms))


def _iri(base: str | None, rows: Rows) -> Function:
    function = terms.iri_within(rows.scope.base if base is None else base, rows.scope.control)
    return Function(function, makes=Makes.TERMS)


def _custom(name: str, rows: Rows) -> Function:
    function = rows.scope.functions.get(name)
    if function is None:
        raise BadArgument(f"there is no function <{name}>: register it before the query runs (register_function)")
    call, control = partial(custom.call, function), rows.scope.control

    def checked(*texts: bytes | None) -> bytes | None:
        result = call(*texts)
        if result is not None:
            control.term(len(result))
        return result

    return Function(checked, ArgumentView.TEXTS, ArgumentView.TEXTS, makes=Makes.TERMS)
