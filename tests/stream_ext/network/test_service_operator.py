"""SERVICE as an operator: rows of ours with the solutions that another endpoint has for them, retractions included.

The other side is pyoxigraph on loopback; what should come out is worked out from its data in plain Python."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs

import numpy as np
import pyoxigraph
import pytest

from hbase_store.layout.terms import inline_id, inline_text
from stream_ext.errors import DeadlineExceeded
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.algebra import Query
from stream_ext.language.algebra.algebra import ServicePattern as Written
from stream_ext.language.algebra.terms import Constant, Position
from stream_ext.language.algebra.walk import walk
from stream_ext.language.syntax import parse
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.remote.remote_question import BATCH_ROWS, ServiceCall
from stream_ext.network.operators.remote.service import ServiceOperator, Unanswered
from stream_ext.remote.allowed_urls import AllowedUrls, places
from stream_ext.remote.backoff import Backoff
from stream_ext.rows.zset import ZSet, empty
from stream_ext.values.vocabulary import Vocabulary
from tests.stream_ext.fake_server import Asked, FakeServer, Reply, fake_server

EX = "http://ex/"
JSON = {"content-type": "application/sparql-results+json"}
HERE = Position(2, 7)
Row = tuple[str | None, ...]


@pytest.fixture
def there() -> Iterator[FakeServer]:
    with fake_server() as server:
        yield server


def answering(store: pyoxigraph.Store) -> Callable[[Asked], Reply]:
    def reply(asked: Asked) -> Reply:
        body = asked.body.decode()
        direct = asked.headers["content-type"].startswith("application/sparql-query")
        solutions: Any = store.query(body if direct else parse_qs(body)["query"][0])
        return Reply(body=solutions.serialize(format=pyoxigraph.QueryResultsFormat.JSON), headers=JSON)

    return reply


class Bench:
    def __init__(
        self, there: FakeServer, left: tuple[str, ...], text: str, names: tuple[str, ...], **named: Any
    ) -> None:
        self.vocabulary = Vocabulary(
            lambda texts: np.array(list(map(inline_id, texts)), np.uint64),
            lambda ids: list(map(inline_text, ids.tolist())),
        )
        self.allowed_urls = AllowedUrls(service=places(there.url), **named)
        self.now_ms = 0  # when the snapshot was published
        self.backoff = Backoff(self.allowed_urls, lambda sn: self.now_ms)
        query = parse(f"PREFIX : <{EX}> ASK {{ {text} }}", EX)
        assert isinstance(query, Query)
        (written,) = (part for part in walk(query.pattern) if isinstance(part, Written))
        call = ServiceCall(written.service, written.inner, names, written.silent, HERE)
        self.operator = ServiceOperator(left, call)

    def step(self, rows: list[tuple[Row, int]], time: int = 0, control: Control = Control.FREE) -> Counter[Row]:
        """Rows with weights in, rows with weights out."""
        moment = Moment(
            time, None, None, vocabulary=self.vocabulary, allowed_urls=self.allowed_urls, control=control,  # type: ignore[arg-type]  # it reads no store
            backoff=self.backoff,
        )  # fmt: skip
        found = self.operator.step(moment, self.zset(rows))
        weights = found.weight_array().tolist()
        bag: Counter[Row] = Counter()
        for row, weight in zip(zip(*map(self._texts, found.columns), strict=True), weights, strict=True):
            bag[row] += weight
        return Counter({row: weight for row, weight in bag.items() if weight})

    def zset(self, rows: list[tuple[Row, int]]) -> ZSet:
        if not rows:
            return empty(len(self.operator._left))
        columns = []
        for column in zip(*(row for row, _ in rows), strict=True):
            ids = [0 if text is None else int(self.vocabulary.encode([_full(text)])[0]) for text in column]
            columns.append(np.array(ids, np.uint64))
        return ZSet(tuple(columns), len(rows), np.array([weight for _, weight in rows], np.int64))

    def _texts(self, column: np.typing.NDArray[np.uint64]) -> list[str | None]:
        return [_short(self.vocabulary.decode(column[i : i + 1])[0]) if id else None for i, id in enumerate(column)]


def _full(text: str) -> bytes:
    if text.startswith("_"):
        return b"_:q" + text.encode()
    return f"<{EX}{text}>".encode() if not text.startswith("http") else f"<{text}>".encode()


def _short(text: bytes) -> str:
    if text.startswith(b"_:"):
        return "_"
    return text.decode().partition("^^")[0].strip('"').removeprefix(f"<{EX}").rstrip(">")


def knowing(triples: str) -> pyoxigraph.Store:
    store = pyoxigraph.Store()
    store.update(f"PREFIX : <{EX}> INSERT DATA {{ {triples} }}")
    return store


# ---- what comes out --------------------------------------------------------------------------------------------


def test_each_row_meets_the_solutions_of_its_own_values(there: FakeServer) -> None:
    there.replies["/x"] = answering(knowing(":a :born 1, 2 . :b :born 3 . :c :born 4"))
    bench = Bench(there, ("city", "p"), f"SERVICE <{there.url}/x> {{ ?p :born ?y }}", ("p", "y"))
    assert bench.operator.variables == ("city", "p", "y")
    rows: list[tuple[Row, int]] = [(("x", "a"), 1), (("y", "a"), 2), (("z", "b"), 1), (("z", "nobody"), 1)]
    assert bench.step(rows) == {
        ("x", "a", "1"): 1, ("x", "a", "2"): 1, ("y", "a", "1"): 2, ("y", "a", "2"): 2, ("z", "b", "3"): 1,
    }  # fmt: skip
    assert len(there.asked) == 1
    assert there.asked[0].body.count(b"ex%2Fa%3E") == 1, "values are sent once each"


def test_what_a_row_leaves_unbound_the_other_side_may_bind(there: FakeServer) -> None:
    there.replies["/x"] = answering(knowing(":a :born 1 . :b :born 2"))
    bench = Bench(there, ("p",), f"SERVICE <{there.url}/x> {{ ?p :born ?y }}", ("p", "y"))
    assert bench.step([((None,), 1), (("b",), 1)]) == {("a", "1"): 1, ("b", "2"): 2}


def test_a_pattern_that_shares_nothing_is_asked_once(there: FakeServer) -> None:
    there.replies["/x"] = answering(knowing(":a :born 1 . :b :born 2"))
    bench = Bench(there, ("n",), f"SERVICE <{there.url}/x> {{ ?p :born ?y }}", ("p", "y"))
    assert sum(bench.step([(("1",), 1), (("2",), 1)]).values()) == 4
    assert sum(bench.step([(("3",), 1)]).values()) == 2
    assert len(there.asked) == 1
    assert b"VALUES" not in there.asked[0].body


def test_a_pattern_without_variables_keeps_rows_or_does_not(there: FakeServer) -> None:
    there.replies["/x"] = answering(knowing(":a :born 1"))
    for year, retained in ((1, 1), (2, 0)):
        bench = Bench(there, ("n",), f"SERVICE <{there.url}/x> {{ :a :born {year} }}", ())
        assert bench.step([(("1",), 1)]) == ({("1",): 1} if retained else {})


def test_a_blank_node_of_ours_is_none_of_theirs(there: FakeServer) -> None:
    there.replies["/x"] = answering(knowing("_:x :born 1 . :a :born 2"))
    bench = Bench(there, ("p",), f"SERVICE <{there.url}/x> {{ ?p :born ?y }}", ("p", "y"))
    assert bench.step([(("_mine",), 1)]) == {}
    text = f"SERVICE <{there.url}/x> {{ ?q :born ?y OPTIONAL {{ ?q :dead ?p }} }}"
    bench = Bench(there, ("p",), text, ("p", "q", "y"))
    assert bench.step([(("_mine",), 1)]) == {("_", "_", "1"): 1, ("_", "a", "2"): 1}


def test_blank_nodes_of_two_answers_are_not_the_same(there: FakeServer) -> None:
    there.replies["/x"] = there.replies["/y"] = answering(knowing("_:x :born 1 . :a :of _:x, _:x"))
    ids = []
    for name in "xy":
        bench = Bench(there, ("n",), f"SERVICE <{there.url}/{name}> {{ ?p :born ?y . ?a :of ?p }}", ("a", "p", "y"))
        found = bench.operator.step(
            Moment(  # type: ignore[arg-type]
                0, None, None, vocabulary=bench.vocabulary, allowed_urls=bench.allowed_urls, backoff=bench.backoff
            ),
            bench.zset([(("1",), 1)]),
        )
        ids += bench.vocabulary.decode(found.columns[bench.operator.variables.index("p")])
    assert len(set(ids)) == len(ids) == 2


def test_a_variable_may_name_the_service(there: FakeServer) -> None:
    there.replies["/x"] = answering(knowing(":a :born 1"))
    there.replies["/y"] = answering(knowing(":a :born 2 . :b :born 3"))
    bench = Bench(there, ("s", "p"), "SERVICE ?s { ?p :born ?y }", ("p", "y"))
    rows: list[tuple[Row, int]] = [((f"{there.url}/{s}", p), 1) for s in "xy" for p in "ab"]
    found = {(row[0][-1], *row[1:]) for row in bench.step(rows) if row[0]}
    assert found == {("x", "a", "1"), ("y", "a", "2"), ("y", "b", "3")}
    for row, says in (
        ((None, "a"), "is unbound: a pattern before SERVICE"),
        (("_mine", "a"), "not the IRI of a service"),
    ):
        with pytest.raises(Unanswered, match=says):
            bench.step([(row, 1)])
    silent = Bench(there, ("s", "p"), "SERVICE SILENT ?s { ?p :born ?y }", ("p", "y"))
    assert silent.step([((None, "a"), 1)]) == {(None, "a", None): 1}


def test_names_that_no_text_could_have_are_written_otherwise(there: FakeServer) -> None:
    there.replies["/x"] = answering(knowing(":a :born 1"))
    bench = Bench(there, ("row",), f"SERVICE <{there.url}/x> {{ ?row :born ?y }}", ("row", "y"))
    assert bench.step([(("a",), 1)]) == {("a", "1"): 1}


@pytest.mark.parametrize("seed", range(20))
def test_what_comes_out_is_the_join_of_what_came_in(there: FakeServer, seed: int) -> None:
    chance = random.Random(seed)
    edges = {(chance.choice("abcd"), chance.randint(1, 3)) for _ in range(6)}
    there.replies["/x"] = answering(knowing(" . ".join(f":{s} :born {y}" for s, y in sorted(edges))))
    bench = Bench(there, ("n", "p"), f"SERVICE <{there.url}/x> {{ ?p :born ?y }}", ("p", "y"))
    held: Counter[Row] = Counter()
    out: Counter[Row] = Counter()
    for time in range(6):
        change: list[tuple[Row, int]] = []
        for _ in range(chance.randint(0, 4)):
            going = [row for row, weight in held.items() if weight > 0]
            if going and chance.random() < 0.4:
                change.append((chance.choice(going), -1))
            else:
                change.append(((chance.choice("xyz"), chance.choice(["a", "b", "c", "d", None])), 1))
            held[change[-1][0]] += change[-1][1]
        for row, weight in bench.step(change, time).items():
            out[row] += weight
        expected: Counter[Row] = Counter()
        for (n, p), weight in held.items():
            for s, y in edges:
                if p in (None, s) and weight:
                    expected[n, s, str(y)] += weight
        assert {row: weight for row, weight in out.items() if weight} == dict(expected)


# ---- how it is asked -------------------------------------------------------------------------------------------


def test_values_go_some_hundred_at_a_time(there: FakeServer) -> None:
    count = 2 * BATCH_ROWS + 1
    there.replies["/x"] = answering(knowing(" . ".join(f":v{i} :is {i % 7}" for i in range(count))))
    bench = Bench(there, ("v",), f"SERVICE <{there.url}/x> {{ ?v :is ?n }}", ("n", "v"))
    assert bench.step([((f"v{i}",), 1) for i in range(count)]) == {(f"v{i}", str(i % 7)): 1 for i in range(count)}
    assert len(there.asked) == 3


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (Reply(500, b"no memory\nleft"), "answered 500 Internal Server Error: no memory left"),
        (Reply(body=b"<html>"), "SPARQL results in JSON"),
        (Reply(body=b'{"boolean": true}'), "SPARQL results in JSON"),
        (Reply(body=b'{"results": {"bindings": [{"y": {"type": "x", "value": ""}}]}}'), "a term of type 'x'"),
        (
            Reply(body=b'{"results": {"bindings": [{"row": {"type": "literal", "value": "9"}}]}}'),
            "that were not in the request",
        ),
        (Reply(body=b" " * 5_001), "more than 5000 bytes"),
        (Reply(307, headers={"location": "http://127.0.0.2/"}), "not among the URLs"),
        (Reply(307, headers={"location": "/x"}), "more than 5 redirects"),
    ],
)
def test_a_service_that_fails_fails_the_query_unless_it_is_silent(there: FakeServer, reply: Reply, says: str) -> None:
    there.replies["/x"] = reply
    text = f"SERVICE <{there.url}/x> {{ ?p :born ?y }}"
    with pytest.raises(Unanswered, match=says) as failed:
        Bench(there, ("p",), text, ("p", "y"), bytes_max=5_000).step([(("a",), 1)])
    assert failed.value.position == HERE
    silent = Bench(there, ("p",), text.replace("SERVICE", "SERVICE SILENT"), ("p", "y"), bytes_max=5_000)
    assert silent.step([(("a",), 1), (("b",), 1)]) == {("a", None): 1, ("b", None): 1}
    there.replies["/x"] = answering(knowing(":a :born 1"))
    assert silent.step([(("a",), -1)]) == {("a", None): -1}, "what was shown is what is taken back"


def test_a_service_that_is_not_allowed_is_not_asked(there: FakeServer) -> None:
    bench = Bench(there, ("p",), f"SERVICE <{there.url}/x> {{ ?p :born ?y }}", ("p", "y"))
    bench.allowed_urls = AllowedUrls()
    with pytest.raises(Unanswered, match="SERVICE is off") as failed:
        bench.step([(("a",), 1)])
    assert failed.value.forbidden
    assert there.asked == []


def test_a_redirection_is_asked_in_the_same_way(there: FakeServer) -> None:
    there.replies["/old"] = Reply(308, headers={"location": "/x"})
    there.replies["/x"] = answering(knowing(":a :born 1"))
    bench = Bench(there, ("p",), f"SERVICE <{there.url}/old> {{ ?p :born ?y }}", ("p", "y"))
    assert bench.step([(("a",), 1)]) == {("a", "1"): 1}


def test_a_query_whose_time_is_up_asks_no_more(there: FakeServer) -> None:
    there.replies["/x"] = answering(knowing(":a :born 1"))
    ticks = iter([0.0, 2.0])
    control = Control(1.0, clock=lambda: next(ticks))
    bench = Bench(there, ("p",), f"SERVICE <{there.url}/x> {{ ?p :born ?y }}", ("p", "y"))
    with pytest.raises(DeadlineExceeded):
        bench.step([(("a",), 1)], control=control)
    assert there.asked == []


def test_no_row_asks_nothing(there: FakeServer) -> None:
    bench = Bench(there, ("p",), f"SERVICE <{there.url}/x> {{ ?p :born ?y }}", ("p", "y"))
    assert bench.step([]) == {}
    assert there.asked == []
    assert isinstance(bench.operator._call.service, Constant)
