"""Expressions: operators by precedence, with a stack of their own instead of one call for each level.

`a && b && c && ...` becomes a balanced tree (&& and || are associative, errors included), so that the depth of the
algebra does not grow with the length of a text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from stream_ext.language.algebra.formulas import (
    And,
    Arithmetic,
    ArithmeticOp,
    Compare,
    CompareOp,
    Expression,
    Membership,
    Negate,
    Not,
    Or,
)
from stream_ext.language.syntax.calls import arguments, call_by_iri, call_by_word
from stream_ext.language.syntax.cursor import Cursor
from stream_ext.language.syntax.literals import literal_here

Item = TypeVar("Item")

_OR, _AND, _COMPARE, _ADD, _MULTIPLY = range(5)
_LEVELS: Final = {
    "||": _OR,
    "&&": _AND,
    **{op.value: _COMPARE for op in CompareOp},
    "+": _ADD,
    "-": _ADD,
    "*": _MULTIPLY,
    "/": _MULTIPLY,
}
_COMPARISONS: Final = {op.value: op for op in CompareOp}
_ARITHMETIC: Final = {op.value: op for op in ArithmeticOp}


def balanced(items: Sequence[Item], combine: Callable[[Item, Item], Item]) -> Item:
    """`items` (at least one) under an associative `combine`, in their order, as a tree of logarithmic depth."""
    level = list(items)
    while len(level) > 1:
        paired = [combine(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
        level = paired + level[len(level) - len(level) % 2 :]
    return level[0]


def constraint(cursor: Cursor, after: str = "FILTER") -> Expression:
    """What may follow FILTER: an expression in parentheses, or a call."""
    if cursor.raw == "(" and cursor.kind == "op":
        return bracketed(cursor)
    if cursor.kind == "word":
        return call_by_word(cursor)
    if cursor.kind in ("iri", "pname") and cursor.peek()[1] == "(":
        return call_by_iri(cursor)
    return cursor.expected(f"a condition in parentheses after {after}, as in {after} (?age > 55)")


def bracketed(cursor: Cursor) -> Expression:
    with cursor.nested():
        cursor.advance()
        inner = expression(cursor)
        cursor.require(")", "to close the expression")
    return inner


def expression(cursor: Cursor) -> Expression:
    """The longest expression here."""
    operand = _operand(cursor)
    level = _level_here(cursor)
    if level < 0:
        return operand
    operands: list[Expression] = [operand]
    signs: list[str] = []
    member: Expression | None = None  # an IN that stands bare: nothing but && and || may follow it
    while level >= 0:
        _reduce(operands, signs, level)
        if level >= _COMPARE and (operands[-1] is member or (level == _COMPARE and signs and _level(signs) == level)):
            cursor.fail(f"a comparison cannot be compared again by '{cursor.raw}'; put one of them in parentheses")
        if cursor.kind == "word":
            member = operands[-1] = _membership(cursor, operands[-1])
        else:
            signs.append(cursor.raw)
            cursor.advance()
            operands.append(_operand(cursor))
        level = _level_here(cursor)
    _reduce(operands, signs, -1)
    return operands[0]


def _level(signs: list[str]) -> int:
    return _LEVELS[signs[-1]]


def _level_here(cursor: Cursor) -> int:
    if cursor.kind == "op":
        return _LEVELS.get(cursor.raw, -1)
    if cursor.kind == "word":
        word = cursor.word()
        if word == "IN" or (word == "NOT" and cursor.peek_word() == "IN"):
            return _COMPARE
    return -1


def _reduce(operands: list[Expression], signs: list[str], level: int) -> None:
    """Combines what binds tighter than an operator of `level`, and sums and products of the same one."""
    while signs and ((top := _level(signs)) > level or (top == level and top >= _ADD)):
        if top > _AND:
            right, sign = operands.pop(), signs.pop()
            operands[-1] = _binary(sign, operands[-1], right)
            continue
        start = len(signs)
        while start and _LEVELS[signs[start - 1]] == top:
            start -= 1
        del signs[start:]
        operands[start:] = [balanced(operands[start:], And if top == _AND else Or)]


def _binary(sign: str, left: Expression, right: Expression) -> Expression:
    if sign in _COMPARISONS:
        return Compare(_COMPARISONS[sign], left, right)
    return Arithmetic(_ARITHMETIC[sign], left, right)


def _membership(cursor: Cursor, inner: Expression) -> Expression:
    position = cursor.position()
    negated = cursor.take_word("NOT")
    cursor.advance()
    return Membership(inner, arguments(cursor, "IN"), negated, position)


def _operand(cursor: Cursor) -> Expression:
    cursor.operand()
    if cursor.kind == "var":
        return cursor.variable()
    negations = 0
    while cursor.kind == "op" and cursor.raw == "!":
        negations += 1
        cursor.advance()
    if negations:
        inner = _signed(cursor)
        # An even number above zero still turns its operand into a truth value.
        return Not(inner) if negations % 2 else Not(Not(inner))
    return _signed(cursor)


def _signed(cursor: Cursor) -> Expression:
    literal = literal_here(cursor)
    if literal is not None:
        return literal
    if cursor.take("-"):
        return Negate(_primary(cursor))
    if cursor.take("+"):
        return Negate(Negate(_primary(cursor)))  # the number itself, and an error for what is none
    return _primary(cursor)


def _primary(cursor: Cursor) -> Expression:
    if cursor.kind == "var":
        return cursor.variable()
    if cursor.kind == "op" and cursor.raw == "(":
        return bracketed(cursor)
    literal = literal_here(cursor)
    if literal is not None:
        return literal
    if cursor.kind == "word":
        return call_by_word(cursor)
    if cursor.kind in ("iri", "pname"):
        return call_by_iri(cursor) if cursor.peek()[1] == "(" else cursor.constant()
    return cursor.expected("an operand (a variable, a literal, an IRI or an expression in parentheses)")
