"""Watchers: many registered queries that differ in one constant. What it takes to register one more, and to hold it."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path
from typing import Any

from stream_ext.clock import SystemClock
from stream_ext.service import Service

Figures = dict[str, Any]

_BASE = "http://rillet/"
_NT = "application/n-triples"
_SOME = 20


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
        said = [emission.json for emission in service.emissions(f"w{number}", 0)]
        own, told = f"http://ex/t{number}".encode() + b'"', number % 5 == 0
        taxis = told + (number == 1)  # to whose zone one had come before
        closes = 1 + (number < 2)
        if len(said) != closes or (own in said[-1]) != told or said[-1].count(b"http://ex/t") != taxis:
            raise AssertionError(f"watcher {number} of {count} was told {said}")
