"""A text of the language with the line breaks and the indents that a person would give it.

Only white space changes; tokens and comments stay as they are. So the result means what the text meant:

    select*{?s ?p ?o.filter(?o>3)}   -->   select * {
                                             ?s ?p ?o .
                                             filter(?o > 3)
                                           }"""

from __future__ import annotations

import re
from typing import Final

from stream_ext.language.syntax.tokens import SourceText

_INDENT: Final = "  "
#: These begin a line of their own outside of brackets.
_CLAUSE_WORDS = """PREFIX BASE REGISTER SELECT CONSTRUCT ASK DESCRIBE FROM WHERE GROUP ORDER HAVING LIMIT OFFSET VALUES
INSERT DELETE WITH USING EVERY REPORT EMIT"""
_CLAUSES: Final = frozenset(_CLAUSE_WORDS.split())
#: These begin a line within a pattern.
_ELEMENT_WORDS = """OPTIONAL FILTER BIND VALUES SERVICE MINUS GRAPH WINDOW STREAM SELECT WHERE GROUP ORDER HAVING LIMIT
OFFSET"""
_ELEMENTS: Final = frozenset(_ELEMENT_WORDS.split())
#: A word after one of these belongs to the same clause: SELECT DISTINCT, GROUP BY, FROM NAMED WINDOW, INSERT DATA.
_SAME_CLAUSE: Final = {
    "STREAM": {"ON", "FROM", "NAMED", "REGISTER", "CREATE", "DROP"},
    "WINDOW": {"NAMED", "FROM"},
    "GRAPH": {"NAMED", "INTO", "CLEAR", "DROP", "LOAD", "CREATE", "COPY", "MOVE", "ADD", "TO"},
}
_TIGHT_AFTER: Final = frozenset(("(", "[", "^", "!", "@"))
_TIGHT_BEFORE: Final = frozenset((")", "]", ",", "^^"))
#: In paths these stand without blanks, in expressions with them: the text shows which it is.
_AS_WRITTEN: Final = frozenset(("/", "|", "*", "+", "?", "-"))
_COMMENT = re.compile(r"#[^\r\n]*")


def formatted(text: str) -> str:
    """`text` is one that the parser accepts. A text with escapes outside of strings stays as it is."""
    source = SourceText(text)
    return _Writer().written(source) if source.text == text else text


class _Writer:
    def __init__(self) -> None:
        self._lines: list[str] = [""]
        self._brackets: list[str] = []
        self._before = ""
        self._before_kind = ""
        self._gap = ""

    def written(self, source: SourceText) -> str:
        end = 0
        for kind, raw, offset in source.tokens:
            self._gap = source.text[end:offset]
            self._comments()
            if kind != "end":
                self._token(kind, raw)
            end = offset + len(raw)
        lines = [line.rstrip() for line in self._lines]
        return "\n".join(lines).strip("\n") + "\n"

    def _comments(self) -> None:
        """The comments in the white space before a token: each to the end of its line."""
        first = self._gap.split("\n", 1)[0]
        for found in _COMMENT.finditer(self._gap):
            if self._lines[-1].strip():
                if found.start() < len(first):
                    self._lines[-1] += "  "
                else:
                    self._break()
            if not self._lines[-1].strip():
                self._lines[-1] = _INDENT * self._depth()
            self._lines[-1] += found[0].rstrip()
            self._break()

    def _token(self, kind: str, raw: str) -> None:
        word = raw.upper() if kind == "word" else ""
        if raw == "{":
            if self._before == "}":
                self._break()
            self._write(raw, spaced=True)
            self._brackets.append(raw)
            self._break()
        elif raw == "}":
            if self._brackets:
                self._brackets.pop()
            self._break()
            self._write(raw, spaced=False)
        else:
            if self._begins_line(word, raw):
                self._break()
            self._write(raw, spaced=self._spaced(kind, raw))
        if raw in "([" and kind == "op":
            self._brackets.append(raw)
        elif raw in ")]" and kind == "op" and self._brackets:
            self._brackets.pop()
        elif raw in (".", ";") and kind == "op" and (self._in_group() or not self._brackets):
            self._break()
        self._before, self._before_kind = (word or raw), kind

    def _begins_line(self, word: str, raw: str) -> bool:
        if self._before == "}":
            return raw not in (".", ";", ",", ")") and word not in ("UNION", "WHERE", "AS")
        if word in _SAME_CLAUSE and self._before in _SAME_CLAUSE[word]:
            return False
        if not self._brackets:
            return word in _CLAUSES
        return self._in_group() and word in _ELEMENTS

    def _in_group(self) -> bool:
        return bool(self._brackets) and self._brackets[-1] == "{"

    def _depth(self) -> int:
        return self._brackets.count("{")

    def _spaced(self, kind: str, raw: str) -> bool:
        """Whether a blank stands between the token before and this one."""
        if self._before in _TIGHT_AFTER or (kind == "op" and raw in _TIGHT_BEFORE):
            return self._before == "[" and raw == "]" and bool(self._gap)
        if self._before == "^^" or kind == "lang":
            return False
        if self._before == ",":
            return True
        if kind == "word" and self._before_kind == "integer":
            return bool(self._gap)  # a length of time
        if raw in ("(", "[") and self._before_kind in ("word", "iri", "pname"):
            return bool(self._gap)
        if kind == "op" and raw == "*" and self._before_kind == "word":
            return True
        if raw in _AS_WRITTEN or self._before in _AS_WRITTEN:
            return bool(self._gap)
        return True

    def _write(self, raw: str, *, spaced: bool) -> None:
        line = self._lines[-1]
        if not line.strip():
            # What goes on after a semicolon is a part of the same subject.
            self._lines[-1] = _INDENT * (self._depth() + (self._before == ";" and self._in_group())) + raw
        else:
            self._lines[-1] = line + (" " if spaced else "") + raw

    def _break(self) -> None:
        if self._lines[-1].strip():
            self._lines.append("")
