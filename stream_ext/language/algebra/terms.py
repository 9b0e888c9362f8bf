"""The smallest parts of the algebra: the nodes of patterns, and positions in a text.

A constant is a term in canonical N-Triples bytes (`hbase_store.layout.terms`). A blank node of a pattern is a variable
that no one can name (`hidden`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import msgspec


class Position(NamedTuple):
    """A place in a text; line and column count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Variable:
    name: str
    hidden: bool = False  # a blank node of the pattern: joins like a variable, is never projected


def has_name(variable: str) -> bool:
    """Whether a text can name it: neither a blank node of a pattern nor what a pass of the planner made."""
    return not variable.startswith(("_:", "."))


# Of what follows a text may have hundreds of thousands. The garbage collector is not shown them: while it looks through
# what it is shown nobody else runs, and none of them is ever part of a cycle.


class Constant(msgspec.Struct, frozen=True, gc=False):
    text: bytes  # canonical N-Triples bytes: <iri>, "literal"@en, "1"^^<...integer>


class BlankLabel(msgspec.Struct, frozen=True, gc=False):
    """A blank node of data or of a template: a fresh node for each label and request (or solution)."""

    label: str


Node = Variable | Constant
TemplateNode = Variable | Constant | BlankLabel
