"""SERVICE as an operator of a query that is asked for ever: what it remembers, for how long, and when it asks again.

What should come out is worked out from what the other side knows by then, in plain Python."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.remote.service import Unanswered
from tests.stream_ext.fake_server import FakeServer, Reply, fake_server
from tests.stream_ext.network.test_service_operator import Bench, Row, answering, knowing

BORN = "SERVICE <x> { ?p :born ?y }"
SILENT = "SERVICE SILENT <x> { ?p :born ?y }"
FOREVER = 1 << 62


@pytest.fixture
def there() -> Iterator[FakeServer]:
    with fake_server() as server:
        server.replies["/x"] = answering(knowing(":a :born 1 . :b :born 2"))
        yield server


class Going(Bench):
    """A bench whose rows run out, and whose snapshots follow each other; what came out is summed up."""

    def __init__(self, there: FakeServer, text: str, refresh_s: float, left: tuple[str, ...] = ("n", "p")) -> None:
        text = text.replace("<x>", f"<{there.url}/x>")
        super().__init__(there, left, text, ("p", "y"), refresh_s=refresh_s)
        self.sn = 0
        self.out: Counter[tuple[Row, int]] = Counter()

    def publish(self, now_ms: int) -> None:
        self.sn, self.now_ms = self.sn + 1, now_ms
        self.backoff.advance_to(self.sn)

    def go(self, time: int, *rows: tuple[Row, int, int]) -> dict[Row, int]:
        """Rows with weights and validities in; the answer at `time`."""
        left = self.zset([(row, weight) for row, weight, _ in rows])
        if rows:
            left = type(left)(left.columns, left.count, left.weights, np.array([u for *_, u in rows], np.int64))
        moment = Moment(
            time, None, None, vocabulary=self.vocabulary, allowed_urls=self.allowed_urls, backoff=self.backoff  # type: ignore[arg-type]  # it reads no store
        )  # fmt: skip
        self.change = self.operator.step(moment, left)
        texts = zip(*map(self._texts, self.change.columns), strict=True)
        untils, weights = self.change.until_array().tolist(), self.change.weight_array().tolist()
        for row, weight, until in zip(texts, weights, untils, strict=True):
            self.out[row, until] += weight
        alive: Counter[Row] = Counter()
        for (row, until), weight in self.out.items():
            if until >= time:
                alive[row] += weight
        return {row: weight for row, weight in alive.items() if weight}


def one(n: str, p: str | None, until: int = FOREVER) -> tuple[Row, int, int]:
    return ((n, p), 1, until)


def test_what_was_answered_is_good_until_it_is_too_old(there: FakeServer) -> None:
    bench = Going(there, BORN, 60)
    bench.publish(0)
    assert bench.go(1, one("x", "a")) == {("x", "a", "1"): 1}
    there.replies["/x"] = answering(knowing(":a :born 10 . :b :born 20"))
    bench.publish(59_999)
    assert bench.go(2, one("y", "a"), one("z", "b")) == {
        ("x", "a", "1"): 1, ("y", "a", "1"): 1, ("z", "b", "20"): 1,
    }  # fmt: skip
    bench.publish(60_000)
    assert bench.go(3) == {("x", "a", "10"): 1, ("y", "a", "10"): 1, ("z", "b", "20"): 1}
    assert bench.change.count == 4, "only what is another answer goes out"
    assert len(there.asked) == 3, "what is asked again is asked together"


def test_an_answer_that_is_the_same_changes_nothing_blank_nodes_included(there: FakeServer) -> None:
    there.replies["/x"] = answering(knowing(":a :born [ :in 1 ] , [ :in 2 ]"))
    bench = Going(there, BORN, 0)
    bench.publish(0)
    assert bench.go(1, one("x", "a")) == {("x", "a", "_"): 2}
    bench.publish(0)
    bench.go(2)
    assert len(there.asked) == 2
    assert not bench.change.count


def test_within_a_snapshot_nothing_is_asked_twice(there: FakeServer) -> None:
    bench = Going(there, BORN, 0)
    bench.publish(0)
    for time in range(5):
        bench.go(time, one(f"n{time}", "a"))
    assert len(there.asked) == 1


def test_what_no_row_needs_is_forgotten(there: FakeServer) -> None:
    bench = Going(there, BORN, 3_600)
    for time in range(40):
        bench.publish(time)
        bench.go(time, *(one("x", f"v{time}_{i}", time + 2) for i in range(200)))
    assert len(bench.operator._stored.places) < 2_500, "of 8,000"
    bench.publish(3_600_000)
    there.asked.clear()
    bench.go(40)
    (asked,) = there.asked
    assert [asked.body.count(b"v%d_" % time) for time in range(36, 40)] == [0, 0, 200, 200]
    assert len(bench.operator._stored.places) == 400


def test_without_an_answer_silent_leaves_rows_as_they_are_until_there_is_one(there: FakeServer) -> None:
    bench = Going(there, SILENT, 3_600)
    there.replies["/x"] = Reply(500)
    bench.publish(0)
    assert bench.go(1, one("x", "a")) == {("x", "a", None): 1}
    there.replies["/x"] = answering(knowing(":a :born 1"))
    bench.publish(999)
    assert bench.go(2, one("x", "c")) == {("x", "a", None): 1, ("x", "c", None): 1}, "it is left alone for a second"
    assert len(there.asked) == 1
    bench.publish(1_000)
    assert bench.go(3, ((("x", "c"), -1, FOREVER))) == {("x", "a", "1"): 1}
    bench.publish(1_001)
    bench.go(4)
    assert len(there.asked) == 2, "an answer is an answer"


def test_who_does_not_answer_is_not_asked_for_longer_each_time_by_all(there: FakeServer) -> None:
    bench = Going(there, SILENT, 0)
    there.replies["/x"] = Reply(500)
    asked_at = []
    for now_ms in range(0, 200_000, 1_000):
        bench.publish(now_ms)
        before = len(there.asked)
        bench.go(now_ms, one("x", "a"))
        if len(there.asked) > before:
            asked_at.append(now_ms)
    waits = [later - earlier for earlier, later in pairwise(asked_at)]
    assert waits == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]


def test_without_silent_an_evaluation_that_has_no_answer_is_not_made(there: FakeServer) -> None:
    bench = Going(there, BORN, 60)
    bench.publish(0)
    bench.go(1, one("x", "a"))
    there.replies["/x"] = Reply(500)
    bench.publish(60_000)
    with pytest.raises(Unanswered, match="answered 500") as failed:
        bench.go(2)
    assert bench.backoff.why_not(*failed.value.later) is not None
    bench.publish(61_000)
    assert bench.backoff.why_not(*failed.value.later) is None


@pytest.mark.parametrize("seed", range(30))
def test_what_is_there_is_the_join_with_what_the_other_side_knew_when_it_was_asked(
    there: FakeServer, seed: int
) -> None:
    """The model: rows with their validities, and what was known at the last time that all was asked for."""
    chance = random.Random(seed)
    refresh_ms = chance.choice([0, 1_000, 5_000])
    bench = Going(there, BORN, refresh_ms / 1000)
    held: Counter[tuple[Row, int]] = Counter()
    known: dict[str | None, set[tuple[str, int]]] = {}
    asked_ms = now_ms = 0
    for time in range(12):
        now_ms += chance.choice([0, 400, 1_000, 3_000])
        edges = {(chance.choice("abc"), chance.randint(1, 3)) for _ in range(4)}
        there.replies["/x"] = answering(knowing(" . ".join(f":{s} :born {y}" for s, y in sorted(edges))))
        bench.publish(now_ms)
        if not time:
            asked_ms = now_ms
        elif now_ms - asked_ms >= refresh_ms:
            known, asked_ms = dict.fromkeys(known, edges), now_ms
        change = []
        for _ in range(chance.randint(0, 4)):
            going = [row for row, weight in held.items() if weight > 0 and row[1] >= time]
            if going and chance.random() < 0.4:
                row, until = chance.choice(going)
                change.append((row, -1, until))
            else:
                change.append(
                    one(chance.choice("xyz"), chance.choice(["a", "b", "d", None]), time + chance.randint(0, 5))
                )
            held[change[-1][0], change[-1][2]] += change[-1][1]
        for (_, p), _, _ in change:
            known.setdefault(p, edges)
        expected: Counter[Row] = Counter()
        for ((n, p), until), weight in held.items():
            for s, y in known.get(p, ()):
                if p in (None, s) and until >= time:
                    expected[n, s, str(y)] += weight
        found = bench.go(time, *change)
        assert found == {row: weight for row, weight in expected.items() if weight}, time
        remembered = np.array([key[1] for key in bench.operator._stored.places], np.uint64)
        known = {p: edges for p, edges in known.items() if p in bench._texts(remembered)}
