"""Where an evaluator begins, and how the store changes between two of its evaluations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from hbase_store import Snapshot, Store
from stream_ext.network.operators.core.moment import QuadChange
from stream_ext.windows.arrivals import Arrival
from stream_ext.windows.query_state import LastEvaluation, Within


class ChangesBetween(msgspec.Struct, frozen=True, eq=False):
    """How the store changed after `low`, up to and with `high`."""

    store: Store
    low: int
    high: int

    def of(self, predicates: tuple[int, ...] | None, held: bool = False) -> list[QuadChange]:
        found = (self.store.net_changes(sn, predicates, held) for sn in range(self.low + 1, self.high + 1))
        return [change for change in found if len(change)]

    def before(self) -> Snapshot:
        return self.store.at(self.low)


#: The number of a query's row in the relation, and its constants.
RelationRow = tuple[int, tuple[bytes, ...]]


@dataclass(frozen=True, slots=True)
class StartPoint:
    """Where an evaluator begins: after snapshot `sn`, and `within` the next one.

    `last`: the last evaluation, which is repeated. `reference`: the time before which the windows are not read.
    `first`: the arrival that is about to come. What arrived up to snapshot `began` was there when the query began.
    `rows`: those of the relation, of the queries that were evaluated."""

    sn: int
    last: LastEvaluation | None
    ranked: bytes | None
    reference: int | None = None
    within: Within | None = None
    first: Arrival | None = None
    began: int = 0
    rows: Sequence[RelationRow] = ()
