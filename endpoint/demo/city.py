"""A city in the course of a day, made by us: shared bikes, buses, air and weather, and six queries that explain
themselves. A minute of the city takes a second.

In the morning bikes go to the centre and leave the suburbs without any; with the traffic buses are late and the air has
more dust; when it rains, bikes stay where they are and the dust is washed away."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path

from endpoint.demo.benchmark import RSP_QL, Benchmark, BenchmarkQuery, RecordedElement, Recording, StoredGraph, Window
from endpoint.demo.recorded import recording

_CITY = "http://example.org/city/"
_PREFIXES = {"city": _CITY}
_STREAMS = {name: f"{_CITY}streams/{name}" for name in ("bikes", "buses", "air", "weather")}
_FACTS = f"{_CITY}facts"
_GRAPHS = (_FACTS,)
_ONLY = (RSP_QL,)

_BIKES = Window("bikes", "5m", "1m", "?count city:station ?station ; city:free ?free")
_BUSES = Window("buses", "10m", "1m", "?position city:bus ?bus ; city:delay ?delay")
_AIR = Window("air", "15m", "1m", "?measured city:in ?district ; city:dust ?dust")
_QUESTIONS = (
    BenchmarkQuery(
        "bikes",
        "How many bikes are free at a station of each district, on average of five minutes?",
        "SELECT ?district (AVG(?free) AS ?bikes)",
        (_BIKES,),
        "?station city:in ?area . ?area city:name ?district .",
        ends="GROUP BY ?district",
        graphs=_GRAPHS,
        dialects=_ONLY,
    ),
    BenchmarkQuery(
        "empty_stations",
        "Alert: at which stations was there no bike during the last five minutes?",
        "SELECT DISTINCT ?name ?district",
        (_BIKES,),
        "?station city:name ?name ; city:in ?area . ?area city:name ?district .",
        "?free < 1",
        graphs=_GRAPHS,
        dialects=_ONLY,
    ),
    BenchmarkQuery(
        "delays",
        "How many minutes are the buses of each line late, on average of ten minutes?",
        "SELECT ?line (AVG(?delay) AS ?minutes)",
        (_BUSES,),
        "?bus city:line ?route . ?route city:name ?line .",
        ends="GROUP BY ?line",
        graphs=_GRAPHS,
        dialects=_ONLY,
    ),
    BenchmarkQuery(
        "latest_buses",
        "Which five buses are the latest?",
        "SELECT ?bus ?line (MAX(?delay) AS ?minutes)",
        (_BUSES,),
        "?bus city:line ?route . ?route city:name ?line .",
        ends="GROUP BY ?bus ?line ORDER BY DESC(?minutes) ?bus LIMIT 5",
        graphs=_GRAPHS,
        dialects=_ONLY,
    ),
    BenchmarkQuery(
        "dust",
        "How much dust is in the air of each district, and how much is allowed there?",
        "SELECT ?name ?limit (AVG(?dust) AS ?mean)",
        (_AIR,),
        "?district city:name ?name ; city:limit ?limit .",
        ends="GROUP BY ?name ?limit",
        graphs=_GRAPHS,
        dialects=_ONLY,
    ),
    BenchmarkQuery(
        "rain_and_bikes",
        "Do bikes stay at their stations when it rains? (two streams in one query)",
        "SELECT (AVG(?rain) AS ?millimetres) (AVG(?free) AS ?bikes)",
        (Window("weather", "10m", "1m", "?sky city:rain ?rain"), _BIKES),
        dialects=_ONLY,
    ),
)

# ---- the generator

_BEGIN_MS = 1_780_295_400_000  # 2026-06-01, 06:30 UTC
_BEGIN_HOUR = 6.5
_MINUTE_MS = 60_000
_DECIMAL, _INTEGER = (f"^^<http://www.w3.org/2001/XMLSchema#{name}>" for name in ("decimal", "integer"))
#: Districts: how strongly they attract people in the morning (negative: they leave), and the dust that is allowed.
_DISTRICTS = {
    "Centre": (1.0, 40),
    "Harbour": (0.6, 45),
    "Campus": (0.8, 35),
    "Hills": (-0.9, 25),
    "Gardens": (-0.7, 25),
}
_STATIONS_EACH = 4
_DOCKS = (16, 32)
_LINES = {"Line 1": 4, "Line 2": 4, "Line 7": 3, "Ring": 5}


class _CityInADay:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._docks = {station: chance.randint(*_DOCKS) for station in _stations()}
        self._free = {station: docks / 2 for station, docks in self._docks.items()}
        self._delay = dict.fromkeys(_buses(), 0.0)
        self._rain = 0.0

    def stored(self) -> StoredGraph:
        lines = []
        for district, (_, limit) in _DISTRICTS.items():
            lines += [_fact(f"<{_CITY}{district}>", "name", f'"{district}"')]
            lines += [_fact(f"<{_CITY}{district}>", "limit", f'"{limit}"{_INTEGER}')]
        for station, district in _stations().items():
            lines += [_fact(f"<{_CITY}{station}>", "name", f'"{district} {station[-1]}"')]
            lines += [_fact(f"<{_CITY}{station}>", "in", f"<{_CITY}{district}>")]
            lines += [_fact(f"<{_CITY}{station}>", "docks", f'"{self._docks[station]}"{_INTEGER}')]
        for bus, line in _buses().items():
            lines += [_fact(f"<{_CITY}{bus}>", "line", f"<{_CITY}{line.replace(' ', '')}>")]
        lines += [_fact(f"<{_CITY}{line.replace(' ', '')}>", "name", f'"{line}"') for line in _LINES]
        return StoredGraph(_FACTS, "\n".join(lines).encode())

    def __iter__(self) -> Iterator[RecordedElement]:
        minute = 0
        while True:
            yield from self._minute(_BEGIN_MS + minute * _MINUTE_MS, _BEGIN_HOUR + minute / 60)
            minute += 1

    def _minute(self, time: int, hour: float) -> Iterator[RecordedElement]:
        """Each sensor reports once a minute, each at its own second."""
        self._rain = max(0.0, 0.97 * self._rain + self._chance.gauss(0, 0.25) - 0.02)
        yield _element(time, "weather", _fact(_node("sky", time), "rain", f'"{self._rain:.1f}"{_DECIMAL}'))
        elements = [*self._bikes(time, hour), *self._buses(time, hour), *self._air(time, hour)]
        every = _MINUTE_MS // (len(elements) + 1)
        self._chance.shuffle(elements)
        for place, element in enumerate(elements, 1):
            yield RecordedElement(time + place * every, element.stream, element.data)

    def _bikes(self, time: int, hour: float) -> Iterator[RecordedElement]:
        """Riders go to where people work in the morning, and back in the evening; fewer of them in the rain."""
        to_work, riders = _rush(hour, 8) - _rush(hour, 17.5), 1 / (1 + self._rain)
        for station, district in _stations().items():
            docks = self._docks[station]
            wanted = docks * (0.5 + 0.6 * _DISTRICTS[district][0] * to_work)
            change = 0.1 * (wanted - self._free[station]) + self._chance.gauss(0, 0.8)
            self._free[station] = min(docks, max(0.0, self._free[station] + riders * change))
            node = _node("count", time, station)
            yield _element(
                time,
                "bikes",
                _fact(node, "station", f"<{_CITY}{station}>"),
                _fact(node, "free", f'"{round(self._free[station])}"{_INTEGER}'),
            )

    def _buses(self, time: int, hour: float) -> Iterator[RecordedElement]:
        for bus in _buses():
            usual = 1 + 7 * (_rush(hour, 8) + _rush(hour, 17.5)) + self._rain
            change = 0.06 * (usual - self._delay[bus]) + self._chance.gauss(0, 0.5)
            self._delay[bus] = max(0.0, self._delay[bus] + change)
            node = _node("position", time, bus)
            yield _element(
                time,
                "buses",
                _fact(node, "bus", f"<{_CITY}{bus}>"),
                _fact(node, "delay", f'"{self._delay[bus]:.1f}"{_DECIMAL}'),
            )

    def _air(self, time: int, hour: float) -> Iterator[RecordedElement]:
        for district, (attraction, _) in _DISTRICTS.items():
            traffic = (1.4 + attraction) * (_rush(hour, 8) + _rush(hour, 17.5))
            dust = max(2.0, 16 + 14 * traffic - 5 * min(self._rain, 2) + self._chance.gauss(0, 2))
            node = _node("measured", time, district)
            yield _element(
                time,
                "air",
                _fact(node, "in", f"<{_CITY}{district}>"),
                _fact(node, "dust", f'"{dust:.1f}"{_DECIMAL}'),
            )


def _rush(hour: float, peak: float) -> float:
    """How much of a rush hour it is: 1 at its peak, near 0 two hours away from it. Each day has the same ones."""
    return math.exp(-(((hour % 24) - peak) ** 2) / 1.6)


def _stations() -> dict[str, str]:
    """Each station with its district."""
    return {f"{district}{number}": district for district in _DISTRICTS for number in range(1, _STATIONS_EACH + 1)}


def _buses() -> dict[str, str]:
    """Each bus with its line."""
    return {f"bus{line.split()[-1]}-{number}": line for line, count in _LINES.items() for number in range(1, count + 1)}


def _element(time: int, stream: str, *lines: str) -> RecordedElement:
    return RecordedElement(time, stream, "\n".join(lines))


def _fact(subject: str, predicate: str, object: str) -> str:
    return f"{subject} <{_CITY}{predicate}> {object} ."


def _node(kind: str, time: int, of: str = "") -> str:
    return f"<{_CITY}{kind}/{of}{time}>"


def _generate(seed: int) -> Recording:
    city = _CityInADay(random.Random(seed))
    return Recording((city.stored(),), iter(city))


def _read(folder: Path) -> Recording:
    return recording(folder, {name: f"{name}.tnt.gz" for name in _STREAMS}, {_FACTS: "facts.ttl"})


CITY = Benchmark(
    "city",
    "A city in the course of a day: bikes, buses, air and weather; a minute of the city takes a second",
    _PREFIXES,
    _STREAMS,
    _QUESTIONS,
    _generate,
    _read,
    speed=60,
    read_speed=60,
)
