"""Which pasts are divided, and where they are cut."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_ext.continuous.run_plan import PlannedQuery
from stream_ext.runners.replays import missed_closes, replays, stretches
from stream_ext.runners.replays.stretches import CLOSE_S, CutMarks, Cuts
from stream_ext.runners.replays.task import Missed
from stream_ext.service.service import Limits, Service
from stream_ext.windows.query_state import QueryState
from tests.stream_ext.opened import EX, open_service, opened, push, push_lines, registration, triple

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


def planned_of(service: Service, name: str) -> tuple[PlannedQuery, int]:
    """A query whose past is to be replayed, and the snapshot in which it began."""
    definition, store = service.query_definition(name), service._opened.store
    since = definition.since
    missed = Missed("", definition.number, since, since, QueryState().behind(since - 1))
    return missed.planned(store), since


def closes_of(found: Cuts) -> list[int]:
    return [state.after or 0 for state in found.starts]


@pytest.mark.parametrize("lanes", [1, 2, 4])
def test_a_past_is_cut_at_closes_with_content_into_stretches_of_about_the_same_work(
    service: Service, lanes: int
) -> None:
    name = f"q{lanes}"
    service.register(registration(name, window=WINDOW))
    planned, since = planned_of(service, name)
    found = stretches.cuts(planned, service._opened.store, since, lanes, CLOSE_S)
    cuts = closes_of(found)
    assert found.is_all and len(cuts) == 2 * lanes - 1 and cuts == sorted(set(cuts))
    assert all(close % 1000 == 0 for close in cuts)
    closes = np.diff([0, *cuts, 100_000]) / 1000
    assert max(closes) <= 1.3 * 100 / (2 * lanes), "all take about as long"
    for close, state in zip(cuts, found.starts, strict=True):
        assert (state.after, state.last, state.begins) == (close, close, [1000])
        assert state.evaluated is not None and state.evaluated.time == close and not state.ended


def test_stretches_take_about_five_seconds_and_what_is_too_long_is_cut_again() -> None:
    found = CutMarks.of(1000.0, 0.0, 2)
    assert found.is_all and len(found.work_s) == 199 and found.work_s[0] == 5.0
    found = CutMarks.of(1e9, 0.0, 2)
    assert not found.is_all and len(found.work_s) == 256 and round(found.work_s[-1]) == 256 * 5
    assert len(CutMarks.of(1000.0, 100.0, 2).work_s) == 3, "each stretch would read its windows for long"


def test_what_was_missed_is_cut_in_the_middle_of_a_push_where_windows_hold_something(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.register(registration(window="RANGE 2s STEP 10ms", select="SELECT (COUNT(*) AS ?n)"))
        push(service, "s", 0, triple("a", 1))
        query, sn = service.query_definition("q"), service.head()
        state = service._engine.merge.states()[query.number]
        lines = [{"timestamp": time, "data": triple("a", time)} for time in (100, 50_000, 99_000, 100_000)]
        push_lines(service, "s", *lines)
        missed = Missed("", query.number, sn, service.head(), state.behind(sn))
        found = missed_closes.cuts(missed.planned(service._opened.store), service._opened.store, sn + 1, 2, CLOSE_S)
        assert closes_of(found) == [50_010, 99_010]
        assert all((each.behind_at, each.evaluated is not None) == (sn, True) for each in found.starts)


def test_a_past_is_not_cut_where_its_windows_are_empty(service: Service) -> None:
    """The windows of a stream that begins late are empty for long."""
    service.create_stream("late", {"retention": "1h"})
    push(service, "late", 90_000, triple("a", 1))
    service.register(registration("late_q", "late", window=WINDOW))
    planned, since = planned_of(service, "late_q")
    found = stretches.cuts(planned, service._opened.store, since, 2, CLOSE_S)
    assert closes_of(found) == [93_000, 95_000, 98_000]


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
