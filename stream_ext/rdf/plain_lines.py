"""Elements as most programs write them: lines of a time and one triple, which one expression takes apart.

    {"timestamp": 1000, "data": "<http://ex/room1> <http://ex/temperature> \\"21\\" ."}

Escapes (but for the quotes of a literal), blank nodes, further members and several triples are for the careful reader.
It reads the whole piece then, so that it alone says what is wrong with a line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from stream_ext.rdf.ntriples import IRI
from stream_ext.times import TIME_MS_MAX

# Quotes are escaped in JSON; between them is no other escape, neither of JSON nor of N-Triples.
_LITERAL = rb'\\"[^"\\\x00-\x1f]*+\\"(?:@[A-Za-z]++(?:-[A-Za-z0-9]++)*+|\^\^' + IRI + rb")?+"
_QUOTE = b'\\"'
_LINE = re.compile(
    rb'\{"timestamp": ?(0|-?[1-9][0-9]{0,18}), ?"data": ?" *+(%b) *+(%b) *+(%b|%b) *+\. *+"\}\r?+(?:\n|\Z)|(.++)'
    % (IRI, IRI, IRI, _LITERAL),
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class PlainElements:
    """Elements of one triple each, without a graph: their times, and the terms as they were written. `iris`: all terms
    are IRIs."""

    times: list[int]
    s: Sequence[bytes]
    p: Sequence[bytes]
    o: Sequence[bytes]
    iris: bool


def plain_elements(piece: bytes) -> PlainElements | None:
    """The elements of these lines; None if a line is of another form."""
    first = _LINE.match(piece)
    if first is None or first[5]:  # so a piece of other lines costs no more than its first
        return None
    found = _LINE.findall(piece)
    times, s, p, o, other = zip(*found, strict=True)
    if any(other) or not _is_utf8(piece):
        return None
    numbers = list(map(int, times))
    if min(numbers) < -TIME_MS_MAX or max(numbers) > TIME_MS_MAX:
        return None
    if _QUOTE not in piece:
        return PlainElements(numbers, s, p, o, iris=True)
    return PlainElements(numbers, s, p, [text.replace(_QUOTE, b'"') for text in o], iris=False)


def _is_utf8(piece: bytes) -> bool:
    try:
        piece.decode()
    except UnicodeDecodeError:
        return False
    return True
