"""What SPARQL says of ORDER BY, and no more: which of two terms comes first, where the specification orders them.

"Unbound < blank nodes < IRIs < RDF literals"; numbers by value, simple literals and xsd:string by code points, so too
IRIs, false before true, times by the instant. Of anything else the order is the engine's own."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from stream_ext.rdf.canonical import canonical, unescape

_XSD = b"http://www.w3.org/2001/XMLSchema#"
_NUMBERS = {_XSD + kind for kind in (b"integer", b"decimal", b"double", b"float")}
Key = tuple[int, object]  # terms of one kind (the first) are ordered by the second; None: not said


def key(term: bytes | None) -> Key:
    if term is None:
        return 0, 0
    if term.startswith(b"_:"):
        return 1, None
    if term.startswith(b"<"):
        return 2, term[1:-1].decode()  # the bracket at the end is none of its characters
    lexical, _, suffix = canonical(term).rpartition(b'"')
    text, datatype = unescape(lexical[1:].decode()), suffix[3:-1]
    if not suffix:
        return 3, text
    try:
        return _valued(text, datatype)
    except ValueError:
        return 7, None  # its text is none of its datatype


def _valued(text: str, datatype: bytes) -> Key:
    if datatype in _NUMBERS:
        return 4, float(text)
    if datatype == _XSD + b"boolean":
        return 5, text in ("true", "1")
    if datatype != _XSD + b"dateTime":
        return 7, None
    moment = datetime.fromisoformat(text)
    return 8 if moment.tzinfo is None else 6, moment  # whether one with a zone is before one without, may be open


def compare(one: bytes | None, other: bytes | None) -> int | None:
    """-1, 0 or 1; None where the specification does not say."""
    (kind, value), (other_kind, other_value) = key(one), key(other)
    if one == other:
        return 0
    if kind != other_kind and min(kind, other_kind) < 3:  # literals of different kinds are not ordered
        return -1 if kind < other_kind else 1
    if kind != other_kind or value is None:
        return None
    return (value > other_value) - (value < other_value)  # type: ignore[operator]  # of one kind


def out_of_order(rows: Sequence[Sequence[bytes | None]], descending: Sequence[bool]) -> tuple[int, int] | None:
    """Two rows of which the later one must come first; `rows` hold the keys only."""
    for later in range(len(rows)):
        for earlier in range(later):
            if before(rows[later], rows[earlier], descending):
                return earlier, later
    return None


def before(one: Sequence[bytes | None], other: Sequence[bytes | None], descending: Sequence[bool]) -> bool:
    """Whether `one` must come before `other`."""
    for mine, theirs, down in zip(one, other, descending, strict=True):
        found = compare(mine, theirs)
        if found is None:
            return False
        if found:
            return (found < 0) != down
    return False
