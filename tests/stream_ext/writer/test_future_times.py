"""Times ahead of the clock, in the wrong unit, and from before the first close: refused, said, or counted as late."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_ext.clock import ManualClock
from stream_ext.errors import BadArgument, NameInUse
from stream_ext.service.service import Service
from tests.stream_ext.opened import emissions_of, opened, push, push_lines, registration, times, triple

NOW = 1_795_000_000_000  # 2026-11-18T11:06:40Z
DAY, HOUR = 86_400_000, 3_600_000
A = triple("a", "b")


@pytest.fixture
def service(tmp_path: Path):  # type: ignore[no-untyped-def]  # a generator of a service
    with opened(tmp_path, ManualClock(NOW)) as running:
        running.create_stream("s", {})
        yield running


def test_one_time_that_is_too_far_ahead_refuses_its_push_and_leaves_no_trace(service: Service) -> None:
    push(service, "s", NOW - 5, A)
    lines = [{"timestamp": NOW + each, "data": A} for each in (1, DAY + 1, 2)]
    with pytest.raises(BadArgument, match=r"element 2: the time .* is 2026-11-19T.*further ahead.*PATCH") as refused:
        push_lines(service, "s", *lines)
    assert "nothing was accepted" in str(refused.value)
    with pytest.raises(BadArgument, match="further ahead"):
        service.heartbeat("s", NOW + DAY + 1)
    assert service.stream_status("s")["time"] == NOW - 5
    assert push(service, "s", NOW + DAY, A).accepted == 1
    assert service.heartbeat("s", NOW + DAY).warnings == []


def test_the_time_that_counts_is_looked_at(service: Service) -> None:
    service.create_stream("p", {"time": "http://ex/at", "ahead": "1h"})
    far = f'<http://ex/a> <http://ex/at> "{NOW + HOUR + 1}"^^<http://www.w3.org/2001/XMLSchema#integer> .'
    with pytest.raises(BadArgument, match="further ahead"):
        push(service, "p", 5, far)
    assert push(service, "s", None, far).accepted == 1, "it comes now, whatever it says"


def test_ahead_may_be_any_and_may_be_changed_and_lateness_may_not(service: Service, tmp_path: Path) -> None:
    far = NOW + 1000 * DAY
    assert service.change_stream("s", {"ahead": "any"}).options.as_json()["ahead"] == "any"
    assert push(service, "s", far, A).accepted == 1
    with pytest.raises(NameInUse, match="keeps its option 'lateness'"):
        service.change_stream("s", {"lateness": "5s", "ahead": "1d"})
    assert service.change_stream("s", {"lateness": 0, "ahead": "1d"}).options.ahead_ms == DAY
    with pytest.raises(BadArgument, match="further ahead"):
        push(service, "s", far + 1, A)
    with pytest.raises(BadArgument, match="or 'any'"):
        service.change_stream("s", {"ahead": "often"})
    with pytest.raises(BadArgument, match=r"did you mean 'ahead'"):
        service.change_stream("s", {"ahed": "any"})


def test_what_a_query_says_of_the_future_is_no_push_from_outside(service: Service) -> None:
    service.change_stream("s", {"ahead": "any"})
    service.register(registration("out", select="CONSTRUCT { ?x :p ?y }"))
    for second in range(4):
        push(service, "s", NOW + 9 * DAY + second * 1000, A)
    assert service.stream_status("out")["time"] == NOW + 9 * DAY + 3000


def test_other_units_are_hinted_at(service: Service) -> None:
    receipt = push(service, "s", NOW // 1000, A)
    assert receipt.accepted == 1
    (warning,) = receipt.warnings
    assert "is 1970-01-21T" in warning and "as seconds it would be 2026-11-18T" in warning and str(NOW) in warning
    for parts, name in ((1_000, "microseconds"), (100_000, None)):
        with pytest.raises(BadArgument, match="further ahead") as refused:
            push(service, "s", NOW * parts, A)
        assert (name is not None) == ("was" in str(refused.value).rpartition(";")[2])
        assert name is None or f"was {NOW} ({name}) meant?" in str(refused.value)
    assert push(service, "s", 5_000_000, A).warnings == [], "a small abstract time"


def test_other_units_are_hinted_at_in_what_is_replayed_years_later(service: Service) -> None:
    old = NOW - 9 * 366 * DAY
    (warning,) = push(service, "s", old // 1000, A).warnings
    assert str(old) in warning
    assert push(service, "s", old // 2000, A).warnings == [], "twenty years ago, or ten days after 0"
    with pytest.raises(BadArgument, match=rf"was {old} \(microseconds\) meant\?"):
        push(service, "s", old * 1_000, A)
    with pytest.raises(BadArgument, match=f"as nanoseconds it would be 2017-.*: if you mean that, send {old}"):
        push(service, "s", old * 1_000_000, A)


# ---- late means lost


def test_an_element_an_hour_old_is_late_and_one_in_a_gap_is_not(service: Service) -> None:
    push(service, "s", NOW, A)
    service.register(registration(window="RANGE PT2S STEP PT5S"))
    assert push(service, "s", NOW - HOUR - 1000, A).late == 1, "its windows closed before the registration"
    assert push(service, "s", NOW - HOUR - 4000, A).late == 0, "it is in no window"
    push(service, "s", NOW + 6000, A)
    assert times(emissions_of(service)) == [NOW + 5000]
    assert push(service, "s", NOW + 5500, A).late == 0
    assert push(service, "s", NOW + 4500, A).late == 1


def test_an_old_element_does_not_move_the_first_close_back(service: Service) -> None:
    service.register(registration(window="RANGE PT2S STEP PT1S"))
    push(service, "s", NOW, A)
    receipt = push_lines(service, "s", {"timestamp": NOW - HOUR, "data": A}, {"timestamp": NOW + 500, "data": A})
    assert receipt.late == 1
    push(service, "s", NOW + 2000, A)
    assert times(emissions_of(service)) == [NOW + 1000, NOW + 2000]


def test_an_older_element_that_the_lateness_allows_moves_it_back_whoever_allows_it(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    texts = {"none": "RANGE PT1S STEP PT1S", "some": "RANGE PT1S STEP PT1S LATENESS PT5S"}
    with opened(tmp_path, clock) as service:
        for name, window in texts.items():
            service.register(registration(name, window=window))
        assert push(service, "s", NOW, A).late == 0
        assert push(service, "s", NOW - 3000, A).late == 1
    with opened(tmp_path, clock) as service:  # and after a restart it is so, too
        push(service, "s", NOW + 7000, A)
        assert times(emissions_of(service, "none"))[0] == NOW + 1000
        assert times(emissions_of(service, "some"))[:3] == [NOW - 2000, NOW - 1000, NOW]


@pytest.mark.parametrize("time", [10**18 + 1, -(10**18) - 1, 2**63, -(2**63)])
def test_a_time_with_which_nothing_can_be_computed_is_refused_from_python_too(service: Service, time: int) -> None:
    service.create_stream("far", {"ahead": "any"})
    for act in (lambda: push(service, "far", time, triple("a", 1)), lambda: service.heartbeat("far", time)):
        with pytest.raises(BadArgument, match="is out of range"):
            act()
    assert service.stream_status("far")["time"] is None
