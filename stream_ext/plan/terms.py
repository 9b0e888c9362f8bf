"""What the algebra is made of at the bottom: nodes of patterns, and places in a text.

A constant is a term in canonical N-Triples bytes (`hbase_store.terms`). A blank node of a pattern is a variable that
no one can name (`hidden`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Position(NamedTuple):
    """Where in the text something stands; both count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Variable:
    name: str
    hidden: bool = False  # a blank node of the pattern: joins like a variable, is never projected


def has_name(variable: str) -> bool:
    """Whether a text can name it: neither a blank node of a pattern nor what a pass of the planner made."""
    return not variable.startswith(("_:", "."))


@dataclass(frozen=True, slots=True)
class Constant:
    text: bytes  # canonical N-Triples bytes: <iri>, "literal"@en, "1"^^<...integer>


@dataclass(frozen=True, slots=True)
class BlankLabel:
    """A blank node of data or of a template: a fresh node for each label and request (or solution)."""

    label: str


Node = Variable | Constant
TemplateNode = Variable | Constant | BlankLabel
