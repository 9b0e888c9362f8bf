"""What a registered text means is worked out once for each change of the catalog, and handed on."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from stream_ext.catalog.catalog import Catalog, QueryDefinition, StreamDefinition
from stream_ext.catalog.options import StreamOptions
from stream_ext.catalog.registered import Handed, Registered
from stream_ext.windows.query_state import QueryState
from tests.stream_ext.opened import EX, emissions_of, opened, push, registration, times, triple

ON_ALL = (
    "PREFIX : <http://ex/> SELECT ?x FROM NAMED WINDOW :w ON ?s [RANGE 3s STEP 1s] WHERE { WINDOW :w { ?x :p ?y } }"
)


def streams(count: int) -> Catalog:
    named = (StreamDefinition(n, f"s{n}", f"{EX}s{n}", StreamOptions()) for n in range(1, count + 1))
    return Catalog({stream.number: stream for stream in named})


def definition(number: int, text: str = ON_ALL, any_stream: bool = True, since: int = 1) -> QueryDefinition:
    return QueryDefinition(
        number, f"q{number}", f"{EX}q{number}", text, EX, "RSTREAM", ["x"], [], 1, QueryState(), since,
        any_stream=any_stream,
    )  # fmt: skip


def test_a_registration_is_parsed_planned_and_timed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Counter[str] = Counter()

    def count(module: str, name: str) -> None:
        original = getattr(import_module(module), name)

        def counted(*given: Any, **named: Any) -> Any:
            calls[name] += 1
            return original(*given, **named)

        monkeypatch.setattr(f"{module}.{name}", counted)

    with opened(tmp_path) as service:
        service.create_stream("s", {})
        push(service, "s", 100, triple("a", "b"))
        count("stream_ext.oneshot.question", "parse")
        count("stream_ext.catalog.registered_text", "parse")
        count("stream_ext.catalog.registered_text", "logic_of")
        count("stream_ext.catalog.registered", "timing_of")
        service.register(registration(window="RANGE 2s STEP 1s"))
        push(service, "s", 1100, triple("c", "d"))
        assert times(emissions_of(service)) == [1000]
        assert calls == {"parse": 1, "logic_of": 1, "timing_of": 1}


def test_what_was_handed_is_taken_once_and_then_made_anew() -> None:
    handed, catalog, query = Handed(), streams(1), definition(1)
    made = Registered.of(query, catalog)
    handed.put(query, made)
    assert handed.take(query, catalog).text is made.text
    assert handed.take(query, catalog).timing == made.timing


def test_a_query_that_was_resumed_is_another_one() -> None:
    handed, catalog = Handed(), streams(1)
    before = definition(1, ON_ALL.replace("3s", "5s"))
    handed.put(before, Registered.of(before, catalog))
    (window,) = handed.take(definition(1, since=7), catalog).timing.windows
    assert window.range_ms == 3000


def test_a_query_on_every_stream_follows_the_catalog_of_whoever_takes_it() -> None:
    handed, query = Handed(), definition(1)
    handed.put(query, Registered.of(query, streams(1)))
    found = handed.take(query, streams(3))
    assert [window.stream for window in found.timing.windows] == [1, 2, 3]
    assert found.labels == ("s1", "s2", "s3")


def test_only_the_latest_wait_to_be_taken() -> None:
    handed, catalog = Handed(most=2), streams(1)
    made = {number: Registered.of(definition(number), catalog) for number in (1, 2, 3)}
    for number, registered in made.items():
        handed.put(definition(number), registered)
    waiting = [number for number in made if handed.take(definition(number, any_stream=False), catalog) is made[number]]
    assert waiting == [2, 3]
