"""Watchers: many registered queries that differ in one constant. What it takes to register one more, to hold it, and to
tell all of them of a batch."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

from stream_ext.clock import SystemClock
from stream_ext.service.service import Limits, Service

Figures = dict[str, Any]

_BASE = "http://rillet/"
_NT = "application/n-triples"
_SOME = 20
_ELEMENTS = 13_000
_CLOSES = 12


def registering(quick: bool, folder: Path) -> Figures:
    """The k-th asks for the elements of zone k; every fifth is told something at the evaluation that is checked."""
    count = 200 if quick else 1_000
    service = Service.open(f"lmdb:{folder / 'watchers'}", base=_BASE, clock=SystemClock(), engine="inline", batch_ms=0)
    try:
        service.create_stream("taxis", {})
        _push(service, 500, ["<http://ex/taxi> <http://ex/in> <http://ex/nowhere> ."])
        service.register(_text(0))
        service.register(_text(1))
        _push(service, 1_500, ["<http://ex/taxi> <http://ex/in> <http://ex/z1> ."])  # what is compiled once is by now
        before = _resident_bytes()
        taken = [_timed(service, number) for number in range(2, count)]
        _push(service, 1_501, ["<http://ex/taxi> <http://ex/in> <http://ex/nowhere> ."])
        grown = _resident_bytes() - before
        zones = range(0, count, 5)
        _push(service, 1_600, [f"<http://ex/t{zone}> <http://ex/in> <http://ex/z{zone}> ." for zone in zones])
        began = time.perf_counter()
        _push(service, 2_500, ["<http://ex/taxi> <http://ex/in> <http://ex/nowhere> ."])
        evaluated_ms = (time.perf_counter() - began) * 1e3
        _check(service, count)
        return {
            "watchers": count,
            "register_ms_first": round(statistics.median(taken[:_SOME]), 2),
            "register_ms_last": round(statistics.median(taken[-_SOME:]), 2),
            "kb_each": round(grown / count / 1024, 1),
            "first_close_ms": round(evaluated_ms, 1),
        }
    finally:
        service.close()


def at_once(quick: bool, folder: Path) -> Figures:
    """Many that are sent one after the other without waiting; then batches, each element in the zone of a watcher."""
    count = 2_000 if quick else 100_000
    elements = min(_ELEMENTS, count)
    limits = Limits(queries=count, evaluated_s=3_600.0, lag_ms=3_600_000)
    service = Service.open(
        f"lmdb:{folder / 'at_once'}", base=_BASE, clock=SystemClock(), engine="inline", batch_ms=0, limits=limits
    )
    try:
        service.create_stream("taxis", {})
        _push(service, 500, ["<http://ex/taxi> <http://ex/in> <http://ex/nowhere> ."])
        for number in range(2):
            service.register(_text(number))
        _push(service, 1_500, ["<http://ex/taxi> <http://ex/in> <http://ex/z1> ."])
        before, head, began = _resident_bytes(), service.head(), _Began()
        for _ in service.register_all(map(_text, range(2, count))):
            pass
        _push(service, 1_501, ["<http://ex/taxi> <http://ex/in> <http://ex/nowhere> ."])  # all are stepped
        seconds, cpu_seconds = began.seconds()
        snapshots, grown = service.head() - head, _resident_bytes() - before
        pushes, closes = [], []
        for close in range(2, 2 + _CLOSES):
            zones = np.random.default_rng(close).permutation(count)[:elements].tolist()
            lines = [f"<http://ex/c{close}> <http://ex/in> <http://ex/z{zone}> ." for zone in zones]
            began = _Began()
            _push(service, close * 1_000 - 1, lines)
            pushes.append(began.seconds())
            began = _Began()
            service.heartbeat("taxis", close * 1_000, wait="evaluated")
            closes.append(began.seconds())
            _check_batch(service, f"http://ex/c{close}", close, zones, count)
        return {
            "watchers": count,
            "register_s": round(seconds, 1),
            "register_cpu_s": round(cpu_seconds, 1),
            "snapshots": snapshots,
            "kb_each": round(grown / count / 1024, 1),
            "elements_a_batch": elements,
            **_times("push", pushes[1:]),
            "first_close_ms": round(closes[0][0] * 1e3, 1),
            **_times("close", closes[1:]),
        }
    finally:
        service.close()


class _Began:
    """Now; how long ago that was, on the clock and of a core."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def seconds(self) -> tuple[float, float]:
        return time.perf_counter() - self._wall, time.process_time() - self._cpu


def _times(name: str, seconds: list[tuple[float, float]]) -> Figures:
    wall, cpu = (statistics.median(column) * 1e3 for column in zip(*seconds, strict=True))
    return {f"{name}_ms_p50": round(wall, 1), f"{name}_cpu_ms_p50": round(cpu, 1)}


def _check_batch(service: Service, taxi: str, close: int, zones: list[int], count: int) -> None:
    """Some that were to be told of this batch's taxi, and some that were not."""
    observed = set(zones)
    others = [number for number in range(0, count, max(1, count // _SOME)) if number not in observed]
    for number in [*zones[:_SOME], *others]:
        closes = close - (0 if number < 2 else 1)
        (answered,) = service.emissions(f"w{number}", closes - 1)
        if (f'"{taxi}"'.encode() in answered.json) != (number in observed) or b'"time":%d' % (
            close * 1_000
        ) not in answered.json:
            raise AssertionError(f"watcher {number} of {count} was told {answered} at close {close}")


def _text(number: int) -> str:
    return (
        f"PREFIX : <http://ex/> REGISTER ISTREAM w{number} AS SELECT ?taxi "
        f"FROM NAMED WINDOW :w ON taxis [RANGE PT10S STEP PT1S] WHERE {{ WINDOW :w {{ ?taxi :in :z{number} }} }}"
    )


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _timed(service: Service, number: int) -> float:
    began = time.perf_counter()
    service.register(_text(number))
    return (time.perf_counter() - began) * 1e3


def _push(service: Service, at: int, lines: list[str]) -> None:
    service.push("taxis", "\n".join(lines).encode(), _NT, timestamp=at, wait="evaluated")


def _check(service: Service, count: int) -> None:
    """Each was told of its own taxi, or of none."""
    for number in range(count):
        answered = [emission.json for emission in service.emissions(f"w{number}", 0)]
        own, observed = f"http://ex/t{number}".encode() + b'"', number % 5 == 0
        taxis = observed + (number == 1)  # to whose zone one had come before
        closes = 1 + (number < 2)
        if len(answered) != closes or (own in answered[-1]) != observed or answered[-1].count(b"http://ex/t") != taxis:
            raise AssertionError(f"watcher {number} of {count} was told {answered}")
