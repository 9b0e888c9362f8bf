"""The depth of the algebra of a text is bounded by the parser, so that later code may recurse."""

from __future__ import annotations

from stream_ext.language.algebra.algebra import Pattern
from stream_ext.language.algebra.formulas import Expression
from stream_ext.language.algebra.walk import parts_of
from stream_ext.language.syntax.cursor import Cursor

#: Brackets, OPTIONALs and long sums add up to this at most; Python itself stops at 1,000 calls.
DEPTH_MAX = 200


def check_depth(cursor: Cursor, root: Pattern | Expression, start: int | None, what: str) -> None:
    """`start`: where `root` begins; None: it ends here."""
    if cursor.index > DEPTH_MAX and is_too_deep(root):  # nothing is deeper than it has tokens
        where = "that begins here " if start is not None else "that ends here "
        cursor.fail(f"{what} {where}is nested too deep: more than {DEPTH_MAX} operators", start)


def is_too_deep(root: Pattern | Expression) -> bool:
    level: list[Pattern | Expression] = [root]
    for _ in range(DEPTH_MAX):
        level = [part for node in level for part in parts_of(node)]
        if not level:
            return False
    return True
