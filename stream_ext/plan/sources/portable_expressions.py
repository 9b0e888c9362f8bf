"""Portable expressions: all engines evaluate them alike, so that a source may evaluate them for us.

    FILTER(?age >= 18)   FILTER(STRSTARTS(STR(?s), "http://ex/"))   (COUNT(?x) AS ?n)        may be sent
    FILTER(?a != ?b)     BIND(?x / 3 AS ?y)     MAX(?x)     REGEX(?x, "^(a|b)")               are evaluated here

Engines agree where an expression is true, and differ in what is false, what is an error, and how a computed number is
written. So a comparison is sent where only its being true counts: not below NOT, and not as a value. Both sides of a
comparison by order have to be of a type that the text shows. docs/reference/sources.md has the list for users."""

from __future__ import annotations

import re
from collections.abc import Callable

from hbase_store.layout.terms import parse_term
from stream_ext.language.algebra.algebra import Pattern
from stream_ext.language.algebra.formulas import (
    Aggregate,
    And,
    Arithmetic,
    ArithmeticOp,
    Compare,
    CompareOp,
    Exists,
    Expression,
    FunctionCall,
    Membership,
    Negate,
    Not,
    Or,
)
from stream_ext.language.algebra.terms import Constant, Variable

#: Whether a pattern inside of EXISTS may be sent.
Sendable = Callable[[Pattern], bool]

#: They are true or false of any term.
TOTAL = frozenset({"BOUND", "ISIRI", "ISBLANK", "ISLITERAL", "SAMETERM"})
#: True of a string and a plain one.
SEARCHES = frozenset({"CONTAINS", "STRSTARTS", "STRENDS"})
#: Values of a term that every engine writes in one way.
TEXTS = frozenset({"STR", "LANG", "DATATYPE"})
NUMBERS = frozenset({"STRLEN", "ABS", "CEIL", "FLOOR", "YEAR", "MONTH", "DAY", "HOURS", "MINUTES"})

_XSD = "http://www.w3.org/2001/XMLSchema#"
_ORDERED = frozenset(
    _XSD + name
    for name in ("integer", "decimal", "double", "float", "int", "long", "short", "boolean", "dateTime", "date")
)
#: A pattern that all dialects of regular expressions read as the text that it is, perhaps at an end.
_PLAIN_PATTERN = re.compile(r"\^?[A-Za-z0-9 _:/#@,;<>=-]*\$?")


def is_condition_alike(condition: Expression, sendable: Sendable) -> bool:
    """Whether all engines find it true of the same solutions."""
    match condition:
        case And(left, right) | Or(left, right):
            return is_condition_alike(left, sendable) and is_condition_alike(right, sendable)
        case Not(inner):
            return _is_total(inner, sendable)
        case Compare(op, left, right):
            return _is_comparison_alike(op, left, right)
        case Membership(inner, items, negated):
            op = CompareOp.NE if negated else CompareOp.EQ
            return all(_is_comparison_alike(op, inner, item) for item in items)
        case FunctionCall(name, (first, second)) if name in SEARCHES:
            return _is_text(first) and _is_plain(second)
        case FunctionCall("REGEX", (first, Constant(pattern))):
            return _is_text(first) and _is_plain_pattern(pattern)
        case FunctionCall("LANGMATCHES", (FunctionCall("LANG", (Variable(),)), second)):
            return _is_plain(second)
        case FunctionCall("ISNUMERIC", (Variable(),)):
            return True
        case Constant(text):
            return text in (b'"true"^^<%sboolean>' % _XSD.encode(), b'"false"^^<%sboolean>' % _XSD.encode())
        case _:
            return _is_total(condition, sendable)


def is_value_alike(expression: Expression) -> bool:
    """Whether all engines compute the same term, written in the same way."""
    match expression:
        case Variable() | Constant():
            return True
        case FunctionCall(name, (Variable(),)) if name in TEXTS:
            return True
        case Aggregate("COUNT", argument, distinct):
            return isinstance(argument, Variable) or (argument is None and not distinct)
        case _:
            return False


def _is_total(condition: Expression, sendable: Sendable) -> bool:
    match condition:
        case Exists(pattern):
            return sendable(pattern)
        case FunctionCall(name, arguments) if name in TOTAL:
            return all(isinstance(each, Variable | Constant) for each in arguments)
        case _:
            return False


def _is_comparison_alike(op: CompareOp, left: Expression, right: Expression) -> bool:
    if not (_is_operand(left) and _is_operand(right)):
        return False
    match op:
        case CompareOp.EQ:
            return True
        case CompareOp.NE:
            # Of an IRI and anything else, every engine says whether they differ.
            return any(isinstance(each, Constant) and each.text[:1] == b"<" for each in (left, right))
        case _:
            return _is_ordered(left) or _is_ordered(right)


def _is_operand(expression: Expression) -> bool:
    match expression:
        case Arithmetic(op, left, right):
            return op is not ArithmeticOp.DIVIDE and _is_operand(left) and _is_operand(right)
        case Negate(inner):
            return _is_operand(inner)
        case FunctionCall("STRLEN", (inner,)):
            return _is_text(inner)
        case FunctionCall(name, (inner,)) if name in NUMBERS:
            return isinstance(inner, Variable)
        case _:
            return is_value_alike(expression)


def _is_ordered(expression: Expression) -> bool:
    """Whether its type is one in whose order all engines compare."""
    match expression:
        case Constant(text):
            term = parse_term(text)
            return term.kind == "literal" and term.datatype in _ORDERED
        case Arithmetic() | Negate() | Aggregate():
            return True
        case FunctionCall(name):
            return name in NUMBERS
        case _:
            return False


def _is_text(expression: Expression) -> bool:
    match expression:
        case Variable():
            return True
        case FunctionCall("STR", (Variable(),)):
            return True
        case _:
            return False


def _is_plain(expression: Expression) -> bool:
    if not isinstance(expression, Constant):
        return False
    term = parse_term(expression.text)
    return term.kind == "literal" and not term.language and not term.datatype


def _is_plain_pattern(text: bytes) -> bool:
    term = parse_term(text)
    return not term.language and not term.datatype and _PLAIN_PATTERN.fullmatch(term.value) is not None
