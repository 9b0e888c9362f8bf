"""What streams absorb goes to the source (`--absorb source`): all of it, once, whatever breaks in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_ext.clock import ManualClock
from stream_ext.errors import BadArgument
from stream_ext.remote.fetching import NoAnswer
from stream_ext.service.service import Service
from tests.parts.waiting import until
from tests.stream_ext.opened import EX, opened, push, triple
from tests.stream_ext.sources.pretended_source import PretendedSource
from tests.stream_ext.sources.test_held_service import near, rows

WRITABLE = {"update_url": "http://pretended/main/update"}


def there(source: PretendedSource) -> set[str]:
    """What the source has, without its marks."""
    return {
        " ".join(map(str, (quad.subject, quad.predicate, quad.object))).replace(EX, "")
        for quad in source.store
        if "absorbed" not in str(quad.graph_name)
    }


def own(service: Service) -> int:
    return len(service.store.at(service.head()).quads()[0])


def living(name: str, zone: str) -> str:
    return triple(name, zone, "livesIn")


def with_stream(service: Service) -> None:
    service.create_stream("taxis", {"timeless": [f"{EX}livesIn"]})


def test_timeless_triples_are_moved_and_are_in_the_dataset_all_the_time(tmp_path: Path) -> None:
    clock, source = ManualClock(1_000_000), PretendedSource(**WRITABLE)
    with opened(tmp_path, clock, sources=[source], absorb="source") as service:
        with_stream(service)
        service.register(near(pattern="?t :livesIn ?c"))
        push(service, "taxis", 1_500, triple("a", "z1", "in"), living("a", "c1"))
        found = "SELECT * { ?s ?p ?o }"
        assert service.query(found).count == 1
        push(service, "taxis", 2_500, triple("b", "z9", "in"))
        assert rows(service) == [("a", "c1")]
        clock.advance(1_000)
        until(lambda: own(service) == 0, "it is moved")
        assert there(source) == {"<a> <livesIn> <c1>"} and service.query(found).count >= 1
        push(service, "taxis", 3_500, triple("c", "z9", "in"))
        assert rows(service) == [("a", "c1")], "it is held now"
        push(service, "taxis", 4_500, living("a", "c2"), living("b", "c2"))
        clock.advance(1_000)
        until(lambda: own(service) == 0, "these are moved, too")
        assert there(source) == {"<a> <livesIn> <c1>", "<a> <livesIn> <c2>", "<b> <livesIn> <c2>"}


def test_they_stay_here_while_the_source_is_away_and_the_status_says_so(tmp_path: Path) -> None:
    clock, source = ManualClock(1_000_000), PretendedSource(**WRITABLE)
    with opened(tmp_path, clock, sources=[source], absorb="source") as service:
        with_stream(service)
        source.away = True
        push(service, "taxis", 1_500, living("a", "c1"))
        clock.advance(1_000)
        until(lambda: "not absorbed" in str(service.sources_status()[0]["error"]), "it is tried")
        assert own(service) == 1
    source.away = False
    with opened(tmp_path, clock, sources=[source], absorb="source") as service:
        until(lambda: own(service) == 0, "it is moved after the restart")
        assert there(source) == {"<a> <livesIn> <c1>"}


@pytest.mark.parametrize("done", [True, False], ids=["was done", "was not done"])
def test_a_request_whose_connection_broke_is_repeated_only_if_it_was_not_done(tmp_path: Path, done: bool) -> None:
    clock, source = ManualClock(1_000_000), PretendedSource(**WRITABLE)
    updates: list[str] = []
    takes = source.update

    def breaks(text: str) -> None:
        updates.append(text)
        if done:
            takes(text)
        raise NoAnswer("the connection broke")

    with opened(tmp_path, clock, sources=[source], absorb="source") as service:
        with_stream(service)
        source.update = breaks  # type: ignore[method-assign]
        push(service, "taxis", 1_500, living("a", "c1"))
        clock.advance(1_000)
        until(lambda: len(updates) == 1, "it is sent")
        source.change("DELETE DATA { :a :livesIn :c1 }")  # its owner does not want it
    source.update = takes  # type: ignore[method-assign]
    with opened(tmp_path, clock, sources=[source], absorb="source") as service:
        push(service, "taxis", 2_500, living("b", "c1"))
        clock.advance(1_000)
        until(lambda: own(service) == 0, "all is moved")
        assert there(source) == ({"<b> <livesIn> <c1>"} | (set() if done else {"<a> <livesIn> <c1>"}))


def test_blank_nodes_stay_here_and_what_else_is_ours_stays_ours(tmp_path: Path) -> None:
    clock, source = ManualClock(1_000_000), PretendedSource(**WRITABLE)
    with opened(tmp_path, clock, sources=[source], absorb="source", updates="ours") as service:
        with_stream(service)
        service.update(f"INSERT DATA {{ {triple('own', 'x')} }}")
        push(service, "taxis", 1_500, living("a", "c1"), f"_:b <{EX}livesIn> <{EX}c1> .")
        clock.advance(1_000)
        until(lambda: own(service) == 2, "one is moved")
        assert there(source) == {"<a> <livesIn> <c1>"}
        assert [each for each in values_of(service) if "own" in each]


def values_of(service: Service) -> list[str]:
    return [str(row) for row in service.decode(service.query("SELECT ?s { ?s ?p ?o }"))]


def test_a_source_that_takes_no_updates_absorbs_nothing(tmp_path: Path) -> None:
    with (
        pytest.raises(BadArgument, match="--attach-update"),
        opened(tmp_path, sources=[PretendedSource()], absorb="source"),
    ):
        pass
