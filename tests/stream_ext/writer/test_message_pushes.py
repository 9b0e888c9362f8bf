"""Pushes of RDF Messages: elements of several graphs in the store, in windows, among late elements, after a restart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

from stream_ext.errors import BadArgument, NameInUse
from stream_ext.service.service import PushReceipt, Service
from tests.stream_ext.opened import (
    BASE,
    EX,
    NDJSON,
    emissions_of,
    opened,
    push,
    push_lines,
    registration,
    times,
    triple,
    values,
)

TRIG = "application/trig"
NQ = "application/n-quads"
LOG = f'VERSION "1.2-messages" PREFIX : <{EX}>\n'
GRAPHS = registration(pattern="GRAPH ?g { ?x :p ?y }", select="SELECT ?g ?x ?y")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with opened(tmp_path) as service:
        yield service


def push_log(service: Service, text: str, time: int | None = None, stream: str = "s", **named: Any) -> PushReceipt:
    named = {"wait": "evaluated", **named}
    return service.push(stream, (LOG + text).encode(), TRIG, timestamp=time, **named)


def stored(service: Service) -> ox.Dataset:
    """What the store holds, as pyoxigraph reads it."""
    found = []
    for graph, pattern in (("", "?s ?p ?o"), ("?g", "GRAPH ?g { ?s ?p ?o }")):
        for row in service.decode(service.query(f"SELECT {graph} ?s ?p ?o WHERE {{ {pattern} }}")):
            terms = [(term or b"").decode() for term in row]
            s, p, o = terms[-3:]
            found.append(f"{s} {p} {o} {terms[0] if graph else ''} .\n")
    return dataset("".join(found), ox.RdfFormat.N_QUADS)


def dataset(text: str, form: ox.RdfFormat = ox.RdfFormat.TRIG) -> ox.Dataset:
    prefix = f"PREFIX : <{EX}>\n" if form == ox.RdfFormat.TRIG else ""
    return ox.Dataset(ox.parse((prefix + text).encode(), form))


def same(one: ox.Dataset, other: ox.Dataset) -> bool:
    for each in (one, other):
        each.canonicalize(ox.CanonicalizationAlgorithm.UNSTABLE)
    return one == other


MESSAGES = [
    ":a :p _:x . :g { :a :p _:x . _:x :name 'first' } _:h { _:x :p _:h }",
    ":g { :a :p _:x . :b :p 2 } :f { :b :p 2 } _:h { :b :p 2 }",
    "",
    ":b :p 2 . :b :name 'b' . :f { :b :name 'b' }",
]


def test_a_message_is_absorbed_into_its_graphs_and_its_blank_nodes_are_its_own(tmp_path: Path) -> None:
    own = [each.replace("_:x", f"_:x{i}").replace("_:h", f"_:h{i}") for i, each in enumerate(MESSAGES)]
    expected = "\n".join(own)
    with opened(tmp_path) as service:
        service.create_stream("s", {"timeless": True})
        receipt = push_log(service, " MESSAGE ".join(MESSAGES), 5)
        assert (receipt.accepted, receipt.late) == (4, 0)
        assert same(stored(service), dataset(expected))
    with opened(tmp_path) as service:
        assert same(stored(service), dataset(expected))


def test_of_a_message_only_what_is_timeless_is_absorbed_each_triple_into_its_own_graph(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.create_stream("s", {"timeless": [EX + "name"], "graph": EX + "all", "retention": "1h"})
        push_log(service, " MESSAGE ".join(MESSAGES), 5)
        text = ":g { _:x :name 'first' } :f { :b :name 'b' } :all { :b :name 'b' }"
        assert same(stored(service), dataset(text))
        service.register(GRAPHS)
        push(service, "s", 1000, triple("z", 1))
        # The option `graph` is the graph of what names none.
        rows = [row for row in values(emissions_of(service)[0]) if "_:" not in "".join(row) and row[1] == "b"]
        assert [row for row in rows if row[0] in ("g", "f", "all")] == [
            ("all", "b", "2"),
            ("f", "b", "2"),
            ("g", "b", "2"),
        ]


def test_a_stream_that_nobody_reads_keeps_only_what_is_absorbed(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.create_stream("s", {"timeless": [EX + "name"], "retention": 0})
        push_log(service, " MESSAGE ".join(MESSAGES), 5)
        assert same(stored(service), dataset(":g { _:x :name 'first' } :b :name 'b' . :f { :b :name 'b' }"))


def test_windows_know_the_graph_of_each_triple_before_a_restart_and_after(tmp_path: Path) -> None:
    first = ":a :p 1 . :g { :a :p 1 . :b :p 2 } :f { :b :p 2 }"
    expected = [("f", "b", "2"), ("g", "a", "1"), ("g", "b", "2")]
    with opened(tmp_path) as service:
        service.create_stream("s", {"retention": "1h"})
        service.register(GRAPHS)
        service.register(registration("all", pattern="?x :p ?y"))
        push_log(service, first, 100)
    with opened(tmp_path) as service:
        push_log(service, ":f { :c :p 3 } :g { :c :p 3 } MESSAGE", 1500)
        push(service, "s", 2000, triple("d", 4))
        observed = emissions_of(service)
        assert [values(each) for each in observed] == [expected, sorted([*expected, ("f", "c", "3"), ("g", "c", "3")])]
        assert [values(each) for each in emissions_of(service, "all")] == [
            [("a", "1"), ("b", "2")],
            [("a", "1"), ("b", "2"), ("c", "3")],
        ]
        again = json.loads(service.emission_again("q", 1))
        assert values(again) == expected
        # A query that is registered later reads what is retained.
        service.register(GRAPHS.replace("RSTREAM q", "RSTREAM later"))
        service.heartbeat("s", 3000, wait="evaluated")
        assert values(emissions_of(service, "later")[0]) == sorted([*expected, ("f", "c", "3"), ("g", "c", "3")])


def test_an_empty_message_is_an_element_at_its_time(service: Service) -> None:
    service.register(registration(window="RANGE PT1S STEP PT1S"))
    push_log(service, ":a :p 1 . MESSAGE", 100)
    assert emissions_of(service) == []
    assert push_log(service, "MESSAGE MESSAGE MESSAGE", 1000).accepted == 3
    assert [values(each) for each in emissions_of(service)] == [[("a", "1")]]
    nothing = push_log(service, "# no message at all", 5000)
    assert (nothing.accepted, times(emissions_of(service))) == (0, [1000])


def test_a_message_gets_its_time_from_the_predicate_in_whichever_graph_it_is(service: Service) -> None:
    service.create_stream("s", {"time": EX + "at"})
    service.register(registration(window="RANGE PT1S STEP PT1S"))
    push_log(service, ":a :p 1 . :meta { :m :at 700 } MESSAGE :b :p 2 . :n :at 1200 .")
    assert [(each["time"], values(each)) for each in emissions_of(service)] == [(1000, [("a", "1")])]
    with pytest.raises(BadArgument, match="element 2 has no <http://ex/at>"):
        push_log(service, ":a :at 1300 . MESSAGE MESSAGE", 1400)


@pytest.mark.parametrize("as_json_ld", [False, True])
def test_a_late_message_is_read_back_with_its_graphs_and_can_be_pushed_again(
    service: Service, as_json_ld: bool
) -> None:
    service.create_stream("s", {"retention": "1h"})
    service.register(registration(window="RANGE PT1S STEP PT1S"))
    push(service, "s", 100, triple("a", 1))
    push(service, "s", 2500, triple("a", 2))
    message = ":a :p :b . :g { :a :p :b . :c :p :d } :f { _:x :p :b }"
    if as_json_ld:
        context = {"@vocab": EX, "p": {"@type": "@vocab"}}
        graphs = [
            {"@id": EX + "a", "p": "b"},
            {"@id": EX + "g", "@graph": [{"@id": EX + "a", "p": "b"}, {"@id": EX + "c", "p": "d"}]},
            {"@id": EX + "f", "@graph": {"p": "b"}},
        ]
        receipt = push_lines(service, "s", {"timestamp": 1900, "data": {"@context": context, "@graph": graphs}})
    else:
        receipt = push_log(service, message + " MESSAGE :only { :a :p :b }", 1900)
    assert receipt.late == receipt.accepted
    late = service.late_elements("s")["elements"]
    assert "graph" not in late[0]
    assert same(dataset(late[0]["data"], ox.RdfFormat.N_QUADS), dataset(message))
    assert as_json_ld or (late[1]["graph"], late[1]["data"]) == (EX + "only", triple("a", "b"))
    service.create_stream("again", {"timeless": True})
    pushed = {name: late[0][name] for name in ("timestamp", "data")}
    service.push("again", json.dumps(pushed).encode(), NDJSON)
    assert same(stored(service), dataset(message))


def test_a_query_may_construct_from_the_graphs_of_a_message_and_another_reads_that(service: Service) -> None:
    service.register(
        f"PREFIX : <{EX}> REGISTER RSTREAM q AS CONSTRUCT {{ ?g :has ?x }} FROM NAMED WINDOW :w ON s "
        "[RANGE PT1S STEP PT1S] WHERE { WINDOW :w { GRAPH ?g { ?x :p ?y } } }"
    )
    service.register(
        registration("r", f"<{BASE}queries/q>", "RANGE PT1S STEP PT1S", "?g :has ?x", select="SELECT ?g ?x")
    )
    push_log(service, ":a :p 1 . :g { :b :p 2 } :f { :c :p 3 . :b :p 2 }", 100)
    service.heartbeat("s", 3000, wait="evaluated")
    found = [row for each in emissions_of(service, "r") for row in values(each)]
    assert sorted(found) == [("f", "b"), ("f", "c"), ("g", "b")]


def test_elements_of_one_graph_and_of_several_may_share_a_snapshot_and_a_push_of_each_kind(service: Service) -> None:
    service.create_stream("s", {"timeless": True})
    push_log(service, ":g { :a :p 1 } MESSAGE :f { :b :p 2 } :g { :c :p 3 } MESSAGE :d :p 4 .", 5)
    push(service, "s", 6, triple("e", 5))
    service.push("s", f"<{EX}h> <{EX}p> 6 <{EX}g> .".replace(" 6 ", f" <{EX}six> ").encode(), NQ, timestamp=7)
    rows = service.decode(service.query(f"PREFIX : <{EX}> SELECT ?g ?x WHERE {{ GRAPH ?g {{ ?x :p ?y }} }}"))
    names = sorted(tuple((term or b"").decode().removeprefix(f"<{EX}")[:-1] for term in row) for row in rows)
    assert names == [("f", "b"), ("g", "a"), ("g", "c"), ("g", "h")]


def test_a_message_cannot_write_into_the_answer_of_a_query_in_any_of_its_graphs(service: Service) -> None:
    service.register(f"PREFIX : <{EX}> REGISTER RSTREAM q AS CONSTRUCT {{ ?x :q ?y }} FROM NAMED WINDOW :w ON t "
                     "[RANGE PT1S STEP PT1S] WHERE { WINDOW :w { ?x :p ?y } }")  # fmt: skip
    service.create_stream("s", {"timeless": [EX + "name"]})
    graph = f"<{BASE}queries/q>"
    with pytest.raises(NameInUse):
        push_log(service, f":a :name 'a' . :g {{ :a :p 1 }} {graph} {{ :a :name 'b' }}", 1)
    assert push_log(service, f":a :name 'a' . {graph} {{ :a :p 1 }}", 1).accepted == 1
