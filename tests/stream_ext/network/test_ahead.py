"""A query that begins with nothing in memory makes few requests of a store that is remote, and has the same answer."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from hbase_store import Loading, Store
from hbase_store.backends.lmdb import LmdbKeyValue
from hbase_store.clock import WallClock
from stream_ext.oneshot.answers import decoded, rows_of
from stream_ext.oneshot.evaluate import evaluate
from stream_ext.oneshot.question import Question
from stream_ext.rdf import careful_rows
from tests.hbase_store.counting import Counting

PEOPLE = 3000
PREFIX = "PREFIX : <http://ex/>"
#: With the most requests: ids and texts of constants; their edges and small columns; texts of the answer. A path, an
#: object that leads to subjects and a variable predicate need to know first what came before.
QUERIES = {
    "SELECT ?name ?age ?org { ?p :city :city7 ; :name ?name ; :age ?age ; :org ?org }": 6,
    "SELECT ?name ?mail { ?p :city :city3 ; :name ?name OPTIONAL { ?p :mail ?mail } FILTER(?name > 'Person 5') }": 6,
    "SELECT ?city (COUNT(?f) AS ?n) { ?p :city ?city ; :age ?age ; :knows ?f } GROUP BY ?city": 5,
    "SELECT ?a ?b { ?a :org :org5 . ?b :knows ?a . ?b :age ?age FILTER(?age > 60) }": 7,
    "SELECT ?org { ?org :partOf+ :org5 }": 6,
    "SELECT ?p ?o { :person9 ?p ?o }": 3,
    "SELECT ?p ?name { ?p :city :city7 ; :org :org5 ; :name ?name }": 5,
}


def lines() -> Iterator[bytes]:
    chance = random.Random(7)
    for i in range(PEOPLE):
        who = b"<http://ex/person%d>" % i
        yield b'%b <http://ex/name> "Person %d" .\n' % (who, i)
        yield b'%b <http://ex/age> "%d"^^<http://www.w3.org/2001/XMLSchema#integer> .\n' % (who, chance.randrange(90))
        yield b"%b <http://ex/city> <http://ex/city%d> .\n" % (who, chance.randrange(20))
        yield b"%b <http://ex/org> <http://ex/org%d> .\n" % (who, chance.randrange(40))
        if i % 3:
            yield b"%b <http://ex/mail> <mailto:%d@ex> .\n" % (who, i)
        for friend in chance.sample(range(PEOPLE), 4):
            yield b"%b <http://ex/knows> <http://ex/person%d> .\n" % (who, friend)
    for i in range(1, 40):
        yield b"<http://ex/org%d> <http://ex/partOf> <http://ex/org%d> .\n" % (i, (i - 1) // 3)


@pytest.fixture(scope="module")
def inner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LmdbKeyValue]:
    backend = LmdbKeyValue(tmp_path_factory.mktemp("ahead") / "store")
    store = Store(backend, "ahead", WallClock(), folding=False)
    loading = Loading(careful_rows)
    loading.read(b"".join(lines()))
    store.load(loading)
    yield backend
    store.close()


def asked(store: Store, text: str) -> list[tuple[bytes | None, ...]]:
    question = Question.read(f"{PREFIX} {text}", "")
    answer = evaluate(store, question.unit, store.head(), planned=question)
    for _ in decoded(answer.columns, answer.vocabulary.decode, answer.count):
        pass  # in pieces, as a server sends it
    return sorted(rows_of(answer))


@pytest.mark.parametrize("text", QUERIES)
def test_a_cold_query_makes_few_requests(inner: LmdbKeyValue, text: str) -> None:
    kv = Counting(inner)
    store = Store(kv, "remote", WallClock(), folding=False)
    store.refresh()
    with kv.counted():
        found = asked(store, text)
    assert found
    assert kv.total <= QUERIES[text], kv.calls
    with kv.counted():
        assert asked(store, text) == found
    assert kv.total == 0, kv.calls
    local = Store(inner, "local", WallClock(), folding=False)
    local.refresh()
    assert asked(local, text) == found


def test_a_store_that_was_read_ahead_answers_without_a_request(inner: LmdbKeyValue) -> None:
    kv, local = Counting(inner), Store(inner, "local", WallClock(), folding=False)
    store = Store(kv, "remote", WallClock(), folding=False)
    local.refresh()
    with kv.counted():
        assert store.read_ahead(64 << 20) > 0
    assert kv.total <= 8, "some large requests"
    with kv.counted():
        for text in QUERIES:
            assert asked(store, text) == asked(local, text)
    assert kv.total == 0, kv.calls
    assert local.read_ahead(64 << 20) == 0


def test_no_more_is_read_ahead_than_is_asked_for_and_the_smallest_first(inner: LmdbKeyValue) -> None:
    kv = Counting(inner)
    everything = Store(kv, "remote", WallClock(), folding=False)
    bytes_of_all = everything.read_ahead(64 << 20)
    store = Store(kv, "remote", WallClock(), folding=False)
    brought = store.read_ahead(bytes_of_all // 8)
    assert bytes_of_all // 32 < brought <= bytes_of_all // 8
    path = "SELECT ?org { ?org :partOf+ :org5 }"
    with kv.counted():
        assert asked(store, path) == asked(everything, path)
    assert kv.keys["i2t"] and kv.keys["run"] == 1, "a block of hashes: the columns of the path are small"


def test_reading_ahead_ends_early_when_it_may_not_go_on(inner: LmdbKeyValue) -> None:
    kv = Counting(inner)
    store = Store(kv, "remote", WallClock(), folding=False)
    with kv.counted():
        assert store.read_ahead(64 << 20, lambda: False) == 0
    assert kv.total == 0
