"""The city that the console plays into the server's own store: it begins, ends and leaves nothing by a click."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from endpoint.console.editor.examples import CITY as EXAMPLES
from endpoint.demo import in_process
from endpoint.demo.benchmark import Recording
from endpoint.demo.city import CITY
from endpoint.demo.in_process import DemoInProcess
from stream_ext.clock import SystemClock
from stream_ext.errors import BadArgument, NameInUse, Overload
from stream_ext.waits import Wait
from tests.endpoint.console.html import answered, get, post
from tests.endpoint.live import live
from tests.stream_ext.opened import opened

QUERIES = {"city_bikes", "city_empty_stations", "city_delays", "city_latest_buses", "city_dust", "city_rain_and_bikes"}


def wait_for(condition: Callable[[], object], what: str) -> None:
    give_up_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < give_up_s, what
        time.sleep(0.01)


def test_a_click_plays_the_city_and_another_removes_it(tmp_path: Path) -> None:
    with live(tmp_path) as server:
        server.update("INSERT DATA { <http://ex/a> <http://ex/p> 1 }")
        assert [button.shown for button in get(server, "/").all("button")] == ["Play a city"]
        shown = post(server, "/", act="play")
        assert {row[0] for row in shown.cells()} == QUERIES
        assert "being played already" in answered(post(server, "/", 400, act="play"))
        # At once the city comes to a minute a second: the first windows close after some seconds.
        wait_for(lambda: server.service.query_status("city_delays")["rows"], "no query of the city has rows")
        assert [button.shown for button in get(server, "/").all("button")] == ["Stop", "Stop and remove"]
        assert "stands still" in answered(post(server, "/", act="stop"))
        assert "dropped" in answered(post(server, "/", act="remove"))
        assert (server.service.queries(), server.service.streams()) == ([], [])
        assert get(server, "/").facts()["Triples"] == "1", "what was there before"


def test_a_query_of_ones_own_over_the_city_is_offered_and_keeps_its_streams(tmp_path: Path) -> None:
    with live(tmp_path) as server:
        assert "The city that is played" not in [each.shown for each in get(server, "/query").all("h3")]
        post(server, "/", act="play")
        assert "The city that is played" in [each.shown for each in get(server, "/query").all("h3")]
        post(server, "/query", act="register", query=EXAMPLES["Bikes at each station"])
        wait_for(lambda: server.service.query_status("my_bikes")["rows"], "my_bikes has no rows")
        refused = answered(post(server, "/", 409, act="remove"))
        assert "read by my_bikes: drop this query first" in refused
        assert server.service.query_status("city_bikes")["state"] == "running", "nothing was removed"
        server.service.drop_query("my_bikes")
        assert "dropped" in answered(post(server, "/", act="remove"))


def test_played_again_the_city_goes_on_for_the_queries_that_are_there(tmp_path: Path) -> None:
    with live(tmp_path) as server:
        post(server, "/", act="play")
        post(server, "/query", act="register", query=EXAMPLES["Bikes at each station"])
        wait_for(lambda: server.service.query_status("my_bikes")["rows"], "my_bikes has no rows")
        post(server, "/", act="stop")
        before = {name: server.service.query_status(name)["emissions"] for name in (*QUERIES, "my_bikes")}
        reached = server.service.stream_status("city_bikes")["time"]
        post(server, "/", act="play")
        assert {query.name for query in server.service.queries()} == set(before)
        for name, emissions in before.items():
            assert server.service.query_status(name)["emissions"] >= emissions, "its emissions are there"
        for name in ("my_bikes", "city_bikes"):
            more = before[name] + 2
            wait_for(lambda: server.service.query_status(name)["emissions"] >= more, f"{name} stands still")  # noqa: B023  # waited for at once
        assert server.service.stream_status("city_bikes")["time"] > reached
        assert server.service.stream_status("city_bikes")["late"] == 0


def test_a_time_that_is_too_late_is_refused_and_drops_nothing(tmp_path: Path) -> None:
    with opened(tmp_path, SystemClock()) as service:
        demo = DemoInProcess(service)
        demo.start()
        demo.stop()
        service.heartbeat("city_air", 1_782_100_000_000)
        with pytest.raises(BadArgument, match="remove the city"):
            demo.start()
        assert {query.name for query in service.queries()} == QUERIES


def test_playing_takes_the_right_to_write(tmp_path: Path) -> None:
    with live(tmp_path, token="secret") as server:
        assert "sign in" in answered(post(server, "/", 401, act="play"))
        assert server.service.queries() == []


def test_what_ends_it_early_is_said(tmp_path: Path) -> None:
    with opened(tmp_path, SystemClock()) as service:
        demo = DemoInProcess(service)
        demo.start()
        with pytest.raises(BadArgument, match="already"):
            demo.start()
        for query in QUERIES:
            service.drop_query(query)
        service.drop_stream("city_bikes")
        wait_for(lambda: not demo.state.playing, "it goes on without its stream")
        why = demo.state.why_ended
        assert "city_bikes" in why or "the stream was dropped" in why, "before the push, or while it waited"
        demo.start()  # again, from the beginning
        assert (demo.state.playing, demo.state.why_ended) == (True, "")
        demo.remove()
        assert (demo.state.exists, demo.state.playing, service.queries()) == (False, False, [])


def test_it_ends_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_process, "_LONGEST_S", 0)
    with opened(tmp_path, SystemClock()) as service:
        demo = DemoInProcess(service)
        demo.start()
        wait_for(lambda: not demo.state.playing, "it goes on")
        assert (demo.state.exists, demo.state.why_ended) == (True, "")


def test_streams_and_queries_of_others_that_are_called_alike_are_not_dropped(tmp_path: Path) -> None:
    with opened(tmp_path, SystemClock()) as service:
        service.create_stream("city_bikes", {})
        demo = DemoInProcess(service)
        assert not demo.state.exists
        for click in (demo.start, demo.remove):
            with pytest.raises(NameInUse, match=r"city_bikes .* not the demonstration's"):
                click()
        assert [stream.name for stream in service.streams()] == ["city_bikes"]
        service.drop_stream("city_bikes")
        service.register(
            "REGISTER QUERY city_dust AS SELECT ?s FROM STREAM <http://ex/s> [RANGE 1s STEP 1s] { ?s ?p ?o }"
        )
        with pytest.raises(NameInUse, match="city_dust"):
            demo.start()
        assert [query.name for query in service.queries()] == ["city_dust"]


def test_many_clicks_at_a_time_do_not_wait_for_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def generate(seed: int) -> Recording:
        begun.set()
        assert goes_on.wait(60)
        return CITY.generate(seed)

    monkeypatch.setattr(in_process, "CITY", dataclasses.replace(CITY, generate=generate))
    with opened(tmp_path, SystemClock()) as service:
        demo = DemoInProcess(service)
        first = threading.Thread(target=demo.start)
        first.start()
        assert begun.wait(60)
        for click in (demo.start, demo.stop, demo.remove):
            with pytest.raises(Overload, match="just being started"):
                click()
        goes_on.set()
        first.join(60)
        assert demo.state.playing
        demo.remove()
        assert (demo.state.exists, service.queries()) == (False, [])


def test_a_click_waits_for_no_store_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with live(tmp_path) as server:
        monkeypatch.setattr(server.service.waits, "hangs", lambda _: Wait("store", "it has had no answer", 0))
        assert "the store does not answer" in answered(post(server, "/", 503, act="play"))
        assert (server.service.queries(), server.service.streams()) == ([], [])
