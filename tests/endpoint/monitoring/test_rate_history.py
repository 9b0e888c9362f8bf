"""What was read of queries and streams during the last minutes, for those who look later."""

from __future__ import annotations

from typing import Any

from endpoint.monitoring import rate_history
from endpoint.monitoring.rate_history import EVERY_S, POINTS, RateHistory


class Counters:
    """What `RateHistory` reads of a service: counters that a test sets."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.elements: dict[str, int] = {}

    def queries(self) -> list[str]:
        return list(self.rows)

    def streams(self) -> list[str]:
        return list(self.elements)

    def query_figures(self, name: str) -> dict[str, Any]:
        return {"query": name, "rows": self.rows[name], "emissions": self.rows[name] // 10}

    def stream_figures(self, name: str) -> dict[str, Any]:
        return {"stream": name, "elements": self.elements[name]}


class Watched:
    """RateHistory of counters, at times that a test chooses."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.counters: Any = Counters()
        self.rates = RateHistory(self.counters, lambda: self.now_s)

    def pass_(self, seconds: float = EVERY_S) -> dict[str, Any]:
        self.now_s += seconds
        self.rates.look()
        return self.rates.known()


def test_a_rate_is_what_came_in_a_second() -> None:
    watched = Watched()
    watched.counters.rows, watched.counters.elements = {"near": 10}, {"taxis": 0}
    assert watched.pass_()["queries"] == {}  # one reading has no rate yet
    watched.counters.rows["near"], watched.counters.elements["taxis"] = 13, 2000
    known = watched.pass_()
    assert (known["queries"], known["streams"]) == ({"near": [1.5]}, {"taxis": [1000]})
    assert watched.pass_()["queries"] == {"near": [1.5, 0]}


def test_all_together_are_the_sum_of_those_that_had_a_rate() -> None:
    watched = Watched()
    watched.counters.rows = {"near": 0, "far": 0}
    watched.pass_()
    watched.counters.rows = {"near": 40, "new": 1_000_000}  # one was dropped, one is new
    known = watched.pass_()
    assert known["queries"] == {"near": [20]}
    assert known["totals"] == {"queries rows": [20], "queries emissions": [2.0], "streams elements": [0]}


def test_the_last_four_minutes_are_held_and_no_more() -> None:
    watched = Watched()
    for count in range(POINTS + 5):
        watched.counters.rows = {"near": count * 2}
        known = watched.pass_()
    assert known["queries"] == {"near": [1.0] * POINTS}
    assert known["every_ms"] * POINTS == 4 * 60 * 1000


def test_what_is_made_anew_begins_at_nothing_and_what_is_gone_is_forgotten() -> None:
    watched = Watched()
    watched.counters.rows = {"near": 50}
    watched.pass_()
    watched.counters.rows = {"near": 0}
    assert watched.pass_()["queries"] == {"near": [0]}
    watched.counters.rows = {}
    assert watched.pass_()["queries"] == {}


def test_those_who_look_often_make_no_more_rates() -> None:
    watched = Watched()
    watched.counters.rows = {"near": 0}
    for count in range(1, 41):
        watched.counters.rows["near"] = count
        known = watched.pass_(0.5)
    assert known["queries"]["near"] == [2.0] * 9


def test_of_very_many_queries_the_first_ones_have_rates() -> None:
    watched = Watched()
    watched.counters.rows = {f"q{number}": 0 for number in range(rate_history.NAMES_MAX + 10)}
    watched.pass_()
    assert len(watched.pass_()["queries"]) == rate_history.NAMES_MAX
