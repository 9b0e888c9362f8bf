"""Reading a store itself, without a server: a task for each predicate, or for each span of subjects of a large one.

    spark.read.format("rillet").option("store", "hbase://10.0.0.4:9090/rillet")                       terms as texts
    spark.read.format("rillet").option("store", "lmdb:/data/rillet").option("terms", "ids")            ids
    with_terms(frame, store, "object")                                                                 ids become texts

Joins and groups of ids are several times as quick as of texts, and give the same: equal ids are equal terms. (Other
terms may have the same value, as 1 and 01; so it is in the joins of SPARQL.)"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from hbase_store import NAMED, Snapshot, Store
from hbase_store.errors import SnapshotGone
from plugin.spark.reading import snapshot_gone
from stream_ext.oneshot.divided.open_stores import absolute, opened_to_read

_COLUMNS = ("subject", "predicate", "object", "graph")
_DEFAULT = 0
_ID_MAX = (1 << 64) - 1
#: Rows of a batch that a task hands to Spark, whose texts are in memory together.
_BATCH_ROWS = 50_000
#: Rows of a task, unless the option rowsPerPartition says otherwise.
ROWS_PER_TASK = 1_000_000


@dataclass
class Span(InputPartition):  # type: ignore[misc]  # pyspark's types are not followed
    """The edges of one predicate, of the default graph or of the named ones, whose subjects are from `first` to
    `last`."""

    predicate: int
    named: bool
    first: int
    last: int
    snapshot: int


class SpanReader(DataSourceReader):  # type: ignore[misc]  # pyspark's types are not followed
    TEXTS = ", ".join(f"{name} string" for name in _COLUMNS)
    IDS = ", ".join(f"{name} long" for name in _COLUMNS)

    def __init__(self, store: str, snapshot: int | None, as_ids: bool, rows_per_task: int) -> None:
        if rows_per_task < 1:
            raise ValueError(f"rowsPerPartition is {rows_per_task}: give a number from 1")
        self._url, self._snapshot = absolute(store), snapshot
        self._as_ids, self._rows_per_task = as_ids, rows_per_task

    def partitions(self) -> Sequence[Span]:
        store = opened_to_read(self._url, self._snapshot or 0)
        snapshot = _at(store, self._snapshot)
        return [
            Span(predicate, named, first, last, int(snapshot.sn))
            for named in (False, True)
            for predicate in snapshot.predicates(NAMED if named else _DEFAULT).tolist()
            for first, last in self._spans(snapshot, predicate, named)
        ]

    def _spans(self, snapshot: Snapshot, predicate: int, named: bool) -> Iterable[tuple[int, int]]:
        cuts = snapshot.cuts(predicate, self._rows_per_task, NAMED if named else _DEFAULT).tolist()
        return zip([0, *cuts], [*(cut - 1 for cut in cuts), _ID_MAX], strict=True)

    def read(self, partition: Span) -> Iterator[pa.RecordBatch]:
        store = opened_to_read(self._url, partition.snapshot)
        place = partition.predicate, partition.first, partition.last, NAMED if partition.named else _DEFAULT
        try:
            subjects, objects, *graphs = store.at(partition.snapshot).between(*place)
        except SnapshotGone as error:
            raise snapshot_gone(partition.snapshot) from error
        for start in range(0, len(subjects), _BATCH_ROWS):
            some = slice(start, start + _BATCH_ROWS)
            predicates = np.full(len(subjects[some]), partition.predicate, np.uint64)
            columns = [subjects[some], predicates, objects[some], *(column[some] for column in graphs)]
            arrays = [_long(column) if self._as_ids else _texts(store, column) for column in columns]
            if not graphs:
                arrays.append(pa.nulls(len(predicates), arrays[0].type))
            yield pa.RecordBatch.from_arrays(arrays, list(_COLUMNS))


def with_terms(frame: Any, store: str, *columns: str) -> Any:
    """The DataFrame with the terms (N-Triples) of these columns of ids."""
    fields = ((field.name, "string" if field.name in columns else field.dataType) for field in frame.schema.fields)
    unknown = sorted(set(columns) - set(frame.columns))
    if unknown:
        raise ValueError(f"the DataFrame has no column {', '.join(unknown)}; it has {', '.join(frame.columns)}")
    url = absolute(store)
    schema = ", ".join(f"`{name}` {kind if isinstance(kind, str) else kind.simpleString()}" for name, kind in fields)

    def decoded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for name in columns:
                place = batch.schema.get_field_index(name)
                batch = batch.set_column(place, name, _texts_of_long(opened_to_read(url, 0), batch.column(place)))
            yield batch

    return frame.mapInArrow(decoded, schema)


def _at(store: Store, snapshot: int | None) -> Snapshot:
    try:
        return store.at(snapshot)
    except SnapshotGone as error:
        assert snapshot is not None, "the latest snapshot is there"
        raise snapshot_gone(snapshot) from error


def _long(column: Any) -> pa.Array:
    return pa.array(column.view(np.int64))


def _texts(store: Store, column: Any) -> pa.Array:
    """Each distinct term is looked up once."""
    distinct, places = np.unique(column, return_inverse=True)
    texts = pa.array([text.decode() for text in store.terms(distinct)], pa.string())
    return texts.take(pa.array(places))


def _texts_of_long(store: Store, column: pa.Array) -> pa.Array:
    known = column.is_valid().to_numpy(zero_copy_only=False)
    ids = column.drop_null().to_numpy().astype(np.int64).view(np.uint64)
    places = np.zeros(len(column), np.int64)
    places[known] = np.arange(len(ids))
    return _texts(store, ids).take(pa.array(places, mask=~known))
