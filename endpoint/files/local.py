"""Queries on a store itself, without a server or next to one; and updates of a store that no server has open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import NamedTuple

import hbase_store
from hbase_store import Store
from stream_ext.clock import SystemClock
from stream_ext.errors import BadArgument, Gone
from stream_ext.language.algebra.algebra import Admin, Query, Register, Update
from stream_ext.language.syntax import DEFAULT_BASE, parse
from stream_ext.network.network import Network, NetworkInputs, Traced
from stream_ext.network.stages import Line, lines_of
from stream_ext.network.wires import Stage
from stream_ext.oneshot.answers import Decoded, answer_once, decoded
from stream_ext.oneshot.evaluate import Answer, trace
from stream_ext.oneshot.question import Question
from stream_ext.plan.pipeline import logic_of
from stream_ext.plan.refuse import parse_runnable
from stream_ext.service.service import Service
from stream_ext.times import parse_time


def changes(text: str) -> bool:
    """Whether the text is more than a query."""
    return isinstance(parse(text), Update | Register | Admin)


def update(url: str, text: str) -> None:
    """Runs an update. WriterElsewhere if another process writes to the store."""
    with closing(Service.open(url, base=DEFAULT_BASE, clock=SystemClock(), engine="inline")) as service:
        service.update(text)


def is_update(text: str) -> bool:
    return isinstance(parse(text), Update)


@contextmanager
def answered(url: str, text: str, snapshot: int | None, at: str | None) -> Iterator[tuple[Answer, Iterator[Decoded]]]:
    """The answer of a query, and its rows, some thousand at a time."""
    with closing(hbase_store.open(url, read_only=True)) as store:
        sn = _snapshot(store, snapshot)
        answer = answer_once(store, Question.read(text, DEFAULT_BASE), sn, None if at is None else parse_time(at))
        columns = answer.columns if answer.graph is None else answer.graph
        yield answer, decoded(columns, answer.vocabulary.decode, answer.count)


def _snapshot(store: Store, wanted: int | None) -> int:
    head = int(store.refresh())
    if wanted is not None and wanted > head:
        raise Gone(f"there is no snapshot {wanted}; the latest is {head}")
    return head if wanted is None else wanted


# ---- plans ---------------------------------------------------------------------------------------


class Planned(NamedTuple):
    """One line of a plan: an operator, the estimated number of rows, the actual number and the time."""

    text: str
    estimated: float | None = None  # None: there is no estimate
    rows: int | None = None
    ms: float = 0.0


def planned(url: str, text: str, base: str, snapshot: int | None, analyze: bool) -> list[Planned]:
    """The plan of a query over a store, one line for each operator; `analyze` evaluates it and measures."""
    with closing(hbase_store.open(url, read_only=True)) as store:
        sn = _snapshot(store, snapshot)
        query = parse_runnable(text, base)
        if not isinstance(query, Query) or query.windows:
            raise BadArgument("a query with windows needs a server; leave --store out")
        if not analyze:
            stages = Network.of_query(logic_of(query), NetworkInputs(store.at(sn), store.ids)).stages
            return [_planned(line, stages, []) for line in lines_of(stages)]
        with hbase_store.purpose("query") as tally:
            _, traced = trace(store, query, sn)
        stages = [each.stage for each in traced]
        calls = [Planned(f"{tally.calls} calls of HBase")] if url.startswith("hbase:") else []
        return [*(_planned(line, stages, traced) for line in lines_of(stages)), *calls]


def _planned(line: Line, stages: Sequence[Stage], traced: Sequence[Traced]) -> Planned:
    if line.stage is None:
        return Planned(line.text)
    return Planned(
        line.text, stages[line.stage].estimate, *((traced[line.stage].rows, traced[line.stage].ms) if traced else ())
    )
