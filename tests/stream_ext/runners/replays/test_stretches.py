"""Which pasts are divided, and where they are cut."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_ext.runners.replays import replays
from stream_ext.runners.replays.stretches import cuts, state_after
from stream_ext.runners.replays.task import planned_query
from stream_ext.service.service import Limits, Service
from stream_ext.windows.query_state import QueryState
from tests.stream_ext.opened import EX, open_service, push, registration, triple

WINDOW = "START 0 END 100000 STEP 1s"
#: In two halves, with a long gap.
TIMES = [*range(0, 20_000, 100), *range(80_000, 100_000, 100)]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = open_service(tmp_path_factory.mktemp("past"), limits=Limits(push_readers=2))
    service.create_stream("s", {"retention": "1h"})
    for time in TIMES[::5]:
        push(service, "s", time, triple("a", time))
    yield service
    service.close()


def explained(service: Service, text: str) -> dict[str, Any]:
    found: dict[str, Any] = service.explain(text)["replay"]
    return found


@pytest.mark.parametrize("stretches", [1, 2, 3, 7])
def test_a_past_is_cut_at_closes_with_content_into_stretches_of_about_the_same_work(
    service: Service, stretches: int
) -> None:
    name = f"q{stretches}"
    service.register(registration(name, window=WINDOW))
    definition, store = service.query_definition(name), service._opened.store
    planned = planned_query(store, definition.since, definition.number, QueryState())
    found = cuts(planned, store, definition.since, stretches)
    assert len(found) == stretches - 1 and found == sorted(set(found))
    assert all(close % 1000 == 0 for close in found)
    closes = np.diff([0, *found, 100_000]) / 1000
    assert max(closes) <= 1.3 * 100 / stretches, "all take about as long"
    for close in found:
        state = state_after(planned, store, definition.since, close)
        assert (state.after, state.last, state.begins) == (close, close, [1000])
        assert state.evaluated is not None and state.evaluated.time == close and not state.ended


def test_a_past_is_not_cut_where_its_windows_are_empty(service: Service) -> None:
    """The windows of a stream that begins late are empty for long."""
    service.create_stream("late", {"retention": "1h"})
    push(service, "late", 90_000, triple("a", 1))
    service.register(registration("late_q", "late", window=WINDOW))
    definition, store = service.query_definition("late_q"), service._opened.store
    planned = planned_query(store, definition.since, definition.number, QueryState())
    assert cuts(planned, store, definition.since, 4) == [93_000, 95_000, 98_000]


def construct(template: str) -> str:
    return f"PREFIX : <{EX}> REGISTER RSTREAM q AS CONSTRUCT {{ {template} }} FROM NAMED WINDOW :w ON s [{WINDOW}] "


@pytest.mark.parametrize(
    "text",
    [
        registration(window=WINDOW),
        registration(window=WINDOW, r2s="ISTREAM"),
        registration(window=WINDOW, select="SELECT DISTINCT ?y"),
        registration(window=WINDOW, select="SELECT ?x (AVG(?y) AS ?m)") + " GROUP BY ?x",
        registration(window=WINDOW) + " ORDER BY ?y LIMIT 3",
        construct("?x :q ?y") + "WHERE { WINDOW :w { ?x :p ?y } }",
    ],
)
def test_what_is_the_same_in_another_process_is_divided(
    service: Service, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replays, "LEAST_S", 0.0)
    assert explained(service, text) == {"by": "processes beside the server", "tasks": 2}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (registration(window=WINDOW) + " LIMIT 3", "in which rows came first"),
        (registration(window=WINDOW, select="SELECT ?x (NOW() AS ?n)"), "may differ from process to process"),
        (registration(window=WINDOW, select="SELECT (STR(?x) AS ?t)"), "may depend on ?t, which is computed"),
        (
            registration(window=WINDOW, select="SELECT (COUNT(*) AS ?n) ?x") + " GROUP BY ?x",
            "may depend on ?n, which is computed",
        ),
        (construct("?x :q [] ") + "WHERE { WINDOW :w { ?x :p ?y } }", "makes blank nodes"),
        (
            registration(window=WINDOW, stream="?any", pattern="?x :p ?y"),
            "a window is on each stream",
        ),
    ],
)
def test_what_may_be_otherwise_in_another_process_is_not(
    service: Service, text: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replays, "LEAST_S", 0.0)
    assert why in explained(service, text)["why_not"]


def test_a_short_past_is_not_divided_and_one_lane_is_none(service: Service, tmp_path: Path) -> None:
    assert "less than 4 s is not divided" in explained(service, registration(window=WINDOW))["why_not"]
    long = registration(window="START 0 END 100000 STEP 1ms")
    assert explained(service, long)["tasks"] == 2
    assert "--push-readers" in _of_one(tmp_path, long)
    assert "replay" not in service.explain(registration(window="RANGE 10s STEP 1s"))


def _of_one(folder: Path, text: str) -> str:
    service = open_service(folder, limits=Limits(push_readers=1))
    try:
        service.create_stream("s", {})
        return str(explained(service, text)["why_not"])
    finally:
        service.close()
