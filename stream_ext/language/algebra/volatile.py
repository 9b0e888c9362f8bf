"""Volatile: whether a query may have another result when it is evaluated again over the same snapshot.

SELECT ?s { ?s ?p ?o }      =>  False          SELECT (NOW() AS ?t) {}     =>  True"""

from __future__ import annotations

from stream_ext.language.algebra.algebra import Query, ServicePattern
from stream_ext.language.algebra.formulas import Expression, FunctionCall
from stream_ext.language.algebra.walk import Part, query_parts, walk

#: The calls that are another value each time they are made.
VOLATILE = frozenset({"NOW", "RAND", "UUID", "STRUUID", "BNODE"})
#: Of these, the calls that are another value for each solution, too.
_DRAWN = VOLATILE - {"NOW"}
_CASTS = "<http://www.w3.org/2001/XMLSchema#"


def is_volatile(query: Query) -> bool:
    return any(_varies(node) for part in query_parts(query) for node in walk(part))


def is_of_time(query: Query) -> bool:
    """Whether it is for another reason than what others say."""
    nodes = (node for part in query_parts(query) for node in walk(part))
    return any(_varies(node) for node in nodes if not isinstance(node, ServicePattern))


def is_of_the_moment(expression: Expression) -> bool:
    """Whether the same row may have another value at another moment; functions that others wrote are pure."""
    return any(isinstance(part, FunctionCall) and part.name in VOLATILE for part in walk(expression))


def draws(expression: Expression) -> bool:
    """Whether a value is drawn for each solution (RAND, UUID): equal solutions have different values."""
    return any(isinstance(part, FunctionCall) and part.name in _DRAWN for part in walk(expression))


def is_chance(expression: Expression) -> bool:
    """Whether it may be another value in another place of the same query: `RAND()` twice is two numbers."""
    return any(map(_varies, walk(expression)))


def _varies(node: Part) -> bool:
    match node:
        case FunctionCall(name):
            # Of a function that others wrote nothing is known.
            return name in VOLATILE or (name.startswith("<") and not name.startswith(_CASTS))
        case ServicePattern():
            return True
        case _:
            return False
