"""Derived streams: in which order what a query said, and that it said nothing, comes to its stream.

Emissions are told by whichever thread stored them, and silences by another; here each is told when the test says so."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from hbase_store import EmissionRow, StreamPosition
from stream_ext.catalog.catalog import Catalog, QueryDefinition, StreamDefinition
from stream_ext.catalog.options import StreamOptions
from stream_ext.emissions.emission import EmissionBody, Silence, encode_body
from stream_ext.windows.query_state import QueryState
from stream_ext.writer.derived_streams import Derived
from stream_ext.writer.gathering import Heartbeat, Push
from stream_ext.writer.published import Receipt

QUERY, STREAM = 7, 3


class Writer:
    """What comes to it, in order; nothing is ever acknowledged."""

    def __init__(self, position: StreamPosition | None = None) -> None:
        query = QueryDefinition(
            QUERY, "q", "http://ex/q", "", "", "RSTREAM", [], [1], 1, QueryState(), constructs=True, output=STREAM
        )
        stream = StreamDefinition(STREAM, "out", "http://ex/out", StreamOptions(), "elements", QUERY)
        self.catalog = Catalog({STREAM: stream}, {QUERY: query})
        self.positions = {} if position is None else {STREAM: position}
        self.came: list[tuple[str, int]] = []

    def derived(self, request: Push | Heartbeat) -> Future[Receipt]:
        if isinstance(request, Heartbeat):
            self.came.append(("time", request.time))
        else:
            assert request.seq is not None
            self.came.append(("emission", request.seq))
        return Future()


class Log:
    """Of emissions that are all pushed."""

    def read(self, query: int, after: int = 0, limit: int | None = None) -> list[EmissionRow]:
        return []


def row(number: int) -> EmissionRow:
    body = EmissionBody("q", number, "RSTREAM", number * 10, [], 1, [], [], [b""] * 3, None, 0, None, graph=True)
    return EmissionRow(QUERY, number, encode_body(body))


def test_a_silence_comes_after_the_emission_that_it_follows(writer: Writer) -> None:
    derived = Derived(writer, lambda query: 2)
    derived.silent({QUERY: Silence(25, after=2)})
    assert writer.came == []
    derived.emitted([row(2)])
    assert writer.came == [], "the first is still to come"
    derived.emitted([row(1)])
    assert writer.came == [("emission", 1), ("emission", 2), ("time", 25)]


def test_of_silences_that_wait_for_an_emission_the_last_counts(writer: Writer) -> None:
    derived = Derived(writer, lambda query: 1)
    for time in (15, 25, 20):
        derived.silent({QUERY: Silence(time, after=1)})
    derived.emitted([row(1)])
    assert writer.came == [("emission", 1), ("time", 25)]
    derived.silent({QUERY: Silence(35, after=1)})
    assert writer.came[2:] == [("time", 35)], "it is not held back by one that has come"


@pytest.mark.parametrize(
    ("position", "came"),
    [
        (None, [("time", 40)]),
        (StreamPosition(STREAM, 0), [("time", 40)]),
        (StreamPosition(STREAM, 1, 30, 30), [("time", 40)]),
        (StreamPosition(STREAM, 1, 40, 40), []),
    ],
)
def test_at_the_start_a_streams_time_comes_to_the_last_evaluation_that_emitted_nothing(
    position: StreamPosition | None, came: list[tuple[str, int]]
) -> None:
    writer = Writer(position)
    Derived(writer, lambda query: 0).start(Log(), {QUERY: 40})  # type: ignore[arg-type]  # it reads nothing
    assert writer.came == came


@pytest.fixture
def writer() -> Writer:
    return Writer()
