"""What the HBase backend makes of answers and errors, and how large answers may be: on a pretended Thrift server."""

from __future__ import annotations

import threading
from collections.abc import Callable

import Hbase_thrift as thrift
import pytest

from hbase_store import Batch, Store
from hbase_store.backends.hbase import HBaseKeyValue
from hbase_store.backends.keyvalue import ANSWER_BYTES_MAX, CALL_BYTES_MAX, Put
from hbase_store.backends.lease import LEASE_MS
from hbase_store.backends.thrift_transports import TIMEOUT_MS
from hbase_store.backends.thrift_verbs import BUCKETS
from hbase_store.clock import WallClock
from hbase_store.errors import BadRow, StoreUnavailable
from hbase_store.layout.terms import iri, literal
from tests.hbase_store.check_backend import check_backend
from tests.hbase_store.pretended_hbase import PretendedHBase

MB = 1 << 20


@pytest.fixture
def server() -> PretendedHBase:
    return PretendedHBase()


@pytest.fixture
def backend(server: PretendedHBase, monkeypatch: pytest.MonkeyPatch) -> HBaseKeyValue:
    return server.backend(monkeypatch)


def test_what_is_pretended_keeps_the_contract(server: PretendedHBase, monkeypatch: pytest.MonkeyPatch) -> None:
    check_backend(lambda: server.backend(monkeypatch))


def test_batches_that_are_committed_together_take_as_many_calls_as_one(
    server: PretendedHBase, backend: HBaseKeyValue
) -> None:
    store = Store(backend, "pretended", WallClock(), folding=False)
    calls = []
    for count in (1, 1, 12):  # with the first one, numbers are taken
        batches: list[Batch] = []
        for number in range(count):
            batch = store.begin(batches)
            batch.insert(*batch.encode([iri("http://ex/s"), iri("http://ex/p"), literal(f"{count} {number}")]), g=0)
            batches.append(batch)
        with server.counted() as counted:
            store.commit(*batches)
        calls.append(counted.calls.total())
    assert calls[1:] == [3, 3], "the slabs, the rows of snapshots, the head"
    store.close()


def in_a_new_thread(backend: HBaseKeyValue, times: int) -> list[str]:
    """What the first calls of a thread come to."""
    outcomes: list[str] = []

    def read() -> None:
        for _ in range(times):
            try:
                backend.get_many("sn", [b"key"])
                outcomes.append("answered")
            except Exception as error:  # noqa: BLE001 -- its name is the outcome
                outcomes.append(type(error).__name__)

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    return outcomes


@pytest.mark.parametrize(
    "error",
    [thrift.IOError(message=b"the region moves"), thrift.IllegalArgument(message=b"port out of range: -1"), OSError()],
)
def test_a_thread_whose_first_call_fails_is_answered_when_hbase_is(
    server: PretendedHBase, backend: HBaseKeyValue, error: Exception
) -> None:
    left = 4

    def fails(verb: str) -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            raise error

    server.fault = fails
    outcomes = in_a_new_thread(backend, 6)
    assert set(outcomes) == {"StoreUnavailable", "answered"}
    assert outcomes == sorted(outcomes), "once it answers, it does"


def test_a_scanner_that_hbase_has_forgotten_is_opened_again(server: PretendedHBase, backend: HBaseKeyValue) -> None:
    backend.put_many([Put("sn", b"%d" % i, b"value", 1) for i in range(40)])
    forgotten: list[str] = []

    def forgets(verb: str) -> None:
        if verb == "scannerGetList" and len(forgotten) < 3:
            forgotten.append(verb)
            if len(forgotten) == 2:
                server._scanners.clear()

    server.fault = forgets
    assert len(list(backend.scan("sn", b"", None))) == 40


def test_a_cell_that_is_too_large_is_the_callers_fault(server: PretendedHBase, backend: HBaseKeyValue) -> None:
    def refuses(verb: str) -> None:
        raise thrift.IllegalArgument(message=b"KeyValue size too large")

    server.fault = refuses
    with pytest.raises(BadRow):
        backend.put_many([Put("sn", b"key", b"value", 1)])


def test_calls_on_a_store_that_is_closed_meanwhile_say_so(server: PretendedHBase, backend: HBaseKeyValue) -> None:
    def closes(verb: str) -> None:
        backend.close()
        raise AttributeError("'NoneType' object has no attribute 'recv'")  # as thriftpy2 does

    server.fault = closes
    with pytest.raises(StoreUnavailable, match="is closed"):
        backend.get_many("sn", [b"key"])


def test_no_call_waits_for_longer_than_is_left_of_a_lease_that_is_renewed() -> None:
    assert TIMEOUT_MS <= LEASE_MS * 2 // 3


# ---- how large answers are


def rows_of(backend: HBaseKeyValue, table: str, count: int, size: int) -> list[bytes]:
    keys = [b"%s %06d" % (table.encode(), i) for i in range(count)]
    for key in keys:
        backend.put_many([Put(table, key, bytes(size), 1)])
    return keys


def test_large_rows_whose_sizes_are_known_come_in_answers_of_eight_megabytes(
    server: PretendedHBase, backend: HBaseKeyValue
) -> None:
    small = rows_of(backend, "slab", 300, 100)
    large = [key + b"!" for key in small[:43]]
    for key in large:
        backend.put_many([Put("slab", key, bytes(3_600_000), 1)])
    backend.get_many("slab", small)  # so it was small rows of late
    with server.counted():
        assert all(backend.get_many("slab", large, [3_600_000] * 43))
    assert max(server.answers) <= ANSWER_BYTES_MAX
    assert server.calls.total() == 22
    with server.counted():
        assert all(backend.get_many("slab", small, [100] * 300))
    assert server.calls.total() == 4, "at the same time"


def test_calls_at_the_same_time_are_for_whole_buckets(
    server: PretendedHBase, backend: HBaseKeyValue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that was split from the beginning has a region for each bucket."""
    keys = rows_of(backend, "run", 400, 100)
    backend.get_many("run", keys[:2])
    asked: list[list[bytes]] = []
    answer = server.row_answer

    def noted(rows: list[tuple[bytes, bytes]]) -> list[object]:
        asked.append([row for row, _ in rows])
        return answer(rows)

    monkeypatch.setattr(server, "row_answer", noted)
    assert backend.get_many("run", keys, [100] * 400) == [bytes(100)] * 400
    assert len(asked) == 4
    assert sum(len({row[0] for row in rows}) for rows in asked) == BUCKETS, "no bucket is in two calls"
    assert max(map(len, asked)) < 400 // 4 * 1.25


def test_rows_of_unknown_size_are_asked_for_by_the_largest_of_late(
    server: PretendedHBase, backend: HBaseKeyValue
) -> None:
    small, large = rows_of(backend, "run", 400, 100), rows_of(backend, "emission", 20, 3 * MB)
    with server.counted():
        backend.get_many("emission", large)
        list(backend.scan("emission", b"", None))
    assert max(server.answers) <= ANSWER_BYTES_MAX
    with server.counted():
        backend.get_many("run", small)
    assert server.calls.total() <= 5, "the first alone, then four at the same time"


def test_an_answer_that_does_not_come_in_time_is_asked_for_in_smaller_parts(
    server: PretendedHBase, backend: HBaseKeyValue
) -> None:
    keys = rows_of(backend, "run", 40, 10)
    backend.get_many("run", keys)
    for key in keys:
        backend.put_many([Put("run", key, bytes(CALL_BYTES_MAX // 2), 2)])
    get = server.row_answer

    def too_slow(rows: list[tuple[bytes, bytes]]) -> list[object]:
        if sum(len(value) for _, value in rows) > ANSWER_BYTES_MAX:
            raise TimeoutError
        return get(rows)

    server.row_answer = too_slow  # type: ignore[method-assign]
    assert all(backend.get_many("run", keys))


def test_a_read_that_has_no_answer_in_time_is_made_anew_once(server: PretendedHBase, backend: HBaseKeyValue) -> None:
    """While a region moves HBase's client waits longer and longer; a new call finds the region at once."""
    backend.put_many([Put("sn", b"%d" % i, b"value", 1) for i in range(40)])
    keys = [b"%d" % i for i in range(40)]
    reads: list[Callable[[], object]] = [
        lambda: backend.get_many("sn", keys),
        lambda: backend.get_many("sn", keys, [5] * 40),
        lambda: list(backend.scan("sn", b"", None)),
    ]
    left = 0

    def is_late(verb: str) -> None:
        nonlocal left
        if verb in ("getRowsWithColumns", "scannerGetList") and left:
            left -= 1
            raise TimeoutError

    server.fault = is_late
    for read in reads:
        expected = read()
        left = 1
        assert read() == expected
    for read in (*reads, lambda: backend.get_many("meta", [b"head"])):
        left = 1000
        with pytest.raises(StoreUnavailable, match="did not answer within"):
            read()
    left = 1
    with pytest.raises(StoreUnavailable, match="did not answer within"):
        backend.get_many("meta", [b"head"])  # a lease, and a head, are wanted soon or not at all


def test_a_snapshot_of_many_large_pieces_is_read(server: PretendedHBase, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(server.backend(monkeypatch), "pretended", WallClock(), folding=False)
    for size in (10, 2 * MB):
        batch = store.begin()
        s, p = batch.encode([iri("http://ex/s"), iri("http://ex/p")]).tolist()
        texts = [literal(f"{i} {'x' * size}") for i in range(8)]
        batch.insert(s, p, batch.encode(texts), 0)
        store.commit(batch)
    with server.counted():
        reader = Store(server.backend(monkeypatch), "pretended", WallClock(), folding=False)
    assert reader.at(2).count_all() == 16
    assert max(server.answers) <= ANSWER_BYTES_MAX
    store.close()


def test_much_is_read_by_calls_at_the_same_time_each_of_a_range_of_keys(
    server: PretendedHBase, backend: HBaseKeyValue
) -> None:
    keys = rows_of(backend, "i2t", 100, 50_000)
    backend.get_many("i2t", keys[:4])  # so their size is known
    for sizes in ((), [50_000] * 100):
        with server.counted():
            assert all(backend.get_many("i2t", keys, sizes))
        assert server.calls.total() == 4
        assert max(server.answers) < min(server.answers) * 1.2
    with server.counted():
        backend.get_many("i2t", keys[:20])
    assert server.calls.total() == 1, "little is read by one call"
