"""Outlines: a text as its tokens, without those that may be constants of triple patterns.

    SELECT ?n { <http://ex/a> :name ?n }    =>    SELECT ?n { 1 2 ?n }    and    <http://ex/a>, :name

Texts of one outline that have the same prologue differ in nothing but the constants that were left out, blanks and
comments. So what is known of one of them holds for the others, as far as it does not depend on these constants."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass
from typing import Final

from hbase_store.layout import terms
from stream_ext.language.syntax.cursor import Cursor
from stream_ext.language.syntax.tokens import KINDS, matches
from stream_ext.language.syntax.units import unit
from stream_ext.rdf.iris import is_absolute

#: Longer texts are mostly data.
_CHARACTERS_MAX = 4_000
_PREFIXED, _IRI, _STRING, _LANGUAGE = (KINDS.index(kind) for kind in ("pname", "iri", "string", "lang"))
_LEFT_OUT: Final = frozenset({_PREFIXED, _IRI, _STRING})
#: What comes before the first brace, where that brace and all number signs are surely no part of a comment or a string.
_HEAD = re.compile(r"""[^#<"']*+(?:<[^<>\s"']*+>[^#<"']*+)*+""")


@dataclass(frozen=True, slots=True)
class Outline:
    """`key`: equal for texts of one outline; `constants`: what was left out, as written, in order."""

    key: tuple[str | int, ...]
    constants: tuple[str, ...]


def outline_of(text: str, base: str) -> Outline | None:
    """None: the text is too long, has escapes, or its prologue has a comment or a string."""
    start = text.find("{")
    if start < 0 or len(text) > _CHARACTERS_MAX or "\\" in text or _HEAD.fullmatch(text, 0, start) is None:
        return None
    key, found = _cut(text, start)
    return Outline((base, text[:start], *key), tuple([match[match.lastindex or 0] for match in found]))


def marked(text: str, places: Container[int], marker: str) -> str:
    """The text with other constants at these places of its outline: the IRI or the string `marker` and the place."""
    parts, end = [], 0
    for place, match in enumerate(_cut(text, text.index("{"))[1]):
        if place in places:
            kind = match.lastindex or 0
            quotes = '""' if kind == _STRING else "<>"
            parts += [text[end : match.start(kind)], f"{quotes[0]}{marker}{place}{quotes[1]}"]
            end = match.end(kind)
    return "".join([*parts, text[end:]])


def _cut(text: str, start: int) -> tuple[list[str | int], list[re.Match[str]]]:
    """The tokens from `start` on, with their kinds for constants that may be left out; and these constants."""
    key: list[str | int] = []
    found: list[re.Match[str]] = []
    for match in matches(text, start):
        kind = match.lastindex or 0
        if kind in _LEFT_OUT and key[-1] != "^^":
            key.append(kind)
            found.append(match)
            continue
        raw = match[kind]
        if not raw:  # the end
            break
        if (kind == _LANGUAGE or raw in ("^^", "(")) and key and type(key[-1]) is int:
            # The string has a language or a datatype; what comes before a bracket is mostly a function.
            key[-1] = found.pop()[key[-1]]
        key.append(raw)
    return key, found


def prefixes_of(text: str, base: str) -> dict[str, str]:
    """The prefixes that the prologue of a text without syntax errors declares."""
    cursor = Cursor(text, base)
    unit(cursor)
    return cursor.prefixes


def canonical(constant: str, prefixes: dict[str, str]) -> bytes | None:
    """The canonical text of a constant as written in an outline; None: it takes the parser to know."""
    if constant[0] == "<":
        return terms.iri(constant[1:-1]) if is_absolute(constant[1:-1]) else None
    if constant[0] in "\"'":
        return terms.literal(constant[1:-1])
    prefix, _, local = constant.partition(":")
    namespace = prefixes.get(prefix)
    return None if namespace is None else terms.iri(namespace + local)
