"""A service for tests: a store in a folder, a clock that stands still, and short ways to say things."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stream_ext.clock import Clock, ManualClock
from stream_ext.emissions.subscriptions import Subscription
from stream_ext.service.service import PushReceipt, Service

BASE = "http://rillet/"
EX = "http://ex/"
NT = "application/n-triples"
NDJSON = "application/x-ndjson"


def open_service(folder: Path, clock: Clock | None = None, **named: Any) -> Service:
    """Batches wait for nothing (`batch_ms` 0), so that a clock that stands still holds nobody up."""
    named = {"engine": "inline", "batch_ms": 0, **named}
    return Service.open(f"lmdb:{folder / 'store'}", base=BASE, clock=clock or ManualClock(1_000_000), **named)


@contextmanager
def opened(folder: Path, clock: Clock | None = None, **named: Any) -> Iterator[Service]:
    service = open_service(folder, clock, **named)
    try:
        yield service
    finally:
        service.close()


def triple(s: str, o: object, p: str = "p") -> str:
    shown = f"<{EX}{o}>" if isinstance(o, str) else f'"{o}"^^<http://www.w3.org/2001/XMLSchema#integer>'
    return f"<{EX}{s}> <{EX}{p}> {shown} ."


def push(service: Service, stream: str, time: int | None, *triples: str, **named: Any) -> PushReceipt:
    named = {"wait": "evaluated", **named}
    return service.push(stream, "\n".join(triples).encode(), NT, timestamp=time, **named)


def push_lines(service: Service, stream: str, *elements: dict[str, Any], **named: Any) -> PushReceipt:
    named = {"wait": "evaluated", **named}
    return service.push(stream, "\n".join(map(json.dumps, elements)).encode(), NDJSON, **named)


def registration(
    name: str = "q",
    stream: str = "s",
    window: str = "RANGE PT3S STEP PT1S",
    pattern: str = "?x :p ?y",
    r2s: str = "RSTREAM",
    select: str = "SELECT ?x ?y",
) -> str:
    return (
        f"PREFIX : <{EX}> REGISTER {r2s} {name} AS {select} "
        f"FROM NAMED WINDOW :w ON {stream} [{window}] WHERE {{ WINDOW :w {{ {pattern} }} }}"
    )


def emissions_of(service: Service, name: str = "q", since: int = 0) -> list[dict[str, Any]]:
    return [json.loads(emission.json) for emission in service.emissions(name, since)]


def times(emissions: Sequence[dict[str, Any]]) -> list[int]:
    return [emission["time"] for emission in emissions]


def values(emission: dict[str, Any]) -> list[tuple[str, ...]]:
    """The rows, each value without its folder; sorted, as a bag has no order."""
    names = emission["head"]["vars"]
    rows = [
        tuple(row[name]["value"].removeprefix(EX) if name in row else "" for name in names)
        for row in emission["results"]["bindings"]
    ]
    return sorted(rows)


class Reader:
    """Subscribes, and takes until it has what it wants."""

    def __init__(self, service: Service, name: str, since: int = 0) -> None:
        self._observed = threading.Semaphore(0)
        self.subscription: Subscription = service.subscribe(name, since, self._observed.release)
        self.numbers: list[int] = []

    def wait(self, deadline_s: float = 10.0) -> None:
        """Returns after a notification."""
        assert self._observed.acquire(timeout=deadline_s), f"nothing came after {self.numbers[-1:]}"

    def forget(self) -> None:
        """Forgets the notifications so far."""
        while self._observed.acquire(blocking=False):
            pass

    def read_to(self, number: int, deadline_s: float = 10.0) -> list[int]:
        while not self.subscription.ended and (not self.numbers or self.numbers[-1] < number):
            taken = self.subscription.take()
            self.numbers += [emission.number for emission in taken]
            assert taken or self._observed.acquire(timeout=deadline_s), f"nothing came after {self.numbers[-1:]}"
        return self.numbers
