"""The rules of grouping: a projected variable is a key of the groups, or inside of an aggregate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stream_ext.language.algebra.algebra import Assigned
from stream_ext.language.algebra.formulas import Aggregate, Exists, Expression
from stream_ext.language.algebra.terms import Position, Variable
from stream_ext.language.algebra.walk import Part, parts_of
from stream_ext.language.syntax.cursor import Cursor


def check_grouping(
    cursor: Cursor,
    star: bool,
    variables: Iterable[str],
    expressions: Sequence[Assigned],
    group_by: Sequence[Assigned],
    places: Sequence[tuple[str, Position]],
) -> None:
    """Fails for a projection that a grouped query cannot make; `places` says whether there is an aggregate."""
    position: Position | None = None
    for name, place in places:
        if name == "GROUP BY" or (name == "aggregate" and position is None):
            position = place
    if position is None:
        return
    if star:
        cursor.fail_at("SELECT * is not allowed with GROUP BY or aggregates; name the variables", position)
    known = {key.expression.name for key in group_by if isinstance(key.expression, Variable)}
    keys = {key.variable for key in group_by if key.variable is not None}
    known |= keys
    assigned = {each.variable: each for each in expressions}
    for name in variables:
        each = assigned.get(name)
        if each is None:
            if name not in known:
                cursor.fail_at(_unknown(name, bool(group_by)), position)
            continue
        if name in keys:
            cursor.fail_at(f"?{name} is already a key of GROUP BY; AS needs a new variable", each.position)
        if not isinstance(each.expression, Aggregate):
            for free in _ungrouped(each.expression):
                if free not in known:
                    cursor.fail_at(_unknown(free, bool(group_by)), each.position)
        known.add(name)


def _unknown(name: str, grouped: bool) -> str:
    hint = f"add it to GROUP BY, or project (SAMPLE(?{name}) AS ?one)"
    if grouped:
        return f"?{name} is neither a key of GROUP BY nor inside an aggregate; {hint}"
    return (
        f"?{name} is selected together with an aggregate, so all solutions form one group, in which it "
        f"has no single value; {hint}"
    )


def _ungrouped(expression: Expression) -> list[str]:
    found: list[str] = []
    waiting: list[Part] = [expression]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Variable):
            found.append(node.name)
        elif not isinstance(node, Aggregate | Exists):
            waiting += parts_of(node)
    return found
