"""What of a query is divided, and into which tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hbase_store import Snapshot, Store
from stream_ext.evaluation_budget import Check, Control
from stream_ext.language.algebra.algebra import Form, Query
from stream_ext.language.algebra.volatile import is_volatile
from stream_ext.network.division import Division, NotDivided, division_of
from stream_ext.network.inputs import NetworkInputs
from stream_ext.network.network import Network
from stream_ext.network.operators.core.pattern import P
from stream_ext.network.operators.joins.store_join import StoreJoin
from stream_ext.oneshot.divided.task import PIECE_ROWS, EqualPart, SubjectSpan
from stream_ext.plan.pipeline import logic_of

#: So many tasks run one after the other where one could run: one that is heavier than others matters less then.
_TASKS_PER_LANE = 3
#: Tasks are as equal as spans are small.
_SPANS_PER_TASK, _SPAN_ROWS_MIN = 4, 4096
_ID_MAX = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class DividedPlan:
    """The network of a query, and how it is divided."""

    network: Network
    division: Division

    @property
    def divided(self) -> str:
        """What is divided, for EXPLAIN."""
        how = "by ranges of its subjects" if self.division.by_subject else "in equal parts"
        return f"{self.network.stages[self.division.driver].label}, {how}"

    @property
    def merged(self) -> str:
        return self.network.stages[self.division.merge].label


def divided_plan(query: Query, store: Store, sn: int, check: Check = Control.FREE.check) -> DividedPlan:
    """Raises NotDivided with the reason."""
    if query.form is not Form.SELECT:
        raise NotDivided(f"it is a {query.form.value}: only a SELECT with groups or DISTINCT is divided")
    if query.windows:
        raise NotDivided("it reads windows of streams")
    if is_volatile(query):
        raise NotDivided(
            "it has a function or a SERVICE whose value may differ from task to task (NOW, RAND, UUID, ...)"
        )
    select = logic_of(query, check=check)
    network = Network.of_query(select, NetworkInputs(store.at(sn), store.ids, check=check))
    return DividedPlan(network, division_of(network))


def parts_of(plan: DividedPlan, snapshot: Snapshot, lanes: int) -> list[tuple[SubjectSpan, ...] | EqualPart]:
    """The driver's rows, divided for so many processes; in order."""
    if not plan.division.by_subject:
        return [EqualPart(number, lanes) for number in range(lanes)]
    driver = plan.network.stages[plan.division.driver].operator
    assert isinstance(driver, StoreJoin)
    fixed = driver.pattern.fixed.get(P)
    predicates = snapshot.predicates().tolist() if fixed is None else [fixed]
    tasks = lanes * _TASKS_PER_LANE
    rows = sum(snapshot.count(predicate) for predicate in predicates) // (tasks * _SPANS_PER_TASK)
    rows = max(1, min(PIECE_ROWS, max(rows, _SPAN_ROWS_MIN)))
    spans = [span for predicate in predicates for span in _spans(snapshot, predicate, rows)]
    return list(_in_groups(spans, tasks))


def _spans(snapshot: Snapshot, predicate: int, piece: int) -> Iterator[SubjectSpan]:
    """Spans of about so many rows."""
    cuts = snapshot.cuts(predicate, piece).tolist()
    rows = snapshot.count(predicate) // (len(cuts) + 1)
    for first, last in zip([0, *cuts], [*(cut - 1 for cut in cuts), _ID_MAX], strict=True):
        yield SubjectSpan(predicate, first, last, rows)


def _in_groups(spans: Sequence[SubjectSpan], most: int) -> Iterator[tuple[SubjectSpan, ...]]:
    """Neighbours together, with about as many rows in each group."""
    whole, done, group = sum(span.rows for span in spans), 0, list[SubjectSpan]()
    groups = 0
    for span in spans:
        group.append(span)
        done += span.rows
        if done * most >= whole * (groups + 1):
            yield tuple(group)
            group, groups = [], done * most // max(1, whole)
    if group:
        yield tuple(group)
