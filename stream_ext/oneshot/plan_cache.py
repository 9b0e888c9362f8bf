"""Plan cache: networks of one-shot queries, to be used again for the same query.

A network that is stepped once has no state, so any number of threads may use it. A cached network may be outdated: a
constant may be in the store by now, and the counts that ordered the joins may have changed."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from weakref import ref as weakref

from hbase_store import Snapshot
from stream_ext.evaluation_budget import Check, Control
from stream_ext.language.algebra.algebra import Query
from stream_ext.network.network import Encode, Network
from stream_ext.plan.pipeline import logic_of

_PLANS_MAX = 512
#: After so many snapshots joins are ordered anew.
_SNAPSHOTS_MAX = 256


@dataclass(frozen=True, slots=True)
class _CachedPlan:
    query: weakref[Query]  # the plan ends with its query: a long text is not retained by this cache
    network: Network
    sn: int

    def serves(self, sn: int) -> bool:
        return self.sn == sn or (not self.network.unknown and abs(sn - self.sn) < _SNAPSHOTS_MAX)


class Plans:
    """The plans of one store, with its permanent ids. Queries are compared by identity: a text is parsed to one
    query."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: OrderedDict[int, _CachedPlan] = OrderedDict()

    def __len__(self) -> int:
        return len(self._plans)

    def has(self, query: Query) -> bool:
        return id(query) in self._plans

    def network(self, query: Query, snapshot: Snapshot, encode: Encode, check: Check = Control.FREE.check) -> Network:
        key = id(query)
        plan = self._plans.get(key)
        sn = int(snapshot.sn)
        if plan is not None and plan.serves(sn):
            return plan.network
        network = Network(logic_of(query, check=check), {}, snapshot, encode, check=check)

        def forget(_: object) -> None:
            self._plans.pop(key, None)

        with self._lock:
            self._plans[key] = _CachedPlan(weakref(query, forget), network, sn)
            while len(self._plans) > _PLANS_MAX:
                self._plans.popitem(last=False)
        return network
