"""The worked example of Wukong+S (figures 1 and 2): what its prose says is said here, for each reading of bounds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stream_ext.service.service import Service
from tests.stream_ext.opened import EX, emissions_of, opened, push, values

STORED = (
    "Logan ty X-Men, Erik ty X-Men, Logan fo Erik, Erik fo Logan, Logan po T-12, Logan po T-13, Erik po T-14, "
    "T-12 ht sosp17, T-13 ht sosp17, T-14 ht sosp17, Erik li T-13"
)
TWEETS = {802: "Logan po T-15, T-15 ht sosp17", 805: "Erik po T-16", 808: "Logan po T-17"}
LIKES = {
    801: "Logan li T-12, Erik li T-14",
    806: "Erik li T-15, Tony li T-15, Bruce li T-15",
    810: "Clint li T-15, Steve li T-15, Erik li T-17",
    812: "Logan li T-16, Thor li T-15",
}
QS = f"PREFIX : <{EX}> SELECT ?t WHERE {{ GRAPH :X-Lab {{ :Logan :po ?t . ?t :ht :sosp17 . :Erik :li ?t }} }}"
QC = (
    "PREFIX : <{ex}> REGISTER QUERY qc AS SELECT ?X ?Y ?Z FROM Tweet_Stream [RANGE 10s STEP 1s{policy}] "
    "FROM Like_Stream [RANGE 5s STEP 1s{policy}] FROM :X-Lab "
    "WHERE {{ GRAPH Tweet_Stream {{ ?X :po ?Z }} ?X :fo ?Y . GRAPH Like_Stream {{ ?Y :li ?Z }} }}"
)


def triples(text: str) -> str:
    nodes = (part.split() for part in text.split(", "))
    return "\n".join(" ".join(f"<{EX}{node}>" for node in triple) + " ." for triple in nodes)


def feed(service: Service, first: int, last: int) -> None:
    for time in range(first, last + 1):
        for stream, elements in (("Tweet_Stream", TWEETS), ("Like_Stream", LIKES)):
            if time in elements:
                push(service, stream, time * 1000, triples(elements[time]))


def beat(service: Service, time: int) -> None:
    for stream in ("Tweet_Stream", "Like_Stream"):
        service.heartbeat(stream, time * 1000, wait="evaluated")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with opened(tmp_path) as service:
        for stream in ("Tweet_Stream", "Like_Stream"):
            timeless = [EX + predicate for predicate in ("po", "ht", "li")]
            service.create_stream(stream, {"timeless": timeless, "graph": EX + "X-Lab"})
        service.update(f"INSERT DATA {{ GRAPH <{EX}X-Lab> {{ {triples(STORED)} }} }}")
        yield service


def answers(service: Service) -> list[str]:
    rows = service.decode(service.query(QS))
    return sorted((row[0] or b"").decode().removeprefix(f"<{EX}").rstrip(">") for row in rows)


def test_the_one_shot_query_sees_what_the_streams_have_left_in_the_store(service: Service) -> None:
    assert answers(service) == ["T-13"]
    feed(service, 801, 806)
    assert answers(service) == ["T-13", "T-15"]


@pytest.mark.parametrize(
    ("policy", "first", "rows"),
    [
        (" T0 0", 810, [("Logan", "Erik", "T-15")]),
        (" T0 0 BOUNDS (]", 810, [("Logan", "Erik", "T-15"), ("Logan", "Erik", "T-17")]),
        ("", 811, [("Logan", "Erik", "T-15"), ("Logan", "Erik", "T-17")]),
    ],
    ids=["[) from 0", "(] from 0", "from the next push"],
)
def test_the_continuous_query_answers_first_as_in_the_paper(
    service: Service, policy: str, first: int, rows: list[tuple[str, ...]]
) -> None:
    feed(service, 801, 809)
    beat(service, 809)
    service.register(QC.format(ex=EX, policy=policy))
    feed(service, 810, 810)
    beat(service, first)
    emission = emissions_of(service, "qc")[0]
    assert (emission["time"], values(emission)) == (first * 1000, rows)
