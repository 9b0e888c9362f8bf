"""Twins of CQELS-QL texts of others that find nothing in their data: the text, or what is played, differs a little.

HAVING (MIN(?value) >= "0.0")    compares a number with a text        ->   HAVING (MIN(?value) >= 0.0)
users' locations end before the other streams begin                   ->   another hour is played"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Twin(NamedTuple):
    """A text and data that are as little different as it needs so that something is found."""

    text: Mapping[str, str] = {}  # what is written in place of what, in the text
    start: int | None = None  # where what is played begins
    shifted: Mapping[str, int] = {}  # streams (the ends of their names), by so many ms
    as_fast: int = 1  # so many times as fast as recorded
    once: bool = False  # a triple that came before does not come again: a window of the peer is a set
    graphs: Mapping[str, str] = {}  # files as graphs of the store

    @property
    def plays_the_same_data(self) -> bool:
        return self._replace(text={}) == NO_TWIN

    def of(self, text: str) -> str:
        for was, becomes in self.text.items():
            text = text.replace(was, becomes)
        return text


_FIRST_MINUTES = 1_406_851_200_000  # UserLocationService has these only
_EVENTS = {"culturalevents": "AarhusCulturalEvents.n3"}
_AS_NUMBERS = {'"0.0"': "0.0", '"0"': "0", '"32.0"': "32.0"}
_A_STATION = {'"4101.0"': "?alt", '"42.16472"': "?lat", '"-121.755" .': "?long . FILTER(?alt = 72.0)"}
NO_TWIN = Twin()
#: CityBench's own driver plays each file from its beginning, whenever it was recorded; so streams are shifted here.
TWINS = {
    "data/citybench/cqels_query/Q12.txt": Twin({"count(?obId1) >3": "count(?obId1) >0"}),
    "data/citybench/cqels_query/Q4.txt": Twin(start=_FIRST_MINUTES, graphs=_EVENTS),
    "data/citybench/cqels_query/Q6.txt": Twin(start=_FIRST_MINUTES),
    "data/citybench/cqels_query/location_parking_1.txt": Twin(
        {"#hasLongtitude": "#hasLongitude"}, start=_FIRST_MINUTES
    ),
    "data/citybench/cqels_query/Q5.txt": Twin(graphs=_EVENTS),
    "data/citybench/cqels_query/Q8.txt": Twin(graphs={"libraryevents": "AarhusLibraryEvents.n3"}),
    "data/citybench/cqels_query/Q9.txt": Twin(graphs=_EVENTS),
    "data/citybench/cqels_query/traffic_parking_1.txt": Twin(shifted={"KALKVAERKSVEJ": -107_000}),
    "data/lsbench/queries/cqelsplus/query6.txt": Twin(
        {"sib:like ?comment": "sib:like ?post"}, as_fast=10_000_000, once=True
    ),
    "data/lsbench/queries/cqelsql/query4.cqels": Twin(as_fast=1000, once=True),
    **{f"data/srbench/queries_cqels/q{n}.sparql": Twin(_AS_NUMBERS) for n in (3, 4)},
    "data/srbench/queries_cqels/q6.sparql": Twin({**_AS_NUMBERS, "RainfallObservation": "RelativeHumidityObservation"}),
    "data/srbench/queries_cqels/q5.sparql": Twin({**_AS_NUMBERS, "SnowfallObservation": "RelativeHumidityObservation"}),
    "data/srbench/queries_cqels/q7.sparql": Twin({"count(?time) = 0": "count(?time) > 1"}, once=True),
    "data/srbench/queries_cqels/q8.sparql": Twin(_A_STATION),
    "data/srbench/queries_cqels/q9.sparql": Twin(_A_STATION),
    "data/srbench/queries_cqels/q10.sparql": Twin(
        {"wgs84_pos>": "wgs84_pos#>", "SnowfallObservation": "WindSpeedObservation"}
    ),
}
