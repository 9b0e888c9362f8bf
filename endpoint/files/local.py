"""Queries on a store itself, without a server or next to one; and updates of a store that no server has open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import hbase_store
from hbase_store import Store
from stream_ext.clock import SystemClock
from stream_ext.errors import Gone
from stream_ext.language.algebra.algebra import Register
from stream_ext.language.algebra.statements import Admin, Update
from stream_ext.language.syntax import DEFAULT_BASE, parse
from stream_ext.oneshot.answers import Decoded, answer_once, decoded
from stream_ext.oneshot.evaluate import Answer
from stream_ext.oneshot.plan_lines import PlanLine, plan_lines
from stream_ext.oneshot.question import Question
from stream_ext.service.service import Service, SparkSettings
from stream_ext.service.standalone_spark import answered_by_spark
from stream_ext.times import parse_time


def changes(text: str) -> bool:
    """Whether the text is more than a query."""
    return isinstance(parse(text), Update | Register | Admin)


def update(url: str, text: str) -> None:
    """Runs an update. AnotherWriter if another process writes to the store."""
    with closing(Service.open(url, base=DEFAULT_BASE, clock=SystemClock(), engine="inline")) as service:
        service.update(text)


def is_update(text: str) -> bool:
    return isinstance(parse(text), Update)


@contextmanager
def answered(
    url: str, text: str, snapshot: int | None, at: str | None, spark: SparkSettings | None = None
) -> Iterator[tuple[Answer, Iterator[Decoded]]]:
    """The answer of a query, and its rows, some thousand at a time. `spark`: tasks of Spark evaluate it, if it
    can be divided."""
    with closing(hbase_store.open(url, read_only=True)) as store:
        sn, question = _snapshot(store, snapshot), Question.read(text, DEFAULT_BASE)
        time = None if at is None else parse_time(at)
        if spark is None:
            answer = answer_once(store, question, sn, time)
        else:
            answer = answered_by_spark(store, question, sn, time, spark)
        columns = answer.columns if answer.graph is None else answer.graph
        yield answer, decoded(columns, answer.vocabulary.decode, answer.count)


def _snapshot(store: Store, wanted: int | None) -> int:
    head = int(store.refresh())
    if wanted is not None and wanted > head:
        raise Gone(f"there is no snapshot {wanted}; the latest is {head}")
    return head if wanted is None else wanted


def planned(url: str, text: str, base: str, snapshot: int | None, analyze: bool) -> list[PlanLine]:
    """The plan of a query over a store; `analyze` evaluates it and measures."""
    with closing(hbase_store.open(url, read_only=True)) as store:
        with hbase_store.purpose("query") as tally:
            lines = plan_lines(store, Question.read(text, base), _snapshot(store, snapshot), analyze)
        measured = analyze and url.startswith("hbase:")
        calls = f"{tally.calls} calls of HBase, {tally.seconds * 1e3:.1f} ms together"
        return [*lines, PlanLine(calls)] if measured else lines
