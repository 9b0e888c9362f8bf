"""CPU time of registered queries: divided among those of a template, added up, forgotten with the query."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from stream_ext.catalog.catalog import QueryDefinition
from stream_ext.emissions.accounts import Accounts
from tests.stream_ext.opened import opened, push, registration, triple


def of_placement(number: int, placement: int) -> QueryDefinition:
    return cast(QueryDefinition, type("Defined", (), {"number": number, "placement": placement})())


def test_queries_that_are_evaluated_together_share_the_time() -> None:
    queries = {1: of_placement(1, 7), 2: of_placement(2, 7), 3: of_placement(3, 0)}
    times = Accounts(lambda: queries)
    times.add({1: 4.0, 3: 1.0})
    times.add({2: 2.0, 99: 5.0})  # 99 was dropped meanwhile
    assert [times.of(query) for query in queries.values()] == [3.0, 3.0, 1.0]


def test_what_is_long_over_counts_less_and_what_was_never_measured_a_little() -> None:
    queries = {1: of_placement(1, 7), 2: of_placement(2, 7), 3: of_placement(3, 0), 4: of_placement(4, 0)}
    times = Accounts(lambda: queries)
    assert times.recent({7, 3}) == {7: 1.0, 3: 1.0}, "nothing is known"
    times.add({1: 4.0, 2: 12.0, 4: 4.0})
    assert times.recent({7, 3, 4}) == {7: 17.0 - 1 / 3, 3: 2 / 3, 4: 4 + 2 / 3}  # 20 ms, and 2 ms for three templates
    times.add({3: 10.0})
    assert times.recent({7, 3}) == {7: 8.0 + 0.9, 3: 10.0 + 0.9}, "template 4 is gone"


def test_templates_that_were_dropped_leave_nothing() -> None:
    """Nobody asks what was recent where one process evaluates all."""
    present: dict[int, QueryDefinition] = {}
    times = Accounts(lambda: present)
    for number in range(1, 200):
        before, present[number] = present.pop(number - 1, None), of_placement(number, 0)
        times.changed(before, present[number])
        times.add({number: 1.0})
    assert times.recent(range(1, 200))[1] < times.recent({199})[199]
    assert len(times._recent_ms) == 1


def test_a_query_that_goes_takes_nothing_along_and_leaves_nothing() -> None:
    queries: dict[int, Any] = {1: of_placement(1, 7), 2: of_placement(2, 7)}
    times = Accounts(lambda: queries)
    times.add({1: 4.0})
    first = queries[1]
    times.changed(queries.pop(2), None)
    times.add({1: 4.0})
    assert times.of(first) == 6.0, "2 while there were two, 4 since it is alone"
    times.changed(queries.pop(1), None)
    times.add({1: 1.0})
    assert times.of(first) == 0.0


def test_the_status_of_a_query_says_what_its_evaluations_took(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.create_stream("s", {})
        service.register(registration("light", pattern="?x :absent ?y"))
        service.register(registration("heavy", pattern="?x :p ?a . ?z :p ?y . FILTER(?a != ?y)"))
        service.register(registration("one", pattern="?x :of 1"))
        service.register(registration("two", pattern="?x :of 2"))
        before = service.query_status("heavy")["core_ms"]
        for step in range(1, 4):
            push(service, "s", step * 1_000, *(triple(f"x{n}", n) for n in range(1_200)))
        took = {name: service.query_status(name)["core_ms"] for name in ("light", "heavy", "one", "two")}
        assert took["heavy"] > before
        assert took["heavy"] > 3 * took["light"], took
        assert took["one"] == took["two"] > 0, "one template"
