"""Stories of stored streams, and random queries over their past: replayed by one process, and by several."""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hbase_store import Store
from stream_ext.errors import JobFailed
from stream_ext.evaluation_budget import Control
from stream_ext.runners.replays.task import EncodedTask, ReplayStretch, RunTasks, Task, _tasks, encode
from stream_ext.service.service import Service
from tests.stream_ext.opened import EX, push, triple

PREFIXES = f"PREFIX : <{EX}> PREFIX rlt: <urn:rillet:ns#>"

_ONE = [
    ("SELECT ?x ?y", "WINDOW :w { ?x :p ?y }", ""),
    ("SELECT DISTINCT ?y", "WINDOW :w { ?x :p ?y }", ""),
    ("SELECT ?x ?z", "WINDOW :w { ?x :p ?y . ?y :p ?z }", ""),
    ("SELECT ?x (COUNT(*) AS ?n) (AVG(?y) AS ?m)", "WINDOW :w { ?x :q ?y }", "GROUP BY ?x"),
    ("SELECT (COUNT(*) AS ?n) (SUM(?y) AS ?m)", "WINDOW :w { ?x :q ?y }", ""),
    ("SELECT ?x (MAX(?y) AS ?m)", "WINDOW :w { ?x :q ?y }", "GROUP BY ?x HAVING (MAX(?y) > 3) ORDER BY ?x LIMIT 2"),
    ("SELECT ?x (GROUP_CONCAT(?y) AS ?m) (SAMPLE(?y) AS ?s)", "WINDOW :w { ?x :q ?y }", "GROUP BY ?x"),
    ("SELECT ?x ?c", "WINDOW :w { ?x :p ?y } ?y :kind ?c", ""),
    ("SELECT ?x ?y ?c", "WINDOW :w { ?x :p ?y OPTIONAL { ?y :p ?c } }", ""),
    ("SELECT ?x ?y", "{ WINDOW :w { ?x :p ?y } } UNION { WINDOW :w { ?y :p ?x } }", ""),
    ("SELECT ?x", "WINDOW :w { ?x :p ?y MINUS { ?y :p ?x } }", ""),
    ("SELECT ?x", "WINDOW :w { ?x :p ?y } FILTER NOT EXISTS { ?y :kind :old }", ""),
    ("SELECT ?x ?y", "WINDOW :w { ?x :p+ ?y }", ""),
    (
        "SELECT ?x ?n",
        "WINDOW :w { ?x :p ?y } { SELECT ?x (COUNT(*) AS ?n) { WINDOW :w { ?x :q ?v } } GROUP BY ?x }",
        "",
    ),
    ("SELECT ?x ?y", "WINDOW :w { ?x :q ?y }", "ORDER BY DESC(?y) ?x LIMIT 3"),
    ("SELECT ?x (CONCAT(STR(?x), 'a') AS ?t)", "WINDOW :w { ?x :p ?y }", ""),  # not divided
    ("SELECT ?x ?y", "WINDOW :w { ?x :p ?y }", "LIMIT 3"),  # not divided
    ("SELECT ?x (RAND() AS ?r)", "WINDOW :w { ?x :p ?y }", ""),  # not divided
    ("CONSTRUCT { ?y :reached ?x }", "WINDOW :w { ?x :p ?y }", ""),
    ("CONSTRUCT { ?y :reached [ :by ?x ] }", "WINDOW :w { ?x :p ?y }", ""),  # not divided
    ("ASK", "WINDOW :w { ?x :p ?y . ?y :kind :old }", ""),
]
_TWO = [
    ("SELECT ?x ?z", "WINDOW :w { ?x :p ?y } WINDOW :v { ?y :p ?z }", ""),
    ("SELECT ?x (COUNT(*) AS ?n)", "WINDOW :w { ?x :p ?y } WINDOW :v { ?y :q ?z }", "GROUP BY ?x"),
    ("SELECT ?x", "WINDOW :w { ?x :p ?y } FILTER NOT EXISTS { WINDOW :v { ?x :q ?z } }", ""),
    ("SELECT ?x ?z", "WINDOW :w { ?x :p ?y } OPTIONAL { WINDOW :v { ?y :q ?z } }", ""),
]


@dataclass
class Story:
    seed: int
    chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.chance = random.Random(f"replays {self.seed}")

    def tell(self, service: Service) -> None:
        """Elements in order, late ones, gaps, and many at one time; over two streams."""
        chance = self.chance
        kinds = " ".join(f":n{n} :kind :{chance.choice(['old', 'new'])} ." for n in range(6))
        service.update(f"{PREFIXES} INSERT DATA {{ {kinds} }}")
        for stream in ("s", "t"):
            service.create_stream(stream, {"retention": "10h", "lateness": chance.choice([0, 500])})
        now = {"s": chance.randrange(3000), "t": chance.randrange(9000)}
        for _ in range(chance.randrange(5, 40)):
            stream = chance.choice("sst")
            leap = chance.choice([0, 1, 300, 900, 900, 2500, 30_000 if chance.random() < 0.3 else 700])
            now[stream] += leap
            late = chance.choice([0, 0, 0, 400, 3000])
            some = [self._triple() for _ in range(chance.randrange(1, 4))]
            push(service, stream, max(0, now[stream] - late), *some)
            if chance.random() < 0.1:
                service.heartbeat(stream, now[stream] + chance.choice([0, 1000]))

    def _triple(self) -> str:
        chance = self.chance
        if chance.random() < 0.4:
            return triple(f"n{chance.randrange(6)}", chance.randrange(9), "q")
        return triple(f"n{chance.randrange(6)}", f"n{chance.randrange(6)}", "p")

    def texts(self, count: int) -> list[str]:
        return [self._text(f"q{number}") for number in range(count)]

    def _text(self, name: str) -> str:
        chance = self.chance
        select, pattern, tail = chance.choice(_ONE if chance.random() < 0.7 else _TWO)
        verb = "RSTREAM" if chance.random() < 0.4 else chance.choice(["ISTREAM", "DSTREAM"])
        kind = chance.random()
        if kind < 0.2:  # CQELS-QL
            place = iter("st" * 9)
            for window in ("w", "v"):
                pattern = pattern.replace(f"WINDOW :{window} ", f"STREAM {next(place)} [{self._window(simple=True)}] ")
            return f"{PREFIXES} REGISTER {verb} {name} AS {select} WHERE {{ {pattern} }} {tail}"
        if kind < 0.35:  # C-SPARQL
            for window in ("w", "v"):
                pattern = pattern.replace(f"WINDOW :{window} ", "")
            streams = " ".join(
                f"FROM STREAM {s} [{self._window(simple=True)}]" for s in ("s", "t")[: chance.randrange(1, 3)]
            )
            return f"{PREFIXES} REGISTER {verb} {name} AS {select} {streams} WHERE {{ {pattern} }} {tail}"
        froms = f"FROM NAMED WINDOW :w ON s [{self._window()}]"
        if ":v" in pattern:
            froms += f" FROM NAMED WINDOW :v ON {chance.choice('st')} [{self._window()}]"
        return f"{PREFIXES} REGISTER {verb} {name} AS {select} {froms} WHERE {{ {pattern} }} {tail}"

    def _window(self, simple: bool = False) -> str:
        chance = self.chance
        low = chance.choice([0, 0, 1000, chance.randrange(20_000)])
        high = low + chance.choice([3000, 20_000, 60_000])
        step = f" STEP {chance.choice([100, 250, 1000, 1700])}" if chance.random() < 0.95 else ""
        text = f"START {low} END {high}{step}"
        if simple:
            return text
        report = chance.choice(
            [""] * 5 + [" REPORT WINDOW_CLOSE, NON_EMPTY_CONTENT", " REPORT WINDOW_CLOSE, PERIODIC 700ms"]
        )
        if not step:
            report = ""
        bounds = chance.choice([""] * 3 + [" BOUNDS (]", " BOUNDS []"])
        t0 = f" T0 {chance.randrange(900)}" if chance.random() < 0.2 and step else ""
        return text + report + t0 + bounds


class JobsHere:
    """Runs tasks in this process, on a store that is open; and fails now and then."""

    name, limited_by, lanes, is_ready = "this process", "nothing", 3, True

    def __init__(self, chance: random.Random, failing: float = 0.0, result_bytes: int | None = None) -> None:
        self.store: Store | None = None
        self._chance, self._failing, self._result_bytes = chance, failing, result_bytes
        self.stretches = self.failed = self.ended_early = 0

    @contextmanager
    def opened(self) -> Iterator[RunTasks]:
        yield self._run

    def _run(self, tasks: Sequence[EncodedTask], control: Control) -> Generator[bytes, None, None]:
        for each in tasks:
            control.check()
            if self._chance.random() < self._failing:
                self.failed += 1
                raise JobFailed("it was killed")
            task: Task = _tasks.decode(each.encoded)
            assert self.store is not None, "it is open"
            self.stretches += isinstance(task, ReplayStretch)
            found: Any = task.result(self.store)
            self.ended_early += isinstance(task, ReplayStretch) and not found.is_whole
            yield encode(found)


def play_seeds(play: Callable[[int, Path, pytest.MonkeyPatch], Counter[str]]) -> None:
    """From the command line: the first seed, and perhaps the last one."""
    total = Counter[str]()
    for seed in range(int(sys.argv[1]), int(sys.argv[2] if len(sys.argv) > 2 else sys.argv[1]) + 1):
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
            total += play(seed, Path(folder), patched)
    print(dict(total))
