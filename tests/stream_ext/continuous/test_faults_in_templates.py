"""A query that cannot be stepped falls out of the network that it shares; the others say what they say without it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from stream_ext.continuous.run import Run
from stream_ext.service.service import Service
from tests.stream_ext.continuous.broken import after_evaluations
from tests.stream_ext.opened import emissions_of, open_service, push, registration, triple

COUNT = 21
NAMES = [f"q{number}" for number in range(COUNT)]


def begin(service: Service, r2s: str) -> None:
    service.create_stream("s", {})
    for number in range(COUNT):
        text = registration(NAMES[number], window="RANGE PT2S STEP PT1S", pattern=f"?x :p :n{number}", r2s=r2s)
        service.register(text.replace("SELECT ?x ?y", "SELECT ?x"))


def say(service: Service, times: Sequence[int], chance: random.Random) -> None:
    for time in times:
        new = [triple(f"a{chance.randrange(5)}", f"n{chance.randrange(COUNT)}") for _ in range(10)]
        push(service, "s", time * 500, *new)


class Faults:
    """Steps of these queries fail, in whichever network they are."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.queries: set[int] = set()
        self.evaluations = 0
        after_evaluations(monkeypatch, self._fail)  # the network has taken it in already

    def _fail(self, run: Run, time: int) -> None:
        self.evaluations += 1
        if faulty := self.queries & set(run.numbers):
            raise ArithmeticError(f"queries {sorted(faulty)}")


def observed(service: Service) -> dict[str, list[dict[str, Any]]]:
    return {name: emissions_of(service, name) for name in NAMES}


def expected(folder: Path, r2s: str, count: int) -> dict[str, list[dict[str, Any]]]:
    service, chance = open_service(folder), random.Random(1)
    begin(service, r2s)
    say(service, range(1, count), chance)
    found = observed(service)
    service.close()
    return found


@pytest.mark.parametrize("r2s", ["RSTREAM", "ISTREAM"])
@pytest.mark.parametrize("faulty", [["q0"], ["q7"], ["q20"], ["q3", "q4", "q19"]])
def test_only_those_whose_fault_it_is_fail(
    r2s: str, faulty: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = expected(tmp_path / "whole", r2s, 60)
    faults, chance = Faults(monkeypatch), random.Random(1)
    service = open_service(tmp_path / "faulty")
    begin(service, r2s)
    say(service, range(1, 21), chance)
    said_before = observed(service)
    faults.queries = {service.query_definition(name).number for name in faulty}
    faults.evaluations = 0
    say(service, range(21, 40), chance)
    assert faults.evaluations < 300, "each fault is looked for once"
    for name in NAMES:
        status = service.query_status(name)
        assert status["state"] == ("failed" if name in faulty else "running"), name
        number = service.query_definition(name).number
        assert status["error"] == (f"ArithmeticError: queries [{number}]" if name in faulty else None)
    service.close()
    service = open_service(tmp_path / "faulty")  # built anew, they fail again: no other does
    say(service, range(40, 60), chance)
    for name in NAMES:
        assert service.query_status(name)["state"] == ("failed" if name in faulty else "running"), name
        assert emissions_of(service, name) == (said_before if name in faulty else whole)[name], name
    service.close()


def test_where_all_fail_all_are_reported_and_the_service_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_ext.continuous.faulty_runs._TRIES_MAX", 8)
    faults, chance = Faults(monkeypatch), random.Random(1)
    service = open_service(tmp_path)
    begin(service, "RSTREAM")
    service.register(registration("other", pattern="?y :p ?x"))
    say(service, range(1, 10), chance)
    faults.queries = {service.query_definition(name).number for name in NAMES}
    faults.evaluations = 0
    say(service, range(10, 20), chance)
    assert faults.evaluations < 60
    assert {service.query_status(name)["state"] for name in NAMES} == {"failed"}
    assert service.query_status("other")["state"] == "running"
    assert len(emissions_of(service, "other")) == 9
    service.drop_query("q3")
    service.close()
