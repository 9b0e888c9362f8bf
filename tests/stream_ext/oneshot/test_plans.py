"""A plan that is kept answers as a new one: the second time, after the store has changed, and in several threads."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

import hbase_store
from hbase_store import Store
from stream_ext.errors import RilletError
from stream_ext.language.algebra.algebra import Query
from stream_ext.language.syntax import parse
from stream_ext.network.inputs import NetworkInputs
from stream_ext.network.network import Network
from stream_ext.oneshot.answers import answer_once, rows_of
from stream_ext.oneshot.question import Question, Questions
from stream_ext.plan.pipeline import logic_of
from stream_ext.windows.scheduled_window import ScheduledWindow
from tests.stream_ext.generated import EX, PROLOGUE
from tests.stream_ext.oneshot.test_differential import made
from tests.stream_ext.oneshot.test_specification import Text
from tests.stream_ext.peers import Ours, TooMuch, agree, load, pyoxigraph_of
from tests.stream_ext.standing import Changing, steps

Bag = Counter[tuple[bytes | None, ...]]

#: Each has solutions that count several times, and something above that makes one of them.
COUNTED = [
    "SELECT DISTINCT ?x { ?x :p ?y ; :q ?z }",
    "ASK { ?x :p ?y . ?y :p ?z }",
    "SELECT ?x { ?x :p ?y ; :q ?z FILTER EXISTS { SELECT ?x { ?x :p ?w ; :q ?v } } }",
    "SELECT ?x { ?x :q 1 { SELECT DISTINCT ?x { ?x :p ?y ; :q ?z } } }",
    "SELECT ?x (COUNT(*) AS ?n) { ?x :p ?y ; :q ?z } GROUP BY ?x",
]

_ENDS = (":a", ":b", ":c")
DATA = [(s, p, o, "") for s in _ENDS for p in (":p", ":q") for o in (*_ENDS, "1")]


def answered(store: Store, text: str, sn: int, questions: Questions | None) -> Bag | str:
    try:
        question = Question.read(text, EX) if questions is None else questions.read(text, EX)
        answer = answer_once(store, question, sn, None)
    except RilletError as error:
        return str(error)
    if answer.graph is not None:
        return Counter(zip(*(answer.vocabulary.decode(column) for column in answer.graph), strict=True))
    return Counter(rows_of(answer)) + Counter({(b"true",): int(bool(answer.boolean))})


@pytest.fixture(name="store")
def store_with_several_of_each(tmp_path: Path) -> Iterator[Store]:
    with closing(hbase_store.open(f"lmdb:{tmp_path}/s", folding=False)) as store:
        load(store, DATA)
        yield store


@pytest.mark.parametrize("text", COUNTED)
def test_a_question_that_is_asked_again_has_the_same_answer(store: Store, text: str) -> None:
    questions, text = Questions(), f"{PROLOGUE} {text}"
    fresh = answered(store, text, store.head(), None)
    assert isinstance(fresh, Counter) and fresh
    assert [answered(store, text, store.head(), questions) for _ in range(3)] == [fresh] * 3


@pytest.mark.parametrize("text", COUNTED)
def test_threads_may_share_a_plan(store: Store, text: str) -> None:
    questions, text = Questions(), f"{PROLOGUE} {text}"
    fresh = answered(store, text, store.head(), None)
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(answered, store, text, store.head(), questions) for _ in range(16)]
        assert [each.result(60) for each in asked] == [fresh] * 16


@pytest.mark.parametrize("block", range(4))
def test_generated_questions_keep_their_answers_while_the_store_changes(block: int, tmp_path: Path) -> None:
    compared = 0
    for seed in range(block * 6, block * 6 + 6):
        try:
            data, queries = made(seed)
        except TooMuch:
            continue
        changing, questions = Changing(tmp_path / str(seed)), Questions()
        with closing(changing.store) as store:
            for inserted, deleted in steps(random.Random(seed), data, 3):
                sn = changing.change(inserted, deleted)
                for asked in queries:
                    text = str(asked.whole)
                    fresh = answered(store, text, sn, None)
                    for _ in range(2):
                        assert answered(store, text, sn, questions) == fresh, f"seed {seed}, snapshot {sn}: {asked}"
                    compared += isinstance(fresh, Counter) and bool(fresh)
    assert compared > 30, "these seeds compare too little to prove anything"


#: What is said twice, and how many operators look for it.
SAID_TWICE = [
    ("SELECT * { { ?x :p ?y . ?y :q ?z } UNION { ?x :p ?y . ?y :p ?w } }", "?x <http://ex/p> ?y", 1),
    ("SELECT * { { ?x :p+ ?y } UNION { ?x :p+ ?y FILTER(isLITERAL(?y)) } }", "?x path ?y", 1),
    ("SELECT * { { ?x :p ?y MINUS { ?x :q ?x } } UNION { ?x :q ?x } }", "?x <http://ex/q> ?x", 1),
    ("SELECT * { { ?x :p ?y OPTIONAL { ?y :q ?z } } UNION { ?x :p ?y OPTIONAL { ?y :q ?z } } }", "optional", 1),
    ("SELECT * { { ?x :p ?y BIND(STR(?y) AS ?z) } UNION { ?x :p ?y BIND(STR(?y) AS ?z) } }", "bind ?z", 1),
    ("SELECT * { { ?x :p ?y BIND(RAND() AS ?z) } UNION { ?x :p ?y BIND(RAND() AS ?z) } }", "bind ?z", 2),
]


@pytest.mark.parametrize(("text", "says", "count"), SAID_TWICE)
def test_what_a_query_says_twice_is_worked_out_once(store: Store, text: str, says: str, count: int) -> None:
    query = parse(f"{PROLOGUE} {text}", EX)
    assert isinstance(query, Query)
    stages = Network.of_query(logic_of(query), NetworkInputs(store.at(), store.ids)).stages
    assert [stage.label for stage in stages].count(says) == count


@pytest.mark.parametrize("text", [text for text, _, _ in SAID_TWICE if "RAND" not in text])
def test_what_is_worked_out_once_is_emitted_as_often_as_the_query_says_it(text: str, tmp_path: Path) -> None:
    with closing(Ours(tmp_path / "s", DATA)) as ours:
        assert agree(ours.ask(Text(text)), pyoxigraph_of(DATA)(Text(text)))  # type: ignore[arg-type]  # as it is written
        assert ours.raw(Text(text))  # type: ignore[arg-type]


def test_chance_that_is_asked_twice_is_two_numbers(store: Store) -> None:
    said_twice = "SELECT ?r { { BIND(RAND() AS ?r) } UNION { BIND(RAND() AS ?r) } }"
    assert len(set(rows_of(answer_once(store, Question.read(said_twice, EX), store.head(), None)))) == 2


ALIKE = [
    ("WINDOW :w { ?a :tag ?t . ?u :made ?a . ?b :tag ?t . ?u :made ?b }", 2),
    ("WINDOW :w { ?x :p ?x . ?x :p ?y . ?y :p ?x }", 2),
    ("WINDOW :w { ?x :p ?y . ?y :p ?z . ?z :p 1 }", 2),
    ("WINDOW :w { ?x :p ?y . ?y :p ?z } WINDOW :v { ?z :p ?x }", 2),
]


@pytest.mark.parametrize(("pattern", "scans"), ALIKE)
def test_a_window_is_read_once_for_patterns_that_differ_in_names(store: Store, pattern: str, scans: int) -> None:
    froms = " ".join(f"FROM NAMED WINDOW :{name} ON STREAM :s [RANGE 10ms STEP 1ms]" for name in "wv")
    query = parse(f"{PROLOGUE} SELECT * {froms} WHERE {{ {pattern} }}", EX)
    assert isinstance(query, Query)
    windows = {f"{EX}{name}": ScheduledWindow(f"{EX}{name}", 1, 10, 1) for name in "wv"}
    network = Network.of_query(logic_of(query), NetworkInputs(store.at(), store.ids, windows))
    assert len(network.scans) == scans
