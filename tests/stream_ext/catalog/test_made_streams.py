"""Streams that a registration makes: perhaps a slip, so they are no correction of another, and go with the query."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_ext.errors import NotFound
from stream_ext.service.service import Service
from tests.stream_ext.opened import opened, push, registration, triple


@pytest.fixture
def service(tmp_path: Path):  # type: ignore[no-untyped-def]  # a generator of a service
    with opened(tmp_path) as running:
        running.create_stream("taxis", {})
        running.create_stream("taxes", {})
        yield running


def names(service: Service) -> list[str]:
    return sorted(stream.name for stream in service.streams())


def warned(service: Service, name: str, stream: str) -> str:
    _, _, (warning,) = service.register(registration(name, stream))
    return warning


def test_the_warning_names_what_is_near_but_nothing_that_was_itself_a_slip(service: Service) -> None:
    first = warned(service, "one", "taxiz")
    assert "(did you mean 'taxis' or 'taxes'?)" in first and "is dropped together with the query" in first
    assert "taxiz" not in warned(service, "two", "taxiss").partition("(did")[2]
    assert service.stream_status("taxiz")["created_by"] == "one"
    assert service.stream_status("taxis")["created_by"] is None
    with pytest.raises(NotFound, match=r"'taxi[zs]s'") as refused:
        service.stream("taxizs")
    assert "(did you mean 'taxis'?); there are 'taxis', 'taxes', 'taxiz'" in str(refused.value)


def test_it_goes_with_the_last_query_that_reads_it(service: Service) -> None:
    service.register(registration("one", "slip"))
    service.register(registration("two", "slip"))
    service.heartbeat("slip", 5)
    service.drop_query("one")
    assert names(service) == ["slip", "taxes", "taxis"]
    service.drop_query("two")
    assert names(service) == ["taxes", "taxis"]
    service.register(registration("one", "slip"))
    assert service.stream_status("slip")["time"] is None, "it is another one"


@pytest.mark.parametrize("how", ["pushed", "created", "changed"])
def test_it_stays_once_somebody_meant_it(how: str, service: Service, tmp_path: Path) -> None:
    service.register(registration("one", "slip"))
    if how == "pushed":
        push(service, "slip", 5, triple("a", "b"))
    elif how == "created":
        assert service.create_stream("slip", {})[1] is False
    else:
        service.change_stream("slip", {"ahead": "any"})
    assert service.stream_status("slip")["created_by"] is None
    service.drop_query("one")
    assert "slip" in names(service)
    with pytest.raises(NotFound, match="did you mean 'slip'"):
        service.stream("slipp")


def test_the_stream_of_a_construct_that_waited_for_it_is_meant(service: Service) -> None:
    service.register(registration("reader", "derived"))
    service.register(registration("derived", "taxis", select="CONSTRUCT { ?x :p ?y }"))
    assert service.stream_status("derived")["created_by"] is None
    service.drop_query("reader")
    assert "derived" in names(service)


def test_it_goes_after_a_restart_too(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.register(registration("one", "slip"))
    with opened(tmp_path) as service:
        service.drop_query("one")
        assert names(service) == []
