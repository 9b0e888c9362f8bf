"""A past that is replayed by several tasks is, to the byte and to the number, the one that a server replays itself.

python -m tests.stream_ext.runners.replays.test_replays SEED"""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

import pytest

from stream_ext.continuous.catching_up.turns import TurnLimits
from stream_ext.errors import RilletError
from stream_ext.runners.replays import replay, replays, stretches, task
from stream_ext.service import engine
from stream_ext.service.service import Limits, Service
from tests.parts.waiting import until
from tests.stream_ext.opened import open_service, opened
from tests.stream_ext.runners.replays.stories import JobsHere, Story, play_seeds

_QUERIES = 6
#: The number of the snapshot of the registration: what a CONSTRUCT emits is pushed meanwhile, sooner or later.
_SNAPSHOT = re.compile(rb'"snapshot":\d+,')


def register(service: Service, texts: list[str]) -> list[str]:
    names = []
    for number, text in enumerate(texts):
        try:
            service.register(text)
        except RilletError:
            continue  # rejected by name
        names.append(f"q{number}")
    return names


def emitted(service: Service, names: list[str]) -> dict[str, list[bytes]]:
    for name in names:
        until(lambda: service.query_status(name)["state"] != "running", f"the end of {name}")  # noqa: B023  waited for here
    return {name: [_SNAPSHOT.sub(b"", each.json) for each in service.emissions(name, 0, None)] for name in names}


def play(seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    chance, did = random.Random(f"tasks {seed}"), Counter[str]()
    monkeypatch.setattr(replays, "LEAST_S", float("inf"))
    with opened(folder / "one") as service:
        Story(seed).tell(service)
        names = register(service, texts := _texts(seed))
        expected = emitted(service, names)
        states = {name: service.query_status(name) for name in names}
    jobs = JobsHere(chance, chance.choice([0.0, 0.0, 0.05, 0.3]))
    monkeypatch.setattr(replays, "LEAST_S", 0.0)
    monkeypatch.setattr(engine, "ReplayProcesses", lambda lanes: jobs)
    monkeypatch.setattr(stretches, "_STRETCH_S", chance.choice([0.0005, 0.005, 5.0]))
    monkeypatch.setattr(task, "_PIECE_EVALUATIONS", chance.choice([5, 20, 256]))
    monkeypatch.setattr(replay, "RESULT_BYTES", chance.choice([2000, 20_000, 1 << 20]))
    jobs.is_ready = chance.random() < 0.6  # else the server begins itself
    if not jobs.is_ready:
        monkeypatch.setattr(Limits, "pace", TurnLimits(50, None, 20, None))
    service = open_service(folder / "several")
    jobs.store = service._opened.store
    try:
        Story(seed).tell(service)
        assert register(service, texts) == names
        jobs.is_ready = True
        if chance.random() < 0.5:  # it ends in the middle, and begins again
            for _ in range(chance.randrange(3)):
                service.close()
                did["restarts"] += 1
                service = open_service(folder / "several")
                jobs.store = service._opened.store
        found = emitted(service, names)
        for name, own in expected.items():
            text = texts[int(name[1:])]
            assert found[name] == own, f"seed {seed}, {text}"
            status = service.query_status(name)
            assert status["emissions"] == states[name]["emissions"]
            assert (status["evaluated"] or {}).get("time") == (states[name]["evaluated"] or {}).get("time")
            did["emissions"] += len(own)
        did["queries"] += len(names)
    finally:
        service.close()
    did.update(stretches=jobs.stretches, failed=jobs.failed, ended_early=jobs.ended_early)
    return did


def _texts(seed: int) -> list[str]:
    return Story(-seed - 1).texts(_QUERIES)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("block", range(3))
def test_what_several_tasks_replay_is_what_one_process_replays(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    did = Counter[str]()
    for seed in range(block * 4, block * 4 + 4):
        with monkeypatch.context() as patched:
            did += play(seed, tmp_path / str(seed), patched)
    assert did["stretches"] > did["queries"] and did["emissions"] > 100, did


@pytest.mark.soak
@pytest.mark.parametrize("block", range(20))
def test_it_is_so_in_many_stories(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(1000 + block * 20, 1020 + block * 20):
        with monkeypatch.context() as patched:
            play(seed, tmp_path / str(seed), patched)


if __name__ == "__main__":
    play_seeds(play)
