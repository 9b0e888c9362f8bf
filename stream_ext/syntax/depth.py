"""How deep the algebra of a text is: whoever walks it may recurse, so the parser bounds it."""

from __future__ import annotations

from stream_ext.plan.algebra import (
    And,
    Arithmetic,
    Compare,
    Expression,
    Filter,
    Graph,
    InWindow,
    Join,
    Negate,
    Not,
    Or,
    Pattern,
)

#: Brackets and long sums add up to this at most; Python itself stops at 1,000 calls.
DEPTH_MAX = 200


def is_too_deep(root: Pattern | Expression) -> bool:
    pending: list[tuple[Pattern | Expression, int]] = [(root, 1)]
    while pending:
        node, depth = pending.pop()
        if depth > DEPTH_MAX:
            return True
        if isinstance(node, (Join, Compare, Arithmetic, And, Or)):
            pending += ((node.left, depth + 1), (node.right, depth + 1))
        elif isinstance(node, Filter):
            pending += ((node.inner, depth + 1), (node.condition, depth + 1))
        elif isinstance(node, (Graph, InWindow, Negate, Not)):
            pending.append((node.inner, depth + 1))
    return False
