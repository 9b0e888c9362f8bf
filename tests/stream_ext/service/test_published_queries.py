"""Wukong+S's texts over LSBench's streams and stored data, as published but for wider windows: those of a second are
nearly all empty on the data of a small network. Each answer is that of pyoxigraph over the windows and the store."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyoxigraph as ox
import pytest

from stream_ext.clock import ManualClock
from stream_ext.service.service import Service
from tests.stream_ext.language.corpora import shared
from tests.stream_ext.opened import NDJSON, opened

STREAMS = {
    "poststream": "post_1k",
    "postlikestream": "postlike_1k",
    "photostream": "photo_1k",
    "photolikestream": "photolike_1k",
}
TEXTS = ("L2", "L3", "L4", "L5", "L6")
LINES = 30_000
Elements = dict[int, list[str]]
STATIC, WINDOW = ox.NamedNode("urn:static"), ox.NamedNode("urn:window")


def read_elements(folder: Path, name: str) -> Elements:
    """Consecutive lines of one timestamp are one element."""
    found: Elements = {}
    with gzip.open(folder / f"{STREAMS[name]}.tnt.gz", "rt") as lines:
        for _, line in zip(range(LINES), lines, strict=False):
            time, _, triple = line.rstrip("\n").partition("\t")
            found.setdefault(int(time), []).append(triple)
    return found


def widened(text: str, name: str) -> str:
    named = re.sub(r"REGISTER QUERY \w+ AS", f"REGISTER QUERY {name} AS", text)
    return re.sub(r"\[\s*RANGE 1s STEP 100ms\s*\]", "[ RANGE 12h STEP 6h T0 0 ]", named)


def plain(text: str) -> str:
    """Without registration and streams: the question that is asked of the merge."""
    return re.sub(r"REGISTER QUERY \w+ AS|FROM \w+\s*\[[^\]]*\]", "", text)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, dict[str, Elements], ox.Store, Path]]:
    folder = shared() / "data" / "lsbench"
    streams = {name: read_elements(folder, name) for name in STREAMS}
    end = min(max(elements) for elements in streams.values())
    static = gzip.decompress((folder / "static_1k.nt.gz").read_bytes())
    peer = ox.Store()
    peer.bulk_load(static, format=ox.RdfFormat.N_TRIPLES, to_graph=STATIC)
    with opened(tmp_path_factory.mktemp("store"), ManualClock(1_800_000_000_000)) as service:
        lines = static.decode().splitlines()
        for start in range(0, len(lines), 5_000):
            service.update(f"INSERT DATA {{ {' '.join(lines[start : start + 5_000])} }}")
        for name in STREAMS:
            service.create_stream(name, {})
        for text in TEXTS:
            service.register(widened((folder / "queries" / "wukongs" / f"{text}.txt").read_text(), text))
        for hour in sorted({time // 3_600_000 for elements in streams.values() for time in elements if time <= end}):
            for name, elements in streams.items():
                body = [
                    json.dumps({"timestamp": time, "data": " ".join(triples)})
                    for time, triples in elements.items()
                    if time // 3_600_000 == hour and time <= end
                ]
                if body:
                    service.push(name, "\n".join(body).encode(), NDJSON)
        for name in STREAMS:
            service.heartbeat(name, end, wait="evaluated")
        yield service, streams, peer, folder


@pytest.mark.parametrize("name", TEXTS)
def test_a_published_text_gives_the_rows_of_its_data(
    name: str, played: tuple[Service, dict[str, Elements], ox.Store, Path]
) -> None:
    service, streams, peer, folder = played
    question = plain((folder / "queries" / "wukongs" / f"{name}.txt").read_text())
    emissions = [json.loads(emission.json) for emission in service.emissions(name)]
    assert len(emissions) >= 2
    for emission in emissions:
        peer.clear_graph(WINDOW)
        held = [
            triple
            for window in emission["windows"]
            for time, triples in streams[window["stream"]].items()
            if window["from"] <= time < window["to"]
            for triple in triples
        ]
        peer.load("\n".join(held).encode(), format=ox.RdfFormat.N_TRIPLES, to_graph=WINDOW)
        answer = peer.query(question, use_default_graph_as_union=True)
        assert isinstance(answer, ox.QuerySolutions)
        names = [variable.value for variable in answer.variables]
        expected = Counter(tuple(row[each].value for each in names) for row in answer)
        rows = emission["results"]["bindings"]
        assert Counter(tuple(row[each]["value"] for each in names) for row in rows) == expected


def test_the_published_texts_are_not_all_empty_on_this_data(
    played: tuple[Service, dict[str, Elements], ox.Store, Path],
) -> None:
    rows = {
        name: sum(len(json.loads(emission.json)["results"]["bindings"]) for emission in played[0].emissions(name))
        for name in TEXTS
    }
    assert all(rows[name] > 0 for name in ("L4", "L5", "L6")), rows
