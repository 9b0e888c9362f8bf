"""Walking the algebra: the children of a node, all that is inside of it, and questions about that (`has_services`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from stream_ext.language.algebra.algebra import (
    Bgp,
    Extend,
    Filter,
    Form,
    Graph,
    InAnyWindow,
    InWindow,
    Join,
    LeftJoin,
    Minus,
    Pattern,
    QuadPattern,
    Query,
    ServicePattern,
    SubSelect,
    Union,
    Values,
)
from stream_ext.language.algebra.formulas import (
    Aggregate,
    And,
    Arithmetic,
    Compare,
    Exists,
    Expression,
    FunctionCall,
    Membership,
    Negate,
    Not,
    Or,
)
from stream_ext.language.algebra.terms import Constant, Variable

Part = Pattern | Expression


def parts_of(node: Part) -> tuple[Part, ...]:
    """The patterns and expressions right inside of `node`, in the order of the text."""
    match node:
        case Variable() | Constant() | Bgp() | Values():
            return ()
        case Join(left, right) | Minus(left, right):
            return (left, right)
        case And(left, right) | Or(left, right) | Compare(_, left, right) | Arithmetic(_, left, right):
            return (left, right)
        case Filter(condition, inner):
            return (inner, condition)
        case Graph(_, inner) | InWindow(_, inner) | InAnyWindow(_, inner) | ServicePattern(_, inner):
            return (inner,)
        case Not(inner) | Negate(inner):
            return (inner,)
        case FunctionCall(_, arguments):
            return arguments
        case Membership(inner, items):
            return (inner, *items)
        case Exists(pattern):
            return (pattern,)
        case Aggregate(_, argument):
            return () if argument is None else (argument,)
        case LeftJoin(left, right, condition):
            return (left, right) if condition is None else (left, right, condition)
        case Extend(inner, _, expression):
            return (inner, expression)
        case Union(parts):
            return parts
        case SubSelect(query):
            return query_parts(query)


def query_parts(query: Query) -> tuple[Part, ...]:
    """The pattern and the expressions of a query."""
    shape = query.shape
    values = () if shape.values is None else (shape.values,)
    return (
        query.pattern,
        *(each.expression for each in shape.expressions),
        *(each.expression for each in shape.group_by),
        *shape.having,
        *(each.expression for each in shape.order_by),
        *values,
    )


def walk(root: Part) -> Iterator[Part]:
    """`root` and all that is inside of it, without recursion."""
    waiting: list[Part] = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(parts_of(node))


def has_services(query: Query) -> bool:
    """Whether it has a SERVICE."""
    return any(isinstance(node, ServicePattern) for part in query_parts(query) for node in walk(part))


def reads_store(query: Query) -> bool:
    """Whether a triple pattern is outside of all windows."""
    waiting = list(query_parts(query))
    while waiting:
        part = waiting.pop()
        if isinstance(part, Bgp):
            return True
        if not isinstance(part, InWindow | InAnyWindow):
            waiting += parts_of(part)
    return False


def names_bound(pattern: Pattern) -> Iterator[str]:
    """The variables of its triples, tables and assignments: those that it may bind."""
    for part in walk(pattern):
        match part:
            case Bgp(patterns, paths):
                nodes = [n for t in patterns for n in (t.subject, t.predicate, t.object)]
                nodes += [n for path in paths for n in (path.subject, path.object)]
                yield from (node.name for node in nodes if isinstance(node, Variable))
            case Values(names):
                yield from names
            case Extend(_, variable):
                yield variable
            case Graph(Variable(name)):
                yield name


def split_and(condition: Expression) -> list[Expression]:
    parts: list[Expression] = []
    waiting = [condition]
    while waiting:
        part = waiting.pop()
        if isinstance(part, And):
            waiting += [part.right, part.left]
        else:
            parts.append(part)
    return parts


def variables_of(expression: Expression) -> frozenset[str]:
    return frozenset(part.name for part in walk(expression) if isinstance(part, Variable))


def template_of(query: Query) -> tuple[QuadPattern, ...]:
    """The template of a CONSTRUCT; that of CONSTRUCT WHERE is its pattern."""
    if query.shape.template is not None:
        return query.shape.template
    triples = [part for part in walk(query.pattern) if isinstance(part, Bgp)]
    return tuple(QuadPattern(t.subject, t.predicate, t.object) for bgp in triples for t in bgp.patterns)


def without_template(query: Query) -> Query:
    """Of a CONSTRUCT the SELECT for the solutions that its template is filled with; any other query as it is."""
    if query.form is not Form.CONSTRUCT:
        return query
    nodes = [node for quad in template_of(query) for node in (quad.subject, quad.predicate, quad.object)]
    names = dict.fromkeys(node.name for node in nodes if isinstance(node, Variable) and not node.hidden)
    return replace(query, form=Form.SELECT, variables=tuple(names), shape=replace(query.shape, template=None))
