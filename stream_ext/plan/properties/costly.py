"""Costly: whether a query may take long though it has few rows, because its calls create or search long texts.

FILTER(CONTAINS(?name, "ann"))     =>  False          BIND(REPLACE(?text, "a", ?text) AS ?more)     =>  True"""

from __future__ import annotations

from stream_ext.language.algebra.algebra import Query
from stream_ext.language.algebra.formulas import Aggregate, FunctionCall
from stream_ext.language.algebra.terms import Constant
from stream_ext.language.algebra.walk import Part, query_parts, walk

_COSTLY = frozenset(["REPLACE", "ENCODE_FOR_URI", "MD5", "SHA1", "SHA256", "SHA384", "SHA512"])
#: Of other calls so many are quick, whatever they are asked for.
_CALLS_MAX = 32


def is_costly(query: Query) -> bool:
    calls = [node for part in query_parts(query) for node in walk(part) if isinstance(node, FunctionCall | Aggregate)]
    return len(calls) > _CALLS_MAX or any(map(_is_costly, calls))


def _is_costly(call: Part) -> bool:
    match call:
        case Aggregate(function):
            return function == "GROUP_CONCAT"
        case FunctionCall("REGEX", (_, pattern, *_)):
            return not isinstance(pattern, Constant)  # each row may have a pattern of its own
        case FunctionCall(name):
            return name in _COSTLY
        case _:
            return False
