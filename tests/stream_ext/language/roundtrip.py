"""Texts there and back: what a unit prints has the algebra of the unit."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
from msgspec import structs

from stream_ext.language.algebra.statements import Unit
from stream_ext.language.algebra.terms import BlankLabel, Variable
from stream_ext.language.printing import to_canonical
from stream_ext.language.syntax import parse

BASE = "http://base/"


def relabelled(value: Any, known: dict[str, str] | None = None) -> Any:
    """The same value with its blank nodes counted in order of appearance, for their labels mean nothing."""
    known = {} if known is None else known
    if isinstance(value, Variable) and value.hidden:
        return Variable(known.setdefault(value.name, f"_:{len(known)}"), hidden=True)
    if isinstance(value, BlankLabel):
        return BlankLabel(known.setdefault("t" + value.label, f"{len(known)}"))
    if isinstance(value, tuple):
        return tuple(relabelled(item, known) for item in value)
    if isinstance(value, msgspec.Struct):
        made = {name: relabelled(part, known) for name, part in structs.asdict(value).items()}
        return structs.replace(value, **made)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return dataclasses.replace(value, **{name: relabelled(part, known) for name, part in fields.items()})
    return value


def check_roundtrip(unit: Unit, base: str = BASE) -> str:
    """The canonical text, which is read as the same unit and printed as the same text."""
    text = to_canonical(unit)
    again = parse(text, base)
    assert relabelled(again) == relabelled(unit), text
    assert to_canonical(again) == text
    return text
