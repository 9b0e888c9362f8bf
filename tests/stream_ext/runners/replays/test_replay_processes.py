"""Processes replay a past; whichever of them is killed, and whatever else happens, nothing is lost or doubled."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from hbase_store.errors import StoreUnavailable
from stream_ext.continuous.catching_up.turns import TurnLimits
from stream_ext.runners.replays import by_processes, replay, replays
from stream_ext.service.engine import Engine
from stream_ext.service.service import Limits, Service
from tests.end_to_end.process import Process
from tests.parts.waiting import until
from tests.stream_ext.opened import NDJSON, open_service, opened, push, push_lines, registration, triple
from tests.stream_ext.runners.spark.processes import family

CLOSES = 2000
SHORT_TURNS = TurnLimits(50, None, 50, None)
QUERY = "application/sparql-query"
_SNAPSHOT = re.compile(rb'"snapshot":\d+,')
TEXT = registration(
    "past", window=f"START 0 END {CLOSES * 10} STEP 10ms", pattern="?x :p ?y . ?y :p ?z", select="SELECT ?x ?z",
    r2s="ISTREAM",
)  # fmt: skip


#: Too much for one turn is due in one push.
MISSED = registration("missed", "late", "RANGE 2s STEP 10ms", "?x :p ?y . ?y :p ?z", "ISTREAM", "SELECT ?x ?z")
LINES = [
    {"timestamp": number * 120, "data": "\n".join([triple(f"a{number % 7}", f"a{number % 5}"), triple("b", number)])}
    for number in range(200)
]


def fill(service: Service) -> None:
    service.create_stream("s", {"retention": "1h"})
    service.create_stream("late", {"retention": "1h"})
    for number in range(40):
        push(service, "s", number * CLOSES // 4, triple(f"a{number % 7}", f"a{number % 5}"), triple("b", number))


def emitted(service: Service) -> list[bytes]:
    until(lambda: service.query_status("past")["state"] == "ended", "the end of the past")
    return [_SNAPSHOT.sub(b"", each.json) for each in service.emissions("past", 0, None)]


def caught_up(service: Service) -> list[bytes]:
    service._engine.await_evaluated(service.head(), 60)
    return [_SNAPSHOT.sub(b"", each.json) for each in service.emissions("missed", 0, None)]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    with opened(tmp_path_factory.mktemp("one")) as service:
        fill(service)
        service.register(TEXT)
        return emitted(service)


@pytest.fixture(scope="module")
def expected_of_missed(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    with opened(tmp_path_factory.mktemp("missed")) as service:
        fill(service)
        service.register(MISSED)
        push_lines(service, "late", *LINES)
        found = caught_up(service)
        assert len(found) > 100
        return found


@contextmanager
def divided(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setattr(replays, "LEAST_S", 0.0)
    monkeypatch.setattr(by_processes, "LOWEST_PRIORITY", 0)  # tests would wait for all others
    with opened(folder, limits=Limits(push_readers=2)) as service:
        fill(service)
        service.register(TEXT)
        yield service


def task_processes(pid: int | None = None) -> set[int]:
    """Of the server; None: of this process."""
    found = set[int]()
    for child in family(os.getpid() if pid is None else pid):
        with suppress(OSError):
            if b"stream_ext.task_process" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.add(child)
    return found


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def test_a_process_that_is_killed_costs_nothing_and_none_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: list[bytes]
) -> None:
    with divided(tmp_path, monkeypatch) as service:
        until(lambda: task_processes() or emitted_some(service), "the first process")
        status = service.query_status("past")
        if status["replay"] is not None:
            assert (status["replay"]["by"], status["replay"]["tasks"]) == ("processes beside the server", 2)
            assert "its past is replayed by 2 tasks" in status["why"]
        for pid in task_processes():
            kill(pid)
        assert emitted(service) == expected
        until(lambda: not task_processes(), "their end")
        until(lambda: service.query_status("past")["replay"] is None, "the end of the replay")
        assert service.query_status("past")["core_ms"] > 0


def test_a_process_that_is_killed_while_a_query_catches_up_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected_of_missed: list[bytes]
) -> None:
    monkeypatch.setattr(replays, "LEAST_S", 0.0)
    monkeypatch.setattr(by_processes, "LOWEST_PRIORITY", 0)
    monkeypatch.setattr(Limits, "pace", SHORT_TURNS)
    with opened(tmp_path, limits=Limits(push_readers=2)) as service:
        fill(service)
        service.register(MISSED)
        push_lines(service, "late", *LINES, wait="published")
        until(task_processes, "the first process")
        status = service.query_status("missed")
        assert status["replay"] is None or "what it has missed is evaluated by 2 tasks" in status["why"]
        for pid in task_processes():
            kill(pid)
        assert caught_up(service) == expected_of_missed
        until(lambda: not task_processes(), "their end")
        push_lines(service, "late", {"timestamp": 30_000, "data": triple("c", 1)})


def emitted_some(service: Service) -> bool:
    return bool(service.query_status("past")["emissions"])


def test_a_query_whose_processes_die_again_and_again_is_parked_at_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    park, tried = Engine._park, list[str]()

    def parked_the_second_time(engine: Engine, query: int, why: str, sn: int) -> bool:
        tried.append(why)
        if len(tried) == 1:
            raise StoreUnavailable("it does not answer now")
        return park(engine, query, why, sn)

    monkeypatch.setattr(Engine, "_park", parked_the_second_time)
    monkeypatch.setattr(replay, "_PARK_AGAIN_S", 0.01)
    with divided(tmp_path, monkeypatch) as service:

        def is_parked() -> bool:
            for pid in task_processes():
                kill(pid)
            return bool(service.query_status("past")["state"] == "parked")

        until(is_parked, "giving up")
        assert "died again and again" in service.query_status("past")["error"]
        push(service, "s", 90_000, triple("c", 1))


def test_a_drop_and_a_stop_end_the_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with divided(tmp_path, monkeypatch) as service:
        until(task_processes, "the first process")
        service.drop_query("past")
        until(lambda: not task_processes(), "their end")
        service.register(TEXT)
        until(task_processes, "the first process")
    assert not task_processes()


@pytest.mark.timeout(240)
def test_a_server_that_is_killed_goes_on_after_what_is_stored(
    tmp_path: Path, expected: list[bytes], expected_of_missed: list[bytes]
) -> None:
    before = (
        "from stream_ext.runners.replays import by_processes, replay, replays\n"
        "replays.LEAST_S, replay.RESULT_BYTES, by_processes.LOWEST_PRIORITY = 0, 20_000, 0\n"
        "from stream_ext.continuous.catching_up.turns import TurnLimits\n"
        "from stream_ext.service.opened import Limits\n"
        "Limits.pace = TurnLimits(50, None, 50, None)"
    )
    flags = ("--push-readers", "2")
    server = Process(f"lmdb:{tmp_path / 'store'}", "inline", tmp_path / "log", *flags, before=before)
    with open_service(tmp_path) as service:
        fill(service)
    try:
        server.start()
        with server.client() as client:
            for text in (MISSED, TEXT):
                client.post("/queries", content=text, headers={"content-type": QUERY}).raise_for_status()
            lines = "\n".join(map(json.dumps, LINES))
            client.post("/streams/late", content=lines, headers={"content-type": NDJSON}).raise_for_status()
            server.until(lambda: client.get("/queries/past").json()["emissions"] > len(expected) // 5)
            assert server._process is not None, "it runs"
            children = task_processes(server._process.pid)
            server.kill()
            until(lambda: not any(Path(f"/proc/{pid}/stat").exists() for pid in children), "their end")
            server.start()
            server.until(lambda: client.get("/queries/past").json()["state"] == "ended")
            server.until(lambda: client.get("/queries/missed").json()["behind"] is None)
    finally:
        server.stop()
    with open_service(tmp_path) as service:
        assert emitted(service) == expected
        assert caught_up(service) == expected_of_missed
