"""Numbers by what they are: engines may write the same value as 3, 3.0 or 3.0E0 where they have computed it; and a
time in UTC with Z or with +00:00."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from stream_ext.rdf.canonical import canonical

_XSD = b"http://www.w3.org/2001/XMLSchema#"


def comparable(text: bytes | None) -> bytes | None:
    """The term, or for a number its datatype and value."""
    if text is None or not text.startswith(b'"'):
        return text
    lexical, _, datatype = canonical(text).rpartition(b'"')
    kind = datatype[3:-1].removeprefix(_XSD)
    try:
        value = number(kind, lexical[1:].decode())
    except (InvalidOperation, ValueError):
        return canonical(text)
    return canonical(text) if value is None else b'"' + kind + b" " + value.encode()


def number(kind: bytes, lexical: str) -> str | None:
    if kind == b"integer":
        return str(int(lexical))
    if kind == b"dateTime":
        return lexical.removesuffix("+00:00") + "Z" if lexical.endswith("+00:00") else lexical
    if kind == b"decimal":
        return str(round(Decimal(lexical), 9).normalize() + 0)
    return f"{float(lexical):.9g}" if kind in (b"double", b"float") else None
