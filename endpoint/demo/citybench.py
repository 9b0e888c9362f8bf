"""CityBench: traffic, parking, weather, air and a user on the way in the city of Aarhus, beside what is stored of its
sensors and events.

Ali, Gao, Mileo: CityBench: A Configurable Benchmark to Evaluate RSP Engines Using Smart City Datasets. ISWC 2015."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from endpoint.demo.benchmark import Benchmark, BenchmarkQuery, RecordedElement, Recording, StoredGraph, Window
from endpoint.demo.recorded import recording

_SES = "http://www.insight-centre.org/dataset/SampleEventService#"
_RDF = "http://127.0.0.1:9000/WebGlCity/RDF/"
_PREFIXES = {
    "ses": _SES,
    "ssn": "http://purl.oclc.org/NET/ssnx/ssn#",
    "sao": "http://purl.oclc.org/NET/sao/",
    "ct": "http://www.insight-centre.org/citytraffic#",
}
_SENSORS = {
    "traffic1": "AarhusTrafficData182955",
    "traffic2": "AarhusTrafficData158505",
    "parking1": "AarhusParkingDataKALKVAERKSVEJ",
    "parking2": "AarhusParkingDataSKOLEBAKKEN",
    "air1": "AarhusPollutionData201399",
    "air2": "AarhusPollutionData184892",
    "weather": "AarhusWeatherData0",
    "user": "UserLocationService",
}
_STREAMS = {name: _SES + sensor for name, sensor in _SENSORS.items()}
_REPOSITORY, _CULTURE, _LIBRARIES = (
    _RDF + name for name in ("SensorRepository.rdf", "AarhusCulturalEvents.rdf", "AarhusLibraryEvents.rdf")
)
_FILES = {name: f"{sensor}.tnt.gz" for name, sensor in _SENSORS.items()}
_GRAPHS = (_REPOSITORY, _CULTURE, _LIBRARIES)
_STORED = {graph: "dataset/" + graph.removeprefix(_RDF).replace(".rdf", ".n3") for graph in _GRAPHS}
_EVENT = (
    "?event sao:value ?title ; "
    "ssn:featureOfInterest [ ct:hasFirstNode [ ct:hasLatitude ?lat1 ; ct:hasLongitude ?lon1 ] ] ."
)
_PLACE = "ssn:isPropertyOf [ ct:hasStartLatitude ?lat2 ; ct:hasStartLongitude ?lon2 ] ."
_NEAR = "(?lat2 - ?lat1) * (?lat2 - ?lat1) + (?lon2 - ?lon1) * (?lon2 - ?lon1) < 0.1"


def _seen(sensor: str, number: int = 1) -> Window:
    """What a sensor has observed: ?observation, its ?property and its ?value, with this number."""
    pattern = (
        f"?observation{number} ssn:observedProperty ?property{number} ; sao:hasValue ?value{number} ; "
        f"ssn:observedBy ses:{_SENSORS[sensor]}"
    )
    return Window(sensor, "3s", "1s", pattern)


_QUESTIONS = (
    BenchmarkQuery(
        "Q1",
        "the congestion on two roads",
        "SELECT ?value1 ?value2",
        (_seen("traffic1", 1), _seen("traffic2", 2)),
        "?property1 a ct:CongestionLevel . ?property2 a ct:CongestionLevel .",
        graphs=(_REPOSITORY,),
    ),
    BenchmarkQuery(
        "Q2",
        "the congestion on a road and the weather",
        "SELECT ?value1 ?value2 ?value3",
        (_seen("weather", 1), _seen("weather", 2), _seen("traffic1", 3)),
        "?property1 a ct:Temperature . ?property2 a ct:Humidity . ?property3 a ct:CongestionLevel .",
        graphs=(_REPOSITORY,),
    ),
    BenchmarkQuery(
        "Q3",
        "the mean congestion on the way",
        "SELECT ((?value1 + ?value2) / 2 AS ?congestion)",
        (_seen("traffic1", 1), _seen("traffic2", 2)),
        "?property1 a ct:CongestionLevel . ?property2 a ct:CongestionLevel .",
        graphs=(_REPOSITORY,),
    ),
    BenchmarkQuery(
        "Q4",
        "events near the user",
        "SELECT ?title ?lat2 ?lon2",
        (
            Window(
                "user",
                "3s",
                "1s",
                f"?observation sao:hasValue [ ct:hasLatitude ?lat2 ; ct:hasLongitude ?lon2 ] ; "
                f"ssn:observedBy ses:{_SENSORS['user']}",
            ),
        ),
        _EVENT,
        _NEAR,
        graphs=(_CULTURE,),
    ),
    BenchmarkQuery(
        "Q5",
        "the congestion near events",
        "SELECT ?title ?value1",
        (_seen("traffic2"),),
        f"?property1 a ct:CongestionLevel ; {_PLACE} {_EVENT}",
        _NEAR,
        graphs=(_CULTURE, _REPOSITORY),
    ),
    BenchmarkQuery(
        "Q6",
        "free parking near the user",
        "SELECT ?value1 ?lat2 ?lon2 ?lat3 ?lon3",
        (
            _seen("parking1"),
            Window("user", "3s", "1s", "?observation sao:hasValue [ ct:hasLatitude ?lat3 ; ct:hasLongitude ?lon3 ]"),
        ),
        f"?property1 a ct:ParkingVacancy ; {_PLACE}",
        graphs=(_REPOSITORY,),
    ),
    BenchmarkQuery(
        "Q7",
        "a car park that is full",
        "SELECT ?value1 ?value2",
        (_seen("parking1", 1), _seen("parking2", 2)),
        "?property1 a ct:ParkingVacancy . ?property2 a ct:ParkingVacancy .",
        "?value1 < 1 || ?value2 < 1",
        graphs=(_REPOSITORY,),
    ),
    BenchmarkQuery(
        "Q8",
        "parking near events in libraries",
        "SELECT ?title ?value1 ?value2",
        (_seen("parking1", 1), _seen("parking2", 2)),
        f"?property1 a ct:ParkingVacancy . ?property2 a ct:ParkingVacancy . {_EVENT}",
        "?value1 > 0 || ?value2 > 0",
        graphs=(_LIBRARIES, _REPOSITORY),
    ),
    BenchmarkQuery(
        "Q10",
        "the air at two places",
        "SELECT ?property1 ?property2 (?value1 + ?value2 AS ?sum)",
        (_seen("air1", 1), _seen("air2", 2)),
    ),
    BenchmarkQuery(
        "Q12",
        "a road that was congested at several observations",
        "SELECT ?sensor (COUNT(?observation) AS ?observations)",
        (
            Window(
                "traffic1",
                "3s",
                "1s",
                "?observation ssn:observedProperty ?property ; sao:hasValue ?value ; ssn:observedBy ?sensor",
            ),
        ),
        "?property a ct:CongestionLevel .",
        "?value >= 0",
        "GROUP BY ?sensor HAVING (COUNT(?observation) > 1)",
        (_REPOSITORY,),
    ),
)

# ---- the generator

_BEGIN_MS = 1_406_851_200_000  # 2014-08-01, as the recorded one
_EVERY_MS = 1_000
_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
_CENTRE = (56.156, 10.205)
#: What the sensors of each stream observe: the class of the property, and between which values.
_OBSERVED = {
    "traffic1": (("CongestionLevel", 0.0, 1.0), ("EstimatedTime", 60.0, 300.0)),
    "traffic2": (("CongestionLevel", 0.0, 1.0), ("EstimatedTime", 60.0, 300.0)),
    "parking1": (("ParkingVacancy", -40.0, 200.0),),
    "parking2": (("ParkingVacancy", -40.0, 400.0),),
    "air1": (("API", 0.0, 120.0),),
    "air2": (("API", 0.0, 120.0),),
    "weather": (("Temperature", 5.0, 30.0), ("Humidity", 40.0, 100.0), ("WindSpeed", 0.0, 40.0)),
}
#: A sensor observes every so many seconds.
_SECONDS = {"traffic1": 1, "traffic2": 1, "parking1": 2, "parking2": 2, "air1": 2, "air2": 2, "weather": 3, "user": 1}
_EVENTS = 12


class _City:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._user = _CENTRE

    def stored(self) -> tuple[StoredGraph, ...]:
        sensors = [
            line
            for stream, observed in _OBSERVED.items()
            for kind, _, _ in observed
            for line in self._sensor(stream, kind)
        ]
        graphs = {_REPOSITORY: sensors, _CULTURE: self._events("concert"), _LIBRARIES: self._events("reading")}
        return tuple(StoredGraph(graph, "\n".join(lines).encode()) for graph, lines in graphs.items())

    def _sensor(self, stream: str, kind: str) -> list[str]:
        name, place = _property(stream, kind), f"<{_SES}FoI-{stream}>"
        latitude, longitude = self._place()
        return [
            f"{name} {_TYPE} <{_PREFIXES['ct']}{kind}> .",
            f"{name} <{_PREFIXES['ssn']}isPropertyOf> {place} .",
            f'{place} <{_PREFIXES["ct"]}hasStartLatitude> "{latitude:.5f}"{_DOUBLE} .',
            f'{place} <{_PREFIXES["ct"]}hasStartLongitude> "{longitude:.5f}"{_DOUBLE} .',
        ]

    def _events(self, kind: str) -> list[str]:
        lines = []
        for number in range(_EVENTS):
            event, place, node = (f"<{_SES}{kind}-{part}-{number}>" for part in ("event", "place", "node"))
            latitude, longitude = self._place()
            lines += [
                f"{event} {_TYPE} <{_PREFIXES['sao']}Point> .",
                f"{event} <{_PREFIXES['ssn']}featureOfInterest> {place} .",
                f'{event} <{_PREFIXES["sao"]}value> "{kind} {number}" .',
                f"{place} <{_PREFIXES['ct']}hasFirstNode> {node} .",
                f'{node} <{_PREFIXES["ct"]}hasLatitude> "{latitude:.5f}"{_DOUBLE} .',
                f'{node} <{_PREFIXES["ct"]}hasLongitude> "{longitude:.5f}"{_DOUBLE} .',
            ]
        return lines

    def _place(self) -> tuple[float, float]:
        latitude, longitude = _CENTRE
        return latitude + self._chance.uniform(-0.5, 0.5), longitude + self._chance.uniform(-0.5, 0.5)

    def __iter__(self) -> Iterator[RecordedElement]:
        second = 0
        while True:
            time = _BEGIN_MS + second * _EVERY_MS
            for stream, every in _SECONDS.items():
                if second % every == 0:
                    lines = self._located(time) if stream == "user" else self._observed(stream, time)
                    yield RecordedElement(time, stream, "\n".join(lines))
            second += 1

    def _observed(self, stream: str, time: int) -> list[str]:
        lines = []
        for kind, low, high in _OBSERVED[stream]:
            observation = f"<{_STREAMS[stream]}-{time}-{kind}>"
            value = self._chance.uniform(low, high)
            shown = f'"{value:.3f}"{_DOUBLE}' if kind != "ParkingVacancy" else f'"{max(0, round(value))}"{_LONG}'
            lines += [
                f"{observation} {_TYPE} <{_PREFIXES['ssn']}Observation> .",
                f"{observation} <{_PREFIXES['ssn']}observedBy> <{_STREAMS[stream]}> .",
                f"{observation} <{_PREFIXES['ssn']}observedProperty> {_property(stream, kind)} .",
                f"{observation} <{_PREFIXES['sao']}hasValue> {shown} .",
            ]
        return lines

    def _located(self, time: int) -> list[str]:
        """Where the user is, who has moved a little since the observation before."""
        latitude, longitude = self._user
        self._user = latitude + self._chance.gauss(0, 0.001), longitude + self._chance.gauss(0, 0.001)
        observation, place = f"<{_STREAMS['user']}-{time}>", f"<{_STREAMS['user']}-{time}-coordinates>"
        return [
            f"{observation} {_TYPE} <{_PREFIXES['ssn']}Observation> .",
            f"{observation} <{_PREFIXES['ssn']}observedBy> <{_STREAMS['user']}> .",
            f"{observation} <{_PREFIXES['sao']}hasValue> {place} .",
            f'{place} <{_PREFIXES["ct"]}hasLatitude> "{latitude:.5f}"{_DOUBLE} .',
            f'{place} <{_PREFIXES["ct"]}hasLongitude> "{longitude:.5f}"{_DOUBLE} .',
        ]


_DOUBLE, _LONG = (f"^^<http://www.w3.org/2001/XMLSchema#{name}>" for name in ("double", "long"))


def _property(stream: str, kind: str) -> str:
    return f"<{_SES}Property-{stream}-{kind}>"


def _generate(seed: int) -> Recording:
    city = _City(random.Random(seed))
    return Recording(city.stored(), iter(city))


def _read(folder: Path) -> Recording:
    return recording(folder, _FILES, _STORED)


CITYBENCH = Benchmark(
    "citybench",
    "CityBench (Ali et al., ISWC 2015)",
    _PREFIXES,
    _STREAMS,
    _QUESTIONS,
    _generate,
    _read,
    speed=1,
    read_speed=300,
)
