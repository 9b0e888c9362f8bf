"""Rows that are answered anew at each evaluation: what NOW and RAND make of standing rows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
import pytest

import hbase_store
from stream_ext.catalog.registered_text import query_of
from stream_ext.network.operators.core import testing
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.reevaluated import Reevaluated
from stream_ext.network.operators.rowwise.extend import ExtendOperator
from stream_ext.network.operators.rowwise.filter import FilterOperator
from stream_ext.oneshot.evaluate import Asking, evaluate
from stream_ext.values.vocabulary import Vocabulary
from tests.law.test_law import Source, entries_of, moment, zset
from tests.stream_ext import model
from tests.stream_ext.model import Entry
from tests.stream_ext.values.computing import XSD, expression

NAMES = ("a", "b")


def words() -> Vocabulary:
    """The id 3 is the integer 3."""
    return Vocabulary(
        lambda texts: np.zeros(len(texts), np.uint64),
        lambda ids: [b'"%d"^^<%sinteger>' % (id, XSD.encode()) for id in ids.tolist()],
    )


def at(time: int, vocabulary: Vocabulary, last: bool = False) -> Moment:
    """One second a tick."""
    return msgspec.structs.replace(
        moment(time), now_ms=time * 1000, seed=b"%d" % time, vocabulary=vocabulary, last=last
    )


@pytest.mark.parametrize("seed", range(20))
def test_a_filter_by_now_holds_at_each_evaluation_for_all_that_is_there(seed: int) -> None:
    source, vocabulary = Source(seed, 2), words()
    tester = testing.Tester(NAMES, expression("?a < SECONDS(NOW()) / 4"), frozenset(NAMES))
    assert tester.is_volatile
    operator = Reevaluated(NAMES, FilterOperator(NAMES, tester))
    out: list[Entry] = []
    for time in range(25):
        out += entries_of(operator.step(at(time, vocabulary), zset(source.change(time, 6), 2)))
        expected = Counter({row: n for row, n in model.alive(source.all, time).items() if row[0] < time / 4})
        assert model.alive(out, time) == expected, f"seed {seed}, time {time}"


@pytest.mark.parametrize("seed", range(10))
def test_each_row_has_a_chance_of_its_own_at_each_evaluation(seed: int) -> None:
    source, vocabulary = Source(seed, 2), words()
    calculator = testing.Calculator(NAMES, expression("RAND()"), frozenset(NAMES))
    operator = Reevaluated(NAMES, ExtendOperator(NAMES, ("chance", calculator)))
    out: list[Entry] = []
    drawn: set[int] = set()
    for time in range(20):
        out += entries_of(operator.step(at(time, vocabulary), zset(source.change(time, 6), 2)))
        alive = model.alive(out, time)
        rows: Counter[tuple[int, ...]] = Counter()
        for row, n in alive.items():
            rows[row[:2]] += n
        assert rows == model.alive(source.all, time), f"seed {seed}, time {time}"
        chances = {row[2] for row in alive}
        assert len(chances) == alive.total() and not chances & drawn
        drawn |= chances


@pytest.mark.parametrize(
    "pattern",
    [
        "?s :p ?o FILTER(RAND() < 0.5)",
        "?s :p ?o . ?o ^:p ?x FILTER(RAND() < 0.5)",
        "?s :p ?o OPTIONAL { ?s :q ?z } FILTER(RAND() < 0.5)",
        "?s :p ?o FILTER(?o != 3 && STRLEN(STRUUID()) = 36 && RAND() < 0.5)",
    ],
)
def test_a_filter_by_chance_draws_for_each_solution(pattern: str, tmp_path: Path) -> None:
    """One subject with forty values: that all of them have one chance, or none, happens once in 2^39 times."""
    store = hbase_store.open(f"lmdb:{tmp_path}")
    batch = store.begin()
    s, p = batch.encode([b"<http://ex/s>", b"<http://ex/p>"])
    o = batch.encode([b'"%d"^^<%sinteger>' % (n, XSD.encode()) for n in range(40)])
    batch.insert(np.full(40, s), np.full(40, p), o, np.zeros(40, np.uint64))
    batch.insert(np.full(40, s), np.full(40, batch.encode([b"<http://ex/q>"])[0]), o, np.zeros(40, np.uint64))
    sn = store.commit(batch)
    for head in ("SELECT ?s ?o", "SELECT ?s", "SELECT (COUNT(*) AS ?n)"):
        query = query_of(f"PREFIX : <http://ex/> {head} {{ {pattern} }}", "http://rillet/")
        answer = evaluate(store, query, sn, asking=Asking(seed=b"any"))
        found = answer.count
        if "COUNT" in head:
            found = int(store.terms(answer.columns[0])[0].split(b'"')[1])
        times = 40 if "OPTIONAL" in pattern else 1
        assert 5 * times < found < 35 * times, head
    store.close()


def test_what_is_asked_once_is_answered_as_it_comes() -> None:
    vocabulary = words()
    tester = testing.Tester(NAMES, expression("?a < SECONDS(NOW())"), frozenset(NAMES))
    rows: list[Entry] = [((1, 1), 1, 9), ((5, 1), 2, 9)]
    emitted = Reevaluated(NAMES, FilterOperator(NAMES, tester)).step(at(3, vocabulary, last=True), zset(rows, 2))
    assert entries_of(emitted) == rows[:1]


@pytest.mark.parametrize("seed", range(10))
def test_who_asks_once_draws_what_was_drawn_at_the_evaluation(seed: int) -> None:
    """The rows came in turn, or at once and in another order, under columns in another order."""
    source, vocabulary = Source(seed, 2), words()
    calculators = [testing.Calculator(names, expression("RAND()"), frozenset(NAMES)) for names in (NAMES, NAMES[::-1])]
    standing = Reevaluated(NAMES, ExtendOperator(NAMES, ("chance", calculators[0])), draws=True)
    once = Reevaluated(NAMES[::-1], ExtendOperator(NAMES[::-1], ("chance", calculators[1])), draws=True)
    out: list[Entry] = []
    for time in range(10):
        out += entries_of(standing.step(at(time, vocabulary), zset(source.change(time, 6), 2)))
        rows = [((b, a), n, time) for (a, b), n in model.alive(source.all, time).items()]
        again = entries_of(once.step(at(time, vocabulary, last=True), zset(rows[::-1], 2)))
        observed: Counter[tuple[int, ...]] = Counter()
        for (b, a, chance), n, _ in again:
            observed[a, b, chance] += n
        assert observed == model.alive(out, time), f"seed {seed}, time {time}"
