"""A query that has failed for good: evaluated no more, after a restart neither, until it is resumed or replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from stream_ext.catalog import Failure

from .opened import opened, push, registration, said, times, triple


@pytest.mark.parametrize(("kind", "state"), [("budget", "failed"), ("worker", "parked"), ("behind", "parked")])
@pytest.mark.parametrize("restart", [False, True])
def test_a_failed_query_says_nothing_until_it_is_resumed_and_tells_the_gap(
    kind: Literal["budget", "worker", "behind"], state: str, restart: bool, tmp_path: Path
) -> None:
    with opened(tmp_path) as service:
        service.register(registration(window="RANGE 2s STEP 1s"))
        push(service, "s", 100, triple("a", 1))
        push(service, "s", 1100, triple("b", 1))
        service._engine.fail(service.query_definition("q").number, Failure(kind, "it took too much"))
        push(service, "s", 2500, triple("c", 1))
        for act in (lambda: None, lambda: service.pause_query("q")):  # nothing changes by pausing what does not run
            act()
            status = service.query_status("q")
            assert (status["state"], status["error"]) == (state, "it took too much")
        if not restart:
            service.resume_query("q")
    with opened(tmp_path) as service:
        if restart:
            assert service.query_status("q")["state"] == state
            push(service, "s", 3600, triple("d", 1))
            assert times(said(service)) == [1000]
            service.resume_query("q")
        assert service.query_status("q")["state"] == "running"
        push(service, "s", 4100, triple("e", 1))
        push(service, "s", 5100, triple("f", 1))
        emissions = said(service)
        assert [emission["emission"] for emission in emissions] == list(range(1, len(emissions) + 1))
        assert emissions[1].get("gap") is True


def test_a_failure_of_a_query_that_was_dropped_meanwhile_changes_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.register(registration())
        number = service.query_definition("q").number
        service.drop_query("q")
        head = service.head()
        service._engine.fail(number, Failure("budget", "it took too much"))
        service.register(registration())
        assert service.head() == head + 1
        assert service.query_status("q")["state"] == "running"
