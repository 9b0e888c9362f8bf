"""A task: the part of a divided query that one process evaluates.

It is a value, with the network of the query in it, so every task has the same plan. It only reads, so any process that
reaches the store can repeat it. Its result is bytes: partial groups or rows, or the error that ended it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np

from hbase_store import Store
from hbase_store import errors as store_errors
from hbase_store.arrays import Ids, Mask
from hbase_store.layout.terms import DICTIONARY, NO_TERM, tag_of
from stream_ext import errors
from stream_ext.evaluation_budget import Control
from stream_ext.network.division import Division, TaskNetwork, sizes_of_pieces
from stream_ext.network.network import Network
from stream_ext.network.operators.answers.distinct import first_of_each
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.groups.grouped import Grouped
from stream_ext.network.operators.groups.partial_groups import PackedArray, PartialGroups, PartialRows
from stream_ext.oneshot.divided.open_stores import opened_to_read
from stream_ext.rows.zset import ZSet, concat, empty
from stream_ext.values.vocabulary import Vocabulary

#: Rows of the driver that a task evaluates at a time.
PIECE_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class SubjectSpan:
    """The edges of a predicate whose subjects are from `first` to `last`; about so many."""

    predicate: int
    first: int
    last: int
    rows: int


@dataclass(frozen=True, slots=True)
class EqualPart:
    """One of so many equal parts of the driver's rows."""

    number: int
    of: int


@dataclass(frozen=True, slots=True)
class QueryTask:
    """`part`: of the driver's rows. `timeout_s`: from the beginning of its evaluation."""

    store: str
    sn: int
    network: Network
    division: Division
    part: tuple[SubjectSpan, ...] | EqualPart
    base: str
    now_ms: int
    timeout_s: float | None
    bytes_max: int | None
    term_bytes: int

    def run_task(self) -> bytes:
        return evaluated(self)


class TaskFault(msgspec.Struct, frozen=True, array_like=True, tag="failed"):
    """The class of the error, if it is one of ours, and what it says."""

    error: str
    why: str

    def raised(self) -> Exception:
        for kind in _OF_ONE_TEXT:
            if kind.__name__ == self.error:
                return kind(self.why)
        return errors.JobFailed(f"a task of the query failed: {self.why}")


class FoundGroups(msgspec.Struct, frozen=True, array_like=True, tag="groups"):
    groups: PartialGroups


class FoundRows(msgspec.Struct, frozen=True, array_like=True, tag="rows"):
    rows: PartialRows


TaskResult = TaskFault | FoundGroups | FoundRows
_decoder: msgspec.msgpack.Decoder[TaskResult] = msgspec.msgpack.Decoder(TaskResult)
#: Errors that are made of their message alone.
_OF_ONE_TEXT: tuple[type[Exception], ...] = (
    errors.DeadlineExceeded, errors.QueryTooLarge, errors.QueryCancelled, errors.BadArgument, store_errors.SnapshotGone,
)  # fmt: skip


def decoded_result(body: bytes) -> TaskResult:
    return _decoder.decode(body)


def evaluated(task: QueryTask, control: Control | None = None) -> bytes:
    """The result of a task, in this process. Never raises for what is wrong with the query or the store."""
    control = control or Control(task.timeout_s, task.bytes_max, term_bytes=task.term_bytes)
    try:
        return msgspec.msgpack.encode(_found(task, opened_to_read(task.store, task.sn), control))
    except MemoryError as error:
        return _failed("QueryTooLarge", f"a task needs more memory than is available ({error}): ask for less")
    except Exception as error:  # noqa: BLE001 -- it goes to whoever waits for the answer
        is_ours = isinstance(error, (errors.RilletError, *_OF_ONE_TEXT))
        return _failed(type(error).__name__, str(error) if is_ours else f"{type(error).__name__}: {error}")


def _failed(error: str, why: str) -> bytes:
    return msgspec.msgpack.encode(TaskFault(error, why))


def _found(task: QueryTask, store: Store, control: Control) -> FoundGroups | FoundRows:
    vocabulary = Vocabulary(*store.lasting_terms(), may_go=_are_in_dictionary)
    moment = Moment(
        0, store.at(task.sn), None, last=True, now_ms=task.now_ms, control=control, vocabulary=vocabulary,
        base=task.base,
    )  # fmt: skip
    network = TaskNetwork(task.network, task.division, moment)
    merge = task.network.stages[task.division.merge].operator
    if isinstance(merge, Grouped):
        group = merge.new(moment)
        for rows in _pieces(task, network, moment):
            group.count(moment, network.piece(rows))
        return FoundGroups(group.part(vocabulary))
    pieces = (_once(network.piece(rows)) for rows in _pieces(task, network, moment))
    found = _distinct(pieces, len(merge.variables), control)
    columns, created = vocabulary.portable(list(found.columns))
    return FoundRows(PartialRows(tuple(map(PackedArray.of, columns)), found.count, tuple(created)))


def _are_in_dictionary(ids: Ids) -> Mask:
    """Of ids of terms that the query made: the store knows them now. It may have learned them after the snapshot, so
    other tasks, and whoever gets the result, may not know them, or may have other ids for them: they are sent as texts,
    like those that the store does not know."""
    found: Mask = (ids != NO_TERM) & (tag_of(ids) == DICTIONARY)
    return found


def _distinct(pieces: Iterator[ZSet], width: int, control: Control) -> ZSet:
    """Each row where it comes first. What is found waits until it is as much again: rows are compared a few times,
    however many pieces there are, and those that are found again do not add up."""
    found, waiting, count = empty(width), list[ZSet](), 0
    for piece in pieces:
        part = first_of_each(piece)
        waiting.append(part)
        count += part.count
        control.room(found.count + count, width)
        if count > found.count:
            found, waiting, count = first_of_each(concat([found, *waiting], width)), [], 0
    return first_of_each(concat([found, *waiting], width))


def _once(rows: ZSet) -> ZSet:
    """Each row that is there, without its count."""
    if rows.weights is None:
        return rows
    return ZSet(rows.take(rows.weights > 0).stored, int(np.count_nonzero(rows.weights > 0)))


def _pieces(task: QueryTask, network: TaskNetwork, moment: Moment) -> Iterator[ZSet]:
    if not isinstance(task.part, EqualPart):
        for span in task.part:
            moment.control.check()
            yield network.driver.between(moment, span.predicate, span.first, span.last)
        return
    rows, part = network.rows_of_driver(), task.part
    begin, end = rows.count * part.number // part.of, rows.count * (part.number + 1) // part.of
    for start, stop in sizes_of_pieces(end - begin, PIECE_ROWS, moment.control.check):
        yield rows.take(np.arange(begin + start, begin + stop))
