"""Transient terms in a running service: that they go, and come again under other ids, changes nothing that is said."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from hbase_store.terms import transient
from stream_ext.clock import ManualClock
from stream_ext.service.service import Service
from stream_ext.upkeep.retention import Retain
from stream_ext.writer.updates import solving
from tests.stream_ext.opened import EX, emissions_of, opened, push, triple

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
ERAS = 8  # of three minutes: a name comes again when the longest window has just let go of it
QUERIES = {
    # What a window brought meets the store, which may have learnt the terms before, or learn them later.
    "joined": "REGISTER ISTREAM joined AS SELECT ?x ?y ?z FROM NAMED WINDOW :w ON s [RANGE PT120S STEP PT10S] "
    "WHERE { WINDOW :w { ?x :p ?y } ?y :likes ?z }",
    # Made of a long window, and met in a short one, whose terms come and go meanwhile; and the other way round.
    "made": "REGISTER ISTREAM made AS SELECT ?x ?m ?v FROM NAMED WINDOW :l ON long [RANGE PT20M STEP PT10S] "
    "FROM NAMED WINDOW :w ON s [RANGE PT10S STEP PT10S] "
    "WHERE { WINDOW :l { ?x :p ?y BIND(IRI(CONCAT(STR(?y), '-made')) AS ?m) } WINDOW :w { ?m :q ?v } }",
    "gone": "REGISTER DSTREAM gone AS SELECT ?x ?y FROM NAMED WINDOW :w ON s [RANGE PT120S STEP PT10S] "
    "WHERE { WINDOW :w { ?x :p ?y } FILTER NOT EXISTS { ?y :likes ?z } }",
    "counted": "REGISTER RSTREAM counted AS SELECT ?y (COUNT(?x) AS ?n) (MAX(?x) AS ?most) "
    "FROM NAMED WINDOW :w ON s [RANGE PT60S STEP PT30S] WHERE { WINDOW :w { ?x :p ?y } } GROUP BY ?y",
    "absorbed": "REGISTER ISTREAM absorbed AS SELECT ?x ?y FROM NAMED WINDOW :w ON mixed [RANGE PT60S STEP PT10S] "
    "WHERE { WINDOW :w { ?x :p ?y } ?y :kept ?z }",
}


def register(service: Service) -> None:
    for stream, options in (("s", {}), ("long", {}), ("mixed", {"timeless": [f"{EX}kept"]})):
        service.create_stream(stream, {"retention": "20s", "timeless": [], "time": None, **options})
    for text in QUERIES.values():
        service.register(f"PREFIX : <{EX}> {text}")


def live(service: Service, clock: ManualClock, minutes: range) -> None:
    """Names come, stay away for some minutes, and come again: in windows, in what a query makes, in the store."""
    for minute in minutes:
        rng = random.Random(minute)
        era = minute // 3 % ERAS
        for second in range(0, 60, 10):
            time = minute * MINUTE + second * SECOND
            name = f"y{era}{rng.randrange(4)}"
            push(service, "s", time, triple(f"x{rng.randrange(99)}", name), triple(f"{name}-made", f"v{minute}", "q"))
            if second == 0:
                push(service, "long", time, triple(f"long{minute}", f"y{rng.randrange(ERAS)}{rng.randrange(4)}"))
            else:
                push(service, "long", time, triple("nothing", "nothing", "else"))
            retained = triple(f"y{rng.randrange(4)}1", f"z{minute}", "kept")
            push(service, "mixed", time, triple(f"x{rng.randrange(9)}", f"y{era}{rng.randrange(3)}"), retained)
            clock.advance(10 * SECOND)
        liked = [triple(f"y{rng.randrange(ERAS)}{rng.randrange(4)}", "z", "likes") for _ in range(2)]
        service.update(f"DELETE DATA {{ {liked[0]} }} ; INSERT DATA {{ {liked[1]} }}")
        for query in QUERIES if minute % 3 == 0 else ():
            check_last(service, query)
        service.collect()
        if minute % 7 == 6:
            service.store.fold()


def forget_terms(service: Service, clock: ManualClock) -> None:
    """What was pushed to `s` up to now is let go, and its terms."""
    for time in (10 * MINUTE, 20 * MINUTE):
        clock.advance(10 * MINUTE)
        push(service, "s", time, triple("later", time))
        service.collect()


def test_a_plan_that_is_retained_finds_a_term_that_came_again(tmp_path: Path) -> None:
    clock = ManualClock(HOUR)
    with opened(tmp_path, clock) as service:
        service.create_stream("s", {"retention": "20s", "timeless": [], "time": None})
        push(service, "s", 0, triple("a", "b"))
        text = f"SELECT ?y {{ <{EX}a> <{EX}p> ?y }}"
        assert service.query(text).count == 0
        forget_terms(service, clock)
        assert service.store.ids([f"<{EX}a>".encode()]).tolist() == [0]
        assert service.status()["retention"]["transient_terms"]["count"] > 0
        service.update(f"INSERT DATA {{ {triple('a', 1)} }}")
        assert service.query(text).count == 1


def test_an_update_that_makes_a_term_which_timing_data_has_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where its pattern was solved before its turn."""
    for ahead_rows in (0.0, 1e9):
        monkeypatch.setattr(solving, "AHEAD_ROWS", ahead_rows)
        clock = ManualClock(HOUR)
        with opened(tmp_path / str(ahead_rows), clock) as service:
            service.create_stream("s", {"retention": "20s", "timeless": [], "time": None})
            service.update(f"INSERT DATA {{ {triple('a', 1)} }}")
            push(service, "s", 0, triple("made1", "b"))
            service.update(
                f"INSERT {{ ?m <{EX}p> ?y }} WHERE {{ ?x <{EX}p> ?y BIND(IRI(CONCAT('{EX}made', STR(?y))) AS ?m) }}"
            )
            forget_terms(service, clock)
        with opened(tmp_path / str(ahead_rows), clock) as service:
            found = service.query(f"SELECT ?m {{ ?m <{EX}p> ?y }} ORDER BY ?m")
            assert [row[0] for row in service.decode(found)] == [f"<{EX}a>".encode(), f"<{EX}made1>".encode()]


def check_last(service: Service, query: str) -> None:
    """Whoever asks anew, over the windows as they stand in the store, hears the same."""
    last = service._engine.merge.last(service.query_definition(query).number)
    for emission in emissions_of(service, query, last - 1) if last else ():
        again = json.loads(service.emission_again(query, emission["emission"]))
        assert as_bags([again]) == as_bags([emission])


def as_bags(emissions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of an emission have no order."""
    for emission in emissions:
        emission["results"]["bindings"].sort(key=repr)
    return emissions


def life(folder: Path) -> tuple[dict[str, list[dict[str, Any]]], list[bool], list[bool]]:
    """What was said; and of the names of each minute, whether they are still known, and whether for ever."""
    clock, start = ManualClock(HOUR), 0
    retain = Retain(snapshots_ms=MINUTE, emissions_ms=1 << 40)
    for end in (20, 21, 45, 75):
        with opened(folder, clock, retain=retain) as service:
            if start == 0:
                register(service)
            live(service, clock, range(start, end))
            start = end
    with opened(folder, clock, retain=retain) as service:
        service.store.fold()
        ids = service.store.ids([f"<{EX}v{minute}>".encode() for minute in range(75)])
        permanent = (ids != 0) & ~service.store.are_transient(ids)
        return (
            {query: as_bags(emissions_of(service, query)) for query in QUERIES},
            (ids != 0).tolist(),
            permanent.tolist(),
        )


def test_that_terms_go_changes_nothing_that_is_emitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    observed, known, permanent = life(tmp_path / "transient")
    assert not any(permanent)
    assert not any(known[:45]), "the longest window holds twenty minutes"
    assert all(known[65:])
    monkeypatch.setattr(transient, "BYTES_MAX", -1)  # then there are none
    expected, _, permanent = life(tmp_path / "permanent")
    assert all(permanent)
    for query in QUERIES:
        assert len(observed[query]) > 20, query
        assert observed[query] == expected[query], query
