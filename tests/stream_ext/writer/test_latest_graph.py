"""The graph of a registered CONSTRUCT is the whole answer of its last evaluation, as the plain GET has it.

In each dialect, for each output operator, at each evaluation: also at those that emit nothing, at which the answer has
changed all the same (a row left a window, an update deleted what it was joined with), and after a restart. The same
pushes with SELECT in place of CONSTRUCT say what the graph contains."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stream_ext.clock import ManualClock
from stream_ext.errors import Gone
from stream_ext.service.service import Service
from stream_ext.upkeep.retention import Retain
from tests.stream_ext.opened import BASE, EX, open_service, opened, push, push_lines, triple

Triples = set[tuple[str, ...]]

CQELS = "PREFIX : <http://ex/> SELECT {r2s} ?x ?y ?z WHERE {{ STREAM s [{window}] {{ ?x :p ?y }} ?y :in ?z }}"
CSPARQL = (
    "PREFIX : <http://ex/> SELECT {r2s} ?x ?y ?z FROM STREAM s [{window}] FROM <http://ex/g> "
    "WHERE {{ ?x :p ?y . ?y :in ?z }}"
)
RSPQL = (
    "PREFIX : <http://ex/> SELECT {r2s} ?x ?y ?z FROM NAMED WINDOW :w ON s [{window}] "
    "WHERE {{ WINDOW :w {{ ?x :p ?y }} ?y :in ?z }}"
)
STORED = "PREFIX : <http://ex/> SELECT {r2s} ?x ?y ?z WHERE {{ ?x :p ?y . ?y :in ?z }}"

TEXTS = [
    *((CQELS, window) for window in ("NOW", "RANGE 2s", "RANGE 2s SLIDE 1s", "TRIPLES 2", "ELEMENTS 2", "ALL")),
    *((CQELS, window) for window in ("TRIPLES 3 STEP 2", "NOW-2s TO NOW-1s")),
    *((CSPARQL, window) for window in ("RANGE 2s STEP 1s", "RANGE TRIPLES 2")),
    *((RSPQL, window) for window in ("RANGE PT2S STEP PT1S", "RANGE PT2S STEP PT1S REPORT CONTENT_CHANGE", "ROWS 2")),
    (RSPQL, "RANGE PT2S STEP PT1S REPORT NON_EMPTY_CONTENT, WINDOW_CLOSE"),
    (STORED, ""),
]
PLACES = [triple("here", "town", "in"), triple("there", "sea", "in")]
PLACED = f"INSERT DATA {{ {' '.join(PLACES)} GRAPH <{EX}g> {{ {' '.join(PLACES)} }} }}"


def _push(*elements: tuple[int, str, str]) -> Callable[[Service], object]:
    def step(service: Service) -> None:
        lines = ({"timestamp": time, "data": triple(x, y)} for time, x, y in elements)
        push_lines(service, "s", *lines)
        # The same is in the store, for the query without windows.
        service.update("INSERT DATA { " + " ".join(triple(x, y) for _, x, y in elements) + " }", wait="evaluated")

    return step


def _update(text: str) -> Callable[[Service], object]:
    return lambda service: service.update(f"PREFIX : <{EX}> {text}", wait="evaluated")


STEPS: list[Callable[[Service], object]] = [
    _push((1_000, "a", "here")),
    _push((1_500, "b", "there"), (1_500, "b", "nowhere")),
    _push((2_200, "c", "nowhere")),
    _update("DELETE DATA { :here :in :town GRAPH :g { :here :in :town } :a :p :here }"),
    _push((3_100, "d", "nowhere")),
    _push((3_100, "e", "nowhere")),  # of the same time, in another push
    _push((3_900, "f", "there"), (3_900, "a", "here")),
    _update("INSERT DATA { :here :in :town GRAPH :g { :here :in :town } }"),
    _push((6_000, "g", "nowhere")),
    _push((6_000, "h", "nowhere"), (6_000, "i", "nowhere"), (8_500, "j", "nowhere")),
    _push((9_000, "k", "here")),
    _update("DELETE WHERE { ?x :in ?y } ; DELETE WHERE { GRAPH :g { ?x :in ?y } }"),
    _push((12_000, "l", "nowhere"), (12_500, "m", "here")),
]


def rows(service: Service, text: str, snapshot: int | None = None) -> Triples:
    return {tuple(cell.decode() for cell in row if cell) for row in service.decode(service.query(text, snapshot))}


def graph(service: Service, name: str, snapshot: int | None = None) -> Triples:
    return rows(service, f"SELECT ?s ?o {{ GRAPH <{BASE}queries/{name}> {{ ?s ?p ?o }} }}", snapshot)


def latest(service: Service, name: str) -> Triples:
    answer = service.latest(name)
    assert answer.graph is not None
    s, _, o = (answer.vocabulary.decode(column) for column in answer.graph)
    return {(x.decode(), y.decode()) for x, y in zip(s, o, strict=True)}


def selected(service: Service, name: str) -> Triples:
    found = {tuple(cell.decode() for cell in row if cell) for row in service.decode(service.latest(name))}
    return {(x, z) for x, _, z in found}


def _registered(text: str, name: str, r2s: str, window: str) -> str:
    select = text.format(r2s=r2s, window=window)
    if name != "selected":
        select = select.replace(f"SELECT {r2s} ?x ?y ?z", f"CONSTRUCT {r2s} {{ ?x :near ?z }}")
    prefix, body = select.split("> ", 1)
    return f"{prefix}> REGISTER QUERY {name} AS {body}"


@pytest.mark.parametrize("r2s", ["RSTREAM", "ISTREAM", "DSTREAM"])
@pytest.mark.parametrize(("text", "window"), TEXTS)
def test_the_graph_is_what_get_answers(tmp_path: Path, text: str, window: str, r2s: str) -> None:
    service = open_service(tmp_path)
    try:
        service.create_stream("s", {})
        service.update(PLACED)
        for name in ("built", "selected"):
            service.register(_registered(text, name, r2s, window))
        service.update("INSERT DATA { <urn:x> <urn:y> <urn:z> }", wait="evaluated")
        seen = []
        for number, step in enumerate(STEPS):
            step(service)
            if number % 4 == 3:
                service.close()
                service = open_service(tmp_path)
                service.update("INSERT DATA { <urn:x> <urn:y> " + str(number) + " }", wait="evaluated")
            expected = selected(service, "selected")
            assert latest(service, "built") == expected, number
            assert graph(service, "built") == expected, number
            seen.append((service.head(), expected))
        assert any(answer for _, answer in seen), "else this proves nothing"
        for head, answer in seen:
            assert graph(service, "built", head) == answer, "a snapshot goes on to have the same"
    finally:
        service.close()


def test_the_order_of_first_appearance_is_that_of_the_last_evaluation(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.register(
            "PREFIX : <http://ex/> REGISTER QUERY q AS CONSTRUCT ISTREAM { ?x :of ?y } "
            "WHERE { STREAM s [RANGE 3s] { ?x :p ?y } } LIMIT 2"
        )
        for time, name in ((1_000, "z"), (1_500, "m"), (2_000, "a"), (3_900, "b")):
            push(service, "s", time, triple(name, "here"))
        assert graph(service, "q") == latest(service, "q") == {(f"<{EX}m>", f"<{EX}here>"), (f"<{EX}z>", f"<{EX}here>")}
        before = service.head()
        push(service, "s", 4_700, triple("c", "here"))  # the first two have left
        assert graph(service, "q") == latest(service, "q") == {(f"<{EX}a>", f"<{EX}here>"), (f"<{EX}b>", f"<{EX}here>")}
        with pytest.raises(Gone, match="cannot be made again"):
            graph(service, "q", before)


def test_blank_nodes_of_the_graph_are_those_of_the_stream(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.register(
            "PREFIX : <http://ex/> REGISTER QUERY q AS CONSTRUCT ISTREAM { _:n :of ?y } WHERE { ?x :p ?y }"
        )
        service.register("PREFIX : <http://ex/> REGISTER QUERY r AS SELECT ?n ?y { STREAM q [ALL] { ?n :of ?y } }")
        service.update(f"INSERT DATA {{ {triple('a', 'here')} }}", wait="evaluated")
        read = {tuple(cell.decode() for cell in row if cell) for row in service.decode(service.latest("r"))}
        assert graph(service, "q") == read


def test_a_paused_query_keeps_its_graph(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.register("PREFIX : <http://ex/> REGISTER QUERY q AS CONSTRUCT ISTREAM { ?x :of ?y } WHERE { ?x :p ?y }")
        service.update(f"INSERT DATA {{ {triple('a', 'here')} }}", wait="evaluated")
        service.pause_query("q")
        service.update(f"INSERT DATA {{ {triple('b', 'here')} }}", wait="evaluated")
        assert graph(service, "q") == latest(service, "q") == {(f"<{EX}a>", f"<{EX}here>")}


def test_a_silent_evaluation_is_read_for_as_long_as_it_is_the_last(tmp_path: Path) -> None:
    clock = ManualClock(3_600_000)
    with opened(tmp_path, clock, retain=Retain(snapshots_ms=60_000)) as service:
        service.create_stream("s", {"retention": "30s"})
        service.register(
            "PREFIX : <http://ex/> REGISTER QUERY q AS CONSTRUCT DSTREAM { ?x :of ?y } "
            "WHERE { STREAM s [TRIPLES 2] { ?x :p ?y } }"
        )
        for time, name in ((1_000, "a"), (1_500, "b")):
            push(service, "s", time, triple(name, "here"))
        for number in range(2):
            assert graph(service, "q") == latest(service, "q") == {(f"<{EX}{x}>", f"<{EX}here>") for x in "ab"}
            clock.advance(600_000)
            service.update(f"INSERT DATA {{ {triple('x', number)} }}", wait="evaluated")
            service.collect()
