"""Functions of one's own: Python callables that expressions call by an IRI.

    register_function("http://ex/double", lambda term: Term("literal", term.value * 2))

A function gets a `Term` for each argument, and gives a Term, or a plain Python value (str, bool, int, float, Decimal)
that becomes a literal. FunctionError, or None, is SPARQL's error; any other exception is the function's bug and ends
the query. A function is called once for each distinct combination of arguments: it has to be pure."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from decimal import Decimal

from hbase_store.layout.terms import Term, iri, literal, parse_term
from stream_ext.errors import BadArgument
from stream_ext.rdf.iris import is_absolute
from stream_ext.values.functions.casts import CASTS
from stream_ext.values.values import text_of

FunctionResult = Term | str | bool | int | float | Decimal | None
CustomFunction = Callable[..., FunctionResult]


class FunctionError(Exception):
    """Raised by a custom function: no answer for these arguments (SPARQL's error, not the query's end)."""


_registered: dict[str, CustomFunction] = {}
_lock = threading.Lock()


def register_function(name: str, function: CustomFunction) -> None:
    """From now on `<name>(...)` calls `function`. A name is given once; XPath's own cannot be taken."""
    if not is_absolute(name):
        raise BadArgument(
            f"{name!r} cannot name a function: the name is an absolute IRI, such as http://example.org/double"
        )
    with _lock:
        if name in CASTS or _registered.get(name, function) is not function:
            raise BadArgument(f"there is already a function <{name}>; give yours another name")
        _registered[name] = function


def unregister_function(name: str) -> None:
    with _lock:
        if _registered.pop(name, None) is None:
            raise BadArgument(f"there is no registered function <{name}>")


def registered_functions() -> Mapping[str, CustomFunction]:
    with _lock:
        return dict(_registered)


def call(function: CustomFunction, *texts: bytes | None) -> bytes | None:
    """Terms in, a term out."""
    arguments = [parse_term(text) for text in texts if text is not None]
    if len(arguments) < len(texts):
        return None
    try:
        result = function(*arguments)
    except FunctionError:
        return None
    if result is None:
        return None
    if isinstance(result, Term):
        return _term_text(result)
    if not isinstance(result, (str, bool, int, float, Decimal)):
        raise TypeError(
            f"a custom function returned a {type(result).__name__}: it must return a Term, str, bool, "
            "int, float or Decimal"
        )
    return text_of(result)


def _term_text(term: Term) -> bytes:
    if term.kind == "iri":
        return iri(term.value)
    if term.kind == "blank":
        return b"_:" + term.value.encode()
    return literal(term.value, term.language, term.datatype)
