"""Streams that go on and on: what a server keeps is bounded by its windows and retentions, in memory and on disk.

Terms are for ever (docs/reference/limits.md), so these elements are made of a few; all else must come and go."""

from __future__ import annotations

import ctypes
import gc
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from stream_ext.clock import ManualClock
from stream_ext.service.service import Service
from stream_ext.upkeep.retention import Retain
from tests.parts.waiting import until
from tests.stream_ext.opened import EX, opened, triple

BATCH_MS, WINDOW = 100, "RANGE PT2S STEP PT1S"
P = f"PREFIX : <{EX}> REGISTER"
ONE = f"FROM NAMED WINDOW :w ON s [{WINDOW}]"
TWO = f"{ONE} FROM NAMED WINDOW :v ON t [RANGE PT5S STEP PT1S]"
QUERIES = (
    f"{P} RSTREAM joined AS SELECT ?x ?y ?z {TWO} WHERE {{ WINDOW :w {{ ?x :p ?y }} WINDOW :v {{ ?x :q ?z }} }}",
    f"{P} ISTREAM counted AS SELECT ?x (COUNT(*) AS ?n) {ONE} WHERE {{ WINDOW :w {{ ?x :p ?y }} }} GROUP BY ?x",
    f"{P} DSTREAM gone AS SELECT DISTINCT ?y {ONE} WHERE {{ WINDOW :w {{ ?x :p ?y }} }}",
    f"{P} RSTREAM maybe AS SELECT ?x ?k {ONE} WHERE {{ WINDOW :w {{ ?x :p ?y }} OPTIONAL {{ ?x :k ?k }} }}",
    f"{P} RSTREAM without AS SELECT ?x {TWO} "
    "WHERE { WINDOW :w { ?x :p ?y } FILTER NOT EXISTS { WINDOW :v { ?x :q ?y } } }",
    f"{P} RSTREAM first AS SELECT ?x ?y {ONE} WHERE {{ WINDOW :w {{ ?x :p ?y }} }} ORDER BY DESC(?y) LIMIT 5",
    f"{P} RSTREAM linked AS CONSTRUCT {{ ?x :near ?z }} {ONE} WHERE {{ WINDOW :w {{ ?x :p ?y . ?z :p ?y }} }}",
    f"{P} ISTREAM stored AS SELECT ?x ?k {{ ?x :k ?k }}",
)


def resident_bytes() -> int:
    """What this process holds, once it has given back what it can."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


class Life:
    def __init__(self, service: Service, clock: ManualClock) -> None:
        self.service, self.clock = service, clock
        self.batch = 0

    def go_on(self, batches: int) -> None:
        for _ in range(batches):
            self.batch += 1
            self._push("s", "p")
            self._push("t", "q")
            if self.batch % 10 == 0:
                n = self.batch // 10
                self.service.update(
                    f"INSERT DATA {{ {triple(f'a{n % 7}', n % 5, 'k')} }} ; "
                    f"DELETE DATA {{ {triple(f'a{(n + 3) % 7}', (n + 3) % 5, 'k')} }}"
                )
            if self.batch % 50 == 0:
                self.service.collect()
            self.clock.advance(BATCH_MS)

    def _push(self, stream: str, predicate: str) -> None:
        triples = (triple(f"a{(self.batch + n) % 97}", (self.batch * n) % 53, predicate) for n in range(40))
        data = "\n".join(triples).encode()
        self.service.push(stream, data, "application/n-triples", timestamp=self.batch * BATCH_MS, wait="evaluated")

    def pages(self) -> tuple[int, int]:
        """Of the file: in use, and free."""
        backend: Any = self.service.store.kv
        with backend._environment.begin() as transaction:
            stats = [transaction.stat(table) for table in backend._tables.values()]
        used = sum(stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"] for stat in stats)
        return used, int(backend._environment.info()["last_pgno"]) - used


def live(folder: Path, warm_up: int, half: int) -> None:
    """After the warm-up, two halves: the second must need no more than the first one did."""
    clock = ManualClock(1_000_000)
    with opened(folder, clock, retain=Retain(snapshots_ms=2_000, emissions_ms=5_000)) as service:
        for stream in "st":
            service.create_stream(stream, {"retention": "1s"})
        for text in QUERIES:
            service.register(text)
        life = Life(service, clock)
        life.go_on(warm_up)
        found = []
        for _ in range(2):
            life.go_on(half)
            found.append((resident_bytes(), *life.pages()))
        errors = {query.name: service.query_status(query.name)["error"] for query in service.queries()}
        assert errors == dict.fromkeys(errors)
        assert service.query_status("joined")["emissions"] == (warm_up + 2 * half) * BATCH_MS // 1000
    (memory, used, free), (memory_then, used_then, free_then) = found
    assert memory_then - memory < 5 << 20, found
    assert used_then < 1.1 * used + 20, found
    assert free_then < 1.2 * free + 100, found


@pytest.fixture(autouse=True)
def small_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are full before the halves begin."""
    monkeypatch.setattr("hbase_store.reading.RECENT_STREAM_BYTES", 1 << 20)
    monkeypatch.setattr("stream_ext.emissions.subscriptions._RECENT_BYTES_MAX", 1 << 20)


def test_memory_and_disk_are_flat_once_windows_are_full(tmp_path: Path) -> None:
    live(tmp_path, 1_200, 400)


def test_streams_and_queries_that_come_and_go_leave_nothing_behind(tmp_path: Path) -> None:
    clock = ManualClock(1_000_000)
    with opened(tmp_path, clock, retain=Retain(snapshots_ms=1_000, emissions_ms=1_000)) as service:

        def come_and_go(count: int) -> None:
            for number in range(count):
                stream, select = f"s{number}", ("SELECT ?x", "CONSTRUCT { ?x :m ?y }")[number % 2]
                service.create_stream(stream, {"idle": "5s"})
                for query, window in ((f"a{number}", WINDOW), (f"b{number}", "RANGE 1s")):
                    windowed = f"FROM NAMED WINDOW :w ON {stream} [{window}] WHERE {{ WINDOW :w {{ ?x :p ?y }} }}"
                    service.register(f"{P} RSTREAM {query} AS {select} {windowed}")
                for time in (1_000, 3_000):
                    service.push(stream, triple("a", "b").encode(), "text/turtle", timestamp=time, wait="evaluated")
            for number in range(count):
                for query in (f"a{number}", f"b{number}"):
                    service.drop_query(query)
                service.drop_stream(f"s{number}")
            clock.advance(600_000)
            service.collect()

        come_and_go(20)
        come_and_go(20)
        before = ours()
        come_and_go(20)
        # Twice as many queries came and went; some are in layers of the catalog that are still to be joined. What is
        # stored of dropped queries goes with the next commit, which is made after a second at the latest.

        def is_gone() -> bool:
            clock.advance(1_000)
            return not many_more_than(before)

        until(is_gone, "nothing is left of dropped queries")


def many_more_than(before: Counter[str]) -> dict[str, int]:
    return {name: count for name, count in (ours() - before).items() if count >= 40}


def ours() -> Counter[str]:
    """How many objects of each class of the engine there are."""
    gc.collect()
    kinds = (type(thing) for thing in gc.get_objects())
    return Counter(kind.__qualname__ for kind in kinds if str(kind.__module__).startswith("stream_ext."))


@pytest.mark.soak
def test_memory_and_disk_are_flat_over_hours(tmp_path: Path) -> None:
    """Of the streams' time."""
    live(tmp_path, 36_000, 36_000)
