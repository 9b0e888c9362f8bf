"""What tasks read of a store itself: each quad once, at the planned snapshot, as terms and as ids."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

import hbase_store
from plugin.spark import store_reading
from plugin.spark.source import RilletSource
from plugin.spark.store_reading import SpanReader
from stream_ext.oneshot.divided.open_stores import close_opened, opened_to_read

Quad = tuple[str, str, str, str | None]


@pytest.fixture(autouse=True)
def no_store_stays_open(tmp_path: Path) -> Iterator[None]:
    yield
    close_opened(f"lmdb:{tmp_path / 'store'}")


def written(url: str, seed: int) -> list[set[Quad]]:
    """The quads of each snapshot; some come, some go."""
    chance, quads, snapshots = random.Random(seed), set[Quad](), list[set[Quad]]()
    with closing(hbase_store.open(url, folding=False)) as store:
        for round in range(4):
            graphs = (None, None, "<http://ex/g>")
            ends = [(chance.randrange(60), chance.choice("pq"), chance.randrange(9)) for _ in range(80)]
            come = {(f"<http://ex/{s}>", f"<http://ex/{p}>", f'"{o}é"', chance.choice(graphs)) for s, p, o in ends}
            go = set(chance.sample(sorted(quads, key=str), len(quads) // 4))
            batch = store.begin()
            for change, some in ((batch.delete, sorted(go, key=str)), (batch.insert, sorted(come, key=str))):
                columns = [[term or "" for term in column] for column in zip(*some, strict=True)] if some else []
                if columns:
                    s, p, o = (batch.encode([text.encode() for text in column]) for column in columns[:3])
                    named = [text.encode() for text in columns[3] if text]
                    graphs_of = iter(batch.encode(named).tolist() if named else [])
                    change(s, p, o, [next(graphs_of) if text else 0 for text in columns[3]])
            store.commit(batch)
            quads = (quads - go) | come
            snapshots.append(set(quads))
            if round == 1:
                store.fold()
    return snapshots


def read(reader: SpanReader) -> list[dict[str, object]]:
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


@pytest.mark.parametrize("rows_per_task", [1, 13, 1_000])
def test_each_quad_is_read_once_at_the_planned_snapshot(
    tmp_path: Path, rows_per_task: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_reading, "_BATCH_ROWS", 10)
    for name in ("BLOCK_ROWS", "HASH_BLOCK_ROWS"):
        monkeypatch.setattr(f"hbase_store.layout.run_blocks.{name}", 8)
    url = f"lmdb:{tmp_path / 'store'}"
    snapshots = written(url, rows_per_task)
    for sn in (None, 2, 4):
        found = read(SpanReader(url, sn, False, rows_per_task))
        rows = Counter(tuple(row[name] for name in ("subject", "predicate", "object", "graph")) for row in found)
        assert rows == Counter(snapshots[(sn or 4) - 1])
    assert len(SpanReader(url, None, False, 1_000).partitions()) == 4, "two predicates, with and without graphs"
    assert len(SpanReader(url, None, False, 13).partitions()) > 8


def test_ids_are_the_same_for_the_same_terms_and_become_terms_again(tmp_path: Path) -> None:
    url = f"lmdb:{tmp_path / 'store'}"
    (*_, last) = written(url, 5)
    rows = read(SpanReader(url, None, True, 1_000))
    store = opened_to_read(url)
    columns = []
    for name in ("subject", "predicate", "object", "graph"):
        ids = pa.array([row[name] for row in rows], pa.int64())
        columns.append(store_reading._texts_of_long(store, ids).to_pylist())
    assert Counter(zip(*columns, strict=True)) == Counter(last)


def test_a_snapshot_that_is_not_there_is_said(tmp_path: Path) -> None:
    url = f"lmdb:{tmp_path / 'store'}"
    written(url, 6)
    with pytest.raises(RuntimeError, match="snapshot gone: the read was planned for snapshot 999"):
        SpanReader(url, 999, False, 10).partitions()


def test_ids_are_of_a_store_and_spans_have_rows() -> None:
    with pytest.raises(ValueError, match="terms=ids is for reading a store itself"):
        RilletSource({"terms": "ids"}).schema()
    with pytest.raises(ValueError, match="rowsPerPartition is 0"):
        RilletSource({"store": "lmdb:x", "rowsPerPartition": "0"}).reader(None)
    with pytest.raises(ValueError, match="has no option stoer"):
        RilletSource({"stoer": "lmdb:x"})
