"""Pausing and resuming a query: what is left out, what stays, and that a restart makes no difference."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_ext.errors import NotFound
from tests.stream_ext.opened import emissions_of, opened, push, registration, times, triple, values


@pytest.mark.parametrize("restart", [False, True])
def test_a_paused_query_says_nothing_and_resumes_after_what_it_missed(restart: bool, tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.register(registration(window="RANGE 2s STEP 1s"))
        push(service, "s", 100, triple("a", 1))
        push(service, "s", 1100, triple("b", 1))
        service.pause_query("q")
        assert service.query_status("q")["state"] == "paused"
        service.pause_query("q")  # once more changes nothing
        push(service, "s", 2500, triple("c", 1))
        push(service, "s", 3600, triple("d", 1))
        assert times(emissions_of(service)) == [1000]
        if not restart:
            service.resume_query("q")
    with opened(tmp_path) as service:
        if restart:
            service.resume_query("q")
        assert service.query_status("q")["state"] == "running"
        assert push(service, "s", 2600, triple("late", 1)).late == 0, "nothing was reported that it belongs to"
        push(service, "s", 4100, triple("e", 1))
        assert times(emissions_of(service)) == [1000, 4000]
        assert values(emissions_of(service)[1]) == [("c", "1"), ("d", "1"), ("late", "1")]
        assert [emission["emission"] for emission in emissions_of(service)] == [1, 2]


def test_the_origin_of_closes_stays_what_it_was(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.register(registration(window="RANGE 1s STEP 1s T0 300"))
        push(service, "s", 400, triple("a", 1))
        service.pause_query("q")
        push(service, "s", 2000, triple("b", 1))
        service.resume_query("q")
        push(service, "s", 3000, triple("c", 1))
        assert times(emissions_of(service)) == [2300]


def test_only_a_query_that_is_there_can_be_paused(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        for act in (service.pause_query, service.resume_query):
            with pytest.raises(NotFound):
                act("nowhere")
        service.register(registration())
        head = service.head()
        service.resume_query("q")
        assert service.head() == head, "it was running"
        service.pause_query("q")
        service.drop_query("q")
        service.register(registration())
        assert service.query_status("q")["state"] == "running"
