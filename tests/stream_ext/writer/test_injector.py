"""The injector: who is published when, with whom, and in which order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hbase_store
from hbase_store import Batch, Store
from hbase_store.arrays import Ids
from hbase_store.errors import BadRow, Fenced, StoreError, StoreUnavailable, Undecided, Unwritable
from stream_ext.catalog.catalog import CatalogStep, StreamDefinition
from stream_ext.catalog.options import StreamOptions
from stream_ext.clock import ManualClock
from stream_ext.errors import BadArgument, NotWriter, OutcomeUnknown, Overload
from stream_ext.waits import Waits
from stream_ext.writer.change import HeadView, Intent
from stream_ext.writer.elements import read_push
from stream_ext.writer.gathering import Accepted, Heartbeat, Push
from stream_ext.writer.injector import Injector
from stream_ext.writer.published import PublishedBatch, Receipt
from stream_ext.writer.write_queue import PublishingPace
from tests.parts.waiting import PATIENCE_S

STREAMS = {
    1: StreamDefinition(1, "one", "http://ex/one", StreamOptions()),
    2: StreamDefinition(2, "two", "http://ex/two", StreamOptions(batch_ms=2)),
}


class Listener:
    def __init__(self) -> None:
        self.news: list[PublishedBatch] = []
        self.fault: BaseException | None = None

    def published(self, news: PublishedBatch) -> None:
        self.news.append(news)

    def late_in(self, taken: Accepted) -> int:
        return 0

    def stopped(self, error: BaseException) -> None:
        self.fault = error


class Bench:
    """An injector over a real store, with two streams and a clock that stands still."""

    def __init__(self, store: Store, pace: PublishingPace) -> None:
        self.store, self.clock, self.listener = store, ManualClock(1_000), Listener()
        batch = store.begin()
        for number, definition in STREAMS.items():
            batch.catalog("stream", number, CatalogStep("stream", number, definition).body())
        store.commit(batch)
        self.injector = Injector(store, self.clock, pace, Waits(self.clock.now_ms))
        self.injector.start(self.listener)

    def push(self, stream: int, time: int | None = 1, text: str = "a", **named: Any) -> Future[Receipt]:
        data = f'<http://ex/s> <http://ex/p> "{text}" .'.encode()
        elements = read_push(STREAMS[stream], data, "application/n-triples", time, "http://ex/")
        return self.injector.push(
            lambda arrived: Push(stream, elements, arrived, **named), len(data), STREAMS[stream].options.batch_ms
        )

    def write(self) -> Future[int]:
        def change(view: HeadView) -> Intent:
            return Intent(result=int, write=lambda batch: None)

        return self.injector.change(change)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    store = hbase_store.open(f"lmdb:{tmp_path / 'store'}")
    bench = Bench(store, PublishingPace(spacing_ms=5, batch_ms=100, queue_bytes=200))
    yield bench
    bench.injector.close()
    store.close()


def test_an_idle_writer_publishes_at_once(bench: Bench) -> None:
    assert bench.push(1).result(PATIENCE_S).snapshot == 2


def test_pushes_right_after_a_batch_wait_and_share_the_next_snapshot(bench: Bench) -> None:
    bench.push(1).result(PATIENCE_S)
    waiting = [bench.push(1), bench.push(1), bench.injector.heartbeat(Heartbeat(1, 50))]
    assert not wait(waiting, 0.02).done
    bench.clock.advance(4)
    assert not wait(waiting, 0.02).done
    bench.clock.advance(1)
    assert [(r.snapshot, r.batch) for r in (future.result(PATIENCE_S) for future in waiting)] == [(3, 2)] * 3


def test_an_element_waits_no_longer_than_its_stream_allows(bench: Bench) -> None:
    bench.push(1).result(PATIENCE_S)
    first, hasty = bench.push(1), bench.push(2)
    bench.clock.advance(2)
    assert first.result(PATIENCE_S).snapshot == hasty.result(PATIENCE_S).snapshot == 3


def test_a_change_ends_the_batch_before_it_and_waits_for_nothing(bench: Bench) -> None:
    bench.push(1).result(PATIENCE_S)
    before, change, behind = bench.push(1), bench.write(), bench.push(1)
    assert before.result(PATIENCE_S).snapshot == 3
    assert change.result(PATIENCE_S) == 4
    assert not wait([behind], 0.02).done
    bench.clock.advance(5)
    assert behind.result(PATIENCE_S).snapshot == 5


def test_acknowledgements_follow_the_order_of_the_queue(bench: Bench) -> None:
    acknowledged: list[int] = []

    def note(number: int, _: Future[Any]) -> None:
        acknowledged.append(number)

    requests: list[Future[Any]] = []
    for number in range(4):
        future: Future[Any] = bench.write() if number % 2 else bench.push(1)
        future.add_done_callback(partial(note, number))
        requests.append(future)
    bench.clock.advance(5)
    assert not wait(requests, 5).not_done
    assert acknowledged == [0, 1, 2, 3]


def test_push_marks_count_all_pushes_of_the_snapshot(bench: Bench) -> None:
    bench.push(1).result(PATIENCE_S)
    waiting = [bench.push(1, 10), bench.push(2, 7), bench.injector.heartbeat(Heartbeat(1, 30)), bench.push(1, 20)]
    bench.clock.advance(5)
    sn = waiting[-1].result(PATIENCE_S).snapshot
    marks = {move.stream: [(m.ordinal, m.time) for m in move.pushes] for move in bench.store.row(sn).moves}
    assert marks == {1: [(0, 10), (2, 30), (3, 30)], 2: [(1, 7)]}
    columns = bench.store.stream(sn, 1)
    assert columns is not None
    assert columns.push.tolist() == [0, 3]
    assert columns.time.tolist() == [10, 20]


def test_a_push_that_is_refused_leaves_no_trace_in_the_batch_of_others(bench: Bench) -> None:
    bench.push(1, 1).result(PATIENCE_S)
    good, wrong, other = bench.push(1, 5), bench.push(1, None), bench.push(1, 6)
    bench.clock.advance(5)
    with pytest.raises(BadArgument, match="takes its times from its elements"):
        wrong.result(PATIENCE_S)
    assert good.result(PATIENCE_S).snapshot == other.result(PATIENCE_S).snapshot == 3
    assert [mark.time for mark in bench.store.row(3).moves[0].pushes] == [5, 6]


def test_a_push_that_its_source_repeats_adds_nothing(bench: Bench) -> None:
    bench.push(1, source="k", seq=7).result(PATIENCE_S)
    repeated, next_one = bench.push(1, source="k", seq=7), bench.push(1, source="k", seq=8)
    again = bench.push(1, source="k", seq=8)
    bench.clock.advance(5)
    assert repeated.result(PATIENCE_S) == Receipt(0, 0, 2, 3, repeated=True)
    assert not next_one.result(PATIENCE_S).repeated
    assert again.result(PATIENCE_S).repeated
    assert bench.store.vts(3)[1].sources == {"k": 8}


def test_only_repeated_pushes_make_no_snapshot(bench: Bench) -> None:
    bench.push(1, source="k", seq=7).result(PATIENCE_S)
    repeated = bench.push(1, source="k", seq=3)
    bench.clock.advance(5)
    assert repeated.result(PATIENCE_S).snapshot == 2
    assert bench.injector.head == 2


def test_a_full_queue_asks_to_come_back(bench: Bench) -> None:
    bench.push(1).result(PATIENCE_S)
    for _ in range(6):
        bench.push(1)
    with pytest.raises(Overload) as caught:
        bench.push(1, text="x" * 60)
    assert caught.value.retry_after_s == 1
    bench.clock.advance(5)


def test_so_many_heartbeats_may_wait_and_one_more_is_asked_to_come_back(tmp_path: Path) -> None:
    store = hbase_store.open(f"lmdb:{tmp_path / 'store'}")
    bench = Bench(store, PublishingPace(spacing_ms=5, batch_ms=100, queue_requests=3))
    bench.push(1).result(PATIENCE_S)
    waiting = [bench.injector.heartbeat(Heartbeat(1, n)) for n in range(3)]
    for one_more in (lambda: bench.injector.heartbeat(Heartbeat(1, 9)), lambda: bench.push(1), bench.write):
        with pytest.raises(Overload, match="3 requests are waiting"):
            one_more()
    bench.clock.advance(5)
    assert not wait(waiting, 5).not_done
    bench.injector.close()
    store.close()


def test_a_change_that_fails_publishes_nothing(bench: Bench) -> None:
    def fails_before(view: HeadView) -> Intent:
        raise BadArgument("no")

    def fails_in_writing(view: HeadView) -> Intent:
        def write(batch: hbase_store.Batch) -> None:
            batch.insert(*(np.array([number], np.uint64) for number in (1, 2, 3, 0)))
            raise BadArgument("no")

        return Intent(result=int, write=write)

    for change in (fails_before, fails_in_writing):
        with pytest.raises(BadArgument):
            bench.injector.change(change).result(PATIENCE_S)
    assert bench.injector.head == bench.store.refresh() == 1
    assert bench.push(1).result(PATIENCE_S).snapshot == 2


def test_a_change_that_says_nothing_makes_no_snapshot_if_it_wants_none(bench: Bench) -> None:
    head = bench.push(1).result(PATIENCE_S).snapshot
    nothing = Intent(result=int, write=lambda batch: None, skips_empty=True)
    assert bench.injector.change(lambda view: nothing).result(PATIENCE_S) == head
    assert bench.write().result(PATIENCE_S) == head + 1


def test_a_change_that_no_row_can_hold_fails_by_itself(bench: Bench) -> None:
    def too_large(batch: Batch) -> None:
        batch.catalog("note", 1, bytes(5 << 20))

    failed = bench.injector.change(lambda _: Intent(result=int, write=too_large))
    with pytest.raises(Unwritable):
        failed.result(PATIENCE_S)
    assert bench.push(1).result(PATIENCE_S).snapshot == 2
    assert bench.listener.fault is None


def test_a_push_that_no_row_can_hold_fails_by_itself(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    encode = Batch.encode_transient

    def refused(batch: Batch, texts: Sequence[bytes]) -> Ids:
        if b'"bad"' in texts:
            raise BadRow("too large")
        return encode(batch, texts)

    monkeypatch.setattr(Batch, "encode_transient", refused)
    bench.push(1).result(PATIENCE_S)
    good, bad, other = bench.push(1), bench.push(1, text="bad"), bench.push(2)
    bench.clock.advance(5)
    with pytest.raises(BadRow):
        bad.result(PATIENCE_S)
    assert (good.result(PATIENCE_S).batch, other.result(PATIENCE_S).batch) == (2, 1)
    assert bench.listener.fault is None


@pytest.mark.parametrize("error", [StoreUnavailable("the region moves"), StoreError("a fold failed")])
def test_a_store_that_takes_no_batch_for_a_while_is_reported_to_those_who_write_then(
    bench: Bench, error: StoreError, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails_once(bench, monkeypatch, error)
    with pytest.raises(StoreError, match=str(error)):
        bench.push(1).result(PATIENCE_S)
    assert bench.push(1).result(PATIENCE_S).snapshot == 2
    assert bench.listener.fault is None


def test_what_nobody_would_send_again_waits_until_the_store_answers(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_ext.retry._PAUSE_MS", 0)
    fails_once(bench, monkeypatch, StoreUnavailable("the region moves"))
    element = read_push(STREAMS[1], b"<http://ex/s> <http://ex/p> 1 .", "text/turtle", 1, "http://ex/")
    emitted = bench.injector.derived(Push(1, element, 0, "query/1", 1))
    assert emitted.result(PATIENCE_S).snapshot == 2
    fails_once(bench, monkeypatch, StoreUnavailable("the region moves"))
    assert bench.injector.derived(Heartbeat(1, 50)).result(PATIENCE_S).snapshot == 3
    assert bench.listener.fault is None


def fails_once(bench: Bench, monkeypatch: pytest.MonkeyPatch, error: StoreError) -> None:
    begin = bench.store.begin

    def fails(_: object) -> Batch:
        monkeypatch.setattr(bench.store, "begin", begin)
        raise error

    monkeypatch.setattr(bench.store, "begin", fails)


def test_a_writer_that_is_fenced_stops_and_says_so_to_all(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fenced(_: object) -> int:
        raise Fenced("another writer took over")

    monkeypatch.setattr(bench.store, "commit", fenced)
    first = bench.push(1)
    with pytest.raises(NotWriter, match=r"another writer took over\. Nothing of this request was applied"):
        first.result(PATIENCE_S)
    bench.injector.close()
    with pytest.raises(NotWriter):
        bench.push(1)
    assert isinstance(bench.listener.fault, Fenced)
    assert bench.injector.status()["fault"] == "Fenced: another writer took over"


@pytest.mark.parametrize("error", [StoreUnavailable("nobody answers"), Undecided("who knows"), ValueError("our bug")])
def test_a_writer_that_stops_while_it_commits_says_that_the_outcome_is_unknown(
    bench: Bench, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_ext.retry._GIVE_UP_MS", 0)

    def fails(_: object) -> int:
        raise error

    monkeypatch.setattr(bench.store, "commit", fails)
    with pytest.raises(
        OutcomeUnknown, match=r"it is not known whether the request was written\. Check the snapshots after 1"
    ):
        bench.push(1).result(PATIENCE_S)
    bench.injector.close()
    with pytest.raises(NotWriter, match=r"[nN]othing of this request was applied"):
        bench.push(1)


def test_a_fault_after_the_commit_is_no_refusal(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(news: PublishedBatch) -> None:
        raise Fenced("it is the listener who is fenced")

    monkeypatch.setattr(bench.listener, "published", fails)
    with pytest.raises(OutcomeUnknown):
        bench.push(1).result(PATIENCE_S)
    assert bench.store.refresh() == 2, "it is there"


def test_an_injector_that_was_halted_refuses_what_waits_and_follows_what_others_publish(bench: Bench) -> None:
    bench.push(1).result(PATIENCE_S)
    waiting = bench.push(1)
    bench.injector.halt(Fenced("another took over"))
    with pytest.raises(NotWriter):
        waiting.result(PATIENCE_S)
    bench.injector.close()
    batch = bench.store.begin()
    batch.catalog("stream", 2, None)
    bench.store.commit(batch)
    bench.injector.follow()
    assert (bench.injector.head, set(bench.injector.catalog.streams)) == (3, {1})


def test_what_is_queued_is_written_before_the_writer_ends(bench: Bench) -> None:
    bench.push(1).result(PATIENCE_S)
    waiting = bench.push(1)
    bench.injector.close()
    assert waiting.result(0).snapshot == 3
