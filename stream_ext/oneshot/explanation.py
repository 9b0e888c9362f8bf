"""EXPLAIN: what a text means, before anything is done with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hbase_store import Store
from stream_ext.catalog.catalog import names_of
from stream_ext.catalog.timing import key_of
from stream_ext.errors import BadArgument, SourceFailed
from stream_ext.evaluation_budget import Check, Control
from stream_ext.language.algebra.algebra import Query, Register
from stream_ext.language.algebra.policy import EvaluationTrigger, FirstClose, Origin, Policy, WindowPolicy, policy_of
from stream_ext.language.algebra.statements import (
    Admin,
    DeleteData,
    DeleteWhere,
    Explain,
    InsertData,
    Load,
    Manage,
    Modify,
    Operation,
    Transfer,
    Unit,
    Update,
)
from stream_ext.language.algebra.windows import WindowClause
from stream_ext.network.inputs import NetworkInputs
from stream_ext.network.network import Network
from stream_ext.network.operators.paths.path_join import PathJoin
from stream_ext.network.operators.remote.remote_question import RemoteQuestion
from stream_ext.network.operators.remote.source_join import SourceJoin
from stream_ext.network.stages import Line, lines_of
from stream_ext.network.wires import Stage
from stream_ext.oneshot.advice import warnings_of
from stream_ext.oneshot.own_quads import attached_of
from stream_ext.oneshot.question import Question
from stream_ext.oneshot.shards import division_of_text
from stream_ext.plan.pipeline import logic_of
from stream_ext.plan.properties.arrival_batching import why_one_by_one
from stream_ext.plan.refused_syntax.refuse import first_refusal
from stream_ext.remote.source import MAIN
from stream_ext.remote.sources import NO_SOURCES, Sources


def explain(question: Question, functions: Sequence[str] = ()) -> dict[str, Any]:
    """As JSON; registers and creates nothing. `origins` says what was written and what is a default. `functions`: what
    a registered query calls in the source's process, which evaluates it as a whole."""
    unit = question.unit
    while isinstance(unit, Explain):
        unit = unit.unit
    explained = _unit(unit, question.base)
    if functions:
        explained["whole"] = {"source": MAIN, "functions": list(functions)}
    if (refusal := first_refusal(unit, functions)) is not None:
        position, name = refusal
        explained["refused"] = {"name": name, "line": position.line, "column": position.column}
    return explained


def operators_of(
    store: Store, question: Question, check: Check = Control.FREE.check, sources: Sources = NO_SOURCES
) -> dict[str, Any]:
    """How the store would answer: its operators as a tree, a line each, with how many rows are expected; and what
    would be asked of a source.

    Nothing for what is not asked once, or not run."""
    unit = question.unit
    while isinstance(unit, Explain):
        unit = unit.unit
    if not isinstance(unit, Query) or unit.windows or first_refusal(unit) is not None:
        return {}
    snapshot = store.at()
    try:
        attached = attached_of(sources, snapshot, lambda term: int(store.ids([term])[0]))
    except SourceFailed as error:
        return {"sources": [{"source": MAIN, "error": str(error)}]}
    select = logic_of(unit, check=check, attached=attached)
    stages = Network.of_query(select, NetworkInputs(snapshot, store.ids, check=check)).stages
    found: dict[str, Any] = {"operators": [_line(line, stages) for line in lines_of(stages)]}
    if attached is not None:
        found["sources"] = [each for stage in stages for each in _of_source(stage.operator)]
    return found


def _of_source(operator: object) -> Iterator[dict[str, Any]]:
    if isinstance(operator, SourceJoin):
        yield {"source": MAIN, "asked": operator.question, "exclusive": operator.group.unless is None}
    if isinstance(operator, PathJoin) and operator.source is not None:
        yield {"source": MAIN, "asked": RemoteQuestion(operator.source, ()).shown, "exclusive": False}


def query_in(question: Question) -> Query | None:
    """The query of a registration, or one with windows, which is registered as well; None: it is something else."""
    unit = question.unit
    while isinstance(unit, Explain):
        unit = unit.unit
    if isinstance(unit, Register):
        return unit.query
    return unit if isinstance(unit, Query) and unit.windows else None


def _line(line: Line, stages: Sequence[Stage]) -> dict[str, Any]:
    if line.stage is None:
        return {"operator": line.text}
    return {"operator": line.text, "estimated": round(stages[line.stage].estimate, 1)}


def _unit(unit: Unit, base: str) -> dict[str, Any]:
    if isinstance(unit, Update):
        return {"unit": "update", "operations": [_operation(operation) for operation in unit.operations]}
    if isinstance(unit, Admin):
        return {"unit": "administration", "statement": type(unit).__name__}
    if isinstance(unit, Register):
        return {"unit": "registration", **_query(unit.query, base), "query": unit.name or unit.iri}
    return {"unit": "query", **_query(unit, base)}


def _query(query: Query, base: str) -> dict[str, Any]:
    policy = policy_of(query)
    return {
        "form": query.form.value,
        "dialect": policy.dialect.value,
        "variables": list(query.variables),
        "r2s": policy.r2s.value.value if query.windows else None,
        "windows": [_window(window, base) for window in policy.windows],
        "origins": {"r2s": policy.r2s.origin.value} if query.windows else {},
        "policy": _policy(policy) | _arrivals(query, policy) | _shards(query),
        **({"warnings": list(warnings)} if (warnings := warnings_of(query)) else {}),
    }


def _arrivals(query: Query, policy: Policy) -> dict[str, Any]:
    """Whether many arrivals are evaluated in one step; else why not."""
    if policy.evaluated.value != (EvaluationTrigger.ARRIVAL,) or first_refusal(query) is not None:
        return {}
    why = why_one_by_one(query, logic_of(query))
    return {"arrivals": {"together": why is None, "why_not": why}}


def _shards(query: Query) -> dict[str, Any]:
    """By which variable the query may be divided among shards, and how; else why not."""
    if not query.windows or first_refusal(query) is not None:
        return {}
    found = division_of_text(query)
    how = {"summed": found.is_summed, "reads_all": found.reads_all, "partial_groups": found.partial_groups}
    return {
        "shards": {"divided_by": found.variable, **(how if found.variable else {}), "why_not": found.why_not or None}
    }


def _policy(policy: Policy) -> dict[str, Any]:
    found: dict[str, Any] = {
        "r2s": _with_origin(policy.r2s.value, policy.r2s.origin),
        "scope": _with_origin(policy.scope.value, policy.scope.origin),
        "empty": _with_origin(policy.empty.value, policy.empty.origin),
        "evaluated": _with_origin([each.value for each in policy.evaluated.value], policy.evaluated.origin),
    }
    if policy.every_ms:
        found["every_ms"] = _with_origin(list(policy.every_ms), Origin.WRITTEN)
    return found


def _with_origin(value: Any, origin: Origin) -> dict[str, Any]:
    return {"value": value, "origin": origin.value}


def _operation(operation: Operation) -> dict[str, Any]:
    match operation:
        case InsertData(quads):
            return {"operation": "INSERT DATA", "quads": len(quads)}
        case DeleteData(quads):
            return {"operation": "DELETE DATA", "quads": len(quads)}
        case DeleteWhere(quads):
            return {"operation": "DELETE WHERE", "quads": len(quads)}
        case Modify(_, deletes, inserts):
            return {"operation": "DELETE / INSERT", "deletes": len(deletes or ()), "inserts": len(inserts or ())}
        case Load():
            return {"operation": "LOAD", "source": operation.source.text[1:-1].decode()}
        case Manage(verb) | Transfer(verb):
            return {"operation": verb}


def _window(policy: WindowPolicy, base: str) -> dict[str, Any]:
    window = policy.window
    return {
        "name": window.name,
        "stream": _stream(window, base),
        "extent": window.extent.value,
        "range_ms": window.range_ms,
        "step_ms": window.step_ms,
        "until_ms": window.until_ms,
        "count": window.count or None,
        "count_step": window.count_step or None,
        "bounds": policy.bounds.value.value if window.extent.is_timed else None,
        "t0": None if isinstance(policy.t0.value, FirstClose) or not window.step_ms else policy.t0.value,
        "lateness_ms": policy.lateness_ms.value,
        "report": [report.trigger.value for report in policy.reports.value],
        "origins": {
            "range_ms": "written",
            "step_ms": policy.step_ms.origin.value,
            "bounds": policy.bounds.origin.value,
            "t0": policy.t0.origin.value,
            "lateness_ms": policy.lateness_ms.origin.value,
            "report": policy.reports.origin.value,
        },
    }


def _stream(window: WindowClause, base: str) -> str:
    """Its name, or the variable that stands for it."""
    if window.stream.variable is not None:
        return f"?{window.stream.variable}"
    key = key_of(window)
    try:
        return names_of(key, base + "streams/").name
    except BadArgument:
        return key
