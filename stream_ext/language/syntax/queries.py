"""Queries: SELECT, CONSTRUCT, ASK, DESCRIBE and what stands around their patterns."""

from __future__ import annotations

from stream_ext.language.algebra.algebra import (
    PLAIN,
    Assigned,
    Bgp,
    Form,
    Pattern,
    QuadPattern,
    Query,
    Shape,
)
from stream_ext.language.algebra.terms import BlankLabel, Node, TemplateNode
from stream_ext.language.algebra.windows import R2S
from stream_ext.language.syntax import groups
from stream_ext.language.syntax.conditions import expression
from stream_ext.language.syntax.cursor import Cursor
from stream_ext.language.syntax.datasets import dataset_clause
from stream_ext.language.syntax.depth import check_depth
from stream_ext.language.syntax.modifiers import allow_aggregates, modifiers
from stream_ext.language.syntax.policies import check_policies
from stream_ext.language.syntax.query_draft import QueryDraft
from stream_ext.language.syntax.triples import Triples

FORMS = frozenset(form.value for form in Form)


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
    modifiers(cursor, draft)
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
    modifiers(cursor, draft)
    query = _query_of(cursor, draft, start, is_inner=True)
    cursor.visible, cursor.aggregates = outer, allowed
    outer.update(dict.fromkeys(query.variables))
    return query


def _begin(cursor: Cursor) -> QueryDraft:
    draft = QueryDraft(Form(cursor.word()))
    if draft.form in (Form.CONSTRUCT, Form.DESCRIBE):
        draft.places.append((draft.form.value, cursor.position()))
    cursor.advance()
    return draft


def _query_of(cursor: Cursor, draft: QueryDraft, start: int, is_inner: bool = False) -> Query:
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


def _r2s(cursor: Cursor, draft: QueryDraft) -> R2S | None:
    word = cursor.word()
    if word not in ("ISTREAM", "RSTREAM", "DSTREAM"):
        return None
    if word == "DSTREAM":
        draft.places.append((word, cursor.position()))
    cursor.advance()
    return R2S(word)


def _head(cursor: Cursor, draft: QueryDraft) -> None:
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


def _projection(cursor: Cursor, draft: QueryDraft) -> None:
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


def _projected(cursor: Cursor, draft: QueryDraft) -> None:
    position = cursor.position()
    cursor.part()
    found, before = allow_aggregates(cursor)
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


def _described(cursor: Cursor, draft: QueryDraft) -> None:
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


def _where(cursor: Cursor, draft: QueryDraft, is_inner: bool = False) -> None:
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
