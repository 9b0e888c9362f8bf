"""What `rillet hbase status` prints."""

from __future__ import annotations

from endpoint.cli.hbase_tables import _lines
from hbase_store.backends.lease import CellHolder
from hbase_store.layout.run_list import NO_RUNS, RunEntry, RunList
from hbase_store.log.head import NO_HEAD, Head, Range
from hbase_store.provisioning import NamespaceStatus


def lines(status: NamespaceStatus) -> list[str]:
    return list(_lines(status))


def test_the_status_names_the_writer_the_head_and_the_regions() -> None:
    runs = (RunEntry(1, 1, 3, 1, 500, 4_000), RunEntry(2, 4, 9, 1, 700, 6_000), RunEntry(3, 1, 9, 2, 1_200, 9_500))
    status = NamespaceStatus(
        servers=[("h1:9090", True), ("h2:9090", False)],
        holder=CellHolder("token", "http://h1:8000/", "h1", 4711, 1, 1),
        lease_left_ms=21_400,
        head=Head(3, b"", 12, (Range(3, 1, 12),), 5),
        emitted=Head(2, b"", 40, (Range(2, 1, 40),)),
        runs=RunList(5, 3, runs),
        regions={"slab": {"h2:1": 3, "h1:1": 5}, "meta": {}},
    )
    assert lines(status) == [
        "Thrift server h1:9090: it answers",
        "Thrift server h2:9090: it does not answer",
        "writer: process 4711 on h1 (http://h1:8000/); its lease holds for 21 s",
        "snapshot 12 (writer epoch 3); commit 40 of emissions (writer epoch 2)",
        "folded: 1 run, 1,200 rows, 9,500 bytes; 3 snapshots are not folded",
        "table  regions  on region servers",
        "─────  ───────  ─────────────────",
        "slab         8  h1:1: 5, h2:1: 3",
        "meta         0",
    ]


def test_one_snapshot_is_not_several() -> None:
    status = NamespaceStatus([], None, 0, Head(1, b"", 1, (Range(1, 1, 1),), 0), NO_HEAD, NO_RUNS, {})
    assert lines(status)[2].endswith("; 1 snapshot is not folded")


def test_of_a_store_that_nobody_writes_to_it_says_so() -> None:
    left = CellHolder("token", "", "h1", 4711, 0, 1)
    for holder in (None, left):
        status = NamespaceStatus([], holder, 0, NO_HEAD, NO_HEAD, NO_RUNS, {})
        assert lines(status)[0] == "writer: none"
    assert "folded: 0 runs, 0 rows, 0 bytes; 0 snapshots" in lines(status)[2]
