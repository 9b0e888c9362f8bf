"""An attached store: what a stream joined with it costs, held here or asked, against the same data in our own store;
what a refresh costs; and what a loop of SPARQLWrapper and rdflib, and a client that polls a Fuseki whose query uses
SERVICE, take for the same join.

The source is an Oxigraph in a process of its own, behind HTTP, with a place for each of so many sensors. Each second
some thousand elements name a sensor and a value; the query says the place of each. All must find the same."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import numpy as np
import pyoxigraph as ox
from rdflib import Graph, URIRef
from SPARQLWrapper import JSON, SPARQLWrapper

from endpoint.trial_hbase.jdk import MissingTool
from stream_ext.clock import ManualClock
from stream_ext.remote.allowed_urls import AllowedUrls
from stream_ext.remote.endpoint_source import SparqlEndpointSource
from stream_ext.remote.source import MAIN, Mode, SourceSettings
from stream_ext.service.service import Limits, Service
from tests.parts.fuseki.server import Fuseki
from tests.parts.waiting import until

Figures = dict[str, Any]

EX = "http://ex/"
#: Elements a second, as in LSBench's mix.
ELEMENTS = 13_000
_CHANGES = 100
#: Of the join with a source that is asked: few milliseconds each, so many are needed; the first of them warm up.
_ASKED_BATCHES, _WARM = 44, 4
_KEYS = 500  # of one request of the loop
_PASSED = 300  # queries that are passed through
#: On a busy machine a source that is slow is not away.
_PATIENT = AllowedUrls(service_timeout_s=120.0)
_STAMP = '"2026-01-01T00:00:%02dZ"^^<http://www.w3.org/2001/XMLSchema#dateTime>'
QUERY = f"""PREFIX : <{EX}> REGISTER RSTREAM near AS SELECT ?sensor ?value ?place
    FROM NAMED WINDOW :w ON readings [RANGE PT1S STEP PT1S] {{
        WINDOW :w {{ ?sensor :reads ?value }} ?sensor :at ?place }}"""


# ---- the source


class _Served(BaseHTTPRequestHandler):
    store: ox.Store
    sent = 0

    def do_GET(self) -> None:
        self._answer(parse_qs(urlsplit(self.path).query))

    def do_POST(self) -> None:
        self._answer(parse_qs(self.rfile.read(int(self.headers["content-length"])).decode()))

    def _answer(self, body: dict[str, list[str]]) -> None:
        if "update" in body:
            self.store.update(body["update"][0])
            answer = b""
        elif "sent" in body:
            answer = str(_Served.sent).encode()
        else:
            found = self.store.query(body["query"][0])
            assert isinstance(found, ox.QuerySolutions)
            answer = found.serialize(format=ox.QueryResultsFormat.JSON) or b""
            _Served.sent += len(answer)
        self.send_response(200)
        self.send_header("content-type", "application/sparql-results+json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def _serve(lines: bytes, observed: Connection) -> None:
    _Served.store = ox.Store()
    _Served.store.bulk_load(lines, format=ox.RdfFormat.N_TRIPLES)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Served)
    observed.send(server.server_address[1])
    server.serve_forever()


@contextmanager
def _source(lines: bytes) -> Iterator[str]:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(lines, theirs), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}/sparql"
    finally:
        process.terminate()
        process.join()


class _Source:
    """The source as its owner reaches it: to change it, and to see how many bytes it has sent."""

    def __init__(self, url: str) -> None:
        self.url = url

    def read(self, changed: str | None = None, mode: Mode = "auto") -> SparqlEndpointSource:
        """As a server reads it; it is closed with the service."""
        settings = SourceSettings(MAIN, self.url, changed=changed, refresh_s=60.0, mode=mode)
        return SparqlEndpointSource(settings, silence_s=600.0)

    def update(self, text: str) -> None:
        httpx.post(self.url, data={"update": text}, timeout=600).raise_for_status()

    def sent(self) -> int:
        return int(httpx.post(self.url, data={"sent": "1"}, timeout=600).text)


# ---- the measurements


def run(quick: bool) -> Figures:
    load = round(os.getloadavg()[0], 1)
    triples, batches = (100_000, 8) if quick else (1_000_000, 30)
    lines = b"".join(b"<http://ex/s%d> <http://ex/at> <http://ex/p%d> .\n" % (i, i % 1000) for i in range(triples))
    pushes = _pushes(batches, triples)
    with _source(lines) as url, tempfile.TemporaryDirectory() as folder:
        source = _Source(url)
        loop, found_by_loop = _loop(url, pushes[: 2 if quick else 4])
        polled = _polled(url, Path(folder), pushes[0][1], 100 if quick else 1_000)
        with _opened(Path(folder) / "ours", []) as own, _opened(Path(folder) / "held", [source.read()]) as service:
            _load(own, lines)
            own.register(QUERY)
            began = _now()
            service.register(QUERY)
            first = _since(began)
            (ours, held), (found, found_held) = _push_all((own, service), pushes)
            refresh = _refreshed(service, source)
            passed = _passed(service, url)
        with _opened(Path(folder) / "changed", [source.read(f"{EX}modified")]) as service:
            changed = _changed_only(service, source)
        asked = _asked(source, Path(folder), lines, triples)
    assert found == found_held and found[: len(found_by_loop)] == found_by_loop, "the ways find different rows"
    return {
        "triples": triples,
        "elements_a_batch": ELEMENTS,
        "load_average": [load, round(os.getloadavg()[0], 1)],
        "ours_batch_ms_p50": ours[0],
        "ours_batch_cpu_ms_p50": ours[1],
        "held_batch_ms_p50": held[0],
        "held_batch_cpu_ms_p50": held[1],
        "held_over_ours": round(held[0] / ours[0], 3),
        "held_over_ours_cpu": round(held[1] / ours[1], 3),
        "loop_batch_ms_p50": loop[0],
        "loop_batch_cpu_ms_p50": loop[1],
        "loop_over_held": round(loop[0] / held[0], 1),
        "loop_over_held_cpu": round(loop[1] / held[1], 1),
        "polled_fuseki": polled,
        "passed_through": passed,
        "first_fetch_s": round(first[0] / 1e3, 2),
        "first_fetch_cpu_s": round(first[1] / 1e3, 2),
        "asked": asked,
        "refresh": refresh,
        "refresh_of_changed": changed,
    }


def summary(figures: Figures) -> str:
    refresh, changed, asked = figures["refresh"], figures["refresh_of_changed"], figures["asked"]
    polled = figures["polled_fuseki"]
    client = (
        ""
        if polled is None
        else f", a client that polls a Fuseki {polled['batch_ms'] / 1e3:.1f} s for {polled['elements']:,}"
    )
    return (
        f"{figures['elements_a_batch']:,} elements joined with {figures['triples']:,} held triples: "
        f"{figures['held_batch_ms_p50']} ms, {figures['held_over_ours']} times our own; a loop takes "
        f"{figures['loop_over_held']} times that{client}. Asked about sensors that report again and again: "
        f"{asked['asked_over_ours']} times our own, {asked['round_trips']} round trips. {_CHANGES} changes: "
        f"{refresh['seconds']} s and {refresh['bytes']:,} bytes, only what changed {changed['seconds']} s and "
        f"{changed['bytes']:,} bytes"
    )


def _asked(source: _Source, folder: Path, lines: bytes, triples: int) -> Figures:
    """The same sensors report again and again, as sensors do: after the first time the source is not asked about them.
    And a tenth of them is new each second: then it is asked about these."""
    found: Figures = {}
    for name, new in (("", 0), ("_with_new", ELEMENTS // 10)):
        pushes = _pushes(_ASKED_BATCHES, triples, reporting=ELEMENTS, new=new)
        asks = source.read(mode="ask")
        with (
            _opened(folder / f"ours_beside{name}", []) as own,
            _opened(folder / f"asked{name}", [asks]) as service,
        ):
            _load(own, lines)
            for each in (own, service):
                each.register(QUERY)
            trips = asks.health.round_trips
            warmed = pushes[:_WARM]
            _push_all((own, service), warmed)
            first = asks.health.round_trips - trips
            (ours, asked), (rows, rows_asked) = _push_all((own, service), pushes[_WARM:], of_rows=len(pushes))
            assert rows == rows_asked, f"the source was asked for other rows: {service.why_not_evaluated('near')}"
            later = asks.health.round_trips - trips - first
        found |= {
            f"ours_batch_ms_p50{name}": ours[0],
            f"ours_batch_cpu_ms_p50{name}": ours[1],
            f"asked_batch_ms_p50{name}": asked[0],
            f"asked_batch_cpu_ms_p50{name}": asked[1],
            f"asked_over_ours{name}": round(asked[0] / ours[0], 3),
            f"asked_over_ours_cpu{name}": round(asked[1] / ours[1], 3),
            f"round_trips_at_first{name}": first,
            f"round_trips{name}": round(later / len(pushes[_WARM:]), 2),
        }
    return found


def _pushes(batches: int, sensors: int, reporting: int | None = None, new: int = 0) -> list[tuple[int, bytes]]:
    """Of so many elements a second: of any sensors, or of the first `reporting`, but for some `new` ones each time."""
    chance = np.random.default_rng(1)
    found = []
    for batch in range(batches):
        if reporting is None:
            keys = chance.integers(0, sensors + sensors // 10, ELEMENTS).tolist()
        else:
            first, fresh = _CHANGES, _CHANGES + reporting + batch * new  # the others are changed by now
            keys = [*range(first, first + reporting - new), *range(fresh, fresh + new)]
        lines = (f"<{EX}s{key}> <{EX}reads> <{EX}v{i % 50}> ." for i, key in enumerate(keys))
        found.append((1_000 * batch + 500, "\n".join(lines).encode()))
    return found


@contextmanager
def _opened(folder: Path, sources: Sequence[Any]) -> Iterator[Service]:
    clock = ManualClock(1_000_000)
    with Service.open(
        f"lmdb:{folder}", base="http://rillet/", clock=clock, engine="inline", batch_ms=0, sources=sources,
        limits=Limits(evaluated_s=300), allowed_urls=_PATIENT,
    ) as service:  # fmt: skip
        yield service


def _load(service: Service, lines: bytes) -> None:
    step = 10_000
    rows = lines.splitlines()
    for start in range(0, len(rows), step):
        service.update(f"INSERT DATA {{ {b' '.join(rows[start : start + step]).decode()} }}")
    service.store.fold()


def _push_all(
    services: Sequence[Service], pushes: Sequence[tuple[int, bytes]], of_rows: int | None = None
) -> tuple[list[tuple[float, float]], list[list[int]]]:
    """Of each service, which take turns, the median times of an evaluation (by the clock, of the CPU), and how many
    rows each evaluation found."""
    took: list[list[tuple[float, float]]] = [[] for _ in services]
    for service in services:
        service.store.fold()
    turns = list(zip(services, took, strict=True))
    for at, data in pushes:
        turns.reverse()  # whoever comes second has the first one's work beside
        for service, times in turns:
            service.heartbeat("readings", at - 500, wait="evaluated")
            service.push("readings", data, "application/n-triples", timestamp=at, wait="evaluated")
            began = _now()
            service.heartbeat("readings", at + 500, wait="evaluated")  # the close
            times.append(_since(began))
    medians = [_medians(times[1:]) for times in took]
    return medians, [_rows(service, of_rows or len(pushes)) for service in services]


def _now() -> tuple[float, float]:
    """By the clock, and of the CPU time of this process: on a busy machine only the latter compares."""
    return time.perf_counter(), time.process_time()


def _since(began: tuple[float, float]) -> tuple[float, float]:
    """In milliseconds."""
    clock, cpu = _now()
    return (clock - began[0]) * 1e3, (cpu - began[1]) * 1e3


def _medians(times: Sequence[tuple[float, float]]) -> tuple[float, float]:
    clock, cpu = zip(*times, strict=True)
    return round(statistics.median(clock), 2), round(statistics.median(cpu), 2)


def _polled(url: str, folder: Path, window: bytes, elements: int) -> Figures | None:
    """The other way that people have: a client writes each window to a Fuseki, and polls it with a query that asks the
    source by SERVICE. None: there is no Java here."""
    lines = b"\n".join(window.splitlines()[:elements])
    query = f"""SELECT ?sensor ?value ?place {{
        GRAPH <{EX}window> {{ ?sensor <{EX}reads> ?value }} SERVICE <{url}> {{ ?sensor <{EX}at> ?place }} }}"""
    try:
        with Fuseki(folder / "fuseki", services=True) as fuseki:
            began = time.perf_counter()
            graph = {"graph": f"{EX}window"}
            form = {"content-type": "application/n-triples"}
            httpx.put(fuseki.url, params=graph, content=lines, headers=form, timeout=600).raise_for_status()
            answer = httpx.post(
                fuseki.query_url,
                data={"query": query},
                headers={"accept": "application/sparql-results+json"},
                timeout=1800,
            )
            answer.raise_for_status()
            took_ms = (time.perf_counter() - began) * 1e3
    except MissingTool:
        return None
    return {"elements": elements, "rows": len(answer.json()["results"]["bindings"]), "batch_ms": round(took_ms, 1)}


def _rows(service: Service, count: int) -> list[int]:
    import json

    counts = []
    for emission in service.emissions("near", 0):
        rows = len(json.loads(emission.json)["results"]["bindings"])
        if rows:
            counts.append(rows)
    return counts[:count]


def _refreshed(service: Service, source: _Source) -> Figures:
    values = " ".join(f":s{i} :at :q{i} ." for i in range(_CHANGES))
    source.update(f"PREFIX : <{EX}> INSERT DATA {{ {values} }}")
    sent, began = source.sent(), _now()
    service.refresh_source("main", "evaluated")
    return _seconds(began) | {"bytes": source.sent() - sent}


def _seconds(began: tuple[float, float]) -> Figures:
    clock, cpu = _since(began)
    return {"seconds": round(clock / 1e3, 3), "cpu_seconds": round(cpu / 1e3, 3)}


def _passed(service: Service, url: str) -> Figures:
    """What Rillet adds to a query that is passed through, against a client that asks the source itself. They take
    turns, with another query each time."""
    direct: list[tuple[float, float]] = []
    through: list[tuple[float, float]] = []
    with httpx.Client(timeout=600) as client:
        for number in range(_CHANGES, _CHANGES + _PASSED):
            text = f"SELECT ?p {{ <{EX}s{number}> <{EX}at> ?p }}"
            began = _now()
            answer = client.post(url, data={"query": text}).json()
            direct.append(_since(began))
            began = _now()
            rows = service.decode(service.query(text))
            through.append(_since(began))
            places = [f"<{row['p']['value']}>".encode() for row in answer["results"]["bindings"]]
            assert [row[0] for row in rows] == places, "the source answers otherwise"
    (client_ms, client_cpu_ms), (through_ms, through_cpu_ms) = _medians(direct), _medians(through)
    return {
        "direct_ms_p50": client_ms,
        "through_ms_p50": through_ms,
        "added_ms": round(through_ms - client_ms, 2),
        "added_cpu_ms": round(through_cpu_ms - client_cpu_ms, 2),
    }


def _changed_only(service: Service, source: _Source) -> Figures:
    """By a predicate that says which subjects changed: the refreshes after the first are small."""
    clock = service.clock._clock
    assert isinstance(clock, ManualClock)
    source.update(f"PREFIX : <{EX}> INSERT DATA {{ :s0 :modified {_STAMP % 1} }}")
    service.register(QUERY)
    clock.advance(60_000)
    until(lambda: service.source_status("main")["lag_ms"] == 0, "all is fetched, and the last change known")
    values = " ".join(f":s{i} :at :r{i} ; :modified {_STAMP % 2} ." for i in range(_CHANGES))
    source.update(f"PREFIX : <{EX}> INSERT DATA {{ {values} }}")
    sent, head, began = source.sent(), service.head(), _now()
    clock.advance(60_000)
    until(lambda: service.head() > head, "the changes are held")
    return _seconds(began) | {"bytes": source.sent() - sent}


def _loop(url: str, pushes: Sequence[tuple[int, bytes]]) -> tuple[tuple[float, float], list[int]]:
    """What people write: a window as an rdflib graph, and a question for some hundred of its keys at a time."""
    client = SPARQLWrapper(url)
    client.setReturnFormat(JSON)
    client.setMethod("POST")
    took, counts = [], []
    for _, data in pushes:
        window = Graph().parse(data=data, format="nt")
        began = _now()
        sensors = sorted({str(s) for s in window.subjects(URIRef(f"{EX}reads"))})
        rows = 0
        for start in range(0, len(sensors), _KEYS):
            keys = " ".join(f"<{key}>" for key in sensors[start : start + _KEYS])
            client.setQuery(f"SELECT ?s ?p {{ VALUES ?s {{ {keys} }} ?s <{EX}at> ?p }}")
            for row in client.queryAndConvert()["results"]["bindings"]:
                sensor = URIRef(row["s"]["value"])
                rows += sum(1 for _ in window.objects(sensor, URIRef(f"{EX}reads")))
        took.append(_since(began))
        counts.append(rows)
    return _medians(took), counts
