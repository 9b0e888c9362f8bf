"""Triples as patterns and as data: subjects with their `;` and `,` lists, blank nodes in brackets, collections.

Both kinds of text share this grammar; they differ in what a variable and a blank node become."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from hbase_store.layout import terms
from stream_ext.language.algebra.formulas import Path
from stream_ext.language.algebra.terms import BlankLabel, Constant, Variable
from stream_ext.language.syntax import paths
from stream_ext.language.syntax.cursor import Cursor
from stream_ext.language.syntax.literals import NUMBERS, STRINGS, literal_here, signed_number_here
from stream_ext.language.syntax.words import RDF

FIRST = Constant(terms.iri(RDF + "first"))
REST = Constant(terms.iri(RDF + "rest"))
NIL = Constant(terms.iri(RDF + "nil"))

_NAMES = frozenset({"iri", "pname"})
_SUBJECTS = frozenset({"var", "blank"}) | _NAMES | NUMBERS | STRINGS

Blank = TypeVar("Blank", bound=Variable | BlankLabel)


class Triples(Generic[Blank]):
    """Reads triples from the cursor and hands each to `emit` with the offset of what was written for it."""

    def __init__(
        self,
        cursor: Cursor,
        blank: Callable[[str], Blank],
        emit: Callable[[Variable | Constant | Blank, Variable | Constant, Variable | Constant | Blank, int], None],
        emit_path: Callable[[Variable | Constant | Blank, Path, Variable | Constant | Blank, int], None] | None = None,
        refuse_variables: str | None = None,
        refuse_blanks: str | None = None,
    ) -> None:
        self._cursor, self._blank, self._emit, self._emit_path = cursor, blank, emit, emit_path
        self._refuse_variables, self._refuse_blanks = refuse_variables, refuse_blanks

    def block(self) -> None:
        """Triples up to the first thing that begins none."""
        cursor = self._cursor
        while self.begins():
            self._same_subject()
            if cursor.kind != "op" or cursor.raw != ".":
                if self.begins():
                    cursor.expected("'.' between two triples (or ';' or ',' to go on with this one)")
                return
            cursor.advance()

    def begins(self) -> bool:
        cursor = self._cursor
        if cursor.kind in _SUBJECTS:
            return True
        if cursor.kind == "op":
            return cursor.raw in ("[", "(") or signed_number_here(cursor)
        return cursor.kind == "word" and cursor.raw.lower() in ("true", "false")

    def _same_subject(self) -> None:
        cursor = self._cursor
        start = cursor.offset
        bracketed = cursor.kind == "op" and cursor.raw in ("[", "(")
        empty = bracketed and cursor.peek()[1] in ("]", ")")
        subject = self._node("a subject")
        if bracketed and not empty and not self._verb_begins():
            return  # [ :p :o ] and (1 2) say something on their own
        self._properties(subject, start)

    def _verb_begins(self) -> bool:
        cursor = self._cursor
        if cursor.kind == "op":
            return cursor.raw in ("^", "!", "(")
        return cursor.kind in ("iri", "pname", "var") or cursor.raw == "a"

    def _properties(self, subject: Variable | Constant | Blank, start: int) -> None:
        cursor = self._cursor
        while True:
            verb = cursor.offset
            predicate = self._verb()
            while True:
                target = self._node("an object")
                if isinstance(predicate, Variable | Constant):
                    self._emit(subject, predicate, target, start)
                else:
                    assert self._emit_path is not None  # a path is read only where it may stand
                    self._emit_path(subject, predicate, target, verb)
                if cursor.raw != "," or cursor.kind != "op":
                    break
                cursor.advance()
                start = cursor.offset
            if cursor.raw != ";" or cursor.kind != "op":
                return
            while cursor.take(";"):
                pass
            start = cursor.offset
            if not self._verb_begins():
                return

    def _verb(self) -> Variable | Constant | Path:
        cursor = self._cursor
        if cursor.kind in _NAMES:
            predicate = cursor.constant()
        elif cursor.kind == "word" and cursor.raw == "a":
            cursor.advance()
            predicate = paths.TYPE
        elif cursor.kind == "var":
            return self._variable()
        elif cursor.kind == "op" and cursor.raw in ("^", "!", "("):
            self._check_path()
            return paths.path(cursor)
        else:
            cursor.expected("a predicate (an IRI, a prefixed name, a variable or 'a')")
        if paths.continues(cursor):
            self._check_path()
            return paths.path_after(cursor, predicate)
        return predicate

    def _check_path(self) -> None:
        if self._emit_path is None:
            self._cursor.fail(
                "a property path can only find triples, and these triples are created: give each one a predicate"
            )

    def _node(self, what: str) -> Variable | Constant | Blank:
        cursor = self._cursor
        kind = cursor.kind
        if kind in _NAMES:
            return cursor.constant()
        if kind == "var":
            return self._variable()
        if kind == "blank":
            return self._labelled()
        literal = literal_here(cursor)
        if literal is not None:
            return literal
        if kind == "op" and cursor.raw == "[":
            return self._bracketed()
        if kind == "op" and cursor.raw == "(":
            return self._collection()
        return cursor.expected(f"{what} (an IRI, a prefixed name, a variable, a literal or a blank node)")

    def _variable(self) -> Variable:
        cursor = self._cursor
        if self._refuse_variables:
            cursor.fail(self._refuse_variables)
        found = cursor.variable()
        cursor.visible[found.name] = None
        return found

    def _labelled(self) -> Blank:
        cursor = self._cursor
        self._check_blank()
        label = cursor.raw[2:]
        if cursor.labels.setdefault(label, cursor.scope) != cursor.scope:
            cursor.fail(
                f"the blank node _:{label} is used in two groups, which cannot share a blank node; use a variable"
            )
        cursor.advance()
        return self._blank(label)

    def _check_blank(self) -> None:
        if self._refuse_blanks:
            self._cursor.fail(self._refuse_blanks)

    def _fresh(self) -> Blank:
        # Brackets cannot stand in a label, so the made ones meet no written one.
        self._cursor.fresh += 1
        return self._blank(f"[{self._cursor.fresh}]")

    def _bracketed(self) -> Blank:
        cursor = self._cursor
        self._check_blank()
        node = self._fresh()
        with cursor.nested():
            cursor.advance()
            if cursor.take("]"):
                return node
            self._properties(node, cursor.offset)
            cursor.require("]", "to close the blank node")
        return node

    def _collection(self) -> Constant | Blank:
        cursor = self._cursor
        start = cursor.offset
        if cursor.peek()[1] == ")":
            cursor.advance()
            cursor.advance()
            return NIL
        self._check_blank()
        with cursor.nested():
            cursor.advance()
            head = cell = self._fresh()
            self._emit(cell, FIRST, self._node("an item of the collection"), start)
            while cursor.kind != "op" or cursor.raw != ")":
                following = self._fresh()
                self._emit(cell, REST, following, start)
                cell = following
                start = cursor.offset
                self._emit(cell, FIRST, self._node("an item of the collection, or ')'"), start)
            self._emit(cell, REST, NIL, start)
            cursor.advance()
        return head
