"""Nodes, lengths and names as they are written."""

from __future__ import annotations

import re
from typing import Final

from stream_ext.language.algebra.terms import BlankLabel, Constant, TemplateNode, Variable

_XSD: Final = r'"\^\^<http://www\.w3\.org/2001/XMLSchema#'
#: Literals that SPARQL writes without quotes, in just this spelling.
_BARE: Final = re.compile(
    f'"(?:([+-]?[0-9]+){_XSD}integer>|([+-]?[0-9]*\\.[0-9]+){_XSD}decimal>|(true|false){_XSD}boolean>)'
)
_ESCAPE: Final = re.compile(rb"\\\\[uU]|\\.", re.DOTALL)
_APART: Final = {rb"\\u": rb"\\\U00000075", rb"\\U": rb"\\\U00000055"}
_UNITS_MS: Final = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000))


class Labels:
    """Blank nodes get labels in order of appearance: those of a text and those of its brackets alike."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._known: dict[str, str] = {}

    def __call__(self, name: str) -> str:
        return self._known.setdefault(name, f"_:{self._prefix}{len(self._known) + 1}")


def constant(node: Constant) -> str:
    text = node.text.decode()
    bare = _BARE.fullmatch(text) if text.endswith(">") and text.startswith('"') else None
    return text if bare is None else bare[bare.lastindex or 0]


def portable(text: bytes) -> bytes:
    """A term such that engines read it alike that replace escapes of code points before all else, also those behind an
    escaped backslash: of a literal, no u follows a backslash."""
    if b"\\\\u" not in text and b"\\\\U" not in text:
        return text
    return _ESCAPE.sub(lambda found: _APART.get(found[0], found[0]), text)


def node(each: TemplateNode, patterns: Labels, templates: Labels) -> str:
    if isinstance(each, Variable):
        return patterns(each.name) if each.hidden else "?" + each.name
    if isinstance(each, BlankLabel):
        return templates(each.label)
    return constant(each)


def string(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def duration(milliseconds: int) -> str:
    """In the largest unit that gives a whole number."""
    for unit, length in _UNITS_MS:
        if milliseconds and milliseconds % length == 0:
            return f"{milliseconds // length}{unit}"
    return f"{milliseconds}ms"


def block(elements: list[str]) -> str:
    """`elements` in braces, one a line. No element holds a line break of its own: literals write theirs as \\n."""
    if not elements:
        return "{ }"
    inner = "\n".join(elements).replace("\n", "\n  ")
    return f"{{\n  {inner}\n}}"
