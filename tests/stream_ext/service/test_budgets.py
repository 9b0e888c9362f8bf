"""The budget of registered queries: who exceeds it fails by name, alone, and stays failed after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stream_ext.continuous.faults import failure_of, fault_of
from stream_ext.continuous.query_budget import Budget
from stream_ext.errors import QueryTooLarge
from stream_ext.service.service import Service
from tests.parts.waiting import until
from tests.stream_ext.opened import EX, emissions_of, opened, push, triple

PREFIX = f"PREFIX : <{EX}> "
PRODUCT = PREFIX + "REGISTER QUERY product AS SELECT (COUNT(*) AS ?n) { ?s :p ?x . ?t :q ?y FILTER(?x <= ?y) }"
GOOD = PREFIX + "REGISTER QUERY good AS SELECT (COUNT(*) AS ?n) { ?s :p ?x }"
SMALL = Budget(bytes=4 << 20)
#: An evaluation that has no time at all.
NO_TIME = Budget(seconds=0.0)


def filled(service: Service, count: int = 2000, start: int = 0) -> None:
    triples = " ".join(f"<{EX}s{i}> <{EX}p> {i} ; <{EX}q> {i} ." for i in range(start, start + count))
    service.update(f"INSERT DATA {{ {triples} }}", wait="evaluated")


def state_of(service: Service, name: str) -> str:
    return str(service.query_status(name)["state"])


@contextmanager
def with_product(folder: Path, budget: Budget = SMALL) -> Iterator[Service]:
    with opened(folder, budget=budget) as service:
        filled(service)
        service.register(PRODUCT)
        service.register(GOOD)
        filled(service, 1, start=5000)
        until(lambda: state_of(service, "product") == "failed", "product has failed")
        yield service


def test_a_query_that_would_take_too_much_fails_by_name_and_the_others_continue(tmp_path: Path) -> None:
    with with_product(tmp_path) as service:
        status = service.query_status("product")
        assert "4000000 solutions" in status["error"]
        assert "--state-bytes" in status["error"]
        failure = service.query_definition("product").failure
        assert failure is not None
        assert failure.kind == "budget"
        assert state_of(service, "good") == "running"
        assert emissions_of(service, "good")[-1]["results"]["bindings"][0]["n"]["value"] == "2001"
        assert emissions_of(service, "product") == []


def test_a_failed_query_stays_failed_after_a_restart_and_holds_nothing(tmp_path: Path) -> None:
    with with_product(tmp_path):
        pass
    with opened(tmp_path, budget=Budget()) as service:  # with this one it would not fail
        filled(service, 1, start=6000)
        assert state_of(service, "product") == "failed"
        assert "4000000 solutions" in service.query_status("product")["error"]
        assert emissions_of(service, "product") == []
        assert emissions_of(service, "good")[-1]["results"]["bindings"][0]["n"]["value"] == "2002"


def test_a_failed_query_is_evaluated_again_when_it_is_resumed(tmp_path: Path) -> None:
    with with_product(tmp_path) as service:
        service.update(f"DELETE WHERE {{ ?s <{EX}q> ?y }}", wait="evaluated")
        filled(service, 1, start=7000)
        assert emissions_of(service, "product") == []
        service.resume_query("product")
        filled(service, 1, start=7001)
        until(lambda: emissions_of(service, "product"), "product is evaluated again")
        emission = emissions_of(service, "product")[-1]
        assert emission["results"]["bindings"][0]["n"]["value"] == str(2002 + 2003)
        assert emissions_of(service, "product")[0]["gap"] is True


def test_a_failed_query_is_evaluated_when_another_takes_its_name(tmp_path: Path) -> None:
    with with_product(tmp_path) as service:
        service.drop_query("product")
        service.register(GOOD.replace("QUERY good", "QUERY product"))
        filled(service, 1, start=8000)
        assert state_of(service, "product") == "running"
        assert emissions_of(service, "product")[-1]["results"]["bindings"][0]["n"]["value"] == "2002"


def test_an_evaluation_that_takes_too_long_fails_its_query(tmp_path: Path) -> None:
    with opened(tmp_path, budget=NO_TIME) as service:
        filled(service)
        service.register(GOOD)
        until(lambda: state_of(service, "good") == "failed", "good has failed")
        assert "--evaluation-timeout" in service.query_status("good")["error"]


def test_what_windows_hold_counts_too(tmp_path: Path) -> None:
    """Each step is small; what is remembered of all of them is not."""
    window = "FROM NAMED WINDOW :w ON s [RANGE PT1H STEP PT1S]"
    text = "REGISTER QUERY q AS SELECT ?x ?z " + window + " WHERE { WINDOW :w { ?x :p ?y . ?z :r ?y } }"
    with opened(tmp_path, budget=Budget(bytes=1 << 20)) as service:
        service.register(PREFIX + text)
        service.register(PREFIX + text.replace("QUERY q", "QUERY now").replace("PT1H", "PT1S"))
        for step in range(60):
            push(service, "s", 1000 * step, *(triple(f"x{step}-{i}", i) for i in range(300)))
            if state_of(service, "q") == "failed":
                break
        until(lambda: state_of(service, "q") == "failed", "q has failed")
        push(service, "s", 100_000, triple("a", 1))
        assert state_of(service, "now") == "running"


def test_queries_that_share_a_network_fail_only_where_they_are_the_culprit(tmp_path: Path) -> None:
    """One network has many members, and one budget: the constants of one of them lead to a hub."""
    window = "FROM NAMED WINDOW :w ON s [RANGE PT1S STEP PT1S]"
    text = "REGISTER QUERY {0} AS SELECT ?a ?b " + window + " WHERE {{ WINDOW :w {{ ?a :p :{0} . ?b :p :{0} }} }}"
    with opened(tmp_path, budget=SMALL) as service:
        names = ["one", "hub", "two", "three", "four"]
        for name in names:
            service.register(PREFIX + text.format(name))
        few = [triple(f"{name}{i}", name) for name in names for i in range(2)]
        push(service, "s", 1000, *few)
        push(service, "s", 3000, *few, *(triple(f"many{i}", "hub") for i in range(1500)))
        push(service, "s", 5000, *few)
        until(lambda: state_of(service, "hub") == "failed", "hub has failed")
        push(service, "s", 7000, *few)
        assert {name: state_of(service, name) for name in names} == {
            name: "failed" if name == "hub" else "running" for name in names
        }
        for name in ("one", "four"):
            rows = {each["time"]: len(each["results"]["bindings"]) for each in emissions_of(service, name)}
            assert [rows[time_ms] for time_ms in (2000, 4000, 6000)] == [4, 4, 4], "in the step of the fault, too"


def test_the_latest_answer_is_made_again_within_the_budget(tmp_path: Path) -> None:
    """ISTREAM says what has come: the whole is found by asking once more."""
    with opened(tmp_path) as service:
        filled(service, 100)
        service.register(PREFIX + "REGISTER ISTREAM product AS SELECT ?x ?y { ?s :p ?x . ?t :q ?y }")
        filled(service, 1, start=200)
        assert service.latest("product").count == 101 * 101
    with opened(tmp_path, budget=Budget(bytes=100_000)) as service, pytest.raises(QueryTooLarge):
        service.latest("product")


@pytest.mark.parametrize(
    ("error", "is_of_the_budget"),
    [(QueryTooLarge("too much"), True), (MemoryError("too much"), True), (ValueError("QueryTooLarge: no"), False)],
)
def test_a_fault_is_known_by_its_text(error: Exception, is_of_the_budget: bool) -> None:
    """It may come from another process."""
    failure = failure_of(fault_of(error))
    assert (failure is not None) is is_of_the_budget
    assert failure is None or "too much" in failure.message


def test_rows_that_count_often_are_counted_before_an_emission_repeats_them(tmp_path: Path) -> None:
    """A row that stands 20,000 times is one row until it is said; 300 columns without a value are one array."""
    columns = " ".join(f"?u{n}" for n in range(300))
    window = "FROM NAMED WINDOW <w> ON s [RANGE PT10S STEP PT1S]"
    with opened(tmp_path, budget=Budget(bytes=32 << 20)) as service:
        filled(service)
        service.register(
            f"REGISTER RSTREAM wide AS SELECT {columns} {window} {{ WINDOW <w> {{ ?s ?p ?o }} ?k <{EX}p> ?l }}"
        )
        service.register(f"REGISTER RSTREAM slim AS SELECT ?o {window} {{ WINDOW <w> {{ ?s ?p ?o }} }}")
        push(service, "s", 100, *(triple(f"a{n}", n) for n in range(10)))
        push(service, "s", 1_000, triple("a", 1))
        until(lambda: state_of(service, "wide") == "failed", "wide has failed")
        assert "20000 solutions" in service.query_status("wide")["error"]
        assert len(emissions_of(service, "slim")[-1]["results"]["bindings"]) == 10
