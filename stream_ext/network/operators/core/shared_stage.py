"""Shared stage: an operator that the networks of several queries read.

It is stepped once at each evaluation, by the network that comes first; its change is there for the others until the
next snapshot. So a network may be stepped through all evaluations of a snapshot before the next network begins with the
first of them.

    two networks, two closes     first network: close 1, close 2 (the operator is stepped)
                                 second network: close 1, close 2 (it finds both changes)

Terms that shared stages create have the ids of a vocabulary of their own. Each network reads them with its own ids.

A stage may do the same as another one over windows that are all shorter by so much. Then it has no operator: its change
is that of the other stage, whose rows end earlier by so much.

    RANGE 10s   a join: the row (:a, :b) until 12:00:10
    RANGE 4s    the same row until 12:00:04"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from time import thread_time
from weakref import WeakSet

from msgspec.structs import replace

from stream_ext.network.operators.answers.ordered_rows import OrderedRows
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.operator import Operator
from stream_ext.network.operators.core.shareable import Likeness, Shareable
from stream_ext.network.operators.scans.ends import NextChanges
from stream_ext.network.operators.scans.window_scan import WindowScan
from stream_ext.network.shared_rows import SharedRows
from stream_ext.rows.zset import ZSet, of_shorter_windows
from stream_ext.values.vocabulary import Vocabulary

#: Bytes of a row, and of a column more, that an operator remembers, with its hashes, and room for as many again.
ROW_BYTES, COLUMN_BYTES = 64, 16


#: The likeness of an operator, and the shared stages that it reads: equal for all that do the same.
StageKey = tuple[Likeness, tuple["SharedStage", ...]]


class SharedStage:
    """`terms`: of all shared stages of a timing class. `readers`: in how many places of networks it is. `added`: the
    bytes that have come to its operator, and to those that it reads, since it is shared."""

    def __init__(self, key: StageKey, operator: Shareable, terms: Vocabulary) -> None:
        self.key, self.terms = key, terms
        self._operator: Shareable | None = operator
        #: The stage over longer windows that has the operator of both; by how much these are longer, and which part of
        #: theirs its own windows are.
        self.longer: SharedStage | None = None
        self.by_ms, self.part = 0, 1.0
        # Those over shorter windows; weakly, as the state of a stage is what it refers to.
        self.shorter: WeakSet[SharedStage] | None = None
        self.lent = 0  # to so many stages over shorter windows, by itself or by those that read it
        _, self.inputs = key
        self._reads_terms: bool = any(each.creates_terms for each in self.inputs)
        self.creates_terms: bool = self._reads_terms or operator.creates_terms
        self._rows: SharedRows | None = None  # the whole answer of queries that read nothing else
        self.readers = self.added = 0
        self._readers_of_all: int | None = None  # of what has the operator; None: it is to be counted
        self.queries: dict[int, int] = {}  # a query of each network that reads it, and in how many places
        self._own_added = self._longer_added = 0
        self._sn = -1  # the snapshot of `_changes`
        self._changes: dict[int, ZSet] = {}  # by the times of the evaluations
        self._is_halfway = False
        self.arrived = -1, -1  # the last arrival (snapshot, push)
        # Of a scan, as of a time, for windows that are shorter by so much; None: something came since.
        self._next_changes: tuple[int, dict[int, NextChanges]] | None = None

    @property
    def operator(self) -> Shareable:
        """Its own, or that of the stage over longer windows."""
        if self._operator is not None:
            return self._operator
        assert self.longer is not None, "then it would have one of its own"
        return self.longer.operator

    @property
    def source(self) -> SharedStage:
        """The stage that has the operator."""
        return self if self.longer is None else self.longer.source

    def read_longer(self, longer: SharedStage, by_ms: int, part: float) -> None:
        """From now on it has no operator. `longer`: has one, and the same content but for rows that have ended here."""
        self.forget()
        self.longer, self.by_ms, self.part, self._operator = longer, by_ms, part, None
        self._longer_added = longer.added
        longer.shorter = WeakSet() if longer.shorter is None else longer.shorter
        longer.shorter.add(self)
        longer.lend(1)
        self.source._readers_of_all = None
        for each in list(self.shorter or ()):
            each.read_longer(longer, each.by_ms + by_ms, each.part * part)

    def hand_down(self) -> None:
        """Nobody reads it any more but stages over shorter windows: the one over the longest of these has the operator
        from now on. Between two snapshots."""
        operator, (first, *others) = self._own_operator, sorted(self.shorter or (), key=lambda each: each.by_ms)
        by_ms, part = first.by_ms, first.part
        operator.shorten(by_ms)
        operator.renew(bool(others))
        first.forget()
        first.longer, first.by_ms, first.part, first._operator = None, 0, 1.0, operator
        first.arrived, first._next_changes, first._readers_of_all = self.arrived, None, None
        first._own_added = first.added - sum([each.added for each in first.inputs])
        for each in others:
            each.read_longer(first, each.by_ms - by_ms, each.part / part)

    def lend(self, more: int) -> None:
        """So many more stages need it, and what it reads."""
        self.lent += more
        for each in self.inputs:
            each.lend(more)

    def forget(self) -> None:
        """It does not need the stage over longer windows any more."""
        if self.longer is not None and self.longer.shorter is not None:
            self.source._readers_of_all = None
            self.longer.shorter.discard(self)
            self.longer.lend(-1)

    def with_inputs(self) -> Iterator[SharedStage]:
        """It, and all that it reads."""
        yield self
        for each in self.inputs:
            yield from each.with_inputs()

    @property
    def readers_of_all(self) -> int:
        """With those of the stages over windows of other lengths that have the same operator."""
        if self.longer is None and self.shorter is None:
            return self.readers
        source = self.source
        if source._readers_of_all is None:
            source._readers_of_all = source.readers + sum([each.readers for each in source.shorter or ()])
        return source._readers_of_all

    @property
    def queries_of_all(self) -> tuple[int, ...]:
        """As `readers_of_all`, one query of each network."""
        source = self.source
        return tuple(dict.fromkeys(query for each in (source, *(source.shorter or ())) for query in each.queries))

    def shown(self, time: int) -> list[ZSet]:
        """What `Shareable.shown` of its operator says, over its windows."""
        return [of_shorter_windows(rows, self.by_ms, time) for rows in self.operator.shown(time)]

    @property
    def has_created(self) -> bool:
        """Whether its operator may remember ids of created terms. (A group can exchange those of its results.)"""
        return self._reads_terms and not self.operator.is_stateless and self.terms.created > 0

    def with_ids_of(self, vocabulary: Vocabulary, rows: ZSet) -> ZSet:
        """Its rows, with the ids of a query."""
        terms = self.terms
        if not (vocabulary.translates or terms.translates or (self.creates_terms and terms.created)):
            return rows
        return replace(rows, stored=tuple([vocabulary.taken_over(column, terms) for column in rows.columns]))

    def rows_for(self, rows: OrderedRows) -> SharedRows:
        """The whole answer of queries that read only this; without any other those of the query that asks."""
        if self._rows is None or not self._rows.readers:
            self._rows = SharedRows(rows)
        return self._rows

    @property
    def is_lost(self) -> bool:
        """Whether a step of it was not completed: its state is that of no evaluation."""
        if self.longer is not None:
            return self.longer.is_lost
        return self._is_halfway or any(each.is_lost for each in self.inputs)

    def is_new(self, arrival: tuple[int, int]) -> bool:
        """Whether an arrival (snapshot, push) has not come to its operator yet; from now on it has."""
        if arrival <= self.arrived:
            return False
        self.arrived, self._next_changes = arrival, None
        return True

    def next_changes(self, time: int) -> NextChanges:
        """What its scan says; found once for all windows of one length."""
        source, by_ms = self.source, self.by_ms
        known = source._next_changes
        if known is None or known[0] != time:
            known = source._next_changes = time, {}
        found = known[1].get(by_ms)
        if found is None:
            scan = source._own_operator
            assert isinstance(scan, WindowScan), "it is a scan"
            found = known[1][by_ms] = scan.next_changes(time, by_ms)
        return found

    def change_at(self, sn: int, time: int) -> ZSet | None:
        """Its change, if it was stepped at this evaluation."""
        return self._changes.get(time) if self._sn == sn else None

    def found(self, moment: Moment) -> ZSet | None:
        """As `change_at`, of this moment."""
        return self._changes.get(moment.time) if self._sn == moment.snapshot.sn else None

    def step(self, moment: Moment) -> ZSet:
        found = self.found(moment)
        if found is not None:
            return found
        if (sn := int(moment.snapshot.sn)) != self._sn:
            self._sn, self._changes = sn, {}
        found = self._changes[moment.time] = self._stepped(moment)
        return found

    def _stepped(self, moment: Moment) -> ZSet:
        if self.longer is not None:
            change = of_shorter_windows(self.longer.step(moment), self.by_ms, moment.time)
            self._count_longer(self.longer)
            return change
        assert not self._is_halfway, "networks that read it are built anew"
        self._is_halfway, self._next_changes = True, None
        changes = [each.step(moment) for each in self.inputs]
        change = self._own_operator.step(self._with_terms(moment), *changes)
        self._is_halfway = False
        self.count(change.count * (change.width * COLUMN_BYTES + ROW_BYTES))
        return change

    @property
    def _own_operator(self) -> Shareable:
        assert self._operator is not None, "it reads no other in its place"
        return self._operator

    def _with_terms(self, moment: Moment) -> Moment:
        terms = self.terms
        if terms.created:
            terms.renew()
        if not (self._own_operator.encodes_terms or terms.translates or moment.vocabulary.translates):
            return moment  # what is read has the same ids for all
        return replace(moment, vocabulary=terms)

    def count(self, bytes: int) -> None:
        """So many bytes have come to its operator."""
        self._own_added += bytes
        self.added = self._own_added + sum([each.added for each in self.inputs])

    def _count_longer(self, longer: SharedStage) -> None:
        """Its readers are charged for the part of the operator's state that shorter windows would have."""
        self.added += int((longer.added - self._longer_added) * self.part)
        self._longer_added = longer.added

    def read_by(self, query: int) -> None:
        self.readers += 1
        self.source._readers_of_all = None
        self.queries[query] = self.queries.get(query, 0) + 1

    def left_by(self, query: int) -> None:
        self.readers -= 1
        self.source._readers_of_all = None
        self.queries[query] -= 1
        if not self.queries[query]:
            del self.queries[query]

    def taken(self) -> Shareable:
        """The operator for one of its readers alone: a copy, unless it is the only one that is left."""
        if self._operator is not None:
            return deepcopy(self._operator) if self.readers > 1 or self.lent else self._operator
        operator = deepcopy(self.operator)
        operator.shorten(self.by_ms)
        return operator


class SharedReader:
    """In a network, in the place of an operator that it shares."""

    def __init__(self, stage: SharedStage, variables: tuple[str, ...], inputs: tuple[int, ...]) -> None:
        """`inputs`: the places of what its operator read; the network does not step them any more."""
        self.stage, self.variables, self.inputs = stage, variables, inputs
        self.for_others_s = 0.0  # of CPU time in which the stage was stepped here: the parts of its other readers

    def step(self, moment: Moment) -> ZSet:
        """Terms that are created have the ids of the query."""
        stage = self.stage
        change = stage.found(moment)
        if change is None:
            begun_s = thread_time()
            change = stage.step(moment)
            self.for_others_s += (thread_time() - begun_s) * (1 - 1 / stage.readers_of_all)
        return stage.with_ids_of(moment.vocabulary, change) if change.count else change


class ReadAhead:
    """In the place of a shared operator, for the rest of a snapshot: its changes, which were found beforehand."""

    def __init__(self, variables: tuple[str, ...], changes: dict[int, ZSet]) -> None:
        self.variables, self._changes = variables, changes

    def step(self, moment: Moment) -> ZSet:
        return self._changes[moment.time]


def read_only_by(operators: Sequence[Operator]) -> list[SharedStage] | None:
    """The shared stages that these operators read; None: rows may come to them from elsewhere, or with time."""
    found = list[SharedStage]()
    for each in operators:
        if isinstance(each, SharedReader):
            found.append(each.stage)
        elif not isinstance(each, Shareable) or not each.rests_without_rows:
            return None
    return found
