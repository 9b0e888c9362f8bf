"""What the network leaves out because nobody reads it: said of it is the same, and it knows when nothing is left."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from hbase_store.layout.terms import integer_id
from stream_ext.language.algebra.algebra import R2S, Query
from stream_ext.language.syntax import parse
from stream_ext.network.inputs import NetworkInputs
from stream_ext.network.network import Network
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.groups.grouped import Grouped
from stream_ext.plan.pipeline import logic_of
from stream_ext.rows.zset import Columns, Weights
from stream_ext.values.vocabulary import Vocabulary
from stream_ext.windows.arrivals import Arrival
from stream_ext.windows.scheduled_window import ScheduledWindow

_SPAN = 3
_FROM = f"FROM NAMED WINDOW :w ON STREAM :s [RANGE {_SPAN}ms STEP 1ms]"
_GROUPS = "WHERE { WINDOW :w { ?e :p ?k } } GROUP BY ?k"


class Unchanged:
    """The store, which no pattern reads."""

    def of(self, predicates: tuple[int, ...] | None) -> list[object]:
        return []


def ids_of(texts: Sequence[bytes]) -> npt.NDArray[np.uint64]:
    found = (re.fullmatch(rb"<http://ex/p>", text) for text in texts)
    return np.array([0 if match is None else 1 for match in found], np.uint64)


class Watched:
    """A network over one window, stepped each millisecond."""

    def __init__(self, text: str, r2s: R2S = R2S.ISTREAM) -> None:
        query = parse(f"PREFIX : <http://ex/> {text}", "http://ex/")
        assert isinstance(query, Query)
        windows = {"http://ex/w": ScheduledWindow("http://ex/w", 1, _SPAN, 1)}
        self.network = Network.of_query(logic_of(query), NetworkInputs(None, ids_of, windows), r2s)  # type: ignore[arg-type]  # no store is read
        self.words = Vocabulary(ids_of, lambda ids: [b"<http://ex/%d>" % id for id in ids.tolist()])

    def step(self, time: int, rows: Sequence[tuple[int, int]]) -> tuple[Columns, Weights]:
        """Elements (?e, ?k) of this time, and what is said at the close behind them."""
        s, o = (np.array([row[i] for row in rows], np.uint64) for i in range(2))
        times, zeros = np.full(len(rows), time, np.int64), np.zeros(len(rows), np.uint64)
        element = np.arange(len(rows), dtype=np.int32)
        self.network.arrive(Arrival(time + 1, 0, 1, times, s, zeros + 1, o, zeros, times, element, time, None, False))
        changes = Unchanged() if time else None
        return self.network.step(Moment(time + 1, None, changes, vocabulary=self.words))  # type: ignore[arg-type]

    def emits_removals(self) -> bool:
        return all(each.operator.emits_removals for each in self.network.stages if isinstance(each.operator, Grouped))


def elements(seed: int) -> list[list[tuple[int, int]]]:
    """By time; at the end there are none for longer than the window is."""
    chance = np.random.default_rng(seed)
    batches = [chance.integers(100, 108, (chance.integers(0, 9), 2)).tolist() for _ in range(40)]
    return [*([(e, k) for e, k in batch] for batch in batches), *([] for _ in range(_SPAN + 1))]


@pytest.mark.parametrize("seed", range(5))
def test_counts_that_changed_are_emitted_without_those_that_they_were(seed: int) -> None:
    watched = Watched(f"SELECT ISTREAM ?k (COUNT(*) AS ?n) {_FROM} {_GROUPS}")
    assert not watched.emits_removals()
    batches, before = elements(seed), Counter[int]()
    for time, batch in enumerate(batches):
        now = Counter(k for _, k in {row for some in batches[max(0, time - _SPAN + 1) : time + 1] for row in some})
        columns, weights = watched.step(time, batch)
        answered = Counter(dict(zip(zip(*(c.tolist() for c in columns), strict=True), weights.tolist(), strict=True)))
        assert answered == {(k, integer_id(n)): 1 for k, n in now.items() if before[k] != n}
        assert watched.network.answer.is_empty() == (not now)
        before = now


@pytest.mark.parametrize(
    ("text", "r2s"),
    [
        (f"SELECT ISTREAM ?k (COUNT(*) AS ?n) {_FROM} {_GROUPS} HAVING (COUNT(*) > 1)", R2S.ISTREAM),
        (f"SELECT ISTREAM (COUNT(*) AS ?n) {_FROM} {_GROUPS}", R2S.ISTREAM),
        (f"SELECT ISTREAM ?k (COUNT(*) AS ?n) {_FROM} {_GROUPS} ORDER BY ?n LIMIT 2", R2S.ISTREAM),
        (f"SELECT RSTREAM ?k (COUNT(*) AS ?n) {_FROM} {_GROUPS}", R2S.RSTREAM),
        (f"SELECT DSTREAM ?k (COUNT(*) AS ?n) {_FROM} {_GROUPS}", R2S.DSTREAM),
    ],
)
def test_what_goes_is_reported_where_it_is_read(text: str, r2s: R2S) -> None:
    assert Watched(text, r2s).emits_removals()
