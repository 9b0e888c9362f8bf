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
from stream_ext.answers import answer_once, rows_of
from stream_ext.errors import RilletError
from stream_ext.evaluate import Asking
from stream_ext.plans import Plans
from tests.engine.generated import EX, PROLOGUE
from tests.engine.peers import TooMuch, load
from tests.engine.standing import Changing, steps
from tests.engine.test_differential import made

Bag = Counter[tuple[bytes | None, ...]]

#: Each has solutions that count several times, and something above that makes one of them.
COUNTED = [
    "SELECT DISTINCT ?x { ?x :p ?y ; :q ?z }",
    "ASK { ?x :p ?y . ?y :p ?z }",
    "SELECT ?x { ?x :p ?y ; :q ?z FILTER EXISTS { SELECT ?x { ?x :p ?w ; :q ?v } } }",
    "SELECT ?x { ?x :q 1 { SELECT DISTINCT ?x { ?x :p ?y ; :q ?z } } }",
    "SELECT ?x (COUNT(*) AS ?n) { ?x :p ?y ; :q ?z } GROUP BY ?x",
]


def said(store: Store, text: str, sn: int, plans: Plans | None) -> Bag | str:
    try:
        answer = answer_once(store, text, EX, sn, None, asking=Asking(plans=plans))
    except RilletError as error:
        return str(error)
    if answer.graph is not None:
        return Counter(zip(*(answer.vocabulary.decode(column) for column in answer.graph), strict=True))
    return Counter(rows_of(answer)) + Counter({(b"true",): int(bool(answer.boolean))})


@pytest.fixture(name="store")
def store_with_several_of_each(tmp_path: Path) -> Iterator[Store]:
    with closing(hbase_store.open(f"lmdb:{tmp_path}/s", folding=False)) as store:
        ends = (":a", ":b", ":c")
        load(store, [(s, p, o, "") for s in ends for p in (":p", ":q") for o in (*ends, "1")])
        yield store


@pytest.mark.parametrize("text", COUNTED)
def test_a_question_that_is_asked_again_has_the_same_answer(store: Store, text: str) -> None:
    plans, text = Plans(), f"{PROLOGUE} {text}"
    fresh = said(store, text, store.head(), None)
    assert isinstance(fresh, Counter) and fresh
    assert [said(store, text, store.head(), plans) for _ in range(3)] == [fresh] * 3


@pytest.mark.parametrize("text", COUNTED)
def test_threads_may_share_a_plan(store: Store, text: str) -> None:
    plans, text = Plans(), f"{PROLOGUE} {text}"
    fresh = said(store, text, store.head(), None)
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(said, store, text, store.head(), plans) for _ in range(16)]
        assert [each.result(60) for each in asked] == [fresh] * 16


@pytest.mark.parametrize("block", range(4))
def test_generated_questions_keep_their_answers_while_the_store_changes(block: int, tmp_path: Path) -> None:
    for seed in range(block * 6, block * 6 + 6):
        try:
            data, queries = made(seed)
        except TooMuch:
            continue
        changing, plans = Changing(tmp_path / str(seed)), Plans()
        with closing(changing.store) as store:
            for inserted, deleted in steps(random.Random(seed), data, 3):
                sn = changing.change(inserted, deleted)
                for asked in queries:
                    text = str(asked.whole)
                    fresh = said(store, text, sn, None)
                    for _ in range(2):
                        assert said(store, text, sn, plans) == fresh, f"seed {seed}, snapshot {sn}: {asked}"
