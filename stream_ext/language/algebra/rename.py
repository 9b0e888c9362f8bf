"""Renaming: the same query with other names for its variables.

SELECT ?x { ?x :p ?y }      with  y -> y.1      =>      SELECT ?x { ?x :p ?y.1 }"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from stream_ext.language.algebra.algebra import Assigned, Extend, InAnyWindow, Query, Values
from stream_ext.language.algebra.replace_parts import rebuilt
from stream_ext.language.algebra.terms import Variable

Naming = Callable[[str], str]


def rename_query(query: Query, naming: Naming) -> Query:
    def by(part: Any) -> Any:
        return _renamed(part, naming, by)

    inner = rebuilt(query.pattern, by)
    return dataclasses.replace(
        query, pattern=inner, variables=tuple(map(naming, query.variables)), shape=rebuilt(query.shape, by)
    )


def _renamed(part: Any, naming: Naming, by: Callable[[Any], Any]) -> Any:
    match part:
        case Variable(name):
            return dataclasses.replace(part, name=naming(name))
        case Extend(inner, variable, expression):
            return dataclasses.replace(
                part, inner=rebuilt(inner, by), variable=naming(variable), expression=rebuilt(expression, by)
            )
        case Values(names):
            return dataclasses.replace(part, variables=tuple(map(naming, names)))
        case Assigned(variable, expression):
            target = None if variable is None else naming(variable)
            return dataclasses.replace(part, variable=target, expression=rebuilt(expression, by))
        case InAnyWindow(name, inner):
            return dataclasses.replace(part, name=naming(name), inner=rebuilt(inner, by))
        case Query():
            return rename_query(part, naming)
        case _:
            return None
