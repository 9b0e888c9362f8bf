"""Shared stage: an operator that the networks of several queries read.

It is stepped once at each evaluation, by the network that comes first; its change is there for the others until the
next snapshot. So a network may be stepped through all evaluations of a snapshot before the next network begins with the
first of them.

    two networks, two closes     first network: close 1, close 2 (the operator is stepped)
                                 second network: close 1, close 2 (it finds both changes)"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from time import thread_time

from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.operator import Operator
from stream_ext.rows.zset import ZSet

#: Bytes of a row, and of a column more, that an operator remembers, with its hashes, and room for as many again.
ROW_BYTES, COLUMN_BYTES = 64, 16


class SharedStage:
    """`key`: equal for all that do the same. `readers`: in how many places of networks it is. `added`: the bytes that
    have come to its operator, and to those that it reads, since it is shared."""

    def __init__(self, key: tuple[object, ...], operator: Operator, inputs: Sequence[SharedStage]) -> None:
        self.key, self.operator, self.inputs = key, operator, inputs
        self.readers = self.added = 0
        self.stepped_s = 0.0  # of CPU time, with what it reads
        self._own_added = 0
        self._sn = -1  # the snapshot of `_changes`
        self._changes: dict[int, ZSet] = {}  # by the times of the evaluations
        self._is_halfway = False
        self._arrived = -1, -1
        self.next_change: tuple[int, int] | None = None  # of a scan, as of a time; None: something has come since

    @property
    def is_lost(self) -> bool:
        """Whether a step of it was not completed: its state is that of no evaluation."""
        return self._is_halfway or any(each.is_lost for each in self.inputs)

    def is_new(self, arrival: tuple[int, int]) -> bool:
        """Whether an arrival (snapshot, push) has not come to its operator yet; from now on it has."""
        if arrival <= self._arrived:
            return False
        self._arrived, self.next_change = arrival, None
        return True

    def step(self, moment: Moment) -> ZSet:
        sn = int(moment.snapshot.sn)
        if sn != self._sn:
            self._sn, self._changes = sn, {}
        found = self._changes.get(moment.time)
        if found is None:
            found = self._changes[moment.time] = self._stepped(moment)
        return found

    def _stepped(self, moment: Moment) -> ZSet:
        assert not self._is_halfway, "networks that read it are built anew"
        self._is_halfway, self.next_change, begun_s = True, None, thread_time()
        change = self.operator.step(moment, *[each.step(moment) for each in self.inputs])
        self._is_halfway = False
        self.stepped_s += thread_time() - begun_s
        self.count(change.count * (change.width * COLUMN_BYTES + ROW_BYTES))
        return change

    def count(self, bytes: int) -> None:
        """So many bytes have come to its operator."""
        self._own_added += bytes
        self.added = self._own_added + sum([each.added for each in self.inputs])

    def taken(self) -> Operator:
        """The operator for one of its readers alone: a copy, unless it is the only one that is left."""
        return deepcopy(self.operator) if self.readers > 1 else self.operator


class SharedReader:
    """In a network, in the place of an operator that it shares."""

    def __init__(self, stage: SharedStage, variables: tuple[str, ...]) -> None:
        self.stage, self.variables = stage, variables
        self.for_others_s = 0.0  # of CPU time in which the stage was stepped here: the parts of its other readers

    def step(self, moment: Moment) -> ZSet:
        """Terms that the query created before a stream brought them have the ids of the query."""
        stage, before_s, vocabulary = self.stage, self.stage.stepped_s, moment.vocabulary
        change = stage.step(moment)
        if stage.stepped_s > before_s:
            self.for_others_s += (stage.stepped_s - before_s) * (1 - 1 / stage.readers)
        if not change.count or not vocabulary.translates:
            return change
        return replace(change, stored=tuple(map(vocabulary.inward, change.columns)))


class ReadAhead:
    """In the place of a shared operator, for the rest of a snapshot: its changes, which were found beforehand."""

    def __init__(self, variables: tuple[str, ...], changes: dict[int, ZSet]) -> None:
        self.variables, self._changes = variables, changes

    def step(self, moment: Moment) -> ZSet:
        return self._changes[moment.time]
