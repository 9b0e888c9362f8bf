"""Sharing: which operators of a network are those of other networks, too.

Networks of one timing class are evaluated at the same times over windows of the same content. So those of their
operators that read the same, and do the same with it, are one: a scan of one pattern over one window; and what stands
behind shared operators only, up to the whole query, whatever the variables are called.

    q1   WINDOW :w { ?a :p ?b . ?a :q ?c } FILTER(?c > 5)                 scan :p, scan :q, join, filter
    q2   WINDOW :v { ?x :p ?y . ?x :q ?z } FILTER(?z > 5) ?x :name ?n     the same four, then a join of its own

Where a network shares an operator it has a reader of the shared stage in its place; what only this operator reads is
not stepped by the network itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stream_ext.network.measuring import bytes_of
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.shareable import Likeness, Shareable
from stream_ext.network.operators.core.shared_stage import (
    ROW_BYTES,
    ReadAhead,
    SharedReader,
    SharedStage,
    StageKey,
)
from stream_ext.network.operators.scans.ends import NextChanges
from stream_ext.network.operators.scans.window_scan import WindowScan
from stream_ext.network.wires import Stage
from stream_ext.rows.zset import ZSet
from stream_ext.values.vocabulary import Vocabulary
from stream_ext.windows.arrivals import Arrival

if TYPE_CHECKING:
    from stream_ext.network.network import Network

#: What an operator calls its columns, and its window: each kind says it in its own way.
Names = Any
#: Networks with more stages share scans only.
_STAGES_MAX = 64


class NetworkSharing:
    """The shared stages of one network, which no step is under way of."""

    def __init__(self, network: Network, query: int, vocabulary: Vocabulary, terms: Vocabulary) -> None:
        """`query`: one of those of the network; `terms`: those of the shared stages."""
        self._query = query
        self._network, self._vocabulary, self.terms = network, vocabulary, terms
        self._stages = list(network.stages)  # as they are without sharing, with readers in place of shared operators
        self._names: dict[int, Names] = {}  # of the operators that were in the place of these
        self._replaced: set[int] = set()  # scans that the network does not step any more, and that it is not told yet
        #: Places whose operators may be shared, and are not yet; at first those that read no others.
        read = {network.last_stage, *(place for stage in self._stages for place in stage.inputs)}
        self.waiting = [place for place, stage in enumerate(self._stages) if place in read and not stage.inputs]
        #: The keys under which others find operators that only this network has.
        self.offered: set[StageKey] = set()
        self._shared: dict[int, SharedStage] = {}
        self._scans: dict[int, SharedStage] = {}  # those of them that are scans
        self._readers: list[SharedReader] = []  # that the network itself has
        self._read: list[SharedStage] = []  # by these
        self._come = self._counted = 0  # bytes: not said yet, and of those that it reads, when it was counted
        self._own_scans: list[WindowScan] = []  # that it goes on with
        self.is_lost = False  # a shared stage is: the network cannot go on
        self.is_ahead = False  # it goes its own way at the end of this snapshot
        self._has_other_ids = False  # than own operators have: then it is built anew

    @property
    def translates(self) -> bool:
        """Whether own operators have other ids than shared ones: the query created terms before a stream brought
        them."""
        self._vocabulary.renew()
        return self._vocabulary.translates

    @property
    def stages(self) -> Iterable[SharedStage]:
        return self._shared.values()

    def operator_at(self, place: int) -> Shareable:
        """Its own, of a place that it does not share."""
        operator = self._stages[place].operator
        assert isinstance(operator, Shareable), "no others are offered"
        return operator

    def state_bytes(self, own: Iterable[object]) -> int:
        """Of `own` operators and of what it shares, measured now. Of what is over longer windows than its own it counts
        the part that its own would have."""
        whole = [*own, *(stage.operator for stage in self._shared.values() if stage.longer is None)]
        parts = [stage.part * bytes_of([stage.operator]) for stage in self._shared.values() if stage.longer is not None]
        return bytes_of(whole) + int(sum(parts))

    def come(self) -> int:
        """The bytes that have come to what it shares since the last call."""
        added = sum([stage.added for stage in self._read])
        come = self._come + added - self._counted
        self._come, self._counted = 0, added
        return come

    def done_for_others_ms(self) -> float:
        """The CPU milliseconds since the last call in which it stepped what others read, without its own part."""
        found = 0.0
        for reader in self._readers:
            found += reader.for_others_s * 1000
            reader.for_others_s = 0.0
        return found

    def _count(self) -> None:
        added = self._added()
        self._come, self._counted = self._come + added - self._counted, added

    def _added(self) -> int:
        return sum([stage.added for stage in self._read])

    def key_at(self, place: int) -> StageKey | None:
        """What the operator is found by; None: it is shared already, or is of its query alone."""
        stage = self._stages[place]
        inputs, operator = [self._shared.get(each) for each in stage.inputs], stage.operator
        if not isinstance(operator, Shareable) or (inputs and len(self._stages) > _STAGES_MAX):
            return None
        found = tuple([each for each in inputs if each is not None])
        likeness: Likeness | None = operator.likeness if len(found) == len(inputs) else None
        return None if likeness is None else (likeness, found)

    def readers_of(self, place: int) -> Iterator[int]:
        """The places that read this one."""
        return (at for at, stage in enumerate(self._stages) if place in stage.inputs)

    def made_shared(self, place: int, key: StageKey) -> SharedStage | None:
        """The operator as a shared stage; None: it may remember ids of terms that its query has created."""
        operator = self._stages[place].operator
        assert isinstance(operator, Shareable), "no others have a key"
        stage = SharedStage(key, operator, self.terms)
        reads_created = any(each.creates_terms for each in stage.inputs) and not operator.is_stateless
        if self.is_lost or self.translates or self.terms.translates or (reads_created and self._vocabulary.created):
            return None
        self.share(place, stage)
        return stage

    def share(self, place: int, stage: SharedStage) -> None:
        """The network is to read this stage in the place of its own operator, which does the same and has the same
        content (`connect`)."""
        self._shared[place] = stage
        stage.read_by(self._query)
        own = self._stages[place]
        assert isinstance(own.operator, Shareable), "no others are shared"
        if isinstance(stage.operator, WindowScan):
            self._scans[place] = stage
            self._replaced.add(id(own.operator))
        self._names[place] = own.operator.names
        self._stages[place] = msgspec.structs.replace(
            own, operator=SharedReader(stage, own.operator.variables, own.inputs)
        )
        self._network.stages[place] = msgspec.structs.replace(self._stages[place], inputs=())

    def connect(self) -> None:
        """From now on the network reads what it shares."""
        self._count()
        self._network.reconnect([each for each in self._network.scans if id(each) not in self._replaced])
        self._replaced.clear()
        stepped = self._network.stepped_stages
        self._readers = [reader for each in stepped if (reader := _reader_of(each)) is not None]
        self._read = [reader.stage for reader in self._readers]
        self._counted = self._added()  # what came before is content of the network already
        last = self._shared.get(self._network.last_stage)
        if last is not None and not last.creates_terms:
            self._network.answer.share_rows(last)

    def has_content_of(self, place: int, stage: SharedStage, time: int) -> bool:
        """Whether its own operator has shown what the shared one has, up to `time`."""
        operator = self._stages[place].operator
        assert isinstance(operator, Shareable), "no others have a key"
        mine, theirs = operator.shown(time), stage.shown(time)
        return all(
            are_same(rows, stage.with_ids_of(self._vocabulary, others))
            for rows, others in zip(mine, theirs, strict=True)
        )

    def reads(self, scan: SharedStage) -> bool:
        """Whether it has the rows of this stage, perhaps as over shorter windows."""
        return any(stage.source is scan for stage in self._scans.values())

    def arrive(self, arrival: Arrival) -> None:
        place = arrival.sn, arrival.push
        for each in self._scans.values():
            stage = each if each.longer is None else each.source
            if place <= stage.arrived or not stage.is_new(place):
                continue
            scan = stage.operator
            assert isinstance(scan, WindowScan), "elements arrive at scans"
            if arrival.reaches(scan.window):
                stage.count(ROW_BYTES * len(arrival.s))
                scan.arrive(arrival.s, arrival.p, arrival.o, arrival.graphs, arrival.of_times, (), arrival.copies)

    def next_changes(self, time: int) -> list[NextChanges]:
        """As of each of its shared scans."""
        return [stage.next_changes(time) for stage in self._scans.values()]

    # ---- the network goes its own way

    def release(self) -> None:
        """The network is not evaluated any more, or is lost."""
        for stage in self._shared.values():
            stage.left_by(self._query)
        self._network.answer.own_rows()
        self._shared, self._scans = {}, {}

    def part(self) -> None:
        """From now on the network has operators of its own, with what the shared ones have now. If they have other ids,
        it is built anew."""
        if self._has_ids_of_terms():
            self.release()
            self.is_lost = True
        else:
            self._take_own()
            self.end_reading_ahead()

    def read_ahead(self, arrivals: Iterable[tuple[Arrival, Sequence[Moment]]]) -> None:
        """As `part`, in the middle of a snapshot with these arrivals, and evaluations after each: the shared stages go
        on to its end now; the network comes to it later (`end_reading_ahead`)."""
        found: dict[int, dict[int, ZSet]] = {
            place: {} for place, stage in enumerate(self._network.stages) if _reader_of(stage) is not None
        }
        for arrival, moments in arrivals:
            self.arrive(arrival)
            for moment in moments:
                for place, changes in found.items():
                    changes[moment.time] = self._network.stages[place].operator.step(moment)
        self.is_ahead, self._has_other_ids = True, self._has_ids_of_terms()
        self._take_own()
        for place, changes in found.items():
            stage = self._network.stages[place]
            self._network.stages[place] = msgspec.structs.replace(
                stage, operator=ReadAhead(stage.operator.variables, changes)
            )
        self._network.reconnect(self._network.scans)

    def end_reading_ahead(self) -> None:
        self._network.stages[:] = self._stages
        self.is_ahead, self.is_lost = False, self._has_other_ids
        self._network.sharing = self if self.is_lost else None
        self._network.reconnect([*self._network.scans, *self._own_scans])

    def _has_ids_of_terms(self) -> bool:
        """Whether what it shares has ids that are none of its own."""
        if not self._shared:
            return False
        return self.translates or self.terms.translates or any(stage.has_created for stage in self.stages)

    def _take_own(self) -> None:
        self._network.answer.own_rows()
        for place, stage in self._shared.items():
            operator = stage.taken()
            stage.left_by(self._query)
            operator.rename(self._names[place])
            operator.renew(False)
            if isinstance(operator, WindowScan):
                self._own_scans.append(operator)
            self._stages[place] = msgspec.structs.replace(self._stages[place], operator=operator)
        self._shared, self._scans = {}, {}


def _reader_of(stage: Stage) -> SharedReader | None:
    return stage.operator if isinstance(stage.operator, SharedReader) else None


def are_same(rows: ZSet, others: ZSet) -> bool:
    """Whether they are the same rows with the same validities, in whatever order; of added rows."""
    if rows.count != others.count:
        return False
    mine, theirs = (*rows.columns, rows.until_array()), (*others.columns, others.until_array())
    if all(map(np.array_equal, mine, theirs)):
        return True
    order, other_order = np.lexsort(mine), np.lexsort(theirs)
    return all(np.array_equal(column[order], other[other_order]) for column, other in zip(mine, theirs, strict=True))
