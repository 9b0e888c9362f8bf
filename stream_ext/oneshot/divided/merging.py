"""Partial results of tasks become one, and from it the answer."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from typing import Protocol

from msgspec.structs import replace

from hbase_store import Store
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.algebra import Query
from stream_ext.network.division import finished
from stream_ext.network.operators.answers.distinct import first_of_each
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.groups.grouped import Grouped
from stream_ext.network.operators.groups.partial_groups import PartialRows
from stream_ext.oneshot.divided.division import DividedPlan, parts_of
from stream_ext.oneshot.divided.open_stores import absolute
from stream_ext.oneshot.divided.task import FoundGroups, FoundRows, QueryTask, TaskFault, TaskResult, decoded_result
from stream_ext.oneshot.evaluate import Answer, Asking, answer_of_rows, moment_of
from stream_ext.rows.zset import ZSet, concat


class Jobs(Protocol):
    """Runs tasks in other processes."""

    lanes: int  # how many tasks run at a time

    def run(self, tasks: Sequence[QueryTask], control: Control) -> Generator[bytes, None, None]:
        """The results, in the order of the tasks. When it is closed, tasks that still run are cancelled."""


def answer_divided(store: Store, query: Query, plan: DividedPlan, sn: int, asking: Asking, jobs: Jobs) -> Answer:
    snapshot, control = store.at(sn), asking.control
    moment = moment_of(store, snapshot, asking, None)
    limits = _left_s(control), control.bytes_max, control.term_bytes
    tasks = [
        QueryTask(absolute(store.url), sn, plan.network, plan.division, part, asking.base, asking.now_ms, *limits)
        for part in parts_of(plan, snapshot, jobs.lanes)
    ]
    with closing(jobs.run(tasks, control)) as results:
        merged = _merged(plan, moment, map(decoded_result, results))
    answer = answer_of_rows(query, finished(plan.network, plan.division, moment, merged), moment)
    return replace(answer, by_spark=True)


def _left_s(control: Control) -> float | None:
    most = float("inf")
    left_s = control.left_s(most)
    return None if left_s == most else left_s


def _merged(plan: DividedPlan, moment: Moment, results: Iterator[TaskResult]) -> ZSet:
    merge = plan.network.stages[plan.division.merge].operator
    group = merge.new(moment) if isinstance(merge, Grouped) else None
    rows, count = list[ZSet](), 0
    for result in results:
        moment.control.check()
        match result:
            case TaskFault():
                raise result.raised()
            case FoundGroups(groups):
                assert group is not None, "a task does what its plan says"
                group.absorb(groups, moment)
            case FoundRows(found):
                count += found.count
                moment.control.room(count, len(found.columns))
                rows.append(_rows(found, moment))
    return group.whole() if group is not None else first_of_each(concat(rows, len(merge.variables)))


def _rows(found: PartialRows, moment: Moment) -> ZSet:
    columns = moment.vocabulary.from_portable([column.array() for column in found.columns], found.created)
    return ZSet(tuple(columns), found.count)
