"""The merge says everything once: whoever steps, however often parts are sent, and wherever it dies."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import msgspec
import numpy as np
import pytest

from hbase_store import EmissionRow, Sn
from hbase_store.errors import StoreUnavailable
from stream_ext.catalog.catalog import QueryDefinition
from stream_ext.clock import ManualClock
from stream_ext.emissions.emission import columns_of, decode_body, decode_shared_body
from stream_ext.emissions.merge import Merge
from stream_ext.errors import DeadlineExceeded
from stream_ext.windows.part import Ids, Part
from stream_ext.windows.query_state import LastEvaluation, QueryState
from tests.parts.waiting import PATIENCE_S

LAST_SN = 40


class Died(Exception):
    """The process is gone, here."""


class Log:
    """An emission log in memory. A commit happens as a whole or not at all; it may die before or after."""

    def __init__(self) -> None:
        self.rows: dict[tuple[int, int], bytes] = {}
        self.retained: dict[int, bytes] = {}
        self.at = 0
        self.commits = 0
        self.dies: str | None = None

    def commit(self, emissions: Sequence[EmissionRow], states: dict[int, bytes | None], position: Sn) -> int:
        dies, self.dies = self.dies, None
        if dies == "before":
            raise Died
        for row in emissions:
            assert row.number == self.last(row.query) + 1, "numbers have no gap and no repeat"
            self.rows[row.query, row.number] = row.body
        for query, state in states.items():
            if state is None:
                self.retained.pop(query, None)
            else:
                self.retained[query] = state
        assert position >= self.at
        self.at = position
        self.commits += 1
        if dies == "after":
            raise Died
        return self.commits

    def last(self, query: int) -> int:
        return max((number for q, number in self.rows if q == query), default=0)

    def states(self) -> dict[int, bytes]:
        return dict(self.retained)

    def position(self) -> Sn:
        return Sn(self.at)

    def emitted(self, query: int) -> list[tuple[int, int]]:
        """(snapshot, time) of each emission, in the order of the numbers."""
        bodies = [decode_body(self.rows[query, n]) for n in range(1, self.last(query) + 1)]
        return [(body.sn, body.time) for body in bodies]


def definition(number: int, registered_sn: int = 1) -> QueryDefinition:
    return QueryDefinition(
        number, f"q{number}", f"http://ex/q{number}", "", "", "RSTREAM", ["x"], [1], registered_sn, QueryState(number)
    )


QUERIES = {number: definition(number) for number in (1, 2, 3)}


def parts_of(sn: int) -> list[Part]:
    """What the queries say in a snapshot: a function of the snapshot alone. Query 3 is mostly silent."""
    chance = random.Random(sn)
    parts = []
    for query in (1, 2, 3):
        for k in range(chance.choice((0, 0, 1, 3))):
            time = sn * 10 + k
            state = QueryState(query, LastEvaluation(sn, 0, k, time))
            emits = query != 3 or chance.random() < 0.2
            parts.append(Part.of_one(query, sn, k, time, [], [np.array([7], np.uint64)], None, 0, None, state, emits))
    chance.shuffle(parts)
    return parts


def expected(query: int, last_sn: int) -> list[tuple[int, int]]:
    parts = [part for sn in range(1, last_sn + 1) for part in parts_of(sn) if part.query == query and part.emits]
    return sorted((part.sn, part.time) for part in parts)


def state_at(query: int, sn: int) -> QueryState:
    parts = [part for n in range(1, sn + 1) for part in parts_of(n) if part.query == query]
    return max(parts, key=lambda part: (part.sn, part.k)).state if parts else QUERIES[query].state


def texts_of(ids: Ids) -> list[bytes]:
    return [b"<x>"] * len(ids)


def new_merge(log: Log, clock: ManualClock | None = None, **callbacks: object) -> Merge:
    return Merge(log, clock or ManualClock(), lambda: QUERIES, texts_of, count(1_000).__next__, **callbacks)  # type: ignore[arg-type]


def owner_of(merge: Merge) -> str:
    return merge.owner


class Inline:
    def __init__(self, merge: Merge) -> None:
        self.merge = merge
        _, self.sn, self.states = merge.attempt("inline")

    def step(self) -> None:
        self.sn += 1
        self.merge.take("inline", self.sn, parts_of(self.sn))


class Spark:
    """An attempt that sends what it steps in any order, some of it twice, and some of what was merged long ago."""

    def __init__(self, merge: Merge, chance: random.Random) -> None:
        self.merge, self.chance = merge, chance
        self.number, self.built, self.states = merge.attempt("spark")
        self.sent: set[int] = set()

    def send(self) -> None:
        complete = self.complete()
        sn = self.chance.choice([complete + 1, complete + 1, complete + 2, self.chance.randint(1, complete + 1)])
        if sn <= LAST_SN:
            self.merge.take("spark", sn, parts_of(sn))
            self.sent.add(sn)

    def complete(self) -> int:
        sn = self.built
        while sn + 1 in self.sent:
            sn += 1
        return sn

    def tell(self) -> None:
        self.merge.caught_up("spark", self.number, self.complete(), {})


@pytest.mark.parametrize("seed", range(150))
def test_any_interleaving_of_runners_and_crashes_says_everything_once(seed: int) -> None:
    chance = random.Random(seed)
    log = Log()
    merge = new_merge(log)
    inline: Inline | None = None
    sparks: list[Spark] = []
    for _ in range(chance.randint(50, 300)):
        action = chance.choices(["inline", "send", "tell", "attempt", "lost", "die", "flush"], [8, 12, 4, 1, 1, 1, 2])[
            0
        ]
        log.dies = chance.choice(["before", "after"]) if action == "die" else None
        try:
            if action in ("inline", "die") and merge.owner == "inline" and merge.position < LAST_SN:
                if inline is None or inline.sn != merge.position:
                    inline = Inline(merge)
                    assert inline.states == {query: state_at(query, inline.sn) for query in QUERIES}
                inline.step()
            elif action == "flush" or action == "die":
                merge.flush()
            elif action == "attempt" and merge.position < LAST_SN:
                sparks.append(Spark(merge, chance))
                assert sparks[-1].states == {query: state_at(query, sparks[-1].built) for query in QUERIES}
            elif action == "send" and sparks:
                sparks[-1].send()  # the bell closes the connection of an older attempt
            elif action == "tell" and sparks:
                chance.choice(sparks[-2:]).tell()
            elif action == "lost" and sparks:
                merge.lost("spark", chance.choice(sparks).number)
        except Died:
            merge, inline, sparks = new_merge(log), None, []
        assert merge.position >= log.at
    log.dies = None
    if owner_of(merge) == "spark":
        merge.lost("spark", sparks[-1].number)
    inline = Inline(merge)
    while inline.sn < LAST_SN:
        inline.step()
    merge.flush()
    for query in QUERIES:
        assert log.emitted(query) == expected(query, LAST_SN), f"seed {seed}, query {query}"
    stored = {query: msgspec.msgpack.decode(body, type=QueryState) for query, body in log.states().items()}
    assert stored == {query: state_at(query, LAST_SN) for query in QUERIES}


def test_what_spark_has_sent_is_no_use_while_the_inline_runner_has_the_queries() -> None:
    """A query that the inline runner has set aside was not set aside by a task that has stepped ahead: its later
    evaluations would come before those that the inline runner still owes."""
    log = Log()
    merge = new_merge(log)
    merge.attempt("spark", 0)
    for sn in (1, 2, 3):
        merge.take("spark", sn, parts_of(sn))
    behind = [Part.silent(query, 1, 0, state.behind(0, unanswered=True)) for query, state in
              ((query, QUERIES[query].state) for query in QUERIES)]  # fmt: skip
    _, position, _ = merge.attempt("inline")
    merge.take("inline", position + 1, behind)
    assert merge.position == 1 and not log.rows
    for sn in (1, 2, 3):
        merge.take_piece("inline", parts_of(sn)) if sn == 1 else merge.take("inline", sn, parts_of(sn))
    for query in QUERIES:
        assert log.emitted(query) == expected(query, 3)


def test_a_state_that_is_behind_what_is_merged_does_not_begin_before_it() -> None:
    """However far it is behind: the caller decides whether it is worth stepping from there."""
    merge = new_merge(Log())
    number, *_ = merge.attempt("spark", 0)
    for sn in range(1, 6):
        merge.take("spark", sn, parts_of(sn))
    merge.caught_up("spark", number, 5, {})
    assert (merge.owner, merge.position) == ("spark", 5)
    assert merge.attempt("spark", 0, 2)[1] == 5


GROUP = (11, 12, 13, 14)
TOGETHER = {number: definition(number) for number in GROUP}
#: Queries that stay inline from one snapshot up to the one before another, while the others are on Spark.
AT_HOME = {13: (9, 22), 14: (15, 33)}


def stays(query: int, sn: int) -> bool:
    """Whether it is stepped inline in this snapshot; a move takes effect after the snapshot that it makes."""
    first, end = AT_HOME.get(query, (0, 0))
    return first < sn <= end


def is_told(sn: int) -> bool:
    return random.Random(sn).random() < 0.6


def rows_of(query: int, sn: int) -> int:
    return random.Random(1_000 * sn + query).choice((0, 1, 2))


def shared_parts(sn: int, queries: Sequence[int], known: set[int]) -> list[Part]:
    """One evaluation of these together; who is new to their network brings how it came."""
    if not queries or not is_told(sn):
        return []
    observed = [each for each in range(1, sn) if is_told(each)]
    before = LastEvaluation(observed[-1], 0, 0, observed[-1] * 10) if observed else None
    whose = [place for place, query in enumerate(queries) for _ in range(rows_of(query, sn))]
    joined = {query: QueryState(query, before) for query in queries if query not in known}
    known.update(queries)
    return [
        Part(
            np.array(queries, np.uint64), sn, 0, sn * 10, [], np.array(whose, np.uint64),
            [np.full(len(whose), 7, np.uint64)], None, True, 0, None,
            QueryState(0, LastEvaluation(sn, 0, 0, sn * 10)), joined,
            before=before, is_shared=True,
        )
    ]  # fmt: skip


class Sender:
    """A runner of queries that share a network; a query that is moved is new to the one where it goes."""

    def __init__(self, merge: Merge, runner: str, chance: random.Random) -> None:
        self.merge, self.runner, self.chance = merge, runner, chance
        self.number, self.built, _ = merge.attempt(runner)
        self.sn, self.known = self.built, set[int]()
        self.sent: dict[int, list[Part]] = {}

    def takes(self, sn: int) -> list[int]:
        if self.runner == "inline":
            return list(GROUP)
        return [query for query in GROUP if stays(query, sn) == (self.runner == "partly_inline")]

    def step(self) -> None:
        """The next one, or one again that was sent before."""
        if self.sent and self.chance.random() < 0.2:
            sn = self.chance.choice(list(self.sent))
            self.merge.take(self.runner, sn, list(self.sent[sn]))
        elif self.sn < LAST_SN:
            self.sn += 1
            queries = self.takes(self.sn)
            self.known.intersection_update(queries)
            self.sent[self.sn] = shared_parts(self.sn, queries, self.known)
            self.merge.take(self.runner, self.sn, list(self.sent[self.sn]))


def emitted_of(merge: Merge, log: Log, query: int) -> list[tuple[int, int, int]]:
    """(snapshot, time, rows) of each of its emissions, wherever it is kept."""
    found = {}
    for number in range(1, merge.last(query) + 1):
        if (query, number) in log.rows:
            own = decode_body(log.rows[query, number])
            found[number] = own.sn, own.time, len(columns_of(own)[0])
    for member in merge.memberships(query):
        assert member.until is not None
        for record in range(member.first, member.until + 1):
            own = decode_shared_body(log.rows[member.group, record]).own(TOGETHER[query], member.number(record), False)
            assert member.number(record) not in found, "said by itself, and in its group"
            found[member.number(record)] = own.sn, own.time, len(columns_of(own)[0])
    return [found[number] for number in range(1, merge.last(query) + 1)]


@pytest.mark.parametrize("seed", range(150))
def test_queries_that_are_emitted_together_say_everything_once_whoever_steps_them(seed: int) -> None:
    """Two of them stay inline for a while beside Spark; attempts, losses and crashes come at any time."""
    chance = random.Random(seed)
    log = Log()

    def opened() -> Merge:
        numbers = count(1_000 + 100 * log.commits).__next__
        merge = Merge(log, ManualClock(), lambda: TOGETHER, texts_of, numbers)
        for sn in range(LAST_SN + 1):
            merge.publish(sn, any(first <= sn < end for first, end in AT_HOME.values()))
        return merge

    merge = opened()
    inline: Sender | None = None
    spark: Sender | None = None
    weights = {"inline": 10, "spark": 10, "tell": 4, "attempt": 1, "lost": 1, "die": 1, "flush": 1}
    for action in chance.choices(list(weights), list(weights.values()), k=chance.randint(50, 250)):
        log.dies = chance.choice(["before", "after"]) if action == "die" else None
        try:
            if action in ("inline", "die") and (role := merge.role) is not None:
                if inline is None or inline.runner != role or not merge.is_current(role):
                    inline = Sender(merge, role, chance)
                if role == "inline" and inline.sn != merge.position:
                    inline = Sender(merge, role, chance)
                inline.step()
            elif action in ("flush", "die"):
                merge.flush()
            elif action == "attempt" and merge.position < LAST_SN:
                spark = Sender(merge, "spark", chance)
            elif action == "spark" and spark is not None:
                spark.step()
            elif action == "tell" and spark is not None:
                merge.caught_up("spark", spark.number, spark.sn, {})
            elif action == "lost" and spark is not None:
                merge.lost("spark", spark.number)
                spark = None
        except Died:
            merge, inline, spark = opened(), None, None
    log.dies = None
    if spark is not None:
        merge.lost("spark", spark.number)
    last = Sender(merge, "inline", random.Random("no repeats"))
    while merge.position < LAST_SN:
        last.step()
    merge.flush()
    for reader in (merge, opened()):
        for query in GROUP:
            observed = [(sn, sn * 10, rows_of(query, sn)) for sn in range(1, LAST_SN + 1) if is_told(sn)]
            assert emitted_of(reader, log, query) == observed, f"seed {seed}, query {query}"


def test_spark_becomes_the_owner_only_when_nothing_is_missing() -> None:
    merge = new_merge(Log())
    inline = Inline(merge)
    number, position, _ = merge.attempt("spark")
    assert position == 0
    inline.step()
    merge.caught_up("spark", number, 0, {})
    assert owner_of(merge) == "inline", "it is behind the position"
    merge.take("spark", 1, parts_of(1))
    merge.take("spark", 3, parts_of(3))
    merge.caught_up("spark", number, 3, {})
    assert owner_of(merge) == "inline", "snapshot 2 is missing"
    merge.take("spark", 2, parts_of(2))
    merge.caught_up("spark", number, 4, {})
    assert owner_of(merge) == "inline", "the last snapshot is missing"
    merge.caught_up("spark", number, 3, {})
    assert owner_of(merge) == "spark"
    assert merge.position == 3, "what was waiting is merged at the hand-over"


@pytest.mark.parametrize(("there", "is_handed_over"), [(None, False), (0, True), (1, True), (2, False), (3, False)])
def test_a_query_that_waits_is_handed_over_to_who_is_with_it_at_the_same_position_or_before(
    there: int | None, is_handed_over: bool
) -> None:
    merge = new_merge(Log())
    merge.take("inline", 1, [part_of(1, 1)])
    merge.take("inline", 2, [part_of(2, None, 1)])
    merge.take("inline", 3, [])
    number, _, _ = merge.attempt("spark")
    merge.caught_up("spark", number, 3, {} if there is None else {1: there})
    assert (owner_of(merge) == "spark") == is_handed_over


def part_of(sn: int, evaluated: int | None, stands: int | None = None) -> Part:
    """Of query 1: its evaluation in `evaluated`, or that it has none in `sn`, for it stands before."""
    at = sn if evaluated is None else evaluated
    known = stands if evaluated is None else evaluated
    evaluated = None if known is None else LastEvaluation(known, 0, 0, 10 * known)
    state = QueryState(1, evaluated, sn=at, behind_at=stands, unanswered=stands is not None)
    columns = [np.array([7], np.uint64)]
    is_told = at == known and stands is None
    return Part.of_one(1, at, 0, at * 10, [], columns, None, 0, None, state, is_told, evaluated=is_told)


@pytest.mark.parametrize("alone", ["inline", "spark"])
def test_what_one_runner_makes_up_for_and_the_other_has_emitted_is_emitted_once(alone: str) -> None:
    """From snapshot 2 on one of them has no answer from elsewhere, up to snapshot 4, and the other has."""
    log = Log()
    merge = new_merge(log)
    number, _, _ = merge.attempt("spark")
    answered = {sn: [part_of(sn, sn)] for sn in range(1, 8)}
    failed = answered | {2: [part_of(2, None, 1)], 3: [], 4: [], 5: [part_of(5, sn) for sn in range(2, 6)]}
    inline, spark = (failed, answered) if alone == "inline" else (answered, failed)
    for sn in range(1, 8):
        behind = {1: 1} if alone == "spark" and 2 <= sn <= 4 else {}
        if owner_of(merge) == "inline":
            merge.take("inline", sn, inline[sn])
        merge.take("spark", sn, spark[sn])
        if sn >= 3:
            merge.caught_up("spark", number, sn, behind)
        if sn == 4:
            assert owner_of(merge) == ("spark" if alone == "spark" else "inline")
            merge.flush()
            stored = msgspec.msgpack.decode(log.retained[1], type=QueryState)
            assert stored.behind_at == (1 if alone == "inline" else 3), (
                "whoever goes on from here makes up for the rest"
            )
    assert owner_of(merge) == "spark"
    assert log.emitted(1) == [(sn, sn * 10) for sn in range(1, 8)]


def test_parts_of_the_inline_runner_do_not_count_after_the_hand_over() -> None:
    log = Log()
    merge = new_merge(log)
    inline = Inline(merge)
    number, _, _ = merge.attempt("spark")
    merge.caught_up("spark", number, 0, {})
    inline.step()
    assert merge.position == 0
    merge.take("spark", 1, parts_of(1))
    assert merge.position == 1


def test_what_an_earlier_attempt_left_behind_is_dropped() -> None:
    merge = new_merge(Log())
    number, _, _ = merge.attempt("spark")
    merge.caught_up("spark", number, 0, {})
    merge.take("spark", 2, parts_of(2))
    merge.attempt("spark")
    merge.take("spark", 1, parts_of(1))
    assert merge.position == 1, "snapshot 2 must be sent again by the new attempt"


def test_a_loss_gives_the_queries_back_and_a_late_report_of_it_changes_nothing() -> None:
    changes: list[str] = []
    merge: Merge = new_merge(Log(), on_owner_change=lambda: changes.append(merge.owner))
    first, _, _ = merge.attempt("spark")
    merge.caught_up("spark", first, 0, {})
    second, _, _ = merge.attempt("spark")
    merge.lost("spark", first)
    assert owner_of(merge) == "spark"
    merge.lost("spark", second)
    merge.lost("spark", second)
    assert changes == ["spark", "inline"]


def test_silent_snapshots_are_stored_with_the_next_emission_or_when_flushed() -> None:
    log = Log()
    due: list[int] = []
    clock = ManualClock(500)
    merge = new_merge(log, clock, on_unstored=due.append)
    for sn in (1, 2, 3):
        merge.take("inline", sn, [])
    assert (merge.position, log.at, log.commits, due) == (3, 0, 0, [1500])
    merge.flush()
    assert (log.at, log.commits) == (3, 1)
    merge.flush()
    assert log.commits == 1


def test_nobody_is_notified_before_it_is_stored() -> None:
    log = Log()
    observed: list[tuple[int, ...]] = []
    merge = new_merge(
        log, on_emissions=lambda rows, in_json: observed.append(tuple(sorted({log.last(row.query) for row in rows})))
    )
    sn = next(sn for sn in range(1, LAST_SN) if any(part.query == 1 for part in parts_of(sn)))
    for n in range(1, sn + 1):
        merge.take("inline", n, [part for part in parts_of(n) if part.query == 1])
    assert observed == [(len(expected(1, sn)),)]


def test_the_parts_of_a_dropped_query_are_ignored_and_its_state_goes() -> None:
    queries = dict(QUERIES)
    log = Log()
    merge = Merge(log, ManualClock(), lambda: queries, lambda ids: [b"<x>"] * len(ids), count(1_000).__next__)
    inline = Inline(merge)
    while 2 not in log.states():
        inline.step()
    del queries[2]
    merge.dropped(2)
    emitted = log.emitted(2)
    while inline.sn < LAST_SN:
        inline.step()
    merge.flush()
    assert 2 not in log.states()
    assert log.emitted(2) == emitted
    assert log.emitted(1) == expected(1, LAST_SN)


def test_a_store_that_fails_stops_the_merge_and_notifies_all_who_wait() -> None:
    log = Log()
    merge = new_merge(log)
    received: list[BaseException] = []

    def wait() -> None:
        try:
            merge.wait(LAST_SN, 10)
        except Died as error:
            received.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    inline = Inline(merge)
    log.dies = "before"
    with pytest.raises(Died):
        while True:
            inline.step()
    waiter.join(PATIENCE_S)
    assert len(received) == 1
    with pytest.raises(Died):
        merge.take("inline", merge.position + 1, [])


@pytest.mark.parametrize("where", ["commit", "decode"])
def test_who_waits_or_looks_is_answered_while_the_store_does_not_answer(where: str) -> None:
    log, clock, asked = Log(), ManualClock(), threading.Event()
    away = True

    def answers(act: Callable[..., Any]) -> Callable[..., Any]:
        def asks(*arguments: Any) -> Any:
            asked.set()
            if away:
                raise StoreUnavailable("nobody answers")
            return act(*arguments)

        return asks

    if where == "commit":
        log.commit = answers(log.commit)  # type: ignore[method-assign]
    decode = answers(texts_of) if where == "decode" else texts_of
    merge = Merge(log, clock, lambda: QUERIES, decode, count(1_000).__next__)
    sn = next(sn for sn in range(1, LAST_SN) if any(part.emits for part in parts_of(sn)))
    for silent in range(1, sn):
        merge.take("inline", silent, [])
    inline = threading.Thread(target=merge.take, args=("inline", sn, parts_of(sn)))
    inline.start()
    assert asked.wait(PATIENCE_S)
    with pytest.raises(DeadlineExceeded):
        merge.wait(sn, 0.01)
    assert (merge.position, merge.fault, merge.role) == (sn - 1, None, "inline")
    flushing = threading.Thread(target=merge.flush)  # it waits for its turn
    flushing.start()
    away = False
    while inline.is_alive():
        clock.advance(250)
        inline.join(0.01)
    flushing.join(PATIENCE_S)
    assert not flushing.is_alive()
    assert merge.position == log.at == sn
    observed = [each for query in QUERIES for each in log.emitted(query)]
    assert sorted(observed) == sorted((part.sn, part.time) for part in parts_of(sn) if part.emits)


def test_a_merge_that_is_to_end_waits_for_no_store() -> None:
    log, asked = Log(), threading.Event()

    def commit(*_: object) -> int:
        asked.set()
        raise StoreUnavailable("nobody answers")

    log.commit = commit  # type: ignore[method-assign]
    merge = new_merge(log)
    merge.take("inline", 1, [])
    ending = threading.Thread(target=lambda: (asked.wait(PATIENCE_S), merge.give_up()))
    ending.start()
    with pytest.raises(StoreUnavailable):
        merge.flush()
    ending.join(PATIENCE_S)
    assert isinstance(merge.fault, StoreUnavailable)


def test_waiting_ends_at_the_position_or_at_the_deadline() -> None:
    merge = new_merge(Log())
    with pytest.raises(DeadlineExceeded, match="snapshot 1 was not evaluated"):
        merge.wait(1, 0.01)
    waiter = threading.Thread(target=merge.wait, args=(1, 10))
    waiter.start()
    merge.take("inline", 1, [])
    waiter.join(PATIENCE_S)
    assert not waiter.is_alive()
