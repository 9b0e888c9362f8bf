"""SPARQL 1.1 Update, one request one snapshot: what each operation does, what it counts, and how it fails."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyoxigraph
import pytest

from hbase_store import Store
from stream_ext.errors import DeadlineExceeded, QueryCancelled, QueryTooLarge, Unsupported, UpdateFailed
from stream_ext.evaluation_budget import Control
from stream_ext.rdf.canonical import canonical
from stream_ext.service.service import Service
from stream_ext.writer.updates import Updated
from tests.stream_ext.opened import EX, opened

Quad = tuple[str, ...]
HEAD = f"PREFIX : <{EX}>\n"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with opened(tmp_path) as running:
        yield running


def update(service: Service, text: str) -> Updated:
    return service.update(HEAD + text)


def texts_of(store: Store, sn: int) -> set[tuple[bytes, ...]]:
    """(s, p, o) of the default graph, (s, p, o, g) of the others."""
    s, p, o, g = store.at(sn).quads()
    named = g != 0
    plain = zip(*(store.terms(column[~named]) for column in (s, p, o)), strict=True)
    return {*plain, *zip(*(store.terms(column[named]) for column in (s, p, o, g)), strict=True)}


def quads(service: Service) -> set[Quad]:
    """The same in short: without the folder of names, and integers as their digits."""
    found = texts_of(service.store, service.head())
    return {tuple(_short(term.decode()) for term in quad) for quad in found}


def _short(term: str) -> str:
    if term.startswith("<"):
        return term.removeprefix(f"<{EX}").removesuffix(">") if term.startswith(f"<{EX}") else term
    return term.partition("^^")[0].strip('"')


# ---- by patterns -----------------------------------------------------------------------------------------------


def test_a_pattern_deletes_and_inserts_for_each_solution(service: Service) -> None:
    update(service, "INSERT DATA { :a :age 1 . :b :age 2 . :c :name 3 }")
    done = update(service, "DELETE { ?s :age ?o } INSERT { ?s :years ?o . GRAPH :g { ?o ?s ?s . ?s :was ?o } } "
                           "WHERE { ?s :age ?o }")  # fmt: skip
    assert quads(service) == {
        ("a", "years", "1"), ("b", "years", "2"), ("c", "name", "3"),
        ("a", "was", "1", "g"), ("b", "was", "2", "g"),
    }  # fmt: skip
    assert done == Updated(service.head(), 4, 2)


def test_what_is_deleted_and_inserted_at_once_stays(service: Service) -> None:
    update(service, "INSERT DATA { :a :p 1, 2 }")
    assert update(service, "DELETE { ?s :p ?o } INSERT { ?s :p 1 } WHERE { ?s :p ?o }") == Updated(2, 0, 1)
    assert quads(service) == {("a", "p", "1")}


def test_the_quads_of_delete_where_are_the_pattern_as_well(service: Service) -> None:
    update(service, "INSERT DATA { :a :p 1 . :b :p 1 . GRAPH :g { :a :q 2 } GRAPH :h { :a :q 3 . :b :r 4 } }")
    assert update(service, "DELETE WHERE { ?s :p ?o . GRAPH ?g { ?s :q ?x } }").deleted == 3
    assert quads(service) == {("b", "p", "1"), ("b", "r", "4", "h")}
    update(service, "DELETE WHERE { ?s ?p ?o }; DELETE WHERE { GRAPH :h { :b :r ?x } }")
    assert quads(service) == set()


def test_each_solution_has_blank_nodes_of_its_own(service: Service) -> None:
    update(service, "INSERT DATA { :a :p 1, 2 }")
    update(service, "INSERT { ?s :has _:x . _:x :value ?o . [] :of ?o } WHERE { ?s :p ?o }")
    found = quads(service)
    nodes = {o for _, p, o in (q for q in found) if p == "has"}
    assert len(nodes) == 2
    assert {s for s, p, _ in found if p == "value"} == nodes
    assert not nodes & {s for s, p, _ in found if p == "of"}
    assert len({s for s, p, _ in found if p == "of"}) == 2


def test_a_quad_that_is_no_rdf_is_left_out(service: Service) -> None:
    update(service, "INSERT DATA { :a :p 1 . :b :p :c . :b :q 'text' . _:x :p :c }")
    update(service, "INSERT { GRAPH :out { ?o :is ?s . ?s ?o ?s } GRAPH ?o { ?s :in ?o } } WHERE { ?s ?p ?o }")
    out = {quad for quad in quads(service) if len(quad) == 4 and not any(term.startswith("_:") for term in quad)}
    assert out == {("c", "is", "b", "out"), ("b", "c", "b", "out"), ("b", "in", "c", "c")}


def test_a_variable_that_the_pattern_does_not_bind_makes_no_quad(service: Service) -> None:
    update(service, "INSERT DATA { :a :p 1 }")
    done = update(service, "DELETE { ?s :p ?none . GRAPH ?none { ?s :p 1 } } INSERT { ?none :q 2 . :a :q 2 } "
                           "WHERE { ?s :p ?o }")  # fmt: skip
    assert (done.inserted, done.deleted) == (1, 0)
    assert quads(service) == {("a", "p", "1"), ("a", "q", "2")}


def test_a_term_that_nobody_knows_deletes_nothing(service: Service) -> None:
    update(service, "INSERT DATA { :a :p 1 }")
    before = service.head()
    for text in (
        "DELETE { ?s :nobody ?o } WHERE { ?s :p ?o }",
        "DELETE { GRAPH :nowhere { ?s :p ?o } } WHERE { ?s :p ?o }",
        "DELETE WHERE { GRAPH :nowhere { ?s :p ?o } }",
        "DELETE DATA { :a :p 'nothing' }",
        "DELETE { ?s :p ?o } WHERE { ?s :absent ?o }",
    ):
        assert update(service, text) == Updated(before, 0, 0), text
    assert service.store.ids([f"<{EX}nowhere>".encode()])[0] == 0


def test_a_pattern_without_variables_asks_once(service: Service) -> None:
    update(service, "INSERT { :a :p 1 } WHERE { }")
    update(service, "INSERT { :b :p _:x } WHERE { :a :p 1 }")
    update(service, "INSERT { :never :p 1 } WHERE { :a :p 2 }")
    assert {quad[:2] for quad in quads(service)} == {("a", "p"), ("b", "p")}


EVERYWHERE = "INSERT DATA { :a :p 1 . GRAPH :g { :a :p 2 . :b :q 3 } GRAPH :h { :a :p 2 . :c :q 4 } }"


@pytest.mark.parametrize(
    ("text", "gone", "come"),
    [
        # WITH is the graph of the templates, and the default graph of the pattern.
        ("WITH :g DELETE { ?s :p ?o } INSERT { ?s :r ?o } WHERE { ?s :p ?o }", {"a p 2 g"}, {"a r 2 g"}),
        ("WITH :g INSERT { GRAPH :h { ?s :r ?o } } WHERE { ?s :q ?o }", set(), {"b r 3 h"}),
        ("WITH :g DELETE { ?s ?p ?o } WHERE { GRAPH :h { ?s ?p ?o } }", {"a p 2 g"}, set()),
        ("WITH :none INSERT { :x :r 1 } WHERE { }", set(), {"x r 1 none"}),
        ("WITH :none INSERT { :x :r ?o } WHERE { ?s ?p ?o }", set(), set()),
        # USING is what the pattern is solved over, whatever WITH says of it.
        ("INSERT { ?s :r ?o } USING :g WHERE { ?s :q ?o }", set(), {"b r 3"}),
        ("INSERT { ?s :r ?o } USING :g USING :h WHERE { ?s :q ?o }", set(), {"b r 3", "c r 4"}),
        ("WITH :g INSERT { ?s :r ?o } USING :h WHERE { ?s :q ?o }", set(), {"c r 4 g"}),
        ("WITH :g DELETE { ?s :p ?o } USING :h WHERE { ?s :p ?o }", {"a p 2 g"}, set()),
        ("INSERT { ?s :r ?o } USING NAMED :g WHERE { GRAPH ?x { ?s :q ?o } }", set(), {"b r 3"}),
        ("INSERT { ?s :r ?o } USING NAMED :g WHERE { ?s ?p ?o }", set(), set()),
        ("INSERT { ?s :r ?o } USING :g WHERE { GRAPH :h { ?s ?p ?o } }", set(), set()),
        ("DELETE { GRAPH :g { ?s :p ?o } } USING :g USING :h WHERE { ?s :p ?o }", {"a p 2 g"}, set()),
    ],
)
def test_with_and_using_say_which_graphs_are_meant(service: Service, text: str, gone: set[str], come: set[str]) -> None:
    update(service, EVERYWHERE)
    before = quads(service)
    update(service, text)
    after = quads(service)
    assert ({" ".join(quad) for quad in before - after}, {" ".join(quad) for quad in after - before}) == (gone, come)


def test_terms_that_a_pattern_makes_become_terms_of_the_store(service: Service) -> None:
    update(service, "INSERT DATA { :a :name 'x' . :b :name 'y' }")
    update(
        service,
        """INSERT { ?iri :label ?both ; :same ?node . ?node :of ?s ; :again ?node } WHERE {
            ?s :name ?n BIND(CONCAT(?n, '!') AS ?both) BIND(IRI(CONCAT(STR(?s), '2')) AS ?iri) BIND(BNODE() AS ?node)
        }""",
    )
    found = quads(service)
    assert {("a2", "label", "x!"), ("b2", "label", "y!")} < found
    nodes = {s: o for s, p, o in found if p == "same"}
    assert len(set(nodes.values())) == 2, "a blank node for each solution"
    assert {("a", nodes["a2"]), ("b", nodes["b2"])} == {(o, s) for s, p, o in found if p == "of"}
    assert {(node, node) for node in nodes.values()} == {(s, o) for s, p, o in found if p == "again"}
    assert update(service, "DELETE { ?s :label ?l } WHERE { ?s :label ?l FILTER(STRENDS(?l, '!')) }").deleted == 2
    assert update(service, "DELETE { ?s :name ?l } WHERE { ?s :name ?n BIND(CONCAT(?n, '?') AS ?l) }").deleted == 0


def test_a_term_that_no_row_can_hold_fails_the_request(service: Service) -> None:
    update(service, f"INSERT DATA {{ :a :p '{'x' * 1000}' }}")
    doubled = " ".join(f"BIND(CONCAT(?o{i}, ?o{i}) AS ?o{i + 1})" for i in range(13))
    insert = f"{HEAD}INSERT {{ :b :p ?o13 }} WHERE {{ :a :p ?o0 {doubled} }}"
    with pytest.raises(UpdateFailed, match="line 2, column 1: a term has 8192002 bytes; it may have at most"):
        service.update(insert, control=Control(term_bytes=16 << 20))
    with pytest.raises(QueryTooLarge, match="a term of 8192000 bytes"):
        service.update(insert)
    assert service.head() == 1


# ---- whole graphs ----------------------------------------------------------------------------------------------

PLAIN = {("a", "p", "1")}
IN_G = {("a", "p", "2"), ("b", "q", "3")}
IN_H = {("a", "p", "2"), ("c", "q", "4")}


def placed(default: set[Quad], g: set[Quad], h: set[Quad]) -> set[Quad]:
    return default | {(*t, "g") for t in g} | {(*t, "h") for t in h}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CLEAR DEFAULT", placed(set(), IN_G, IN_H)),
        ("CLEAR NAMED", placed(PLAIN, set(), set())),
        ("CLEAR ALL", set()),
        ("CLEAR GRAPH :g", placed(PLAIN, set(), IN_H)),
        ("DROP DEFAULT", placed(set(), IN_G, IN_H)),
        ("DROP NAMED", placed(PLAIN, set(), set())),
        ("DROP ALL", set()),
        ("DROP GRAPH :h", placed(PLAIN, IN_G, set())),
        ("DROP GRAPH :absent", placed(PLAIN, IN_G, IN_H)),
        ("CLEAR SILENT GRAPH :absent", placed(PLAIN, IN_G, IN_H)),
        ("COPY :g TO :h", placed(PLAIN, IN_G, IN_G)),
        ("COPY DEFAULT TO :g", placed(PLAIN, PLAIN, IN_H)),
        ("COPY :g TO DEFAULT", placed(IN_G, IN_G, IN_H)),
        ("COPY :g TO :g", placed(PLAIN, IN_G, IN_H)),
        ("COPY SILENT :absent TO :g", placed(PLAIN, IN_G, IN_H)),
        ("MOVE :g TO :h", placed(PLAIN, set(), IN_G)),
        ("MOVE DEFAULT TO :h", placed(set(), IN_G, PLAIN)),
        ("MOVE :g TO DEFAULT", placed(IN_G, set(), IN_H)),
        ("MOVE :g TO :g", placed(PLAIN, IN_G, IN_H)),
        ("MOVE SILENT :absent TO DEFAULT", placed(PLAIN, IN_G, IN_H)),
        ("ADD :g TO :h", placed(PLAIN, IN_G, IN_G | IN_H)),
        ("ADD :g TO DEFAULT", placed(PLAIN | IN_G, IN_G, IN_H)),
        ("ADD :g TO :g", placed(PLAIN, IN_G, IN_H)),
        ("ADD SILENT :absent TO :g", placed(PLAIN, IN_G, IN_H)),
        ("CLEAR DEFAULT ; COPY DEFAULT TO :g", placed(set(), set(), IN_H)),
        ("CREATE GRAPH :new", placed(PLAIN, IN_G, IN_H)),
        ("CREATE SILENT GRAPH :g", placed(PLAIN, IN_G, IN_H)),
    ],
)
def test_graphs_as_wholes(service: Service, text: str, expected: set[Quad]) -> None:
    update(service, EVERYWHERE)
    before = quads(service)
    done = update(service, text)
    assert quads(service) == expected
    assert (done.inserted, done.deleted) == (len(expected - before), len(before - expected))


@pytest.mark.parametrize("verb", ["COPY", "MOVE", "ADD"])
def test_a_source_that_is_not_there_fails_and_its_target_keeps_its_triples(service: Service, verb: str) -> None:
    update(service, EVERYWHERE)
    before = quads(service)
    with pytest.raises(UpdateFailed, match=rf"line 2, column 1: there is no graph <{EX}absent>: it has no triples"):
        update(service, f"{verb} :absent TO :g")
    assert quads(service) == before


def test_a_graph_is_there_while_it_holds_a_triple(service: Service) -> None:
    update(service, "CREATE GRAPH :g ; CREATE GRAPH :g ; INSERT DATA { GRAPH :g { :a :p 1 } }")
    with pytest.raises(UpdateFailed, match=rf"the graph <{EX}g> already exists"):
        update(service, "CREATE GRAPH :g")
    update(service, "DELETE DATA { GRAPH :g { :a :p 1 } } ; CREATE GRAPH :g")
    with pytest.raises(UpdateFailed, match="there is no graph"):
        update(service, "ADD :g TO DEFAULT")


# ---- requests --------------------------------------------------------------------------------------------------


def test_an_operation_sees_what_those_before_it_did(service: Service) -> None:
    done = update(
        service,
        """INSERT DATA { :a :p 1 . GRAPH :g { :a :p 9 } } ;
        INSERT { ?s :q ?o } WHERE { ?s :p ?o } ;
        DELETE { ?s :p ?o } WHERE { ?s :q ?o } ;
        ADD :g TO DEFAULT ;
        INSERT { ?s :r ?o } WHERE { ?s :p ?o } ;
        CLEAR GRAPH :g""",
    )
    assert quads(service) == {("a", "q", "1"), ("a", "p", "9"), ("a", "r", "9")}
    assert done == Updated(1, 3, 0)


def test_an_operation_does_not_see_its_own_changes(service: Service) -> None:
    update(service, "INSERT DATA { :a :next :b . :b :next :c }")
    update(service, "INSERT { ?x :next ?z } WHERE { ?x :next ?y . ?y :next ?z }")
    assert quads(service) == {("a", "next", "b"), ("b", "next", "c"), ("a", "next", "c")}


def test_a_request_that_fails_leaves_nothing_and_says_where(service: Service) -> None:
    update(service, "INSERT DATA { GRAPH :g { :a :p 1 } }")
    head, before = service.head(), quads(service)
    text = "INSERT DATA { :new :term 7 } ;\n  CLEAR ALL ;\n  INSERT DATA { GRAPH :g { :x :y 1 } } ;\n  CREATE GRAPH :g"
    with pytest.raises(UpdateFailed) as failed:
        update(service, text)
    assert str(failed.value).splitlines() == [
        f"line 5, column 3: operation 4 of 4: the graph <{EX}g> already exists (CREATE SILENT ignores that); "
        "nothing of this request was applied",
        "    CREATE GRAPH :g",
        "    ^",
    ]
    assert (service.head(), quads(service)) == (head, before)
    assert service.store.ids([f"<{EX}new>".encode()])[0] == 0
    update(service, "INSERT DATA { :new :term 7 }")
    assert quads(service) == before | {("new", "term", "7")}


def test_a_request_that_changes_nothing_counts_nothing(service: Service) -> None:
    assert update(service, "INSERT DATA { :a :p 1, 1, 2 }") == Updated(1, 2, 0)
    assert update(service, "INSERT DATA { :a :p 1, 3 } ; DELETE DATA { :a :p 3, 4 }") == Updated(2, 0, 0)
    assert update(service, "CLEAR GRAPH :g") == Updated(2, 0, 0)
    assert service.update("") == Updated(2, 0, 0)


def test_what_an_update_makes_is_read_back_by_the_next_request(service: Service) -> None:
    update(service, "INSERT DATA { :a :p 'new' } ; INSERT { ?o2 :q ?o } WHERE { ?s :p ?o . ?o2 :p 'new' }")
    assert quads(service) == {("a", "p", "new"), ("a", "q", "new")}
    update(service, "DELETE { ?s ?p ?o } INSERT { ?s ?p 'newer' } WHERE { ?s ?p ?o }")
    assert quads(service) == {("a", "p", "newer"), ("a", "q", "newer")}


def test_an_update_whose_time_is_up_does_nothing(service: Service) -> None:
    update(service, "INSERT DATA { :a :p 1, 2, 3 }")
    ticks = iter([0.0, 0.5, 0.5, *[2.0] * 100])
    text = HEAD + "INSERT DATA { :b :p 1 } ; DELETE { ?s ?p ?o } WHERE { ?s ?p ?o } ; CLEAR ALL"
    with pytest.raises(DeadlineExceeded):
        service.update(text, control=Control(1.0, clock=lambda: next(ticks)))
    assert service.head() == 1
    cancelled = Control()
    cancelled.cancel()
    with pytest.raises(QueryCancelled):
        service.update(text, control=cancelled)
    assert len(quads(service)) == 3


def test_a_window_in_an_update_is_refused(service: Service) -> None:
    with pytest.raises(Unsupported, match="a window in an update"):
        update(service, "INSERT { ?s :p ?o } WHERE { STREAM :s [RANGE 1s] { ?s :p ?o } }")


# ---- against another store -------------------------------------------------------------------------------------

NAMES = "abc"
GRAPHS = "gh"


class Writer:
    """Random requests over a few names, so that they meet."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def request(self) -> str:
        return HEAD + " ;\n".join(self._operation() for _ in range(self._random.randint(1, 4)))

    def _operation(self) -> str:
        return self._random.choice([self._data, self._data, self._where, self._modify, self._modify, self._graphs])()

    def _one(self, choices: str | list[str]) -> str:
        return self._random.choice(list(choices))

    def _triple(self, *variables: str) -> str:
        s = self._one([f":{self._one(NAMES)}", *variables])
        p = self._one([f":p{self._one('12')}", *variables[:1]])
        return f"{s} {p} {self._one([f':{self._one(NAMES)}', str(self._random.randint(1, 2)), *variables])}"

    def _block(self, *variables: str, graphs: bool = True) -> str:
        parts = []
        for _ in range(self._random.randint(1, 2)):
            triple = self._triple(*variables)
            place = self._one(["", "", f":{self._one(GRAPHS)}", *(["?g"] if variables and graphs else [])])
            parts.append(f"GRAPH {place} {{ {triple} }}" if place else f"{triple} .")
        return "{ " + " ".join(parts) + " }"

    def _data(self) -> str:
        return f"{self._one(['INSERT', 'INSERT', 'INSERT', 'DELETE'])} DATA {self._block()}"

    def _where(self) -> str:
        return f"DELETE WHERE {self._block('?x', '?y')}"

    def _modify(self) -> str:
        templates = [f"DELETE {self._block('?x', '?y')}", f"INSERT {self._block('?x', '?y', '?z')}"]
        chosen = self._one(["0", "1", "01"])
        first = self._one(["", "", f"WITH :{self._one(GRAPHS)} "])
        using = self._one(["", "", "", "USING :g", "USING :g USING :h", "USING :h USING NAMED :g", "USING NAMED :h"])
        return first + " ".join([*(templates[int(i)] for i in chosen), using, "WHERE", self._pattern()])

    def _pattern(self) -> str:
        more = self._one([
            "", "",
            f"OPTIONAL {{ {self._triple('?x', '?z')} }}",
            f"MINUS {{ {self._triple('?x', '?y')} }}",
            f"FILTER NOT EXISTS {{ {self._triple('?y', '?z')} }}",
            f"BIND(:{self._one(NAMES)} AS ?z)",
            f"VALUES ?z {{ :{self._one(NAMES)} 1 }}",
            "FILTER(ISIRI(?y))",
        ])  # fmt: skip
        block = self._block("?x", "?y")
        joins = not more.startswith("BIND") and self._random.random() < 0.2
        other = f" UNION {self._block('?x', '?z')}" if joins else ""
        return f"{{ {block}{other} {more} }}"

    def _graphs(self) -> str:
        graph = self._one([f"GRAPH :{self._one(GRAPHS)}", "DEFAULT", "NAMED", "DEFAULT"])
        one, other = (self._one(["DEFAULT", ":g", ":h"]) for _ in range(2))
        return self._one([
            f"{self._one(['CLEAR', 'DROP'])} SILENT {graph}",
            f"INSERT DATA {{ {'GRAPH ' + one if one != 'DEFAULT' else ''} {{ :a :p1 :b }} }} ; "
            .replace("{  {", "{").replace("} }", "}" if one == "DEFAULT" else "} }")
            + f"{self._one(['COPY', 'MOVE', 'ADD'])} {one} TO {other}",
        ])  # fmt: skip


@pytest.mark.parametrize("seed", range(10))
def test_random_requests_leave_what_pyoxigraph_has(service: Service, seed: int) -> None:
    writer, other = Writer(seed), pyoxigraph.Store()
    changed = 0
    for _ in range(25):
        text = writer.request()
        before = texts_of(service.store, service.head())
        done = service.update(text)
        other.update(text)
        after = texts_of(service.store, service.head())
        assert after == {_texts(quad) for quad in other}, text
        assert (done.inserted, done.deleted) == (len(after - before), len(before - after)), text
        changed += before != after
    assert changed > 10


def _texts(quad: pyoxigraph.Quad) -> tuple[bytes, ...]:
    nodes = [quad.subject, quad.predicate, quad.object]
    if not isinstance(quad.graph_name, pyoxigraph.DefaultGraph):
        nodes.append(quad.graph_name)
    return tuple(canonical(str(node).encode()) for node in nodes)


# ---- size ------------------------------------------------------------------------------------------------------


def test_a_hundred_thousand_solutions_are_written_as_arrays(service: Service) -> None:
    count = 100_000
    store = service.store
    data = "\n".join(f"<{EX}s{i}> <{EX}p> <{EX}o{i % 1000}> ." for i in range(count))
    service.create_stream("s", {"timeless": True})
    service.push("s", data.encode(), "application/n-triples", timestamp=1)
    update(service, "DELETE { ?s :q ?o } INSERT { ?s :p ?o } WHERE { ?s :q ?o }")  # compiled code is loaded by this
    started = time.process_time()
    done = update(service, "DELETE { ?s :p ?o } INSERT { ?s :q ?o } WHERE { ?s :p ?o }")
    spent = time.process_time() - started
    assert (done.inserted, done.deleted) == (count, count)
    p, q = store.ids([f"<{EX}{name}>".encode() for name in "pq"]).tolist()
    snapshot = store.at(service.head())
    assert (snapshot.count(p), snapshot.count(q)) == (0, count)
    assert np.array_equal(snapshot.pairs(q)[0], np.unique(snapshot.pairs(q)[0]))
    assert spent < 0.8, "it takes some 40 ms; a row at a time it would be far more"
