"""EXPLAIN for people: the policy in force with its origins, and the algebra as a tree.

registration near
  dialect    RSP-QL
  evaluated  at every close of a window (default)
  ...
plan
  project ?taxi ?city
    join
      window <http://ex/w>
        ?taxi <http://ex/in> ?zone"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from stream_ext.language.algebra.algebra import (
    Bgp,
    Extend,
    Filter,
    Form,
    Graph,
    InAnyWindow,
    InWindow,
    Join,
    LeftJoin,
    Minus,
    Pattern,
    Query,
    Register,
    ServicePattern,
    SubSelect,
    Union,
    Values,
)
from stream_ext.language.algebra.formulas import Expression
from stream_ext.language.algebra.policy import EvaluationTrigger, FirstClose, Policy, Setting, WindowPolicy, policy_of
from stream_ext.language.algebra.statements import Admin, Explain, Unit, Update
from stream_ext.language.algebra.windows import Dialect
from stream_ext.language.printing import terms
from stream_ext.language.printing.balance import chain
from stream_ext.language.printing.units import Units
from stream_ext.language.printing.windows import extent, report, stream
from stream_ext.oneshot.advice import warnings_of
from stream_ext.oneshot.shards import division_of_text
from stream_ext.plan.pipeline import logic_of
from stream_ext.plan.properties.arrival_batching import why_one_by_one
from stream_ext.plan.refused_syntax.refuse import first_refusal

_INDENT = "  "


def explain_text(unit: Unit, functions: Sequence[str] = ()) -> str:
    """What a unit means, a line a fact. `functions`: what a registered query calls in the source's process."""
    while isinstance(unit, Explain):
        unit = unit.unit
    lines = list(_PlanText(plain=False).lines(unit))
    if functions:
        lines.append(f"evaluated as a whole where its functions are: {', '.join(f'<{iri}>' for iri in functions)}")
    refusal = first_refusal(unit, functions)
    if refusal is not None:
        position, name = refusal
        lines.append(f"rejected line {position.line}, column {position.column}: {name} is not supported yet")
    return "\n".join(lines) + "\n"


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (_INDENT + line for line in lines)


class _PlanText(Units):
    def lines(self, unit: Unit) -> Iterator[str]:
        if isinstance(unit, Update):
            yield "update"
            for operation in unit.operations:
                yield from _indented(self._operation(operation).split("\n"))
            return
        if isinstance(unit, Admin):
            yield from ("administration", _INDENT + self.unit(unit))
            return
        query = unit.query if isinstance(unit, Register) else unit
        yield f"registration {unit.name or f'<{unit.iri}>'}" if isinstance(unit, Register) else "query"
        policy = policy_of(query)
        yield from _indented(_policy(policy))
        if policy.evaluated.value == (EvaluationTrigger.ARRIVAL,) and first_refusal(query) is None:
            why = why_one_by_one(query, logic_of(query))
            yield _INDENT + ("arrivals   many in one step" if why is None else f"arrivals   one by one ({why})")
        if query.windows and first_refusal(query) is None:
            found = division_of_text(query)
            is_one = found.variable is None
            yield _INDENT + (f"shards     one ({found.why_not})" if is_one else f"shards     several, {found.shown}")
        for window in policy.windows:
            yield f"window <{window.window.name}> on {stream(window.window.stream)}"
            yield from _indented(_window(window))
        self.windows = {window.name: window for window in query.windows}
        yield "plan"
        yield from _indented(self._query(query))
        yield from (f"warning  {warning}" for warning in warnings_of(query))

    # ---- what a query does, from the last step to the first

    def _query(self, query: Query) -> Iterator[str]:
        steps = self._steps(query)
        for depth, step in enumerate(steps):
            yield _INDENT * depth + step
        for line in self._tree(query.pattern):
            yield _INDENT * len(steps) + line

    def _steps(self, query: Query) -> list[str]:
        shape = query.shape
        steps: list[str] = []
        if query.limit is not None or query.offset:
            limit = "all" if query.limit is None else query.limit
            steps.append(f"slice {limit} from {query.offset}")
        if query.distinct or shape.reduced:
            steps.append("distinct" if query.distinct else "reduced")
        if query.form is Form.SELECT:
            steps.append(f"project {' '.join('?' + name for name in query.variables) or 'nothing'}")
        elif query.form is Form.CONSTRUCT:
            steps.append(f"construct {len(shape.template or ())} triples")
        else:
            steps.append(query.form.value.lower())
        if shape.order_by:
            keys = [f"{self._shown(by.expression)}{' descending' * by.descending}" for by in shape.order_by]
            steps.append(f"order by {', '.join(keys)}")
        if shape.values is not None:
            steps.append(f"join {self._table(shape.values)}")
        assigned = reversed(shape.expressions)
        steps += [f"extend ?{each.variable} = {self._shown(each.expression)}" for each in assigned]
        steps += [f"having {self._shown(condition)}" for condition in reversed(shape.having)]
        if shape.group_by or shape.place("aggregate"):
            steps.append(f"group by {', '.join(map(self._group_key, shape.group_by)) or 'nothing'}")
        return steps

    def _shown(self, expression: Expression) -> str:
        """On one line, the groups of EXISTS too."""
        return " ".join(line.strip() for line in self.expression(expression).split("\n"))

    def _table(self, values: Values) -> str:
        return f"values {' '.join('?' + name for name in values.variables)} ({len(values.rows)} rows)"

    def _tree(self, pattern: Pattern) -> Iterator[str]:
        head, inner = self._node(pattern)
        yield from head
        for part in inner:
            yield from _indented(self._tree(part))

    def _node(self, pattern: Pattern) -> tuple[list[str], list[Pattern]]:
        """Its own lines, and the patterns below."""
        match pattern:
            case Bgp():
                lines = [line.removesuffix(" .") for line in self._triples(pattern).split("\n") if line]
                return ["match", *_indented(lines)] if lines else ["one empty solution"], []
            case Join():
                return ["join"], chain(pattern, Join)
            case LeftJoin(left, right, condition):
                on = "" if condition is None else f" on {self._shown(condition)}"
                return [f"left join{on}"], [left, right]
            case Minus(left, right):
                return ["minus"], [left, right]
            case Union(parts):
                return ["union"], list(parts)
            case Filter(condition, inner):
                return [f"filter {self._shown(condition)}"], [inner]
            case Extend(inner, variable, expression):
                return [f"extend ?{variable} = {self._shown(expression)}"], [inner]
            case Values():
                return [self._table(pattern)], []
            case Graph(node, inner):
                return [f"graph {self.fixed(node)}"], [inner]
            case ServicePattern(node, inner, silent):
                return [f"service{' silent' * silent} {self.fixed(node)}"], [inner]
            case InWindow(name, inner):
                return [f"window <{name}>"], [inner]
            case InAnyWindow(name, inner):
                return [f"window ?{name}"], [inner]
            case SubSelect(query):
                return ["sub-select", *_indented(self._query(query))], []


# ---- the policy ----------------------------------------------------------------------------------------------


def _policy(policy: Policy) -> list[str]:
    every = "".join(f", every {terms.duration(each)}" for each in policy.every_ms)
    evaluated = " and ".join(policy.evaluated.value) + every
    lines = [f"dialect    {policy.dialect.value}"]
    if policy.dialect is not Dialect.NONE:
        lines.append(f"evaluated  {evaluated} ({policy.evaluated.origin.value})")
        lines.append(f"emitted    {_setting(policy.r2s)}")
        lines.append(f"empty      {_setting(policy.empty)}")
    lines.append(f"scope      {_setting(policy.scope)}")
    return lines


def _setting(setting: Setting[object], shown: str | None = None) -> str:
    return f"{setting.value if shown is None else shown} ({setting.origin.value})"


def _window(policy: WindowPolicy) -> list[str]:
    reports = [report(each) for each in policy.reports.value]
    lateness = policy.lateness_ms.value
    step = terms.duration(policy.step_ms.value) if policy.step_ms.value else "none"
    t0 = policy.t0.value
    facts = {
        "extent": extent(policy.window),
        "step": _setting(policy.step_ms, step),
        "bounds": _setting(policy.bounds) if policy.window.extent.is_timed else "none",
        "T0": _setting(policy.t0, t0.value if isinstance(t0, FirstClose) else str(t0))
        if policy.step_ms.value
        else "none",
        "lateness": _setting(policy.lateness_ms, "the stream's" if lateness is None else terms.duration(lateness)),
        "report": _setting(policy.reports, ", ".join(reports) or "no condition of its own"),
    }
    return [f"{name:<9}{fact}" for name, fact in facts.items()]
