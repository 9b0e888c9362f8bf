"""Who reads emissions: event streams, pages of emissions, the latest answer; how far each is."""

from __future__ import annotations

from pathlib import Path

from endpoint.monitoring.subscribers import Subscribers
from tests.endpoint.live import Live, live
from tests.parts.waiting import until


def test_a_client_that_asks_again_is_one_subscriber() -> None:
    now = [100.0]
    subscribers = Subscribers(lambda: now[0])
    for position in (5, 9):
        reading = subscribers.begin(1, "near", "10.0.0.7", "curl/8", "lines", position - 4)
        subscribers.sent(reading, position)
        subscribers.end(reading)
        now[0] += 10
    (known,) = subscribers.known()
    assert (known.position, known.began_s, known.seen_s, known.is_open) == (9, 100.0, 110.0, False)
    assert subscribers.known(2) == []


def test_open_event_streams_of_one_client_are_several_and_ended_ones_are_forgotten() -> None:
    now = [100.0]
    subscribers = Subscribers(lambda: now[0])
    first = subscribers.begin(1, "near", "10.0.0.7", "curl/8", "events", 0)
    now[0] += 1
    second = subscribers.begin(1, "near", "10.0.0.7", "curl/8", "events", 0)
    subscribers.sent(first, 7)
    assert [each.position for each in subscribers.known(1)] == [7, 0]
    subscribers.end(second)
    assert [each.is_open for each in subscribers.known(1)] == [True, False]
    now[0] += 10_000
    assert subscribers.known(1) == [first], "an open one stays, however long it lasts"


def test_no_more_than_some_are_remembered_and_a_long_name_is_cut() -> None:
    subscribers = Subscribers(lambda: 0.0)
    for n in range(2_000):
        subscribers.end(subscribers.begin(n, "q", "10.0.0.7", "x" * 1_000, "latest", None))
    assert len(subscribers.known()) == 500
    assert max(len(each.program) for each in subscribers.known()) == 120


def shown(server: Live, **asked: str) -> list[tuple[object, ...]]:
    found = server.http.get("/$/subscribers", params=asked).raise_for_status().json()["subscribers"]
    return [(each["query"], each["way"], each["open"], each["position"], each["behind"]) for each in found]


def test_the_server_says_who_reads(tmp_path: Path) -> None:
    with live(tmp_path, console=False) as server:
        server.http.put("/streams/taxis").raise_for_status()
        server.register().raise_for_status()
        for time in (1000, 1500, 2600):
            server.push(time).raise_for_status()
        last = server.service.query_status("near")["emissions"]
        assert last > 3
        assert shown(server) == []
        server.http.get("/queries/near/results", params={"since": "1", "limit": "2"}).raise_for_status()
        server.http.get("/queries/near/results").raise_for_status()
        assert set(shown(server)) == {("near", "lines", False, 3, last - 3), ("near", "latest", False, None, None)}
        events = {"accept": "text/event-stream"}
        with server.http.stream("GET", "/queries/near/results", headers=events) as answer:
            following = answer.iter_lines()
            while next(following) != f"id: {last}":
                pass
            until(lambda: ("near", "events", True, last, 0) in shown(server, query="near"), "it is listed")
        until(lambda: ("near", "events", False, last, 0) in shown(server, query="near"), "it has left")
        assert server.http.get("/$/subscribers", params={"query": "nowhere"}).status_code == 404


def test_only_who_may_write_sees_addresses(tmp_path: Path) -> None:
    with live(tmp_path, token="secret", console=False) as server:
        assert server.http.get("/$/subscribers").status_code == 401
        found = server.http.get("/$/subscribers", headers={"authorization": "Bearer secret"})
        assert found.json() == {"subscribers": []}
