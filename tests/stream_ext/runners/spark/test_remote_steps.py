"""Tasks on other machines: encrypted, without our files, and nobody here can kill them. Processes of this machine stand
for them."""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stream_ext.clock import SystemClock
from stream_ext.frames import exactly
from stream_ext.runners.spark import tls, wire
from stream_ext.runners.spark.bell import Bell
from stream_ext.runners.spark.remote_steps import RemoteSteps
from stream_ext.runners.spark.settings import SparkSettings
from tests.parts.waiting import until
from tests.stream_ext.opened import emissions_of, opened, push, registration, triple
from tests.stream_ext.runners.spark import dangerous
from tests.stream_ext.runners.spark.kills import OF_WORKERS, play
from tests.stream_ext.runners.spark.test_shards_on_spark import all_on_spark, living, with_seats


@pytest.fixture
def remote_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    with_seats(monkeypatch)
    monkeypatch.setattr(SparkSettings, "is_reached_from_other_machines", True)
    monkeypatch.setattr("stream_ext.runners.spark.bell.kill_worker", lambda worker: None)
    welcome = Bell._welcome

    def without_files(self: Bell, *arguments: Any) -> wire.Welcome:
        return msgspec.structs.replace(welcome(self, *arguments), underway="/nowhere/underway")

    monkeypatch.setattr(Bell, "_welcome", without_files)


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("remote_steps")
def test_workers_on_other_machines_that_die_change_nothing(tmp_path: Path) -> None:
    settings = SparkSettings(epoch_s=0.3, warmup_epochs=1, shards=2, step_timeout_s=4)
    did = play(3, tmp_path, settings, {"kill a worker": OF_WORKERS["kill a worker"]}, pushes=24, rest=8)
    assert did["emissions"] > 50 and did["kill a worker"], did


@pytest.fixture
def dangerous_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in dangerous.begin(tmp_path).items():
        monkeypatch.setenv(name, value)
    dangerous.register()
    yield
    dangerous.unregister()


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("remote_steps", "dangerous_functions")
def test_one_that_hangs_far_away_ends_itself_and_it_is_known_what_it_was_stepping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[Any] = []
    monkeypatch.setattr("stream_ext.runners.quarantine.Quarantine.hold", lambda self, death: held.append(death))
    settings = SparkSettings(epoch_s=60, warmup_epochs=0, shards=1, step_timeout_s=1.0, shard_factory=dangerous.FACTORY)
    with opened(tmp_path, SystemClock(), engine="spark", spark=settings) as service:
        service.create_stream("s", {})
        service.register(registration("good", window="RANGE 1s STEP 1s"))
        service.register(registration("bad", window="RANGE 1s STEP 1s", pattern="?x :p ?y FILTER(:hangs(?y))"))
        until(lambda: all_on_spark(service), "Spark has the queries")
        (worker,) = living(service)
        ended = os.pidfd_open(worker)
        push(service, "s", 100, triple("a", dangerous.FATAL), wait="published")
        push(service, "s", 1100, triple("b", 2), wait="published")
        until(lambda: emissions_of(service, "good"), "the other query goes on inline")
        assert held and held[0].numbers is not None, held
        bad = service.query_definition("bad").number
        assert bad in held[0].numbers and "has not answered" in held[0].why
        until(lambda: has_ended(ended), "the worker has ended itself")
        os.close(ended)


def has_ended(pidfd: int) -> bool:
    return bool(select.select([pidfd], [], [], 0)[0])


def test_the_alarm_rings_for_a_step_and_not_between_two_tasks() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        underway = RemoteSteps(ours, step_limit_s=1_000, build_limit_s=5_000)
        before = signal.setitimer(signal.ITIMER_REAL, 0)
        try:
            underway.steps(7)
            assert 1_000 < signal.getitimer(signal.ITIMER_REAL)[0] <= 5_000, "it builds"
            underway.rests()
            assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
            underway.steps(8, [1, 2])
            assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 1_000, "it steps"
            underway.ends()
            assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
        finally:
            signal.setitimer(signal.ITIMER_REAL, *before)
        sent = [wire.receive_message(wire.from_seat, theirs) for _ in range(3)]
    assert sent == [wire.IsStepping(7, []), wire.Rests(), wire.IsStepping(8, [1, 2])]


@pytest.mark.usefixtures("remote_steps")
def test_a_store_that_is_elsewhere_is_named_and_the_queries_run_inline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of the server is another one than that which the workers find at the same path."""
    monkeypatch.setattr("stream_ext.runners.spark.bell.place_of_files", lambda url: "another machine/1/1")
    settings = SparkSettings(epoch_s=60, warmup_epochs=0, shards=1)
    with opened(tmp_path, SystemClock(), engine="spark", spark=settings) as service:
        service.create_stream("s", {})
        service.register(registration())
        spark = service._engine.spark
        until(lambda: "which a worker of Spark on" in spark.why, "Spark says why it is not up")
        assert f"on {socket.gethostname()} cannot read" in spark.why and "store in HBase" in spark.why, spark.why
        until(lambda: "cannot read" in service.query_status("q")["why"], "the query says it, too")
        push(service, "s", 100, triple("a", 1))
        push(service, "s", 1_100, triple("b", 2))
        assert emissions_of(service)


# ---- TLS -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def line() -> Iterator[tuple[socket.socket, tls.Identity, int]]:
    identity = tls.new_identity()
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server, identity, server.getsockname()[1]


def test_what_is_sent_arrives_both_ways_at_any_size(line: tuple[socket.socket, tls.Identity, int]) -> None:
    inner, middle = connected_by(*line)
    big = os.urandom(5_000_000)
    received: list[bytes] = []

    def answer() -> None:
        received.append(bytes(exactly(inner, len(big))))
        inner.sendall(big[::-1])

    with inner, middle:
        thread = threading.Thread(target=answer)
        thread.start()
        middle.sendall(big)
        assert bytes(exactly(middle, len(big))) == big[::-1]
        thread.join()
        assert received == [big]
        inner.sendall(b"a line that nobody else reads")
        assert bytes(exactly(middle, 29)) == b"a line that nobody else reads"
        assert not tls.has_news(middle)
        inner.sendall(b"xyz")
        until(lambda: tls.has_news(middle), "there is news")
        assert bytes(exactly(middle, 1)) == b"x" and tls.has_news(middle), "the rest is here already"
        assert bytes(exactly(middle, 2)) == b"yz"


def connected_by(server: socket.socket, identity: tls.Identity, port: int) -> tuple[socket.socket, socket.socket]:
    accepted: list[socket.socket] = []

    def accept() -> None:
        connection, _ = server.accept()
        with connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8_192)  # soon full
            accepted.append(tls.decrypted(connection, identity.context))

    thread = threading.Thread(target=accept)
    thread.start()
    theirs = tls.connect("127.0.0.1", port, identity.certificate)
    thread.join()
    return accepted[0], theirs


def test_when_one_end_closes_the_other_one_sees_it(line: tuple[socket.socket, tls.Identity, int]) -> None:
    for closes in (0, 1):
        ends = connected_by(*line)
        with ends[0], ends[1]:
            ends[closes].shutdown(socket.SHUT_RDWR)
            with pytest.raises(ConnectionError):
                exactly(ends[1 - closes], 1)
            with pytest.raises(ConnectionError):
                for _ in range(10_000):
                    ends[1 - closes].sendall(b"x" * 10_000)


def test_a_bell_with_another_certificate_is_not_spoken_to(line: tuple[socket.socket, tls.Identity, int]) -> None:
    server, identity, port = line
    heard: list[bytes] = []

    def accept() -> None:
        connection, _ = server.accept()
        with connection, tls.decrypted(connection, identity.context) as inner:
            heard.append(inner.recv(100))

    thread = threading.Thread(target=accept)
    thread.start()
    with pytest.raises(tls.BellUnreachable, match=r"cannot connect .*--spark-address.* certificate verify failed"):
        tls.connect("127.0.0.1", port, tls.new_identity().certificate)
    thread.join()
    assert heard == [b""], "nothing was said to it, the token neither"


def test_a_line_that_nobody_reads_is_not_looked_at_again_and_again_when_its_other_end_is_closed(
    line: tuple[socket.socket, tls.Identity, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    wait = tls._wait

    def noted(*arguments: Any, **named: Any) -> None:
        looked.append(1)
        wait(*arguments, **named)

    monkeypatch.setattr(tls, "_wait", noted)
    ours, theirs = connected_by(*line)
    with theirs:
        with ours:
            ours.setblocking(False)
            while select.select([], [ours], [], 1)[1]:  # until all on the way is full
                ours.send(b"x" * 100_000)
        before = len(looked)
        threading.Event().wait(1)
        assert len(looked) - before < 50
