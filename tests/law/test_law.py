"""The law: at every evaluation, what an operator has put out equals the operator applied to all that came in."""

from __future__ import annotations

import random
from collections import Counter

import msgspec
import numpy as np
import pytest

from stream_ext import warm
from stream_ext.language.algebra.algebra import R2S
from stream_ext.network.operators.answers.cut import Cut
from stream_ext.network.operators.answers.distinct import Distinct
from stream_ext.network.operators.answers.r2s import ResultState
from stream_ext.network.operators.answers.ranking import Ranking
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.pattern import IdPattern
from stream_ext.network.operators.joins.join import JoinOperator
from stream_ext.network.operators.joins.many_join import ManyJoin
from stream_ext.network.operators.rowwise.project import Project
from stream_ext.network.operators.scans.window_scan import WindowScan
from stream_ext.rows.expiry_wheel import ExpiryWheel
from stream_ext.rows.kernels import content as content_kernels
from stream_ext.rows.kernels import distinct as kernels
from stream_ext.rows.kernels import expiry as expiry_kernels
from stream_ext.rows.kernels import order as order_kernels
from stream_ext.rows.kernels import ring as ring_kernels
from stream_ext.rows.window_content import WindowContent
from stream_ext.rows.zset import FOREVER, Columns, Weights, ZSet, repeated
from stream_ext.windows.scheduled_window import ScheduledWindow
from tests.stream_ext import model
from tests.stream_ext.low_capacities import low_capacities
from tests.stream_ext.model import Entry, Row

UNIVERSE = 4  # ids are few, so that rows meet


def moment(time: int) -> Moment:
    return Moment(time, snapshot=None, changes=None)  # type: ignore[arg-type]  # these operators read no store


def zset(entries: list[Entry], width: int) -> ZSet:
    columns = tuple(np.array([row[i] for row, _, _ in entries], np.uint64) for i in range(width))
    weights = np.array([weight for _, weight, _ in entries], np.int64)
    return ZSet(columns, len(entries), weights, np.array([until for _, _, until in entries], np.int64))


def entries_of(change: ZSet) -> list[Entry]:
    return [
        (tuple(int(column[i]) for column in change.columns), int(weight), int(until))
        for i, (weight, until) in enumerate(zip(change.weight_array(), change.until_array(), strict=True))
    ]


class Source:
    """Random changes: rows come with a validity; some are taken back, for all of it or for its first part only."""

    def __init__(self, seed: int, width: int) -> None:
        self.random = random.Random(seed)
        self.width = width
        self.all: list[Entry] = []

    def change(self, time: int, rows_max: int) -> list[Entry]:
        out: list[Entry] = []
        for _ in range(self.random.randrange(rows_max)):
            row = self.a_row()
            until = self.random.choice([FOREVER, time, time + 10, time + 20, time + 50])
            out.append((row, self.random.choice([1, 1, 1, 2]), until))
        standing = Counter[tuple[Row, int]]()
        for row, weight, until in self.all + out:
            standing[row, until] += weight
        held = [key for key, n in standing.items() if n > 0 and key[1] >= time]
        for row, until in self.random.sample(held, k=min(len(held), self.random.randrange(3))):
            taken = (row, -1, self.random.choice([until, until, min(until, time + 10)]))
            if self._stays_a_bag([*self.all, *out, taken], row, time):
                out.append(taken)
        self.all += out
        return out

    def a_row(self) -> Row:
        return tuple(self.random.randrange(1, UNIVERSE + 1) for _ in range(self.width))

    @staticmethod
    def _stays_a_bag(entries: list[Entry], row: Row, time: int) -> bool:
        own = [(until, weight) for other, weight, until in entries if other == row and until >= time]
        return all(sum(weight for until, weight in own if until >= end) >= 0 for end, _ in own)


SEEDS = range(30)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_join_of_changes_sums_to_the_join_of_the_sums(seed: int) -> None:
    left, right = Source(seed, 2), Source(seed + 1000, 2)
    operator = JoinOperator(("a", "b"), ("b", "c"))
    out: list[Entry] = []
    for step in range(40):
        time = step * 10
        a, b = left.change(time, 9), right.change(time, 9)
        out += entries_of(operator.step(moment(time), zset(a, 2), zset(b, 2)))
        expected = model.join(model.alive(left.all, time), model.alive(right.all, time), [1], [0])
        assert model.alive(out, time) == expected, f"seed {seed}, step {step}"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_join_without_shared_variables_is_every_pair(seed: int) -> None:
    left, right = Source(seed, 1), Source(seed + 1000, 1)
    operator = JoinOperator(("a",), ("b",))
    out: list[Entry] = []
    for step in range(20):
        time = step * 10
        a, b = left.change(time, 4), right.change(time, 4)
        out += entries_of(operator.step(moment(time), zset(a, 1), zset(b, 1)))
        assert model.alive(out, time) == model.join(
            model.alive(left.all, time), model.alive(right.all, time), [], []
        ), f"seed {seed}, step {step}"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "parts", ["ab bc ca", "ab bc cd", "ab ac ad", "ab cd ac b", "abc bcd cde", "ab b c"], ids=lambda parts: str(parts)
)
def test_a_join_of_many_sums_to_their_join_in_whatever_order(seed: int, parts: str) -> None:
    """Rows are taken back, too; and every few steps another order is tried."""
    names = [tuple(part) for part in parts.split()]
    sources = [Source(seed + 1000 * n, len(part)) for n, part in enumerate(names)]
    operator, chance = ManyJoin(names), random.Random(seed)
    out: list[Entry] = []
    for step in range(140):
        time = step * 10
        changes = [source.change(time, 5 if chance.random() < 0.5 else 1) for source in sources]
        made = operator.step(moment(time), *(zset(c, len(part)) for c, part in zip(changes, names, strict=True)))
        out = [entry for entry in out + entries_of(made) if entry[2] >= time]
        if step % 7 == 0:
            found, seen = model.alive(sources[0].all, time), names[0]
            for part, source in zip(names[1:], sources[1:], strict=True):
                shared = [v for v in part if v in seen]
                keys = [seen.index(v) for v in shared], [part.index(v) for v in shared]
                found = model.join(found, model.alive(source.all, time), *keys)
                seen += tuple(v for v in part if v not in seen)
            assert seen == operator.variables
            assert model.alive(out, time) == found, f"seed {seed}, step {step}"
        for source in sources:
            source.all = [entry for entry in source.all if entry[2] >= time]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("parts", ["pt up qt uq", "ab bc ca", "ab cb bd", "ab ba b"], ids=lambda parts: str(parts))
def test_parts_that_are_the_same_rows_are_held_once(seed: int, parts: str) -> None:
    """Two posts of one author with one tag: the tags and the authors of both are the same changes."""
    names = [tuple(part) for part in parts.split()]
    kinds = [(0, 1, 0, 1), (0, 0, 0), (0, 0, 1), (1, 1, 0)][
        ["pt up qt uq", "ab bc ca", "ab cb bd", "ab ba b"].index(parts)
    ]
    widths = {kind: len(part) for kind, part in zip(kinds, names, strict=True)}
    sources = {kind: Source(seed + 1000 * kind, width) for kind, width in sorted(widths.items())}
    shared, apart, chance = ManyJoin(names, kinds), ManyJoin(names), random.Random(seed)
    out: Counter[Entry] = Counter()
    for step in range(140):
        changes = {kind: source.change(step * 10, chance.choice([1, 5])) for kind, source in sources.items()}
        rows = {kind: zset(change, widths[kind]) for kind, change in changes.items()}
        emitted_now = shared.step(moment(step * 10), *rows.values())
        expected = apart.step(moment(step * 10), *(rows[kind] for kind in kinds))
        for sign, made in ((1, emitted_now), (-1, expected)):
            for row, weight, until in entries_of(made):
                out[row, 0, until] += sign * weight
        assert not any(out.values()), f"seed {seed}, step {step}"
        for source in sources.values():
            source.all = [entry for entry in source.all if entry[2] >= step * 10]


def test_a_join_of_many_follows_what_is_found_from_batch_to_batch() -> None:
    """Many :b for an :a and few :c at first; then it is the other way round."""
    operator = ManyJoin((("x",), ("x", "b"), ("x", "c")))
    orders = []
    for step in range(200):
        bs, cs = (50, 1) if step < 100 else (1, 50)
        parts: list[list[tuple[int, ...]]] = [
            [(x,) for x in (1, 2, 3)],
            [(1 if bs > 1 else 9, b + 1) for b in range(bs)],
            [(1 if cs > 1 else 9, c + 1) for c in range(cs)],
        ]
        rows = [zset([(row, 1, step + 3) for row in part], len(part[0])) for part in parts]
        operator.step(moment(step), *rows)
        orders.append(operator.order(0))
    assert orders[50] == [2, 1]
    assert orders[190] == [1, 2]


@pytest.mark.parametrize("seed", SEEDS)
def test_distinct_shows_each_row_once_while_any_copy_is_valid(seed: int) -> None:
    source = Source(seed, 2)
    operator = Distinct(("a", "b"))
    out: list[Entry] = []
    for step in range(60):
        time = step * 10
        out += entries_of(operator.step(moment(time), zset(source.change(time, 8), 2)))
        assert model.alive(out, time) == model.distinct(model.alive(source.all, time)), f"seed {seed}, step {step}"


@pytest.mark.parametrize("seed", range(20))
def test_distinct_that_cleans_up_at_every_step_keeps_what_is_valid_until_exactly_now(seed: int) -> None:
    """What it shows, and takes back: such a row is still there, and is no news when it comes again. Arrivals that come
    late are evaluated at the same time as those before."""
    source, time = Source(seed, 1), 0
    with low_capacities():
        operator, answer = Distinct(("a",)), ResultState(Cut(("a",), ("a",)), R2S.ISTREAM)
        out: list[Entry] = []
        before = Counter[Row]()
        for step in range(80):
            time += source.random.choice([0, 10, 10])
            change = source.change(time, 3)
            if step < 5 * (seed % 4):  # nothing is taken back yet, as of windows
                source.all = source.all[: len(source.all) - len(change)]
                change = [(row, weight, min(until, time + 10)) for row, weight, until in change if weight > 0]
                source.all += change
            shown = operator.step(moment(time), zset(change, 1))
            out += entries_of(shown)
            now = model.distinct(model.alive(source.all, time))
            assert model.alive(out, time) == now, f"seed {seed}, step {step}"
            assert emitted(answer.step(moment(time), shown)) == model.gained(now, before), f"seed {seed}, step {step}"
            before = now


@pytest.mark.parametrize("seed", range(8))
def test_what_distinct_says_is_new_was_not_there_before(seed: int) -> None:
    """Rows come, again and again, are taken back, run out; so often that the table is laid out anew."""
    source, chance = Source(seed, 2), random.Random(seed)
    operator, answer = Distinct(("a", "b")), ResultState(Cut(("a", "b"), ("a", "b")), R2S.ISTREAM)
    before, retained = Counter[Row](), 0
    for step in range(160):
        time = step * 10
        change = source.change(time, 20) if chance.random() < 0.7 else []
        if step < 40 * (seed % 4):  # nothing is taken back yet, as of windows
            source.all = source.all[: len(source.all) - len(change)]
            change = [entry for entry in change if entry[1] > 0 and entry[2] != FOREVER]
            source.all += change
        emitted_now = emitted(answer.step(moment(time), operator.step(moment(time), zset(change, 2))))
        source.all = [entry for entry in source.all if entry[2] >= time]
        retained += len(change)
        now = model.distinct(model.alive(source.all, time))
        assert emitted_now == model.gained(now, before), f"seed {seed}, step {step}"
        before = now
    assert retained > 300


@pytest.mark.parametrize("renews", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_distinct_shows_rows_of_which_copies_are_exchanged_for_later_ones(seed: int, renews: bool) -> None:
    """So windows that are read over several lengths show rows; and others are left out for a time, by MINUS."""
    chance, operator = random.Random(seed), Distinct(("a",))
    operator.renew(renews)
    copies: list[Entry] = []
    came: list[Entry] = []
    out: list[Entry] = []
    for step in range(120):
        time, change = step * 10, list[Entry]()
        copies = [entry for entry in copies if entry[2] >= time]
        for row, _, until in chance.sample(copies, len(copies) // 4):
            copies.remove((row, 1, until))
            copies.append((row, 1, until + 10 * chance.randrange(1, 6)))
            change += [(row, -1, until), copies[-1]]
        for _ in range(chance.randrange(3)):
            copies.append(((chance.randrange(1, 4),), 1, time + 10 * chance.randrange(8)))
            change.append(copies[-1])
            if chance.random() < 0.6:
                row, _, until = copies.pop()
                change.append((row, -1, chance.randrange(time, until + 1, 10)))
        came += change
        out += entries_of(operator.step(moment(time), zset(change, 1)))
        assert model.alive(out, time) == model.distinct(model.alive(came, time)), f"seed {seed}, step {step}"


def test_distinct_forgets_what_has_run_out() -> None:
    operator = Distinct(("a",))
    for step in range(200):
        change = [((row + step * 100 + 1,), 1, step * 10 + 20) for row in range(100)]
        operator.step(moment(step * 10), zset(change, 1))
    assert len(operator) <= 4196  # about 300 rows are valid at a time; 20,000 have been


@pytest.mark.parametrize("seed", SEEDS)
def test_project_keeps_bags_and_leaves_unknown_variables_unbound(seed: int) -> None:
    source = Source(seed, 2)
    operator = Project(("a", "b"), ("b", "nowhere"))
    out: list[Entry] = []
    for step in range(10):
        out += entries_of(operator.step(moment(step), zset(source.change(step, 8), 2)))
        assert model.alive(out, step) == model.project(model.alive(source.all, step), [1, None])


def emitted(pair: tuple[Columns, Weights]) -> Counter[Row]:
    columns, weights = pair
    bag: Counter[Row] = Counter()
    for row, weight in zip(zip(*columns, strict=True), weights, strict=True):
        bag[tuple(map(int, row))] += int(weight)
    return bag


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("r2s", [R2S.RSTREAM, R2S.ISTREAM, R2S.DSTREAM])
def test_r2s_says_the_answer_or_what_it_gained_or_lost(seed: int, r2s: R2S) -> None:
    source = Source(seed, 1)
    operator = ResultState(Cut(("a",), ("a",)), r2s)
    before: Counter[Row] = Counter()
    for step in range(60):
        time = step * 10
        emitted_now = emitted(operator.step(moment(time), zset(source.change(time, 6), 1)))
        now = model.alive(source.all, time)
        gains = {R2S.RSTREAM: now, R2S.ISTREAM: model.gained(now, before), R2S.DSTREAM: model.gained(before, now)}
        assert emitted_now == gains[r2s], f"seed {seed}, step {step}"
        assert operator.is_empty() == (not now)
        if r2s is R2S.RSTREAM:
            assert emitted(operator.whole()) == now
        before = now


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("width", [0, 1, 3])
def test_a_whole_answer_is_emitted_in_order_however_it_came(seed: int, width: int) -> None:
    """Nothing is taken back for a while, then rows are, and after that no more: each row is told as often as it is
    there, and what was told before does not change. Ids lie close together, or rows are wider than a machine word."""
    source, chance, apart = Source(seed, width), random.Random(seed), 1 << 59 if seed % 2 else 1
    names = ("a", "b", "c")[:width]
    answer = ResultState(Cut(names, names), R2S.RSTREAM)
    observed: list[tuple[Columns, Columns]] = []
    for step in range(90):
        time = step * 10
        change = source.change(time, 100 if chance.random() < 0.8 else 1)
        if not 30 <= step < 60:
            source.all = source.all[: len(source.all) - len(change)]
            change = [(row, 1, until) for row, weight, until in change if weight > 0]
            source.all += change
        spread = [(tuple(value * apart for value in row), weight, until) for row, weight, until in change]
        columns, weights = answer.step(moment(time), zset(spread, width))
        rows = tuple(column // np.uint64(apart) for column in repeated(columns, weights))
        expected = sorted(model.alive(source.all, time).elements())
        if width:
            assert list(zip(*(column.tolist() for column in rows), strict=True)) == expected, (
                f"seed {seed}, step {step}"
            )
        else:
            assert int(weights.sum()) == len(expected), f"seed {seed}, step {step}"
        observed.append((columns, tuple(column.copy() for column in columns)))
        source.all = [entry for entry in source.all if entry[2] >= time]
    assert all(np.array_equal(a, b) for rows, copies in observed for a, b in zip(rows, copies, strict=True))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("r2s", [R2S.ISTREAM, R2S.DSTREAM])
def test_a_join_of_windows_says_what_it_gained_of_rows_that_are_new_or_come_again(seed: int, r2s: R2S) -> None:
    """Values that ascend are seen to be new; others may be in the window already, or have just run out of it."""
    chance = random.Random(seed)
    window = ScheduledWindow("w", 1, chance.choice([10, 20, 55]), chance.choice([5, 10]))
    scans = [WindowScan(window, IdPattern({1: 7}, {0: "k", 2: name})) for name in "ab"]
    join, answer = (
        JoinOperator(scans[0].variables, scans[1].variables),
        ResultState(Cut(("k", "a", "b"), ("k", "a", "b")), r2s),
    )
    arrived: list[list[tuple[int, Row]]] = [[], []]
    before: Counter[Row] = Counter()
    highest = 10
    for time in range(window.step_ms, 40 * window.step_ms, window.step_ms):
        for side, scan in enumerate(scans):
            rows: list[Row] = []
            again = chance.random() < 0.3
            for _ in range(chance.randrange(5)):
                highest += 1
                old = [row for _, row in arrived[side]]
                rows.append(chance.choice(old) if again and old else (chance.randrange(1, 4), highest))
            at = max(0, time - chance.randrange(1, 8))
            arrived[side] += [(at, row) for row in rows]
            k, value = (np.array([row[i] for row in rows], np.uint64) for i in (0, 1))
            scan.arrive(k, np.full(len(k), 7, np.uint64), value, np.zeros(len(k), np.uint64), np.full(len(k), at))
        changes = [scan.step(moment(time)) for scan in scans]
        emitted_now = emitted(answer.step(moment(time), join.step(moment(time), *changes)))
        left, right = ({row for at, row in side if time - window.range_ms <= at < time} for side in arrived)
        now = Counter((k, a, b) for k, a in left for other, b in right if k == other)
        expected = model.gained(now, before) if r2s is R2S.ISTREAM else model.gained(before, now)
        assert emitted_now == expected, f"seed {seed}, time {time}"
        assert answer.is_empty() == (not now)
        before = now


@pytest.mark.parametrize("seed", range(5))
def test_a_wheel_hands_back_what_has_run_out_once(seed: int) -> None:
    chance = random.Random(seed)
    wheel, held, time = ExpiryWheel(1), Counter[tuple[int, int]](), 0
    for _ in range(60):
        time += chance.choice([1, 3, 1000, 100_000])
        (values,), weights = wheel.due(time)
        assert Counter(values.tolist()) == Counter(v for v, until in held.elements() if until < time)
        assert (weights == 1).all()
        held = Counter({key: n for key, n in held.items() if key[1] >= time})
        rows = [(chance.randrange(5), time + chance.choice([0, 2, 5000, 10**9])) for _ in range(chance.randrange(1500))]
        matrix = np.array([[value for value, _ in rows]], np.uint64)
        wheel.add(matrix, np.empty(0, np.int64), np.array([until for _, until in rows], np.int64), time)
        held.update(rows)
        assert len(wheel) == held.total()


def test_a_window_forgets_what_has_run_out() -> None:
    for ascending in (True, False):
        content = WindowContent(1)
        for step in range(200):
            values = np.arange(1, 101, dtype=np.uint64) + np.uint64(100 * step)
            content.step((values if ascending else values[::-1].copy(),), np.full(100, step + 3), step)
        assert len(content) <= 4196  # 400 rows are valid at a time; 20,000 have been


@pytest.mark.parametrize("seed", range(6))
def test_a_window_holds_each_row_once_however_many_come_and_go(seed: int) -> None:
    """Many rows come for a while, then few, and some again and again: what is remembered wraps around, grows, is moved
    and becomes small again."""
    chance = random.Random(seed)
    content, held, out, before = WindowContent(2), dict[Row, int](), Counter[tuple[Row, int]](), -1
    for step in range(120):
        time = step * 10
        many = chance.choice([0, 10, 900 if step % 60 < 40 else 10])
        rows = [
            (chance.randrange(1, 4), chance.choice([step * 100, 0]) + chance.randrange(1, 200)) for _ in range(many)
        ]
        untils = [time + chance.choice([0, 9, 15, 30, 30, 80]) for _ in rows]
        columns = tuple(np.array([row[i] for row in rows], np.uint64) for i in (0, 1))
        change = content.step(columns, np.array(untils, np.int64), time)
        came = [row for row, _, until in entries_of(change) if until >= time]
        if change.fresh is not None:
            assert not any(held.get(row, -1) >= before >= 0 for row in came), f"seed {seed}, step {step}"
        for row, until in zip(rows, untils, strict=True):
            held[row] = max(until, held.get(row, until))
        held = {row: until for row, until in held.items() if until >= time}
        out = Counter({entry: n for entry, n in out.items() if entry[1] >= time})
        out.update((row, until) for row, weight, until in entries_of(change))
        assert Counter(row for row, _ in out.elements()) == Counter(list(held)), f"seed {seed}, step {step}"
        assert Counter(row for row, _, _ in entries_of(content.shown(time))) == Counter(list(held))
        before = time


def rank(order: list[Row], now: Counter[Row]) -> list[Row]:
    """First come, first ranked: the copies that are still answers keep their rank, new ones go behind."""
    left = Counter(now)
    retained: list[Row] = []
    for row in order:
        if left[row] > 0:
            retained.append(row)
            left[row] -= 1
    return retained + sorted((+left).elements())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("r2s", [R2S.RSTREAM, R2S.ISTREAM])
def test_limit_and_offset_cut_the_ranking_by_first_appearance(seed: int, r2s: R2S) -> None:
    source = Source(seed, 1)
    cut = Cut(("a",), ("a",), offset=1, limit=2)
    operator = ResultState(cut, r2s, ranking=Ranking(cut))
    order: list[Row] = []
    before: Counter[Row] = Counter()
    for step in range(60):
        time = step * 10
        emitted_now = emitted(operator.step(moment(time), zset(source.change(time, 5), 1)))
        order = rank(order, model.alive(source.all, time))
        now = Counter(order[1:3])
        assert emitted_now == (now if r2s is R2S.RSTREAM else model.gained(now, before)), f"seed {seed}, step {step}"
        before = now


@pytest.mark.parametrize("seed", SEEDS)
def test_a_saved_order_is_that_of_the_same_rows_when_they_come_all_at_once(seed: int) -> None:
    source, vocabulary = Source(seed, 2), moment(0).vocabulary
    cut = Cut(("a", "b"), ("a", "b"), limit=1)
    ranking, order, most = Ranking(cut), list[Row](), 0
    for step in range(60):
        source.change(step * 10, 5)
        now = model.alive(source.all, step * 10)
        rows = zset([(row, n, FOREVER) for row, n in sorted(now.items())], 2)
        ranking.become(vocabulary, rows)
        order, saved = rank(order, now), ranking.save(vocabulary)
        again = Ranking(cut)
        again.resume(saved)
        again.become(vocabulary, rows)
        if seed % 2:
            ranking = again
        for one in (ranking, again):
            columns, weights = one.shown()
            assert list(zip(*(column.tolist() for column in columns), strict=True)) == order, (
                f"seed {seed}, step {step}"
            )
            assert weights.tolist() == [1] * len(order) and one.save(vocabulary) == saved
        most = max(most, len(order))
        assert len(msgspec.msgpack.encode(saved)) <= 40 + len(order)
    assert most > 10


def test_warming_compiles_what_the_operators_call() -> None:
    warm.warm()
    compiled = signatures()
    test_a_join_of_changes_sums_to_the_join_of_the_sums(0)
    test_distinct_shows_each_row_once_while_any_copy_is_valid(0)
    test_a_join_of_many_sums_to_their_join_in_whatever_order(0, "ab bc ca")
    for seed in range(5):
        test_a_join_of_windows_says_what_it_gained_of_rows_that_are_new_or_come_again(seed, R2S.ISTREAM)
        test_r2s_says_the_answer_or_what_it_gained_or_lost(seed, R2S.RSTREAM)
    assert signatures() == compiled


def signatures() -> dict[str, int]:
    return {
        f"{module.__name__}.{name}": len(kernel.signatures)
        for module in (kernels, content_kernels, expiry_kernels, order_kernels, ring_kernels)
        for name, kernel in vars(module).items()
        if hasattr(kernel, "signatures")
    }
