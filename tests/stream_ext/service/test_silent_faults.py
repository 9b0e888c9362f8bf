"""Faults that other engines of streams were found to have, and told nobody of: here each is looked for by name."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from stream_ext.service.service import Service
from tests.stream_ext.opened import EX, emissions_of, opened, push, push_lines, registration, times, triple, values

P = f"PREFIX : <{EX}>"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with opened(tmp_path) as service:
        yield service


RSPQL = f"{P} REGISTER RSTREAM q AS SELECT ?x FROM NAMED WINDOW :w ON s [RANGE PT1S STEP PT1S] "
STATIC = {
    "default graph": (RSPQL + "WHERE {{ {} }}", "WINDOW :w { ?x :p ?y } ?x a :Room", None),
    "FROM a graph": (RSPQL + "FROM :kb WHERE {{ {} }}", "WINDOW :w { ?x :p ?y } ?x a :Room", "kb"),
    "GRAPH": (RSPQL + "WHERE {{ {} }}", "WINDOW :w { ?x :p ?y } GRAPH :kb { ?x a :Room }", "kb"),
    "static first": (RSPQL + "WHERE {{ {} }}", "?x a :Room WINDOW :w { ?x :p ?y }", None),
    "C-SPARQL": (
        f"{P} REGISTER QUERY q AS SELECT ?x FROM STREAM s [RANGE 1s STEP 1s] FROM :kb WHERE {{{{ {{}} }}}}",
        "?x :p ?y . ?x a :Room",
        "kb",
    ),
}


@pytest.mark.parametrize("where", STATIC)
def test_a_static_pattern_filters(service: Service, where: str) -> None:
    text, pattern, graph = STATIC[where]
    room = f"<{EX}{{}}> a <{EX}Room>"
    inside = room if graph is None else f"GRAPH <{EX}{graph}> {{{{ {room} }}}}"
    service.create_stream("s", {})
    service.register(text.format(pattern))
    service.update(f"INSERT DATA {{ {inside.format('kitchen')} }}")
    push(service, "s", 100, triple("kitchen", 1), triple("tree", 1), triple("lake", 1))
    push(service, "s", 1100, triple("kitchen", 1), triple("tree", 1), triple("lake", 1))
    service.update(f"DELETE DATA {{ {inside.format('kitchen')} }} ; INSERT DATA {{ {inside.format('lake')} }}")
    push(service, "s", 2100, triple("tree", 1))
    push(service, "s", 3000, triple("tree", 1))
    assert [values(emission) for emission in emissions_of(service)] == [[("kitchen",)], [("lake",)], []]


def test_the_empty_prefix_loses_no_binding(service: Service) -> None:
    named = "PREFIX e: <{ex}> REGISTER RSTREAM other AS SELECT ?x ?y FROM NAMED WINDOW e:w ON s [RANGE PT1S STEP PT1S] "
    service.register(registration("empty", window="RANGE PT1S STEP PT1S", pattern="?x :p ?y"))
    service.register(named.format(ex=EX) + "WHERE { WINDOW e:w { ?x e:p ?y } }")
    service.register(
        f"REGISTER RSTREAM after AS {P} SELECT ?x ?y FROM NAMED WINDOW <{EX}w> ON s [RANGE PT1S STEP PT1S] "
        "WHERE { WINDOW :w { ?x :p ?y } }"
    )
    push(service, "s", 100, triple("a", "b"), triple("c", 4), triple("d", "e", "q"))
    push(service, "s", 1000, triple("z", "z"))
    for name in ("empty", "other", "after"):
        assert [values(emission) for emission in emissions_of(service, name)] == [[("a", "b"), ("c", "4")]], name


JOIN = (
    f"{P} REGISTER RSTREAM joined AS SELECT ?x ?y ?z FROM NAMED WINDOW :v ON left [RANGE PT2S STEP PT1S] "
    "FROM NAMED WINDOW :w ON right [RANGE PT1S STEP PT1S] WHERE { WINDOW :v { ?x :p ?y } WINDOW :w { ?x :q ?z } }"
)


def joined_rows(close: int, last: int, a_push: int) -> int:
    """Both streams have `a_push` elements at each multiple of 100 ms up to `last`, each with a subject of its own."""
    lefts = len(range(max(0, close - 2000), min(close, last + 1), 100))
    rights = len(range(max(0, close - 1000), min(close, last + 1), 100))
    return lefts * rights * a_push


def feed(service: Service, stream: str, predicate: str, last: int, a_push: int) -> None:
    for time in range(0, last + 1, 100):
        triples = [triple(f"n{n}", time * 1000 + n, predicate) for n in range(a_push)]
        push(service, stream, time, *triples, wait="published")


def test_a_join_of_two_windows_answers_at_full_speed(service: Service) -> None:
    last, a_push = 6_000, 40
    service.register(JOIN)
    feeds = [threading.Thread(target=feed, args=(service, *of, last, a_push)) for of in (("left", "p"), ("right", "q"))]
    for thread in feeds:
        thread.start()
    for thread in feeds:
        thread.join()
    for stream in ("left", "right"):
        service.heartbeat(stream, 7_000, wait="evaluated")
    found = {emission["time"]: len(emission["results"]["bindings"]) for emission in emissions_of(service, "joined")}
    assert found == {close: joined_rows(close, last, a_push) for close in range(1_000, 7_001, 1_000)}


def test_a_join_loses_nothing_where_one_stream_is_far_ahead(service: Service) -> None:
    """A watermark that follows the stream in front would let go of what the other still has to meet."""
    service.register(JOIN)
    feed(service, "left", "p", 5_000, 3)
    service.heartbeat("left", 3_600_000)
    assert emissions_of(service, "joined") == []
    feed(service, "right", "q", 5_000, 3)
    service.heartbeat("right", 6_000, wait="evaluated")
    found = {emission["time"]: len(emission["results"]["bindings"]) for emission in emissions_of(service, "joined")}
    assert found == {close: joined_rows(close, 5_000, 3) for close in range(1_000, 6_001, 1_000)}


def test_a_join_loses_nothing_of_what_comes_out_of_order(service: Service) -> None:
    for stream in ("left", "right"):
        service.create_stream(stream, {"lateness": "1s"})
    service.register(JOIN)
    shuffled = [900, 0, 500, 1_400, 600, 1_900, 1_000, 2_500, 1_600, 3_200]
    for stream, predicate in (("left", "p"), ("right", "q")):
        for time in shuffled:
            push(service, stream, time, triple("n", time, predicate))
    service.heartbeat("left", 4_000)
    service.heartbeat("right", 4_000, wait="evaluated")
    for emission in emissions_of(service, "joined"):
        close = emission["time"]
        expected = sorted(
            ("n", str(left), str(right))
            for left in shuffled
            for right in shuffled
            if close - 2000 <= left < close and close - 1000 <= right < close
        )
        assert values(emission) == expected, close
    assert times(emissions_of(service, "joined")) == [1_000, 2_000, 3_000, 4_000]


def test_an_answer_of_many_rows_is_not_cut(service: Service) -> None:
    count = 40_000
    service.register(registration(window="RANGE PT1S STEP PT1S", select="SELECT ?y"))
    body = "\n".join(triple("a", number) for number in range(count))
    push(service, "s", 100, body)
    push(service, "s", 1_000, triple("z", 0))
    (emission,) = emissions_of(service)
    assert {row["y"]["value"] for row in emission["results"]["bindings"]} == {str(n) for n in range(count)}
    assert len(service.decode(service.latest("q"))) == count


NOT_IGNORED = {
    "DISTINCT": ("SELECT DISTINCT ?y", "WINDOW :w { ?x :p ?y }", [("1",), ("2",)]),
    "LIMIT": ("SELECT ?x ?y", "WINDOW :w { ?x :p ?y } } ORDER BY ?y ?x LIMIT 2 #", [("a", "1"), ("b", "1")]),
    "NOT EXISTS": ("SELECT ?x", "WINDOW :w { ?x :p ?y FILTER NOT EXISTS { ?x :off ?z } }", [("a",), ("c",)]),
    "MINUS": ("SELECT ?x", "WINDOW :w { ?x :p ?y MINUS { ?x :off ?z } }", [("a",), ("c",)]),
    "HAVING": ("SELECT ?y", "WINDOW :w { ?x :p ?y } } GROUP BY ?y HAVING(COUNT(*) > 1) #", [("1",)]),
}


@pytest.mark.parametrize("word", NOT_IGNORED)
def test_no_word_of_a_query_is_ignored(service: Service, word: str) -> None:
    select, pattern, rows = NOT_IGNORED[word]
    head = f"{P} REGISTER RSTREAM q AS {select} FROM NAMED WINDOW :w ON s [RANGE PT1S STEP PT1S]"
    service.register(f"{head} WHERE {{ {pattern}\n }}" if "#" not in pattern else f"{head} WHERE {{ {pattern}")
    push(service, "s", 100, triple("a", 1), triple("b", 1), triple("b", 0, "off"))
    push(service, "s", 200, triple("c", 2))
    push(service, "s", 1_000, triple("z", 9))
    assert [values(emission) for emission in emissions_of(service)] == [rows]


def test_istream_says_what_is_new_only(service: Service) -> None:
    service.register(registration(window="RANGE PT3S STEP PT1S", r2s="ISTREAM", select="SELECT ?y"))
    for time, value in ((100, 1), (1_100, 1), (2_100, 2), (3_000, 2)):
        push(service, "s", time, triple(f"a{value}", value))
    assert [values(emission) for emission in emissions_of(service)] == [[("1",)], [], [("2",)]]


def test_what_goes_in_one_part_of_a_union_and_comes_in_the_other_is_not_new(service: Service) -> None:
    service.register(
        f"{P} REGISTER ISTREAM q AS SELECT ?x FROM NAMED WINDOW :w ON s [RANGE 1s STEP 1s] "
        "FROM NAMED WINDOW :v ON t [RANGE 1s STEP 1s] "
        "WHERE { { WINDOW :w { ?x :p ?y } } UNION { WINDOW :v { ?x :p ?y } } }"
    )
    push(service, "s", 500, triple("a", 1))
    push(service, "t", 1500, triple("a", 1), triple("b", 1))
    for stream in ("s", "t"):
        service.heartbeat(stream, 2000, wait="evaluated")
    assert [values(emission) for emission in emissions_of(service)] == [[("a",)], [("b",)]]


def test_a_second_window_over_the_same_stream_is_another_window(service: Service) -> None:
    service.register(
        f"{P} REGISTER RSTREAM q AS SELECT ?x ?y FROM NAMED WINDOW :short ON s [RANGE PT1S STEP PT1S] "
        "FROM NAMED WINDOW :long ON s [RANGE PT3S STEP PT1S] "
        "WHERE { WINDOW :short { ?a :p ?x } WINDOW :long { ?a :p ?y } }"
    )
    push_lines(service, "s", *({"timestamp": t, "data": triple("a", t)} for t in (500, 1_500, 2_500, 3_000)))
    assert [values(emission) for emission in emissions_of(service)] == [
        [("500", "500")],
        [("1500", "1500"), ("1500", "500")],
        [("2500", "1500"), ("2500", "2500"), ("2500", "500")],
    ]


@pytest.mark.parametrize(
    "without", ["MINUS { WINDOW :short { ?x :q ?z } }", "FILTER NOT EXISTS { WINDOW :short { ?x :q ?z } }"]
)
def test_what_is_taken_back_for_a_time_is_not_emitted_meanwhile_however_much_it_is(
    service: Service, without: str
) -> None:
    """Above a thousand entries the answer is laid out anew: what is taken back must stay taken back."""
    count, covered = 1_500, 1_200
    service.register(
        f"{P} REGISTER RSTREAM q AS SELECT ?x FROM NAMED WINDOW :long ON s [RANGE PT5S STEP PT1S] "
        f"FROM NAMED WINDOW :short ON s [RANGE PT1S STEP PT1S] WHERE {{ WINDOW :long {{ ?x :p ?y }} {without} }}"
    )
    triples = [triple(f"n{n}", n) for n in range(count)] + [triple(f"n{n}", 0, "q") for n in range(covered)]
    push(service, "s", 100, "\n".join(triples))
    for time in (1_000, 2_000, 3_000):
        push(service, "s", time, triple("n0", 0, "other"))
    first, second, third = ({row["x"]["value"] for row in e["results"]["bindings"]} for e in emissions_of(service))
    assert first == {f"{EX}n{n}" for n in range(covered, count)}
    assert second == third == {f"{EX}n{n}" for n in range(count)}
    assert [len(e["results"]["bindings"]) for e in emissions_of(service)] == [count - covered, count, count]
