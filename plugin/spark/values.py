"""Values: terms of SPARQL's JSON results as values of Spark's columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

_XSD_STRING = "http://www.w3.org/2001/XMLSchema#string"
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def ntriples(term: Mapping[str, Any]) -> str:
    """Example: {"type": "literal", "value": "5", "xml:lang": "en"} is "5"@en."""
    value = str(term["value"])
    if term["type"] == "uri":
        return f"<{value}>"
    if term["type"] == "bnode":
        return f"_:{value}"
    text = f'"{value.translate(_ESCAPES)}"'
    if language := term.get("xml:lang"):
        return f"{text}@{language}"
    datatype = term.get("datatype", _XSD_STRING)
    return text if datatype == _XSD_STRING else f"{text}^^<{datatype}>"


def _boolean(text: str) -> bool:
    return {"true": True, "1": True, "false": False, "0": False}[text]


_OF_TYPE: dict[str, Callable[[str], Any]] = {
    "string": str,
    "integer": int,
    "long": int,
    "short": int,
    "byte": int,
    "double": float,
    "float": float,
    "boolean": _boolean,
    "decimal": Decimal,
    "timestamp": datetime.fromisoformat,
}


class RowReader:
    """Makes tuples of bindings. `columns`: name and type (Spark's `typeName`) of each variable; `terms`: strings are
    N-Triples, else plain values."""

    def __init__(self, columns: Sequence[tuple[str, str]], terms: bool) -> None:
        for name, kind in columns:
            if kind not in _OF_TYPE:
                raise ValueError(f"?{name} cannot be read as {kind}; the types are {', '.join(_OF_TYPE)}")
        self._columns, self._terms = list(columns), terms

    def row(self, binding: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(self._value(name, kind, binding.get(name)) for name, kind in self._columns)

    def _value(self, name: str, kind: str, term: Mapping[str, Any] | None) -> Any:
        if term is None:
            return None
        if kind == "string":
            return ntriples(term) if self._terms else term["value"]
        try:
            return _OF_TYPE[kind](term["value"])
        except (ValueError, KeyError, ArithmeticError):
            raise ValueError(f"?{name} is {ntriples(term)}, which is no {kind}: read it as a string") from None
