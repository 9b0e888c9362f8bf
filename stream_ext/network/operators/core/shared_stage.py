"""Shared stage: an operator that the networks of several queries read.

It is stepped once at each evaluation, by the network that comes first; its change is there for the others until the
next snapshot. So a network may be stepped through all evaluations of a snapshot before the next network begins with the
first of them.

    two networks, two closes     first network: close 1, close 2 (the operator is stepped)
                                 second network: close 1, close 2 (it finds both changes)

Terms that shared stages create have the ids of a vocabulary of their own. Each network reads them with its own ids."""

from __future__ import annotations

from copy import deepcopy
from time import thread_time

from msgspec.structs import replace

from stream_ext.network.operators.answers.ordered_rows import OrderedRows
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.shareable import Likeness, Shareable
from stream_ext.network.shared_rows import SharedRows
from stream_ext.rows.zset import ZSet
from stream_ext.values.vocabulary import Vocabulary

#: Bytes of a row, and of a column more, that an operator remembers, with its hashes, and room for as many again.
ROW_BYTES, COLUMN_BYTES = 64, 16


#: The likeness of an operator, and the shared stages that it reads: equal for all that do the same.
StageKey = tuple[Likeness, tuple["SharedStage", ...]]


class SharedStage:
    """`terms`: of all shared stages of a timing class. `readers`: in how many places of networks it is. `added`: the
    bytes that have come to its operator, and to those that it reads, since it is shared."""

    def __init__(self, key: StageKey, operator: Shareable, terms: Vocabulary) -> None:
        self.key, self.operator, self.terms = key, operator, terms
        _, self.inputs = key
        self._reads_terms: bool = any(each.creates_terms for each in self.inputs)
        self.creates_terms: bool = self._reads_terms or operator.creates_terms
        self._rows: SharedRows | None = None  # the whole answer of queries that read nothing else
        self.readers = self.added = 0
        self.queries: dict[int, int] = {}  # a query of each network that reads it, and in how many places
        self._own_added = 0
        self._sn = -1  # the snapshot of `_changes`
        self._changes: dict[int, ZSet] = {}  # by the times of the evaluations
        self._is_halfway = False
        self.arrived = -1, -1  # the last arrival (snapshot, push)
        self.next_change: tuple[int, int] | None = None  # of a scan, as of a time; None: something has come since

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
        return self._is_halfway or any(each.is_lost for each in self.inputs)

    def is_new(self, arrival: tuple[int, int]) -> bool:
        """Whether an arrival (snapshot, push) has not come to its operator yet; from now on it has."""
        if arrival <= self.arrived:
            return False
        self.arrived, self.next_change = arrival, None
        return True

    def found(self, moment: Moment) -> ZSet | None:
        """Its change, if it was stepped at this moment."""
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
        assert not self._is_halfway, "networks that read it are built anew"
        self._is_halfway, self.next_change = True, None
        changes = [each.step(moment) for each in self.inputs]
        change = self.operator.step(self._with_terms(moment), *changes)
        self._is_halfway = False
        self.count(change.count * (change.width * COLUMN_BYTES + ROW_BYTES))
        return change

    def _with_terms(self, moment: Moment) -> Moment:
        terms = self.terms
        if terms.created:
            terms.renew()
        if not (self.operator.encodes_terms or terms.translates or moment.vocabulary.translates):
            return moment  # what is read has the same ids for all
        return replace(moment, vocabulary=terms)

    def count(self, bytes: int) -> None:
        """So many bytes have come to its operator."""
        self._own_added += bytes
        self.added = self._own_added + sum([each.added for each in self.inputs])

    def read_by(self, query: int) -> None:
        self.readers += 1
        self.queries[query] = self.queries.get(query, 0) + 1

    def left_by(self, query: int) -> None:
        self.readers -= 1
        self.queries[query] -= 1
        if not self.queries[query]:
            del self.queries[query]

    def taken(self) -> Shareable:
        """The operator for one of its readers alone: a copy, unless it is the only one that is left."""
        return deepcopy(self.operator) if self.readers > 1 else self.operator


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
            self.for_others_s += (thread_time() - begun_s) * (1 - 1 / stage.readers)
        return stage.with_ids_of(moment.vocabulary, change) if change.count else change


class ReadAhead:
    """In the place of a shared operator, for the rest of a snapshot: its changes, which were found beforehand."""

    def __init__(self, variables: tuple[str, ...], changes: dict[int, ZSet]) -> None:
        self.variables, self._changes = variables, changes

    def step(self, moment: Moment) -> ZSet:
        return self._changes[moment.time]
