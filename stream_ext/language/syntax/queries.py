"""Queries: SELECT, CONSTRUCT, ASK, DESCRIBE and what stands around their patterns."""

from __future__ import annotations

from stream_ext.language.algebra.algebra import (
    PLAIN,
    Assigned,
    Bgp,
    Form,
    Ordering,
    Pattern,
    QuadPattern,
    Query,
    Shape,
    Values,
)
from stream_ext.language.algebra.formulas import Expression
from stream_ext.language.algebra.terms import BlankLabel, Node, Position, TemplateNode
from stream_ext.language.algebra.windows import R2S
from stream_ext.language.syntax import groups
from stream_ext.language.syntax.calls import call_by_iri, call_by_word
from stream_ext.language.syntax.conditions import bracketed, constraint, expression
from stream_ext.language.syntax.cursor import Cursor
from stream_ext.language.syntax.datasets import dataset_clause
from stream_ext.language.syntax.depth import DEPTH_MAX, check_depth
from stream_ext.language.syntax.grouping import check_grouping
from stream_ext.language.syntax.policies import check_policies
from stream_ext.language.syntax.triples import Triples
from stream_ext.language.syntax.words import AGGREGATES, FUNCTIONS

FORMS = frozenset(form.value for form in Form)
_COUNT_MAX = 2**63 - 1
_NO_PATTERN = Bgp(())


class _QueryDraft:
    """A query while it is read. `places`: where its clauses stand, by the names that a refusal gives them."""

    __slots__ = (
        "counts",
        "described",
        "distinct",
        "expressions",
        "form",
        "group_by",
        "having",
        "order_by",
        "pattern",
        "places",
        "r2s",
        "reduced",
        "star",
        "star_position",
        "template",
        "values",
        "variables",
    )

    def __init__(self, form: Form) -> None:
        self.form = form
        self.r2s: R2S | None = None
        self.distinct = self.reduced = self.star = False
        self.star_position: Position | None = None
        self.variables: dict[str, None] = {}
        self.expressions: list[Assigned] = []
        self.template: tuple[QuadPattern, ...] | None = None
        self.described: list[Node] = []
        self.pattern: Pattern = _NO_PATTERN
        self.group_by: list[Assigned] = []
        self.having: list[Expression] = []
        self.order_by: list[Ordering] = []
        self.counts: dict[str, int] = {}  # LIMIT and OFFSET
        self.values: Values | None = None
        self.places: list[tuple[str, Position]] = []


def query(cursor: Cursor) -> Query:
    """A whole query, with its dataset."""
    start = cursor.offset
    draft = _begin(cursor)
    draft.r2s = _r2s(cursor, draft)
    _head(cursor, draft)
    while cursor.word() == "FROM":
        dataset_clause(cursor)
    if cursor.word() == "UNDER":
        cursor.refuse("UNDER ENTAILMENT REGIME")
    _where(cursor, draft)
    _modifiers(cursor, draft)
    if cursor.word() == "UNDER":
        cursor.refuse("UNDER ENTAILMENT REGIME")
    query = _query_of(cursor, draft, start)
    if query.windows:
        check_policies(cursor, query)
    return query


def sub_select(cursor: Cursor) -> Query:
    """A SELECT inside of a group; only the variables that it projects are visible around it."""
    outer, cursor.visible = cursor.visible, {}
    allowed, cursor.aggregates = cursor.aggregates, None
    start = cursor.offset
    draft = _begin(cursor)
    _head(cursor, draft)
    _where(cursor, draft, is_inner=True)
    _modifiers(cursor, draft)
    query = _query_of(cursor, draft, start, is_inner=True)
    cursor.visible, cursor.aggregates = outer, allowed
    outer.update(dict.fromkeys(query.variables))
    return query


def _begin(cursor: Cursor) -> _QueryDraft:
    draft = _QueryDraft(Form(cursor.word()))
    if draft.form in (Form.CONSTRUCT, Form.DESCRIBE):
        draft.places.append((draft.form.value, cursor.position()))
    cursor.advance()
    return draft


def _query_of(cursor: Cursor, draft: _QueryDraft, start: int, is_inner: bool = False) -> Query:
    variables = tuple(cursor.visible if draft.star and draft.form is Form.SELECT else draft.variables)
    if draft.star_position is not None and draft.form is Form.SELECT and not variables:
        draft.places.append(("SELECT *", draft.star_position))
    is_plain = not (draft.places or draft.expressions or (cursor.graphs and not is_inner))
    shape = PLAIN
    if not is_plain:
        shape = Shape(
            draft.reduced,
            tuple(draft.expressions),
            draft.template,
            tuple(draft.described),
            tuple(draft.group_by),
            tuple(draft.having),
            tuple(draft.order_by),
            draft.values,
            () if is_inner else tuple(cursor.graphs),
            places=tuple(draft.places),
        )
    windows = () if is_inner else tuple(cursor.windows.values())
    counts = draft.counts
    offset, limit = counts.get("OFFSET", 0), counts.get("LIMIT")
    return Query(draft.form, draft.pattern, variables, draft.distinct, offset, limit, windows, draft.r2s, shape)


# ---- the head ------------------------------------------------------------------------------------------------


def _r2s(cursor: Cursor, draft: _QueryDraft) -> R2S | None:
    word = cursor.word()
    if word not in ("ISTREAM", "RSTREAM", "DSTREAM"):
        return None
    if word == "DSTREAM":
        draft.places.append((word, cursor.position()))
    cursor.advance()
    return R2S(word)


def _head(cursor: Cursor, draft: _QueryDraft) -> None:
    if draft.form is Form.SELECT:
        if cursor.word() == "REDUCED":
            draft.places.append(("REDUCED", cursor.position()))
            cursor.advance()
            draft.reduced = True
        else:
            draft.distinct = cursor.take_word("DISTINCT")
        _projection(cursor, draft)
    elif draft.form is Form.DESCRIBE:
        _described(cursor, draft)
    elif draft.form is Form.CONSTRUCT and cursor.kind == "op" and cursor.raw == "{":
        draft.template = template(cursor)


def _projection(cursor: Cursor, draft: _QueryDraft) -> None:
    position = cursor.position()
    draft.star = cursor.take("*")
    if draft.star:
        draft.star_position = position
        return
    while True:
        if cursor.kind == "var":
            draft.variables[cursor.variable_name] = None
            cursor.advance()
        elif cursor.kind == "op" and cursor.raw == "(":
            _projected(cursor, draft)
        elif cursor.kind == "op" and cursor.raw == "," and draft.variables:
            cursor.fail("variables are separated by blanks, not by commas: SELECT ?x ?y")
        else:
            break
    if cursor.kind == "word" and cursor.peek()[1] == "(":
        after = "WHERE" if draft.variables else "variables or '*' after SELECT"
        cursor.expected(f"{after}; write an expression as (expression AS ?variable)")
    if not draft.variables:
        cursor.expected("variables or '*' after SELECT")


def _projected(cursor: Cursor, draft: _QueryDraft) -> None:
    position = cursor.position()
    cursor.part()
    found, before = _allow_aggregates(cursor)
    with cursor.nested():
        cursor.advance()
        value = expression(cursor)
        cursor.require_word("AS", "and a variable after the expression")
        name = cursor.variable_name
        if cursor.kind != "var":
            cursor.expected("a variable after AS")
        if name in draft.variables:
            cursor.fail(f"?{name} is already projected; AS needs a new variable")
        draft.variables[name] = None
        cursor.advance()
        cursor.require(")", "to close (expression AS ?variable)")
    cursor.aggregates = before
    draft.expressions.append(Assigned(name, value, position))
    if found:
        draft.places.append(("aggregate", position))


def _allow_aggregates(cursor: Cursor) -> tuple[list[str], list[str] | None]:
    """Allows aggregates from here on: returns the list of those that occur, and the value to restore at the end."""
    before, found = cursor.aggregates, list[str]()
    cursor.aggregates = found
    return found, before


def _described(cursor: Cursor, draft: _QueryDraft) -> None:
    draft.star = cursor.take("*")
    while not draft.star:
        if cursor.kind == "var":
            draft.described.append(cursor.variable())
        elif cursor.kind in ("iri", "pname"):
            draft.described.append(cursor.constant())
        else:
            break
    if not draft.star and not draft.described:
        cursor.expected("variables, IRIs or '*' after DESCRIBE")


def template(cursor: Cursor) -> tuple[QuadPattern, ...]:
    """The braces after CONSTRUCT."""
    quads: list[QuadPattern] = []

    def emit(subject: TemplateNode, predicate: Node, target: TemplateNode, _: int) -> None:
        quads.append(QuadPattern(subject, predicate, target))

    visible, cursor.visible = cursor.visible, {}
    labels, cursor.labels = cursor.labels, {}  # a template's labels have nothing to do with those of the pattern
    triples: Triples[BlankLabel] = Triples(cursor, BlankLabel, emit)
    cursor.require("{", "to begin the template")
    triples.block()
    cursor.require("}", "to close the template (a template has triples with '.' between them, no GRAPH and no FILTER)")
    cursor.visible, cursor.labels = visible, labels
    return tuple(quads)


# ---- the pattern ---------------------------------------------------------------------------------------------


def _where(cursor: Cursor, draft: _QueryDraft, is_inner: bool = False) -> None:
    has_where = cursor.take_word("WHERE")
    if draft.form is Form.DESCRIBE and not has_where and cursor.raw != "{":
        return
    start = cursor.offset
    draft.pattern = groups.group(cursor)
    if not is_inner:
        check_depth(cursor, draft.pattern, start, "the pattern")
    if draft.form is Form.CONSTRUCT and draft.template is None:
        _check_short(cursor, draft.pattern, start)
    for each in draft.expressions:
        if each.variable in cursor.visible:
            message = f"?{each.variable} has a value in the pattern already; AS takes a new variable"
            cursor.fail_at(message, each.position)


def _check_short(cursor: Cursor, pattern: Pattern, start: int) -> None:
    """CONSTRUCT WHERE creates the triples of its pattern, which therefore consists of triples only."""
    if not isinstance(pattern, Bgp) or pattern.paths:
        message = "CONSTRUCT WHERE takes triples only; with anything else write CONSTRUCT { ... } WHERE { ... }"
        cursor.fail(message, start)


# ---- behind the pattern --------------------------------------------------------------------------------------


def _modifiers(cursor: Cursor, draft: _QueryDraft) -> None:
    if cursor.word() == "GROUP":
        _group_by(cursor, draft)
    if cursor.word() == "HAVING":
        draft.places.append(("HAVING", cursor.position()))
        cursor.advance()
        found, before = _allow_aggregates(cursor)
        draft.having.append(constraint(cursor, "HAVING"))
        while _constraint_begins(cursor):
            draft.having.append(constraint(cursor, "HAVING"))
        cursor.aggregates = before
        _note(cursor, draft, found)
    if cursor.word() == "ORDER":
        _order_by(cursor, draft)
    _limits(cursor, draft)
    if draft.places:
        check_grouping(cursor, draft.star, draft.variables, draft.expressions, draft.group_by, draft.places)
    if cursor.index > DEPTH_MAX:
        _check_depths(cursor, draft)
    if cursor.word() == "VALUES":
        draft.places.append(("VALUES", cursor.position()))
        draft.values = groups.values(cursor)
        if draft.star:
            cursor.visible.update(dict.fromkeys(draft.values.variables))


def _check_depths(cursor: Cursor, draft: _QueryDraft) -> None:
    found = [*draft.having, *(key.expression for key in draft.group_by), *(by.expression for by in draft.order_by)]
    for each in (*found, *(assigned.expression for assigned in draft.expressions)):
        check_depth(cursor, each, None, "an expression")


def _note(cursor: Cursor, draft: _QueryDraft, found: list[str]) -> None:
    if found:
        draft.places.append(("aggregate", cursor.position()))


def _constraint_begins(cursor: Cursor) -> bool:
    if cursor.raw == "(" and cursor.kind == "op":
        return True
    if cursor.kind == "word":
        word = cursor.word()
        return word in FUNCTIONS or word in AGGREGATES or "EXISTS" in (word, cursor.peek_word() * (word == "NOT"))
    return cursor.kind in ("iri", "pname") and cursor.peek()[1] == "("


def _group_by(cursor: Cursor, draft: _QueryDraft) -> None:
    draft.places.append(("GROUP BY", cursor.position()))
    cursor.advance()
    cursor.require_word("BY", "after GROUP")
    while cursor.kind == "var" or _constraint_begins(cursor):
        draft.group_by.append(_group_key(cursor))
    if not draft.group_by:
        cursor.expected("variables or expressions after GROUP BY")


def _group_key(cursor: Cursor) -> Assigned:
    position = cursor.position()
    cursor.part()
    if cursor.kind == "var":
        return Assigned(None, cursor.variable(), position)
    if cursor.kind == "word":
        return Assigned(None, call_by_word(cursor), position)
    if cursor.kind in ("iri", "pname"):
        return Assigned(None, call_by_iri(cursor), position)
    with cursor.nested():
        cursor.advance()
        value = expression(cursor)
        variable = _alias(cursor) if cursor.take_word("AS") else None
        cursor.require(")", "to close the expression")
    return Assigned(variable, value, position)


def _alias(cursor: Cursor) -> str:
    name = cursor.variable_name
    if cursor.kind != "var":
        cursor.expected("a variable after AS")
    if name in cursor.visible:
        cursor.fail(f"?{name} has a value in the pattern already; AS takes a new variable")
    cursor.visible[name] = None
    cursor.advance()
    return name


def _order_by(cursor: Cursor, draft: _QueryDraft) -> None:
    draft.places.append(("ORDER BY", cursor.position()))
    cursor.advance()
    cursor.require_word("BY", "after ORDER")
    found, before = _allow_aggregates(cursor)
    while (key := _ordering(cursor)) is not None:
        draft.order_by.append(key)
    cursor.aggregates = before
    _note(cursor, draft, found)
    if not draft.order_by:
        cursor.expected("variables or expressions after ORDER BY")


def _ordering(cursor: Cursor) -> Ordering | None:
    word = cursor.word()
    cursor.part()
    if word in ("ASC", "DESC"):
        cursor.advance()
        if cursor.raw != "(":
            cursor.expected(f"an expression in parentheses after {word}, as in {word}(?x)")
        return Ordering(bracketed(cursor), word == "DESC")
    if cursor.kind == "var":
        return Ordering(cursor.variable(), False)
    return Ordering(constraint(cursor, "ORDER BY"), False) if _constraint_begins(cursor) else None


def _limits(cursor: Cursor, draft: _QueryDraft) -> None:
    """OFFSET and LIMIT, which may stand in either order, once each."""
    while (word := cursor.word()) in ("LIMIT", "OFFSET"):
        if word in draft.counts:
            cursor.fail(f"{word} is written twice")
        cursor.advance()
        if cursor.kind != "integer":
            cursor.expected(f"a whole number after {word}")
        draft.counts[word] = int(cursor.raw) if len(cursor.raw) < 19 else _COUNT_MAX
        cursor.advance()
