"""Bind joins are checked at registration: a source is asked with keys that the windows bind, or not at all.

WINDOW :w { ?t :in ?z }  ?z :partOf ?c       the source is asked about the zones in the window
WINDOW :w { ?t :in ?z }  ?x :partOf ?c       refused: all that it has would be asked for, at each evaluation"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hbase_store import Store
from stream_ext.catalog.registered import Registered
from stream_ext.catalog.sources import HeldPattern
from stream_ext.network.inputs import NetworkInputs
from stream_ext.network.network import Network
from stream_ext.network.operators.paths.path_join import PathJoin
from stream_ext.network.operators.remote.source_join import SourceJoin
from stream_ext.network.operators.scans.counted_scan import CountedScan, LatestCountedScan
from stream_ext.network.operators.scans.window_scan import WindowScan
from stream_ext.network.wires import Stage
from stream_ext.oneshot.bind_joins import bind_join_plan, holds_always
from stream_ext.remote.source import Source
from stream_ext.remote.sources import Sources
from stream_ext.sources.choice import too_much


@dataclass(frozen=True, slots=True)
class BindJoinCheck:
    """What is checked of a query before it is registered. `counts`: how many quads the source has of each pattern."""

    store: Store
    sources: Sources
    counts: Mapping[HeldPattern, int]

    def check(self, registered: Registered) -> None:
        """BadArgument if the source would be asked for something without a key of a window."""
        source = self.sources.main
        if source is None:
            return
        if not registered.query.windows:
            raise self._refusal(source)
        if not registered.timing.windows:
            return  # of windows on streams that do not exist yet nothing is known
        snapshot = self.store.at(self.store.head())
        plan = bind_join_plan(registered.select, self.counts.keys(), source, holds_always)
        windows = {window.name: window for window in registered.timing.windows}
        stages = Network.of_query(plan.select, NetworkInputs(snapshot, self.store.ids, windows)).stages
        if not all(_has_key(stages, number) for number in range(len(stages))):
            raise self._refusal(source)

    def _refusal(self, source: Source) -> Exception:
        pattern = max(self.counts, key=lambda each: self.counts[each])
        why = "no window of the query binds a value with which it could be asked for"
        return too_much(source.settings, pattern, self.counts[pattern], why)


def _has_key(stages: Sequence[Stage], number: int) -> bool:
    """If an operator asks the source: whether values go along, and whether they depend on a window."""
    operator = stages[number].operator
    if not isinstance(operator, SourceJoin | PathJoin) or (isinstance(operator, PathJoin) and operator.source is None):
        return True
    has_keys = operator.has_keys if isinstance(operator, PathJoin) else bool(operator.shared)
    waiting, seen = list(stages[number].inputs), set[int]()
    while waiting:
        each = waiting.pop()
        if isinstance(stages[each].operator, WindowScan | CountedScan | LatestCountedScan):
            return has_keys
        seen.add(each)
        waiting += [before for before in stages[each].inputs if before not in seen]
    return False
