"""Operators over numbered evaluations: at each instant of each step, what they have put out so far is the operator over
what counts at that instant; and what groups tell at an arrival is the difference that it makes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np
import pytest

from hbase_store.layout.terms import integer_id
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.groups.aggregates import Aggregated
from stream_ext.network.operators.instants import counts, covered, groups_in_rounds
from stream_ext.network.operators.instants.covered import CoveredByInstant
from stream_ext.network.operators.instants.groups_by_instant import CountedGroups
from stream_ext.network.operators.instants.groups_in_rounds import GroupsInRounds
from stream_ext.network.operators.joins.join import JoinOperator
from stream_ext.network.operators.joins.many_join import ManyJoin
from stream_ext.rows.zset import FOREVER, ZSet
from stream_ext.values.vocabulary import Vocabulary
from stream_ext.windows.numbered_evaluations import NEVER_GONE, NumberedEvaluations
from tests.law.test_law import moment

Row = tuple[int, ...]
LEFT, PARTNERS = ("a", "v", ".came0", ".gone0"), ("a", "v", ".came0", ".came1")


@dataclass(frozen=True)
class Told:
    """A row as it was told in the step whose first instant is `known`."""

    row: Row
    weight: int
    came: int
    gone: int  # 0: it is in no counted window
    until: int
    known: int

    def counts_at(self, instant: int, time: int) -> bool:
        """Written anew: what is displaced by an arrival is gone before the arrival comes."""
        displaced = self.gone not in (0, NEVER_GONE) and instant >= self.gone - (self.gone % 2 == 0)
        return instant >= max(self.came, self.known) and not displaced and time <= self.until


@dataclass
class Stream:
    """Rows as scans tell them; some are displaced in a later step than they came."""

    chance: random.Random
    counted: bool
    all: list[Told] = field(default_factory=list)
    remaining: list[Told] = field(default_factory=list)

    def change(self, evaluations: NumberedEvaluations) -> list[Told]:
        chance, first, times = self.chance, evaluations.first, evaluations.times.tolist()
        known, last = 2 * first - 1, first + len(times) - 1
        found: list[Told] = []
        for each in self.remaining[:]:
            if chance.random() < 0.3:
                gone = chance.randrange(known, 2 * last + 1)
                self.remaining.remove(each)
                found += [replace(each, weight=-1, known=known), replace(each, gone=gone, known=known)]
        for _ in range(chance.randrange(7)):
            came = chance.choice([0, chance.randrange(known, 2 * last + 1), 2 * chance.randrange(first, last + 1)])
            gone, until = 0, FOREVER
            if self.counted:
                gone = chance.choice([NEVER_GONE, chance.randrange(known, 2 * last + 2)])
            if not self.counted or chance.random() < 0.3:
                until = chance.choice(times) + chance.choice([0, 0, 1, 3, 10])
            row = Told((chance.randrange(3), chance.randrange(3)), 1, came, gone, until, known)
            found.append(row)
            if gone == NEVER_GONE:
                self.remaining.append(row)
        self.all += found
        return found


def at(instant: int, told: list[Told], time: int) -> Counter[Row]:
    bag: Counter[Row] = Counter()
    for each in told:
        if each.counts_at(instant, time):
            bag[each.row] += each.weight
    assert min(bag.values(), default=0) >= 0
    return Counter({row: n for row, n in bag.items() if n})


def as_change(told: list[Told], hidden: Callable[[Told], Row]) -> ZSet:
    lines = [(*(integer_id(value) for value in each.row), *hidden(each)) for each in told]
    width = 2 + len(hidden(Told((0, 0), 1, 0, 0, 0, 0)))
    columns = tuple(np.array([line[i] for line in lines], np.uint64) for i in range(width))
    weights, untils = (np.array([getattr(each, name) for each in told], np.int64) for name in ("weight", "until"))
    return ZSet(columns, len(told), weights, untils)


def steps_of(chance: random.Random) -> Iterator[NumberedEvaluations]:
    first, now = 1, 0
    for _ in range(chance.randrange(3, 9)):
        times = []
        for _ in range(chance.randrange(1, 6)):
            now += chance.choice([0, 0, 1, 2, 5])
            times.append(now)
        yield NumberedEvaluations(first, np.array(times, np.int64))
        first += len(times)


def words() -> Vocabulary:
    return Vocabulary(lambda texts: np.zeros(len(texts), np.uint64), lambda ids: [b"" for _ in ids.tolist()])


def of(evaluations: NumberedEvaluations, vocabulary: Vocabulary) -> Moment:
    return msgspec.structs.replace(moment(int(evaluations.times[0])), evaluations=evaluations, vocabulary=vocabulary)


def instants_of(evaluations: NumberedEvaluations) -> Iterator[tuple[int, int]]:
    for number, time in enumerate(evaluations.times.tolist(), evaluations.first):
        yield 2 * number - 1, time
        yield 2 * number, time


@pytest.fixture(autouse=True)
def _forgets_often(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (counts, covered, groups_in_rounds):
        monkeypatch.setattr(module, "_CLEAN_LEAST", 2)


@pytest.mark.parametrize("emits_covered", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_a_left_row_is_there_or_not_at_each_instant_as_it_has_partners(seed: int, emits_covered: bool) -> None:
    chance, vocabulary = random.Random(seed), words()
    left, partners = Stream(chance, True), Stream(chance, False)
    operator = CoveredByInstant(LEFT, PARTNERS, LEFT, ".came9", emits_covered)
    out: list[Told] = []
    for evaluations in steps_of(chance):
        known = 2 * evaluations.first - 1
        came = as_change(left.change(evaluations), lambda each: (each.came, each.gone))
        found = as_change(partners.change(evaluations), lambda each: (0, each.came))
        told = operator.step(of(evaluations, vocabulary), came, found)
        for *ids, weight, until in zip(
            *(column.tolist() for column in told.columns), told.weight_array().tolist(), told.until_array().tolist(),
            strict=True,
        ):  # fmt: skip
            a, v, number, gone, since = ids
            out.append(Told((a, v), weight, max(number, since), gone, until, known))
        for instant, time in instants_of(evaluations):
            covers = at(instant, partners.all, time)
            expected = Counter(
                {
                    tuple(map(integer_id, row)): n
                    for row, n in at(instant, left.all, time).items()
                    if (row in covers) is emits_covered
                }
            )
            assert at(instant, out, time) == expected, f"seed {seed}, instant {instant}"


JOINED = (("a", "v", ".came0", ".gone0"), ("a", "w", ".came1", ".gone1"), ("a", "x", ".came2", ".gone2"))


def joined(parts: list[Counter[Row]]) -> Counter[Row]:
    found, *others = parts
    for part in others:
        pairs = [(one, other, m * n) for one, m in found.items() for other, n in part.items() if one[0] == other[0]]
        found = Counter[Row]()
        for one, other, n in pairs:
            found[*one, *other[1:]] += n
    return found


@pytest.mark.parametrize("ways", [2, 3])
@pytest.mark.parametrize("seed", range(40))
def test_a_join_tells_at_each_instant_the_pairs_that_are_there_and_none_that_never_are(seed: int, ways: int) -> None:
    chance, vocabulary = random.Random(seed), words()
    parts = [Stream(chance, chance.random() < 0.5) for _ in range(ways)]
    operator = JoinOperator(*JOINED[:2]) if ways == 2 else ManyJoin(JOINED)
    came = [place for place, name in enumerate(operator.variables) if name.startswith(".came")]
    gone = [place for place, name in enumerate(operator.variables) if name.startswith(".gone")]
    out: list[Told] = []
    for evaluations in steps_of(chance):
        known = 2 * evaluations.first - 1
        changes = [as_change(part.change(evaluations), lambda each: (each.came, each.gone)) for part in parts]
        told = operator.step(of(evaluations, vocabulary), *changes)
        assert operator.coexisting.compared >= told.count
        for *ids, weight, until in zip(
            *(column.tolist() for column in told.columns), told.weight_array().tolist(), told.until_array().tolist(),
            strict=True,
        ):  # fmt: skip
            row = tuple(value for place, value in enumerate(ids) if place not in (*came, *gone))
            number = max(ids[place] for place in came)
            of_counted = [ids[place] for place in gone if ids[place]]
            out.append(Told(row, weight, number, min(of_counted, default=0), until, known))
            when = max(number, known)
            assert until >= next(time for instant, time in instants_of(evaluations) if instant >= when)
        for instant, time in instants_of(evaluations):
            expected = joined([at(instant, part.all, time) for part in parts])
            encoded = Counter({tuple(map(integer_id, row)): n for row, n in expected.items()})
            assert at(instant, out, time) == encoded, f"seed {seed}, instant {instant}"


COUNTS = (Aggregated("n", "COUNT", None), Aggregated("m", "COUNT", "v"))
OTHERS = (Aggregated("l", "MIN", "v"), Aggregated("s", "SUM", "v"), Aggregated("d", "COUNT", "v", True))


def grouped(bag: Counter[Row], keys: int, aggregates: tuple[Aggregated, ...], always: bool) -> Counter[Row]:
    groups: dict[Row, list[int]] = {(): []} if always and not keys else {}
    for row, n in bag.items():
        groups.setdefault(row[:keys], []).extend([row[1]] * n)
    found: Counter[Row] = Counter()
    for key, values in groups.items():
        results = {
            "n": len(values), "m": len(values), "s": sum(values), "d": len(set(values)), "l": min(values, default=None)
        }  # fmt: skip
        of_group = (results[each.variable] for each in aggregates)
        found[*map(integer_id, key), *(0 if value is None else integer_id(value) for value in of_group)] += 1
    return found


@pytest.mark.parametrize("keys", [0, 1, 2])
@pytest.mark.parametrize("kind", ["distinct", "counts", "others"])
@pytest.mark.parametrize("seed", range(20))
def test_a_group_tells_at_each_arrival_what_that_has_changed(seed: int, kind: str, keys: int) -> None:
    chance, vocabulary, always = random.Random(f"{kind} {seed}"), words(), keys == 0 and kind != "distinct"
    aggregates = {"distinct": (), "counts": COUNTS, "others": OTHERS}[kind]
    rows, names = Stream(chance, chance.random() < 0.5), ("a", "v")[:keys]
    made = GroupsInRounds if kind == "others" else CountedGroups
    operator = made(LEFT, names, aggregates, always)
    for evaluations in steps_of(chance):
        change = as_change(rows.change(evaluations), lambda each: (each.came, each.gone))
        told = operator.step(of(evaluations, vocabulary), change)
        differences: dict[int, Counter[Row]] = {}
        for *row, instant, weight in zip(
            *(column.tolist() for column in told.columns), told.weight_array().tolist(), strict=True
        ):
            differences.setdefault(instant, Counter())[tuple(row)] += weight
        for number, time in enumerate(evaluations.times.tolist(), evaluations.first):
            without, with_it = (
                grouped(at(x, rows.all, time), keys, aggregates, always) for x in (2 * number - 1, 2 * number)
            )
            difference = differences.pop(2 * number, Counter())
            expected = Counter(with_it)
            expected.subtract(without)
            assert {k: n for k, n in difference.items() if n} == {k: n for k, n in expected.items() if n}
        assert not differences
