"""Stopped, or killed, and opened again: nothing is lost, and nothing is said twice."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hbase_store.errors import AnotherWriter
from stream_ext.errors import RilletError
from stream_ext.service.service import Service
from tests.parts.processes import started
from tests.stream_ext.opened import EX, emissions_of, open_service, opened, push, registration, times, triple, values

QUERIES = {
    "all": registration("all", window="RANGE PT3S STEP PT1S"),
    "new": registration("new", window="RANGE PT2S STEP PT1S", r2s="ISTREAM"),
    "rare": registration("rare", window="RANGE PT50S STEP PT50S", select="ASK"),
}
PUSHES = 120


def push_number(service: Service, number: int, **named: Any) -> None:
    push(service, "s", number * 300, triple(f"a{number % 7}", number), source="test", seq=number, **named)


def register_all(service: Service) -> None:
    for text in QUERIES.values():
        service.register(text)


def observed(service: Service) -> dict[str, list[tuple[Any, ...]]]:
    return {
        name: [
            (e["emission"], e["time"], e.get("boolean"), values(e) if "results" in e else None)
            for e in emissions_of(service, name)
        ]
        for name in QUERIES
    }


def uninterrupted(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    with opened(folder) as service:
        register_all(service)
        for number in range(PUSHES):
            push_number(service, number, wait="published")
        push_number(service, PUSHES)
        return observed(service)


def test_a_service_that_is_opened_again_continues_with_the_next_emission(tmp_path: Path) -> None:
    with opened(tmp_path / "whole") as service:
        register_all(service)
        for number in range(30):
            push_number(service, number)
        expected = observed(service)
    for first in range(0, 30, 7):
        with opened(tmp_path) as service:
            register_all(service)
            for number in range(first, min(30, first + 7)):
                push_number(service, number)
    with opened(tmp_path) as service:
        assert observed(service) == expected


def test_lateness_is_decided_as_if_nothing_had_happened(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.register(registration(window="RANGE PT1S STEP PT1S"))
        push(service, "s", 100, triple("a", 1))
        push(service, "s", 2500, triple("a", 1))
    with opened(tmp_path) as service:
        assert push(service, "s", 1900, triple("a", 1)).late == 1
        assert push(service, "s", 2100, triple("a", 1)).late == 0


def test_a_dropped_query_stays_away_and_its_name_starts_anew(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.register(registration())
        push(service, "s", 1500, triple("a", 1))
        push(service, "s", 2500, triple("a", 1))
        service.drop_query("q")
    with opened(tmp_path) as service:
        assert service.queries() == []
        service.register(registration())
        push(service, "s", 3500, triple("a", 2))
        assert [(e["emission"], e["time"]) for e in emissions_of(service)] == [(1, 3000)]


def test_silent_snapshots_are_stored_at_the_close(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        for number in range(5):
            service.update(f"INSERT DATA {{ {triple('a', number)} }}", wait="evaluated")
    with opened(tmp_path) as service:
        assert service.store.emissions.position() == 5


def test_what_was_published_but_not_evaluated_is_evaluated_later(tmp_path: Path) -> None:
    service = open_service(tmp_path)
    service.register(registration(window="RANGE PT1S STEP PT1S"))
    service._engine.inline.close()  # a runner that is slow, or dead
    push(service, "s", 100, triple("a", 1), wait="published")
    push(service, "s", 2100, triple("b", 2), wait="published")
    assert emissions_of(service) == []
    service.close()
    with opened(tmp_path) as service:
        service._engine.merge.wait(service.head(), 10)
        assert times(emissions_of(service)) == [1000, 2000]


def test_one_writer_at_a_time_and_the_next_one_when_it_has_closed(tmp_path: Path) -> None:
    with opened(tmp_path):
        script = "import sys, hbase_store; hbase_store.open(sys.argv[1]).take_lease('')"
        other = subprocess.run(
            [sys.executable, "-c", script, f"lmdb:{tmp_path / 'store'}"], capture_output=True, text=True
        )
        assert AnotherWriter.__name__ in other.stderr
    with opened(tmp_path) as service:
        service.close()
        service.close()
        with pytest.raises(RilletError, match="closed"):
            service.create_stream("s", {})


def run_until_killed(folder: Path, pushes: int) -> None:
    """A process that pushes as fast as it can, killed after it has acknowledged so many."""
    command = [sys.executable, "-m", "tests.stream_ext.service.test_restart", folder]
    with started(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(pushes):
            assert process.stdout.readline(), "it ended before it was killed"
        process.send_signal(signal.SIGKILL)


def test_a_service_that_is_killed_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    expected = uninterrupted(tmp_path / "whole")
    for pushes in (25, 70):  # the second one begins with what the first one has pushed
        run_until_killed(tmp_path, pushes)
    with opened(tmp_path) as service:
        first = service.store.vts(service.head())[service.stream("s").number].sources["test"] + 1
        assert first >= 70, "what was acknowledged is there"
        for number in range(first, PUSHES):
            push_number(service, number, wait="published")
        push_number(service, PUSHES)
        assert observed(service) == expected


def main(folder: Path) -> None:
    service = open_service(folder)
    register_all(service)
    for number in range(PUSHES):
        push_number(service, number, wait="published")
        print(number, flush=True)
    sys.stdin.read()  # never comes to its end by itself


if __name__ == "__main__":
    main(Path(sys.argv[1]))


@pytest.mark.parametrize("window", ["NOW", "RANGE 2s", "TRIPLES 1", "RANGE 2s SLIDE 1s", "ELEMENTS 2 STEP 2"])
def test_after_a_crash_it_is_known_what_was_evaluated_without_a_word(window: str, tmp_path: Path) -> None:
    """The copy of the folder is what a killed process leaves: the evaluations at 5000 and 6000 emitted nothing, so no
    state knows of them yet."""
    found = {}
    with opened(tmp_path / "one") as service:
        service.register(f"PREFIX : <{EX}> REGISTER QUERY q AS SELECT ?x {{ STREAM s [{window}] {{ ?x :p :never }} }}")
        for time in (1_000, 5_000, 6_000):
            push(service, "s", time, triple("a", "b"), triple("c", "d"))
        shutil.copytree(tmp_path / "one", tmp_path / "killed")
        found["calm"] = [push(service, "s", time, triple("e", "f")).late for time in (900, 4_500, 5_500, 7_000)]
    with opened(tmp_path / "killed") as service:
        found["killed"] = [push(service, "s", time, triple("e", "f")).late for time in (900, 4_500, 5_500, 7_000)]
    assert found["killed"] == found["calm"]
    assert sum(found["calm"]), "else this proves nothing"
