"""Expressions, by precedence climbing: one function for all binary operators, a loop and not a call for each chain.

`a && b && c && ...` becomes a balanced tree (&& and || are associative, errors included), so that nobody who
walks the algebra meets a depth that only the length of a text decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from stream_ext.plan.algebra import (
    And,
    Arithmetic,
    ArithmeticOp,
    Compare,
    CompareOp,
    Expression,
    Negate,
    Not,
    Or,
    Variable,
)
from stream_ext.syntax.cursor import Cursor
from stream_ext.syntax.literals import literal_here
from stream_ext.syntax.words import AGGREGATES, FUNCTIONS

Item = TypeVar("Item")

_OR, _AND, _COMPARE, _ADD, _MULTIPLY = range(5)
_LEVELS = {
    "||": _OR,
    "&&": _AND,
    **{op.value: _COMPARE for op in CompareOp},
    "+": _ADD,
    "-": _ADD,
    "*": _MULTIPLY,
    "/": _MULTIPLY,
}


def balanced(items: Sequence[Item], combine: Callable[[Item, Item], Item]) -> Item:
    """`items` (at least one) under an associative `combine`, in their order, as a tree of logarithmic depth."""
    level = list(items)
    while len(level) > 1:
        paired = [combine(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
        level = paired + level[len(level) - len(level) % 2 :]
    return level[0]


def constraint(cursor: Cursor) -> Expression:
    """What may follow FILTER: an expression in parentheses, or a call."""
    if cursor.raw == "(" and cursor.kind == "op":
        return _bracketed(cursor)
    _refuse_call(cursor)
    return cursor.expected("a condition in parentheses after FILTER, as in FILTER (?age > 55)")


def expression(cursor: Cursor, lowest: int = _OR) -> Expression:
    """The longest expression here whose operators bind at least as tightly as `lowest`."""
    left = _unary(cursor)
    while True:
        level = _LEVELS.get(cursor.raw, -1) if cursor.kind == "op" else -1
        if level < lowest:
            if cursor.kind == "word":
                _refuse_membership(cursor)
            return left
        if level <= _AND:
            left = _chain(cursor, left, level)
        elif level == _COMPARE:
            left = _comparison(cursor, left)
        else:
            left = _arithmetic(cursor, left, level)


def _chain(cursor: Cursor, first: Expression, level: int) -> Expression:
    sign = cursor.raw
    parts = [first]
    while cursor.take(sign):
        parts.append(expression(cursor, level + 1))
    return balanced(parts, And if level == _AND else Or)


def _comparison(cursor: Cursor, left: Expression) -> Expression:
    op = CompareOp(cursor.raw)
    cursor.advance()
    compared = Compare(op, left, expression(cursor, _ADD))
    if cursor.kind == "op" and _LEVELS.get(cursor.raw) == _COMPARE:
        cursor.fail(f"a comparison cannot be compared again by '{cursor.raw}'; put one of them in parentheses")
    return compared


def _arithmetic(cursor: Cursor, left: Expression, level: int) -> Expression:
    """A chain of sums or of products: not associative in all number types, so it stays as deep as it is long."""
    while cursor.kind == "op" and _LEVELS.get(cursor.raw) == level:
        op = ArithmeticOp(cursor.raw)
        cursor.advance()
        left = Arithmetic(op, left, expression(cursor, level + 1))
    return left


def _unary(cursor: Cursor) -> Expression:
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
        name = cursor.raw[1:]
        cursor.advance()
        return Variable(name)
    if cursor.kind == "op" and cursor.raw == "(":
        return _bracketed(cursor)
    literal = literal_here(cursor)
    if literal is not None:
        return literal
    _refuse_call(cursor)
    if cursor.kind in ("iri", "pname"):
        return cursor.constant()
    return cursor.expected("an operand (a variable, a literal, an IRI or an expression in parentheses)")


def _bracketed(cursor: Cursor) -> Expression:
    with cursor.nested():
        cursor.advance()
        inner = expression(cursor)
        cursor.require(")", "to close the expression")
    return inner


def _refuse_call(cursor: Cursor) -> None:
    """Raises for what is a call by its first word or by the parenthesis behind an IRI."""
    word = cursor.word()
    if word in FUNCTIONS or word in AGGREGATES:
        if cursor.peek()[1] != "(":
            cursor.fail(f"{word} is a function; its arguments in parentheses are missing")
        cursor.refuse(word)
    if word == "EXISTS" or (word == "NOT" and cursor.peek_word() == "EXISTS"):
        cursor.refuse("NOT EXISTS" if word == "NOT" else word)
    if word:
        cursor.fail(f"there is no function {cursor.raw}")
    if cursor.kind in ("iri", "pname") and cursor.peek()[1] == "(":
        cursor.refuse("a function named by an IRI")


def _refuse_membership(cursor: Cursor) -> None:
    word = cursor.word()
    if word == "IN" or (word == "NOT" and cursor.peek_word() == "IN"):
        cursor.refuse("NOT IN" if word == "NOT" else "IN")
