"""The draft of a query: what its clauses say, gathered while they are read."""

from __future__ import annotations

from stream_ext.language.algebra.algebra import Assigned, Bgp, Form, Ordering, Pattern, QuadPattern, Values
from stream_ext.language.algebra.formulas import Expression
from stream_ext.language.algebra.terms import Node, Position
from stream_ext.language.algebra.windows import R2S

_NO_PATTERN = Bgp(())


class QueryDraft:
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
