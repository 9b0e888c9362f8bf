"""One history, written to both backends by two writers in turn: every reader of either sees the same."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import hbase_store
import hbase_store.log.emissions
from endpoint.trial_hbase.server import HBase
from hbase_store import NAMED, EmissionRow, PushMark, Sn, Store, StreamColumns, StreamMove
from hbase_store.arrays import as_ids
from hbase_store.backends.lease import LEASE_MS
from hbase_store.clock import WallClock
from hbase_store.errors import AnotherWriter, Fenced
from hbase_store.layout.terms import iri, literal
from hbase_store.terms.transient import GENERATION_MS
from hbase_store.writing.collection import GRACE_MS
from tests.hbase_store.terms.test_transient import SEVEN, A, B, P, push

pytestmark = [pytest.mark.hbase, pytest.mark.xdist_group("hbase")]

SNAPSHOTS = 12


def play(store: Store, rng: random.Random) -> None:
    """Changes, a stream that is absorbed in part, and emissions; snapshot 5 is larger than one piece."""
    n = store.head() + 1
    batch = store.begin()
    batch.time = n * 1000
    size = 200_000 if n == 5 else rng.randrange(1, 40)
    p, g, *nodes = batch.encode(
        [iri("http://ex/p"), iri("http://ex/g"), *(iri(f"http://ex/{i}") for i in range(size))]
    ).tolist()
    for change in (batch.insert, batch.delete, batch.insert):
        count = size if n == 5 else rng.randrange(size)
        change(rng.choices(nodes, k=count), p, rng.choices(nodes, k=count), rng.choices([0, g], k=count))
    values = batch.encode([literal(str(i)) for i in range(4)])
    element = np.array([0, 0, 1, 1], np.int32)
    columns = StreamColumns(
        7,
        np.array([n, n + 1]),
        as_ids([0, g]),
        np.zeros(2, np.int32),
        element,
        as_ids([nodes[0]] * 4),
        as_ids([p] * 4),
        values,
    )
    batch.stream(
        StreamMove(7, n, n + 1, pushes=[PushMark(0, n + 1)]),
        columns,
        np.array([rng.random() < 0.5] * 2 + [False, True]),
    )
    batch.catalog("query", rng.randrange(3), rng.choice([None, b"text %d" % n]))
    store.commit(batch)
    store.emissions.commit([EmissionRow(1, n, b"x" * rng.randrange(100))], {1: b"%d" % n}, Sn(n))


def observed(store: Store) -> Iterator[object]:
    """All that one can ask."""
    store.refresh()
    p = int(store.ids([iri("http://ex/p")])[0])
    for sn in range(1, SNAPSHOTS + 1):
        for graph in (0, NAMED):
            yield [store.terms(column) for column in store.at(sn).pairs(p, graph=graph)]
        rows = store.net_changes(sn)
        yield sorted(
            zip(store.terms(rows.s), store.terms(rows.o), (rows.g > 0).tolist(), rows.sign.tolist(), strict=True)
        )
        stream = store.stream(sn, 7)
        assert stream is not None
        yield (stream.time.tolist(), stream.element.tolist(), store.terms(stream.o))
        row = store.row(sn)
        yield (row.published_ms, row.moves, row.catalog, store.vts(sn), store.catalog(sn))
    log = store.emissions
    yield (list(log.read(1)), log.states(), log.position(), log.last(1))


def history(open_store: Callable[[], Store]) -> list[object]:
    rng = random.Random(21)
    with closing(open_store()) as store:
        for _ in range(SNAPSHOTS // 2):
            play(store, rng)
    with closing(open_store()) as store:
        for _ in range(SNAPSHOTS // 2):
            play(store, rng)
        assert store.row(5).slab_pieces > 1
        as_written = list(observed(store))
    with closing(open_store()) as store:
        assert list(observed(store)) == as_written
    return as_written


def test_hbase_and_lmdb_tell_the_same(hbase_server: HBase, tmp_path: Path) -> None:
    url = f"hbase://127.0.0.1:{hbase_server.thrift_port}/same_{uuid.uuid4().hex[:8]}"
    on_lmdb = history(lambda: hbase_store.open(f"lmdb:{tmp_path}/store"))
    assert history(lambda: hbase_store.open(url)) == on_lmdb


def test_a_reader_follows_a_writer_on_hbase_and_cannot_write_next_to_it(hbase_server: HBase) -> None:
    url = f"hbase://127.0.0.1:{hbase_server.thrift_port}/follow_{uuid.uuid4().hex[:8]}"
    with closing(hbase_store.open(url)) as writer, closing(hbase_store.open(url)) as reader:
        writer.take_lease("http://here:1")
        for n in range(1, 6):
            play(writer, random.Random(n))
            assert reader.refresh() == n
        assert [row.number for row in reader.emissions.read(1)] == [1, 2, 3, 4, 5]
        with pytest.raises(AnotherWriter, match="http://here:1"):
            reader.begin()


class Ahead(WallClock):
    """The machine's clock, and some more."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms

    def pass_by(self, time_ms: int, writer: Store) -> None:
        """In steps in which the writer keeps its lease: the next one would begin collecting anew."""
        for _ in range(0, time_ms, LEASE_MS // 3):
            self.ahead_ms += LEASE_MS // 3
            writer.take_lease("")


def test_terms_of_timing_data_disappear_on_hbase(hbase_server: HBase) -> None:
    url = f"hbase://127.0.0.1:{hbase_server.thrift_port}/terms_{uuid.uuid4().hex[:8]}"
    clock = Ahead()
    with closing(hbase_store.open(url, clock=clock)) as writer, closing(hbase_store.open(url)) as follower:
        push(writer, 1, [(A, P, B)])
        assert follower.terms(follower.stream(follower.refresh(), 1).s) == [A]  # type: ignore[union-attr]
        ids = writer.ids([A, P, B])
        batch = writer.begin()
        batch.insert(*batch.encode([A, P, SEVEN]), g=0)
        writer.commit(batch)
        clock.pass_by(GENERATION_MS, writer)
        last = push(writer, 1, [(B, P, A), (iri("http://ex/later"), P, A)])
        writer.fold()
        for horizon, left in ((0, ids.tolist()), (last, ids.tolist()), (last + 1, [*ids[:2].tolist(), 0])):
            if horizon == last + 1:
                clock.pass_by(GENERATION_MS, writer)
                push(writer, 1, [(A, P, SEVEN)])
            writer.floor(writer.head(), {1: horizon})
            writer.collect()
            clock.pass_by(GRACE_MS, writer)
            writer.collect()
            with closing(hbase_store.open(url)) as fresh:
                follower.refresh()
                for store in (writer, follower, fresh):
                    assert store.ids([A, P, B]).tolist() == left
                    assert store.terms(ids[:2]) == [A, P]
        epoch_and_sn = [(key[7], key[15]) for key, _ in writer.kv.scan("terms", b"", None)]
        assert all(sn > last for _, sn in epoch_and_sn)


def test_epochs_of_which_no_emission_is_left_are_forgotten_on_hbase(
    hbase_server: HBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer after the other; and one that was replaced, whose last commit reaches the store late."""
    monkeypatch.setattr(hbase_store.log.emissions, "WHOLE_EVERY", 2)
    url = f"hbase://127.0.0.1:{hbase_server.thrift_port}/epochs_{uuid.uuid4().hex[:8]}"
    clock = Ahead()
    for n in range(1, 6):
        with closing(hbase_store.open(url, clock=clock)) as store:
            store.take_lease("")
            store.emissions.take_over()
            store.emissions.collect(clock.now_ms(), {2: 2})
            store.emissions.commit([EmissionRow(query, n, b"%d" % n) for query in (1, 2)], {}, Sn(n))
            clock.ahead_ms += LEASE_MS * 2
    with closing(hbase_store.open(url)) as reader, closing(hbase_store.open(url, clock=clock)) as stale:
        reader.refresh()
        assert [granted.epoch for granted in reader.emissions.cell.head.ranges] == [3, 4, 5]
        stale.take_lease("")
        stale.emissions.take_over()
        clock.ahead_ms += LEASE_MS * 2
        with closing(hbase_store.open(url, clock=clock)) as store:
            store.take_lease("")
            store.emissions.commit([EmissionRow(query, 6, b"6") for query in (1, 2)], {}, Sn(6))
            clock.ahead_ms += 1_000
            store.emissions.collect(clock.now_ms(), {2: 4})
            with pytest.raises(Fenced):
                stale.emissions.commit([EmissionRow(1, 6, b"late")], {}, Sn(6))
            store.emissions.commit([EmissionRow(query, 7, b"7") for query in (1, 2)], {}, Sn(7))
        reader.refresh()
        assert [granted.epoch for granted in reader.emissions.cell.head.ranges] == [5, 7]
        log = reader.emissions
        assert [row.body for row in log.read(1)] == [b"7"]
        assert [row.body for row in log.read(2)] == [b"5", b"6", b"7"]
        assert (log.last(1), log.last(2), log.position()) == (7, 7, 7)
