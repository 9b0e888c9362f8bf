"""The contract of a key-value backend, as one check that every backend must pass.

`check_backend(open_backend)` runs all of it on one store. Each part uses keys, and for `scan` a table, of its
own, so that their order does not matter and one store (expensive on HBase) serves them all."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from hbase_store.backends.keyvalue import (
    CALL_BYTES_MAX,
    KEY_BYTES_MAX,
    TABLES,
    CompareAndSet,
    Key,
    KeyValue,
    Put,
    Value,
)
from hbase_store.errors import BadRow

SEED = 20_240_601


def check_backend(open_backend: Callable[[], KeyValue]) -> None:
    backend = open_backend()
    try:
        for part in PARTS:
            part(backend)
    finally:
        backend.close()
    check_that_what_was_written_is_there_after_reopening(open_backend)


class CountingKeyValue:
    """A backend that counts calls, which are round trips on HBase. A scan counts when it is asked for its first row."""

    def __init__(self, inner: KeyValue) -> None:
        self._inner = inner
        self.calls: Counter[str] = Counter()

    def get_many(self, table: str, keys: Sequence[Key], sizes: Sequence[int] = ()) -> list[Value | None]:
        self.calls["get_many"] += 1
        return self._inner.get_many(table, keys, sizes)

    def scan(self, table: str, start: Key, stop: Key | None) -> Iterator[tuple[Key, Value]]:
        self.calls["scan"] += 1
        yield from self._inner.scan(table, start, stop)

    def put_many(self, puts: Iterable[Put]) -> None:
        self.calls["put_many"] += 1
        self._inner.put_many(puts)

    def delete(self, table: str, keys: Sequence[Key], time: int) -> None:
        self.calls["delete"] += 1
        self._inner.delete(table, keys, time)

    def delete_range(self, table: str, start: Key, stop: Key | None, time: int) -> None:
        self.calls["delete_range"] += 1
        self._inner.delete_range(table, start, stop, time)

    def allocate(self, counter: str, count: int) -> int:
        self.calls["allocate"] += 1
        return self._inner.allocate(counter, count)

    def publish(self, stages: Sequence[Sequence[Put]], compare_and_set: CompareAndSet) -> bool:
        self.calls["publish"] += 1
        return self._inner.publish(stages, compare_and_set)

    def sync(self) -> None:
        self.calls["sync"] += 1
        self._inner.sync()

    def close(self) -> None:
        self._inner.close()


def check_that_values_come_in_the_order_asked(backend: KeyValue) -> None:
    backend.put_many([Put("slab", b"order/b", b"2", 1), Put("slab", b"order/a", b"1", 1)])
    keys = [b"order/absent", b"order/b", b"order/a", b"order/b", b""]
    assert backend.get_many("slab", keys) == [None, b"2", b"1", b"2", None]


def check_that_empty_lists_and_values_are_fine(backend: KeyValue) -> None:
    backend.put_many([])
    backend.delete("slab", [], 1)
    assert backend.get_many("slab", []) == []
    backend.put_many([Put("slab", b"empty", b"", 1)])
    assert backend.get_many("slab", [b"empty"]) == [b""]


def check_that_tables_do_not_mix(backend: KeyValue) -> None:
    backend.put_many([Put(table, b"mixed", table.encode(), 7) for table in TABLES])
    assert [backend.get_many(table, [b"mixed"]) for table in TABLES] == [[table.encode()] for table in TABLES]


def check_that_keys_and_values_are_any_bytes(backend: KeyValue) -> None:
    keys = [b"bytes/" + key for key in (b"\0", b"\0\0", b"\xff", b"\xff\xff", b"a\0b", b"\n'\"\\", bytes(range(256)))]
    keys.append(b"bytes/".ljust(KEY_BYTES_MAX, b"\xff"))
    backend.put_many([Put("slice", key, key[::-1] + b"\0\xff", 3) for key in keys])
    assert backend.get_many("slice", keys) == [key[::-1] + b"\0\xff" for key in keys]
    rows = list(backend.scan("slice", b"bytes/", b"bytes0"))
    assert rows == [(key, key[::-1] + b"\0\xff") for key in sorted(keys)]


def check_that_keys_and_values_have_limits(backend: KeyValue) -> None:
    for key, value in ((b"", b"v"), (b"k" * (KEY_BYTES_MAX + 1), b"v"), (b"k", bytes(CALL_BYTES_MAX + 1))):
        with pytest.raises(BadRow):
            backend.put_many([Put("slab", key, value, 1)])
    with pytest.raises(BadRow, match="empty"):
        backend.publish([], CompareAndSet(b"limits", None, b""))


def check_that_a_scan_is_in_key_order_and_leaves_out_its_stop(backend: KeyValue) -> None:
    keys = sorted(random.Random(SEED).sample(range(1 << 40), 300))
    rows = [(b"r%015d" % key, b"v%d" % key) for key in keys]
    backend.put_many([Put("emission", key, value, 2) for key, value in reversed(rows)])
    assert list(backend.scan("emission", b"r", b"s")) == rows
    assert list(backend.scan("emission", rows[10][0], rows[20][0])) == rows[10:20]
    assert list(backend.scan("emission", rows[10][0] + b"\0", rows[20][0] + b"\0")) == rows[11:21]
    assert list(backend.scan("emission", rows[290][0], None)) == rows[290:]
    assert list(backend.scan("emission", b"r", b"r")) == []
    assert list(backend.scan("emission", b"s", b"r")) == []


def check_that_a_scan_from_the_start_to_the_end_finds_everything(backend: KeyValue) -> None:
    rows = [(bytes([byte]), b"v") for byte in (0, 1, 7, 8, 127, 255)]
    backend.put_many([Put("commit", key, value, 1) for key, value in rows])
    found = dict(backend.scan("commit", b"", None))
    assert set(rows) <= set(found.items())
    assert list(found) == sorted(found)


def check_that_a_scan_may_be_longer_than_a_chunk(backend: KeyValue) -> None:
    rows = [(b"%06d" % number, b"value of %d" % number) for number in range(9_000)]
    backend.put_many(Put("sn", key, value, 6) for key, value in rows)
    assert list(backend.scan("sn", b"0", b"1")) == rows


def check_that_a_scan_may_be_left_and_other_calls_made_meanwhile(backend: KeyValue) -> None:
    backend.put_many([Put("slab", b"left/%d" % number, b"v", 1) for number in range(5)])
    scan = backend.scan("slab", b"left/", b"left0")
    assert next(scan) == (b"left/0", b"v")
    backend.put_many([Put("slab", b"left/9", b"v", 1)])
    assert backend.get_many("slab", [b"left/9"]) == [b"v"]


def check_that_large_values_and_many_of_them_are_held(backend: KeyValue) -> None:
    content = random.Random(SEED).randbytes(CALL_BYTES_MAX)
    rows = {b"large/%02d" % number: content[number : number + 300_000] for number in range(40)}
    rows[b"large/whole"] = content
    backend.put_many(Put("slab", key, value, 5) for key, value in rows.items())
    assert dict(zip(rows, backend.get_many("slab", list(rows)), strict=True)) == rows
    assert dict(backend.scan("slab", b"large/", b"large0")) == rows


def check_that_a_later_put_replaces(backend: KeyValue) -> None:
    for time in (3, 4):
        backend.put_many([Put("slab", b"again", b"at %d" % time, time)])
    assert backend.get_many("slab", [b"again"]) == [b"at 4"]


def check_that_a_delete_spares_later_cells(backend: KeyValue) -> None:
    backend.put_many([Put("slice", b"gone/%d" % time, b"v", time) for time in range(1, 6)])
    keys = [b"gone/%d" % time for time in range(7)]
    backend.delete("slice", keys, 3)
    assert backend.get_many("slice", keys) == [None, None, None, None, b"v", b"v", None]
    backend.put_many([Put("slice", b"gone/1", b"new", 4)])
    assert backend.get_many("slice", [b"gone/1"]) == [b"new"]


def check_that_delete_range_spares_its_stop_and_later_cells(backend: KeyValue) -> None:
    backend.put_many([Put("slice", b"range/%04d" % number, b"v", number % 2) for number in range(5_000)])
    backend.delete_range("slice", b"range/1000", b"range/4000", 0)
    left = [int(key[6:]) for key, _ in backend.scan("slice", b"range/", b"range0")]
    assert left == [number for number in range(5_000) if number % 2 or not 1000 <= number < 4000]
    backend.delete_range("slice", b"range/", b"range0", 1)
    assert list(backend.scan("slice", b"range/", b"range0")) == []


def check_that_numbers_are_allocated_once(backend: KeyValue) -> None:
    assert backend.allocate("fresh", 1) == 1
    assert backend.allocate("fresh", 10) == 2
    assert backend.allocate("fresh", 1) == 12
    assert backend.allocate("another", 1) == 1
    numbers: list[int] = []

    def take() -> None:
        for _ in range(20):
            first = backend.allocate("contended", 3)
            numbers.extend(range(first, first + 3))

    in_threads([take] * 4)
    assert sorted(numbers) == list(range(1, 4 * 20 * 3 + 1))


def check_that_publish_moves_the_cell_from_what_was_expected(backend: KeyValue) -> None:
    assert backend.publish([], CompareAndSet(b"cell", None, b"1"))
    assert not backend.publish([], CompareAndSet(b"cell", None, b"2")), "it is there"
    assert not backend.publish([], CompareAndSet(b"cell", b"0", b"2")), "it is something else"
    assert backend.get_many("meta", [b"cell"]) == [b"1"]
    assert backend.publish([], CompareAndSet(b"cell", b"1", b"2"))
    assert not backend.publish([], CompareAndSet(b"cell", b"1", b"3")), "a stale writer loses"
    assert not backend.publish([], CompareAndSet(b"absent cell", b"1", b"2")), "it is not there"
    assert backend.get_many("meta", [b"cell", b"absent cell"]) == [b"2", None]


def check_that_stages_are_there_once_the_cell_has_moved(backend: KeyValue) -> None:
    stages = [[Put("slab", b"stage/%d/%d" % (stage, row), b"v", 9) for row in range(50)] for stage in range(3)]
    assert backend.publish([*stages, []], CompareAndSet(b"staged", None, b"1"))
    assert backend.get_many("slab", [put.key for stage in stages for put in stage]) == [b"v"] * 150
    assert backend.publish([[Put("meta", b"stage in meta", b"v", 9)]], CompareAndSet(b"staged", b"1", b"2"))
    assert backend.get_many("meta", [b"stage in meta", b"staged"]) == [b"v", b"2"]


def check_that_one_of_many_publishers_wins(backend: KeyValue) -> None:
    assert backend.publish([], CompareAndSet(b"raced", None, b"0"))
    won: list[int] = []

    def race(number: int) -> None:
        if backend.publish([], CompareAndSet(b"raced", b"0", b"by %d" % number)):
            won.append(number)

    in_threads([partial(race, number) for number in range(6)])
    assert len(won) == 1
    assert backend.get_many("meta", [b"raced"]) == [b"by %d" % won[0]]


def check_that_delete_does_not_reach_what_was_compared_and_set(backend: KeyValue) -> None:
    assert backend.publish([], CompareAndSet(b"kept", None, b"1"))
    backend.delete("meta", [b"kept"], 1_000_000)
    assert backend.get_many("meta", [b"kept"]) == [b"1"]


def check_that_threads_share_a_backend(backend: KeyValue) -> None:
    def work(thread: int) -> None:
        for number in range(10):
            key = b"shared/%d/%d" % (thread, number)
            backend.put_many([Put("slice", key, key, 1)])
            assert backend.get_many("slice", [key]) == [key]
            assert (key, key) in list(backend.scan("slice", b"shared/%d/" % thread, b"shared/%d0" % thread))

    in_threads([partial(work, thread) for thread in range(6)])


def check_that_making_puts_may_read_the_store(backend: KeyValue) -> None:
    def puts() -> Iterator[Put]:
        for number in range(5):
            assert backend.get_many("slab", [b"made/%d" % number]) == [None]
            yield Put("slab", b"made/%d" % number, b"v", 1)

    backend.put_many(puts())
    assert backend.get_many("slab", [b"made/4"]) == [b"v"]


def check_that_calls_count_one_each(backend: KeyValue) -> None:
    counting = CountingKeyValue(backend)
    counting.put_many([Put("slab", b"counted/%d" % number, b"v", 1) for number in range(100)])
    counting.get_many("slab", [b"counted/%d" % number for number in range(100)])
    assert len(list(counting.scan("slab", b"counted/", b"counted0"))) == 100
    counting.sync()
    assert counting.calls == {"put_many": 1, "get_many": 1, "scan": 1, "sync": 1}


def check_that_what_was_written_is_there_after_reopening(open_backend: Callable[[], KeyValue]) -> None:
    backend = open_backend()
    try:
        assert backend.get_many("slab", [b"empty", b"again"]) == [b"", b"at 4"]
        assert backend.get_many("meta", [b"cell"]) == [b"2"]
        assert backend.allocate("fresh", 1) == 13
    finally:
        backend.close()


PARTS: tuple[Callable[[KeyValue], None], ...] = (
    check_that_values_come_in_the_order_asked,
    check_that_empty_lists_and_values_are_fine,
    check_that_tables_do_not_mix,
    check_that_keys_and_values_are_any_bytes,
    check_that_keys_and_values_have_limits,
    check_that_a_scan_is_in_key_order_and_leaves_out_its_stop,
    check_that_a_scan_from_the_start_to_the_end_finds_everything,
    check_that_a_scan_may_be_longer_than_a_chunk,
    check_that_a_scan_may_be_left_and_other_calls_made_meanwhile,
    check_that_large_values_and_many_of_them_are_held,
    check_that_a_later_put_replaces,
    check_that_a_delete_spares_later_cells,
    check_that_delete_range_spares_its_stop_and_later_cells,
    check_that_numbers_are_allocated_once,
    check_that_publish_moves_the_cell_from_what_was_expected,
    check_that_stages_are_there_once_the_cell_has_moved,
    check_that_one_of_many_publishers_wins,
    check_that_delete_does_not_reach_what_was_compared_and_set,
    check_that_threads_share_a_backend,
    check_that_making_puts_may_read_the_store,
    check_that_calls_count_one_each,
)


def in_threads(tasks: Sequence[Callable[[], None]], timeout_s: float = 60.0) -> None:
    """Runs the tasks at once; the first failure of any is raised here."""
    ready = threading.Barrier(len(tasks))

    def run(task: Callable[[], None]) -> None:
        ready.wait(timeout_s)
        task()

    with ThreadPoolExecutor(len(tasks)) as pool:
        for running in [pool.submit(run, task) for task in tasks]:
            running.result(timeout_s)
