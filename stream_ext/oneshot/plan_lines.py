"""The plan of a query over a store, a line for each operator, from the result down to the data.

project ?s           3 rows expected
scan ?s :p ?o        3 rows expected"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hbase_store import Store
from stream_ext.errors import BadArgument
from stream_ext.language.algebra.algebra import Query
from stream_ext.language.algebra.walk import query_parts
from stream_ext.network.inputs import NetworkInputs
from stream_ext.network.network import Network
from stream_ext.network.operators.remote.service import check_services, placed
from stream_ext.network.stages import Line, lines_of
from stream_ext.network.tracing import Traced
from stream_ext.network.wires import Stage
from stream_ext.oneshot.evaluate import Asking, trace
from stream_ext.oneshot.question import Question
from stream_ext.plan.pipeline import logic_of


class PlanLine(NamedTuple):
    """An operator, the estimated number of rows, the actual number and the time."""

    text: str
    estimated: float | None = None  # None: there is no estimate
    rows: int | None = None
    ms: float = 0.0


def plan_lines(
    store: Store, question: Question, sn: int, measured: bool, asking: Asking | None = None
) -> list[PlanLine]:
    """`measured`: the query is evaluated, and rows and times are those of this evaluation."""
    query = question.supported()
    if not isinstance(query, Query) or query.windows:
        raise BadArgument(
            "only of a query without windows are the operators shown; the status of a registered query has its rates"
        )
    if not measured:
        stages = Network.of_query(logic_of(query), NetworkInputs(store.at(sn), store.ids)).stages
        return [_line(line, stages, []) for line in lines_of(stages)]
    asking = asking or Asking()
    check_services(query_parts(query), asking.allowed_urls, question.text, asking.sources)
    with placed(question.text):
        _, traced = trace(store, query, sn, asking)
    stages = [each.stage for each in traced]
    return [_line(line, stages, traced) for line in lines_of(stages)]


def _line(line: Line, stages: Sequence[Stage], traced: Sequence[Traced]) -> PlanLine:
    if line.stage is None:
        return PlanLine(line.text)
    estimated = stages[line.stage].estimate
    if not traced:
        return PlanLine(line.text, estimated)
    return PlanLine(line.text, estimated, traced[line.stage].rows, traced[line.stage].ms)
