"""Rebuilding parts of the algebra with some of them replaced."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from stream_ext.language.algebra.formulas import Aggregate, Exists, Expression
from stream_ext.language.algebra.terms import Constant, Position
from stream_ext.language.algebra.walk import walk

Anything = TypeVar("Anything")

_LEAVES = (Constant, Position, str, int, bool, bytes, type(None))


def replaced(expression: Expression, by: Callable[[Expression], Expression | None]) -> Expression:
    """`by` says what stands in a part's place, None to look inside of it."""
    # A chain of || may be longer than Python recurses: it is only taken apart where there is something to find.
    if not any(isinstance(part, Exists | Aggregate) for part in walk(expression)):
        return expression
    return rebuilt(expression, by)


def rebuilt(node: Anything, by: Callable[[Any], Any]) -> Anything:
    """The same value, but for the parts that `by` has something else for."""
    if isinstance(node, _LEAVES):
        return node
    other = by(node)
    if other is not None:
        return other  # type: ignore[no-any-return]  # `by` keeps the kinds of parts
    if isinstance(node, tuple):
        return tuple(rebuilt(part, by) for part in node)  # type: ignore[return-value]  # a tuple of the same kinds
    if isinstance(node, msgspec.Struct):
        whole = structs.asdict(node)
        parts = {name: rebuilt(value, by) for name, value in whole.items()}
        return node if all(parts[name] is whole[name] for name in whole) else structs.replace(node, **parts)
    if not dataclasses.is_dataclass(node) or isinstance(node, type):
        return node
    fields = {field.name: getattr(node, field.name) for field in dataclasses.fields(node)}
    rebuilt_fields = {name: rebuilt(value, by) for name, value in fields.items()}
    if all(rebuilt_fields[name] is fields[name] for name in fields):
        return node
    return dataclasses.replace(node, **rebuilt_fields)
