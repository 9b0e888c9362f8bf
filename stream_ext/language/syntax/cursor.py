"""A place in the tokens of a text: looking, moving on, complaining; and the names that are declared so far."""

from __future__ import annotations

import re
from typing import NoReturn

from hbase_store.layout import terms
from stream_ext.errors import QuerySyntaxError, Unsupported
from stream_ext.language.algebra.terms import Constant, Position, Variable
from stream_ext.language.algebra.windows import GraphClause, WindowClause
from stream_ext.language.syntax.tokens import Check, SourceText, Token, unescape
from stream_ext.language.syntax.words import WELL_KNOWN_PREFIXES, meant
from stream_ext.rdf.iris import is_absolute, resolve

#: How deep groups, brackets and blank nodes may stand in one another: far above any text that a person
#: writes, far below Python's own limit on recursion.
NESTING_MAX = 100
#: How many triple patterns, steps of paths, groups and assignments a query, or an operation of an update, may have: all
#: of them may be joined with one another. Data (INSERT DATA, VALUES) and templates are not counted.
PARTS_MAX = 10_000
#: How many operands its expressions may have.
OPERANDS_MAX = 50_000
#: How many characters its relative IRIs and prefixed names may stand for, each spelling once, and once for each base.
EXPANDED_MAX = 32 << 20
#: How many characters the name of a variable may have: it stands in each row of an answer.
VARIABLE_MAX = 255

_PARTS = "triple patterns, steps of paths, groups and assignments"
_BARE_NAME = re.compile(r"[A-Za-z_][\w.\-]*", re.ASCII)
_LOCAL_ESCAPE = re.compile(r"\\(.)")


class Cursor:
    __slots__ = (
        "_characters",
        "_constants",
        "_depth",
        "_index",
        "_operands",
        "_parts",
        "_tokens",
        "_variables",
        "aggregates",
        "base",
        "fresh",
        "graphs",
        "home",
        "kind",
        "labels",
        "offset",
        "prefixes",
        "raw",
        "scope",
        "source",
        "visible",
        "windows",
        "without_unit",
    )

    def __init__(self, text: str, base: str, check: Check | None = None) -> None:
        self.source = SourceText(text, check)
        self.home = self.base = base
        self.prefixes: dict[str, str] = {}
        self.windows: dict[str, WindowClause] = {}
        self.graphs: list[GraphClause] = []
        self.without_unit: list[str] = []  # lengths of time that no window has taken yet: RANGE 10
        self.visible: dict[str, None] = {}  # variables of the group so far, in order of first appearance
        self.aggregates: list[str] | None = None  # those of the query so far; None where none may stand
        self.labels: dict[str, int] = {}  # the scope (basic graph pattern, operation) of each blank node label
        self.scope = 0
        self.fresh = 0  # how many blank nodes without a label there were
        self._variables: dict[str, Variable] = {}
        self._constants: dict[str, Constant] = {}  # of IRIs and prefixed names as written
        self._tokens = self.source.tokens
        self._index = -1
        self._depth = self._parts = self._operands = self._characters = 0
        self.kind, self.raw, self.offset = self._tokens[0]
        self._index = 0

    # ---- looking and moving on

    def advance(self) -> None:
        self._index += 1
        self.kind, self.raw, self.offset = self._tokens[self._index]

    @property
    def index(self) -> int:
        """The number of tokens before this one."""
        return self._index

    def peek(self, ahead: int = 1) -> Token:
        return self._tokens[min(self._index + ahead, len(self._tokens) - 1)]

    def word(self) -> str:
        """The word here in upper case; "" where there is none."""
        return self.raw.upper() if self.kind == "word" else ""

    def peek_word(self, ahead: int = 1) -> str:
        kind, raw, _ = self.peek(ahead)
        return raw.upper() if kind == "word" else ""

    def take(self, raw: str) -> bool:
        """Moves past the sign `raw` if it is here."""
        if self.raw != raw or self.kind != "op":
            return False
        self.advance()
        return True

    def take_word(self, word: str) -> bool:
        if self.kind != "word" or self.raw.upper() != word:
            return False
        self.advance()
        return True

    def require(self, raw: str, where: str) -> None:
        if not self.take(raw):
            self.expected(f"'{raw}' {where}")

    def require_word(self, word: str, where: str) -> None:
        if not self.take_word(word):
            self.expected(f"{word} {where}")

    def skip_to(self, offset: int) -> None:
        while self.offset < offset:
            self.advance()

    def split_lang(self) -> None:
        """Reads the adjacent tokens `@ex` and `:time` as the prefixed name `ex:time`."""
        prefix, offset = self.raw[1:], self.offset
        self.advance()
        if self.offset != offset + 1 + len(prefix) or not self.raw.startswith(":"):
            self.expected(f"a prefixed name after '@', as in @{prefix}:time")
        self.raw, self.offset = prefix + self.raw, offset + 1

    def bare_name(self) -> str:
        """The bare name here; in other places its dots and hyphens are separate tokens."""
        match = _BARE_NAME.match(self.source.text, self.offset)
        assert match is not None  # called where a word stands
        self.skip_to(match.end())
        return match[0]

    def nested(self) -> Cursor:
        """For `with`: what is inside is one bracket or group deeper."""
        if self._depth == NESTING_MAX:
            self.fail(f"brackets and groups are nested more than {NESTING_MAX} deep here")
        self._depth += 1
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._depth -= 1

    # ---- counting

    def part(self) -> None:
        """One more part of a pattern begins here."""
        self._parts += 1
        if self._parts > PARTS_MAX:
            self.fail(
                f"up to here there are more than {PARTS_MAX} {_PARTS}: put parts that differ only in values "
                "into VALUES, or split the query"
            )

    def begin_operation(self) -> None:
        """Begins a new operation: its parts are counted from 0, as they are not joined with those before."""
        self._parts = 0

    def operand(self) -> None:
        self._operands += 1
        if self._operands > OPERANDS_MAX:
            self.fail(
                f"the text has more than {OPERANDS_MAX} operands: put values that a variable may have into VALUES"
            )

    def _expands(self, characters: int) -> None:
        self._characters += characters
        if self._characters > EXPANDED_MAX:
            self.fail(
                f"with their prefix or base written out, the IRIs up to here have more than {EXPANDED_MAX} characters: "
                "shorten the prefix, or split the text"
            )

    # ---- complaining

    def position(self, offset: int | None = None) -> Position:
        return self.source.position(self.offset if offset is None else offset)

    def fail(self, message: str, offset: int | None = None) -> NoReturn:
        self.source.fail(message, self.offset if offset is None else offset)

    def fail_at(self, message: str, position: Position) -> NoReturn:
        raise QuerySyntaxError(message, self.source.written, position.line, position.column)

    def refuse(self, name: str, offset: int | None = None) -> NoReturn:
        """Refuses syntax that the algebra cannot express yet; other syntax that does not run: `plan/refuse.py`."""
        at = self.position(offset)
        raise Unsupported(f"{name} is not supported yet", self.source.written, at.line, at.column)

    def expected(self, what: str) -> NoReturn:
        self.fail(f"expected {what}, found {self._found()}{meant(self.raw) if self.kind == 'word' else ''}")

    def _found(self) -> str:
        if self.kind == "end":
            return "the end of the text"
        if self.kind == "bad" and self.raw in "\"'":
            return f"a string that is not closed (a string with line breaks needs {self.raw * 3})"
        if self.raw == ">":
            return "'>' (it closes an IRI, not a prefixed name)"
        if self.raw == "<":
            return "'<' (if it begins an IRI: the IRI is not closed, or contains a blank or one of \" { } | ^ ` \\)"
        return f"'{self.raw[:40]}'"

    # ---- prologue and IRIs

    def prologue(self) -> None:
        while self.kind == "word":
            word = self.raw.upper()
            if word == "PREFIX":
                self._prefix_declaration()
            elif word == "BASE":
                self.advance()
                if self.kind != "iri":
                    self.expected("an <IRI> after BASE")
                self.base = self.iri()
                self._constants.clear()
            else:
                return

    def _prefix_declaration(self) -> None:
        self.advance()
        raw = self.raw
        if self.kind != "pname" or raw.find(":") != len(raw) - 1:
            self.expected("a prefix and its colon after PREFIX, as in PREFIX ex: <http://example.org/>")
        self.advance()
        if self.kind != "iri":
            self.expected(f"the <IRI> that the prefix '{raw}' stands for")
        self.prefixes[raw[:-1]] = self._reference()
        self.advance()
        if self._constants:
            self._constants = {}

    def iri(self) -> str:
        """The absolute IRI of the IRI or prefixed name here."""
        value = self._reference() if self.kind == "iri" else self._expanded()
        self.advance()
        return value

    def variable(self) -> Variable:
        """The variable here."""
        raw, name = self.raw, self.variable_name
        self._index += 1
        self.kind, self.raw, self.offset = self._tokens[self._index]
        known = self._variables.get(raw)
        if known is None:
            known = self._variables[raw] = Variable(name)
        return known

    @property
    def variable_name(self) -> str:
        """The name of the variable here."""
        if self.kind == "var" and len(self.raw) > VARIABLE_MAX + 1:
            self.source.fail(f"the name of a variable has at most {VARIABLE_MAX} characters", self.offset)
        return self.raw[1:]

    def constant(self) -> Constant:
        """`iri` as a constant; each spelling is worked out once."""
        known = self._constants.get(self.raw)
        if known is not None:
            self.advance()
            return known
        raw = self.raw
        found = self._constants[raw] = Constant(terms.iri(self.iri()))
        return found

    def _reference(self) -> str:
        reference = self.raw[1:-1]
        if "\\" in reference:
            reference = unescape(self.source, reference, self.offset + 1)
            if re.search(r'[\x00-\x20<>"{}|^`\\]', reference):
                self.fail("an escape in this IRI is a character that is not allowed in an IRI")
        if is_absolute(reference):
            return reference
        if not self.base:
            self.fail(f"<{reference}> is relative, and there is no BASE to resolve it against")
        self._expands(len(self.base) + len(reference))
        return resolve(reference, self.base)

    def _expanded(self) -> str:
        prefix, _, local = self.raw.partition(":")
        namespace = self.prefixes.get(prefix)
        if namespace is None:
            known = WELL_KNOWN_PREFIXES.get(prefix)
            hint = f"; did you mean PREFIX {prefix}: <{known}> ?" if known else ""
            self.fail(f"the prefix '{prefix}:' is not declared{hint}")
        self._expands(len(namespace) + len(local))
        return namespace + (_LOCAL_ESCAPE.sub(r"\1", local) if "\\" in local else local)
