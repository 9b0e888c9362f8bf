"""SRBench: observations of weather stations in the United States, beside where the stations are.

Zhang, Duc, Corcho, Calbimonte: SRBench: A Streaming RDF/SPARQL Benchmark. ISWC 2012."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path

from endpoint.demo.benchmark import Benchmark, BenchmarkQuery, RecordedElement, Recording, StoredGraph, Window
from endpoint.demo.recorded import recording

_SSW = "http://knoesis.wright.edu/ssw/"
_PREFIXES = {
    "om-owl": _SSW + "ont/sensor-observation.owl#",
    "weather": _SSW + "ont/weather.owl#",
    "wgs84_pos": "http://www.w3.org/2003/01/geo/wgs84_pos#",
}
_STREAMS = {"observations": "http://www.cwi.nl/SRBench/observations"}
_GRAPH = "http://www.cwi.nl/SRBench/stations"
_HOUR, _DAY, _STEP = "1h", "24h", "10m"
_RESULT = "om-owl:result [ om-owl:floatValue ?{} ]"
_FORCES = (1, 4, 8, 13, 18, 25, 31, 39, 47, 55, 64, 73)


def _observed(pattern: str, length: str = _HOUR) -> tuple[Window, ...]:
    return (Window("observations", length, _STEP, " ".join(pattern.split())),)


def _force() -> str:
    """The Beaufort number of the mean wind speed."""
    text = str(len(_FORCES))
    for number, limit in reversed(list(enumerate(_FORCES))):
        text = f"IF(AVG(?windSpeed) < {limit}, {number}, {text})"
    return text


_QUESTIONS = (
    BenchmarkQuery(
        "Q1",
        "the rainfall of the last hour, with its unit",
        "SELECT DISTINCT ?sensor ?value ?uom",
        _observed(
            """?observation om-owl:procedure ?sensor ; a weather:RainfallObservation ; om-owl:result ?result .
            ?result om-owl:floatValue ?value ; om-owl:uom ?uom"""
        ),
    ),
    BenchmarkQuery(
        "Q2",
        "the rainfall of the last hour, also without a unit",
        "SELECT DISTINCT ?sensor ?value ?uom",
        _observed(
            """?observation om-owl:procedure ?sensor ; a weather:RainfallObservation ; om-owl:result ?result .
            ?result om-owl:floatValue ?value OPTIONAL { ?result om-owl:uom ?uom }"""
        ),
    ),
    BenchmarkQuery(
        "Q3",
        "hurricanes: stations with a mean wind speed of 74 miles an hour",
        "SELECT ?sensor (AVG(?value) AS ?windSpeed)",
        _observed(
            f"""?observation om-owl:procedure ?sensor ; om-owl:observedProperty weather:_WindSpeed ;
            {_RESULT.format("value")}"""
        ),
        ends="GROUP BY ?sensor HAVING (AVG(?value) >= 74)",
    ),
    BenchmarkQuery(
        "Q4",
        "the mean wind speed where it is warmer than 32 degrees",
        "SELECT ?sensor (AVG(?windSpeed) AS ?meanWindSpeed) (AVG(?temperature) AS ?meanTemperature)",
        _observed(
            f"""?observation1 om-owl:procedure ?sensor ; a weather:TemperatureObservation ;
            {_RESULT.format("temperature")} .
            ?observation2 om-owl:procedure ?sensor ; a weather:WindSpeedObservation ; {_RESULT.format("windSpeed")}"""
        ),
        filter="?temperature > 32",
        ends="GROUP BY ?sensor",
    ),
    BenchmarkQuery(
        "Q5",
        "blizzards: snow, frost and wind at one station",
        "SELECT ?sensor",
        _observed(
            f"""?sensor om-owl:generatedObservation [ a weather:SnowfallObservation ] , ?o1 , ?o2 .
            ?o1 a weather:TemperatureObservation ; {_RESULT.format("temperature")} .
            ?o2 a weather:WindSpeedObservation ; {_RESULT.format("windSpeed")}"""
        ),
        ends="GROUP BY ?sensor HAVING (AVG(?temperature) < 32 && MIN(?windSpeed) > 40)",
    ),
    BenchmarkQuery(
        "Q6",
        "stations with bad sight, heavy rain or snow",
        "SELECT DISTINCT ?sensor",
        _observed(
            f"""{{ ?o om-owl:procedure ?sensor ; a weather:VisibilityObservation ; {_RESULT.format("value")}
            FILTER (?value < 10) }} UNION
            {{ ?o om-owl:procedure ?sensor ; a weather:RainfallObservation ; {_RESULT.format("value")}
            FILTER (?value > 30) }} UNION {{ ?o om-owl:procedure ?sensor ; a weather:SnowfallObservation }}"""
        ),
    ),
    BenchmarkQuery(
        "Q8",
        "the lowest and the highest temperature of a day near a place",
        "SELECT ?sensor (MIN(?temperature) AS ?lowest) (MAX(?temperature) AS ?highest)",
        _observed(
            f"""?sensor om-owl:generatedObservation ?observation .
            ?observation om-owl:observedProperty weather:_AirTemperature ; {_RESULT.format("temperature")}""",
            _DAY,
        ),
        "?sensor om-owl:processLocation [ wgs84_pos:lat ?lat ; wgs84_pos:long ?long ] .",
        "?lat > 32 && ?lat < 33 && ?long > -117 && ?long < -116",
        "GROUP BY ?sensor",
        (_GRAPH,),
    ),
    BenchmarkQuery(
        "Q9",
        "the wind force by Beaufort, and its direction, near a place",
        f"SELECT ?sensor ({_force()} AS ?windForce) (AVG(?windDirection) AS ?meanWindDirection)",
        _observed(
            f"""?sensor om-owl:generatedObservation ?o1 , ?o2 .
            ?o1 a weather:WindDirectionObservation ; {_RESULT.format("windDirection")} .
            ?o2 a weather:WindSpeedObservation ; {_RESULT.format("windSpeed")}"""
        ),
        "?sensor om-owl:processLocation [ wgs84_pos:lat ?lat ; wgs84_pos:long ?long ] .",
        "?lat > 32 && ?lat < 33 && ?long > -117 && ?long < -116",
        "GROUP BY ?sensor",
        (_GRAPH,),
    ),
    BenchmarkQuery(
        "Q10",
        "where it has snowed on this day",
        "SELECT DISTINCT ?lat ?long ?alt",
        _observed("?sensor om-owl:generatedObservation [ a weather:SnowfallObservation ]", _DAY),
        "?sensor om-owl:processLocation [ wgs84_pos:lat ?lat ; wgs84_pos:long ?long ; wgs84_pos:alt ?alt ] .",
        graphs=(_GRAPH,),
    ),
)

# ---- the generator

_STATIONS = 24
_BEGIN_MS = 1_091_923_200_000  # 2004-08-08, as the recorded one
_EVERY_MS = 5 * 60_000
_DAY_MS = 86_400_000
_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
#: What is measured: the class of the observation, the property, the unit.
_TEMPERATURE = ("Temperature", "_AirTemperature", "fahrenheit")
_WIND = ("WindSpeed", "_WindSpeed", "milesPerHour")
_DIRECTION = ("WindDirection", "_WindDirection", "degrees")
_SIGHT = ("Visibility", "_Visibility", "centimeters")
_RAIN = ("Rainfall", "_PrecipitationAccumulated", "centimeters")
_SNOW = ("Snowfall", "_SnowDepth", "centimeters")
#: The climate of a station: mean temperature in degrees Fahrenheit, mean wind speed, chances of rain and snow.
_CLIMATES = ((75.0, 9.0, 0.1, 0.0), (60.0, 15.0, 0.4, 0.0), (25.0, 48.0, 0.0, 0.5), (82.0, 78.0, 0.5, 0.0))


class _Stations:
    """Weather stations of four climates; each observes all that it measures every five minutes."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def document(self) -> bytes:
        lines = []
        for number in range(_STATIONS):
            system, point = _system(number), f"<{_SSW}point_D{number:03}>"
            # The first is near the place that two queries ask about.
            place = (32.892, -116.42, 6300.0) if not number else self._place()
            lines.append(f"{system} <{_PREFIXES['om-owl']}processLocation> {point} .")
            for name, value in zip(("lat", "long", "alt"), place, strict=True):
                lines.append(f'{point} <{_PREFIXES["wgs84_pos"]}{name}> "{value:.7g}"{_xsd("float")} .')
        return "\n".join(lines).encode()

    def _place(self) -> tuple[float, float, float]:
        return self._chance.uniform(34, 48), self._chance.uniform(-115, -75), float(self._chance.randrange(8_000))

    def __iter__(self) -> Iterator[RecordedElement]:
        count = 0
        while True:
            turn, station = divmod(count, _STATIONS)
            time = _BEGIN_MS + turn * _EVERY_MS + station * (_EVERY_MS // _STATIONS)
            yield RecordedElement(time, "observations", "\n".join(self._observed(station, time)))
            count += 1

    def _observed(self, station: int, time: int) -> list[str]:
        warm, windy, rain, snow = _CLIMATES[station % len(_CLIMATES)]
        chance = self._chance
        measured = [
            (_TEMPERATURE, warm + 8 * math.sin(2 * math.pi * time / _DAY_MS) + chance.gauss(0, 1)),
            (_WIND, max(0.0, chance.gauss(windy, 3))),
            (_DIRECTION, chance.uniform(0, 360)),
            (_SIGHT, chance.uniform(0, 2_000)),
        ]
        if chance.random() < rain:
            measured.append((_RAIN, chance.expovariate(0.08)))
        if chance.random() < snow:
            measured.append((_SNOW, chance.uniform(1, 20)))
        return [line for what, value in measured for line in self._observation(station, time, what, value)]

    def _observation(self, station: int, time: int, what: tuple[str, str, str], value: float) -> list[str]:
        kind, observed, unit = what
        system, om, weather = _system(station), _PREFIXES["om-owl"], _PREFIXES["weather"]
        observation = f"<{_SSW}Observation_{kind}_D{station:03}_{time}>"
        result = f"<{_SSW}MeasureData_{kind}_D{station:03}_{time}>"
        lines = [
            f"{system} <{om}generatedObservation> {observation} .",
            f"{observation} {_TYPE} <{weather}{kind}Observation> .",
            f"{observation} <{om}observedProperty> <{weather}{observed}> .",
            f"{observation} <{om}procedure> {system} .",
            f"{observation} <{om}result> {result} .",
            f'{result} <{om}floatValue> "{value:.1f}"{_xsd("double")} .',
        ]
        if what is not _RAIN or self._chance.random() < 0.7:
            lines.append(f"{result} <{om}uom> <{weather}{unit}> .")
        return lines


def _system(number: int) -> str:
    return f"<{_SSW}System_D{number:03}>"


def _xsd(name: str) -> str:
    return f"^^<http://www.w3.org/2001/XMLSchema#{name}>"


def _generate(seed: int) -> Recording:
    stations = _Stations(random.Random(seed))
    return Recording((StoredGraph(_GRAPH, stations.document()),), iter(stations))


def _read(folder: Path) -> Recording:
    inner = folder / "tnt" if (folder / "tnt").is_dir() else folder
    return recording(inner, {"observations": "lsd9h_observations.tnt.gz"}, {_GRAPH: "stations_static.nt.gz"})


SRBENCH = Benchmark(
    "srbench",
    "SRBench (Zhang et al., ISWC 2012)",
    _PREFIXES,
    _STREAMS,
    _QUESTIONS,
    _generate,
    _read,
    speed=600,
    read_speed=600,
)
