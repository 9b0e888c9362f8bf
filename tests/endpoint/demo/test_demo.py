"""`rillet demo`: what its queries answer, by pyoxigraph; how it plays, reads recordings, and leaves nothing behind."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pyoxigraph as ox
import pytest

from endpoint.cli import terminal
from endpoint.cli.command_line import main
from endpoint.cli.demonstrating import Screen
from endpoint.client import Client, Refused
from endpoint.demo.benchmark import (
    C_SPARQL,
    CQELS_QL,
    DIALECTS,
    RSP_QL,
    Benchmark,
    RecordedElement,
    Recording,
    query_name,
)
from endpoint.demo.city import CITY
from endpoint.demo.citybench import CITYBENCH
from endpoint.demo.lsbench import LSBENCH
from endpoint.demo.player import PlayedQuery, Player, PlayProgress, pace_of, play, prepare
from endpoint.demo.srbench import SRBENCH
from endpoint.files.replay import Pace
from stream_ext.errors import BadArgument, BadData
from tests.endpoint.live import live
from tests.parts.processes import started
from tests.parts.waiting import PATIENCE_S, until

BENCHMARKS = [CITY, LSBENCH, CITYBENCH, SRBENCH]
#: So many elements are played: of each query some evaluation has rows.
ELEMENTS = {"city": 42 * 70, "lsbench": 700, "citybench": 150, "srbench": 24 * 26}


class Time:
    """It passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += max(seconds, 0.001)


def player_of(client: Any, benchmark: Benchmark, elements: Iterator[RecordedElement], pace: Pace, time: Time) -> Player:
    return Player(client, benchmark, elements, pace, PlayProgress([]), time.now, time.sleep)


# ---- the queries


@pytest.mark.timeout(240)
@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda each: each.name)
def test_the_dialects_of_a_query_answer_what_pyoxigraph_answers(benchmark: Benchmark, tmp_path: Path) -> None:
    recording = benchmark.generate(3)
    elements = list(islice(recording.elements, ELEMENTS[benchmark.name]))
    time = Time()
    with live(tmp_path / "store") as running, Client(running.url) as client:
        queries = prepare(client, benchmark, recording, (C_SPARQL, RSP_QL))
        dialects = [dialect for each in benchmark.questions for dialect in each.dialects if dialect != CQELS_QL]
        assert [asked.refused for asked in queries] == [None] * len(dialects)
        player = player_of(client, benchmark, iter(elements), pace_of(1e6, True), time)
        play(client, player, None, lambda progress: None, time.now)
        assert player.progress.ended
        for stream in benchmark.streams:
            client.heartbeat(f"{benchmark.name}_{stream}", elements[-1].time + 1, wait="evaluated")
        for asked in queries:
            observed = [each for each in client.emissions(asked.name) if each["results"]["bindings"]]
            assert observed, f"{asked.name} has answered nothing"
            for emission in (observed[0], observed[-1]):
                answered, expected = bag(emission), oracle(benchmark, asked, recording, elements, emission)
                if "LIMIT" in asked.question.ends:
                    expected &= answered
                assert answered == expected, asked.name


def oracle(
    benchmark: Benchmark,
    asked: PlayedQuery,
    recording: Recording,
    elements: list[RecordedElement],
    emission: dict[str, Any],
) -> Counter[frozenset[tuple[str, str]]]:
    """The question over the stored graphs that it names and the content of its windows, which no pattern confuses."""
    store = ox.Store()
    for graph in recording.stored:
        if graph.graph in asked.question.graphs:
            store.load(graph.data, ox.RdfFormat.N_TRIPLES)
    for window in emission["windows"]:
        name = window["stream"].removeprefix(benchmark.name + "_")
        for element in elements:
            if element.stream == name and window["from"] <= element.time < window["to"]:
                store.load(element.data.encode(), ox.RdfFormat.N_TRIPLES)
    text = benchmark.text(asked.question, C_SPARQL).replace(
        f"REGISTER QUERY {query_name(benchmark, asked.question, C_SPARQL)} AS", ""
    )
    plain = "\n".join(line for line in text.split("\n") if not line.startswith("FROM"))
    found = store.query(plain.partition("LIMIT")[0])
    assert isinstance(found, ox.QuerySolutions)
    return Counter(
        frozenset((name.value, number(row[name].value)) for name in found.variables if row[name] is not None)
        for row in found
    )


def bag(emission: dict[str, Any]) -> Counter[frozenset[tuple[str, str]]]:
    rows = emission["results"]["bindings"]
    return Counter(frozenset((name, number(cell["value"])) for name, cell in row.items()) for row in rows)


def number(text: str) -> str:
    """Numbers are rounded: an xsd:float has so many digits."""
    try:
        return f"{float(text):.6g}"
    except ValueError:
        return text


def test_a_query_that_the_server_does_not_run_is_reported_and_the_others_play(tmp_path: Path) -> None:
    class Choosy(Client):
        def register(self, text: str, name: str | None = None, *, replace: bool = False) -> dict[str, Any]:
            if "STREAM <http://deri.org/poststream> [RANGE 1s] {" in text:
                raise Refused(400, "line 5: this is not supported yet\n  and more")
            return {}

    with live(tmp_path / "store") as running, Choosy(running.url) as client:
        queries = prepare(client, LSBENCH, LSBENCH.generate(1), DIALECTS)
        refused = [asked for asked in queries if asked.refused]
        assert {asked.dialect for asked in refused} == {CQELS_QL}
        assert {asked.refused for asked in refused} == {"line 5: this is not supported yet"}
        assert [asked.question.name for asked in refused] == ["L1", "L2", "L3"]


def test_what_another_query_reads_is_not_dropped(tmp_path: Path) -> None:
    with live(tmp_path / "store") as running, Client(running.url) as client:
        names = {asked.name for asked in prepare(client, CITY, CITY.generate(1), DIALECTS)}
        air = CITY.streams["air"]
        client.register(f"REGISTER QUERY mine AS SELECT ?s FROM STREAM <{air}> [RANGE 1s STEP 1s] {{ ?s ?p ?o }}")
        until(lambda: any("mine" in each["readers"] for each in client.streams()), "the list is not up to date")
        with pytest.raises(Refused, match="city_air of the city is read by mine: drop this query first"):
            prepare(client, CITY, CITY.generate(1), DIALECTS)
        assert {query.name for query in running.service.queries()} == {*names, "mine"}


# ---- playing


class Server:
    """Notes what it is sent."""

    def __init__(self, busy: int = 0) -> None:
        self.busy = busy
        self.sent: list[tuple[str, Any]] = []

    def push(self, stream: str, data: str, media_type: str) -> dict[str, Any]:
        self.refuse()
        self.sent.append((stream, [json.loads(line)["timestamp"] for line in data.split("\n")]))
        return {"late": 0}

    def heartbeat(self, stream: str, timestamp: int) -> dict[str, Any]:
        self.refuse()
        self.sent.append((stream, timestamp))
        return {}

    def refuse(self) -> None:
        self.busy -= 1
        if self.busy == 0:
            raise Refused(429, "busy", retry_after_s=7.0)


def nothing(_: object) -> Recording:
    return Recording((), iter(()))


TWO = Benchmark("b", "", {}, {"x": "a:x", "y": "a:y"}, (), nothing, nothing, 1, 1)


def test_elements_are_sent_when_they_are_due_and_the_streams_stay_together() -> None:
    times = [("x", 1000), ("x", 1010), ("y", 1020), ("x", 1500), ("y", 3000)]
    elements = (RecordedElement(time, stream, f"<a:s> <a:p> {time} .") for stream, time in times)
    server, time, seen = Server(), Time(), []
    player = player_of(server, TWO, elements, pace_of(10, True), time)
    while not player.progress.ended:
        player.tick()
        if len(server.sent) > len(seen):
            seen += [(round(time.seconds, 2), *each) for each in server.sent[len(seen) :]]
    player.finish()
    assert seen == [
        (0.0, "b_x", [1000]),
        (0.0, "b_y", 1000),
        (0.0, "b_x", [1010]),
        (0.0, "b_y", 1010),
        (0.0, "b_y", [1020]),
        (0.0, "b_x", 1020),
        (0.05, "b_x", [1500]),
        (0.05, "b_y", 1500),
        (0.2, "b_y", [3000]),
        (0.2, "b_x", 3000),
    ]
    assert server.sent[-2:] == [("b_x", 3001), ("b_y", 3001)]
    assert (player.progress.elements, player.progress.triples, player.progress.time) == (5, 5, 3000)


@pytest.mark.parametrize("busy", range(1, 6))
def test_what_a_busy_server_refuses_is_sent_again_and_once(busy: int) -> None:
    elements = (RecordedElement(time, "x", "<a:s> <a:p> <a:o> .") for time in (1, 2, 3))
    server, time = Server(busy), Time()
    player = player_of(server, TWO, elements, pace_of(1, False), time)
    while not player.progress.ended:
        player.tick()
    assert server.sent == [each for t in (1, 2, 3) for each in (("b_x", [t]), ("b_y", t))]
    assert 7 <= player.progress.waited_s < 7.2
    assert 9 <= time.seconds < 9.3, "what is due later is due as much later"


def test_a_demonstration_ends_after_its_time_also_at_a_busy_server() -> None:
    class Busy(Server):
        def refuse(self) -> None:
            raise Refused(429, "busy", retry_after_s=60.0)

    server, time, shown = Busy(), Time(), []
    player = player_of(server, TWO, (RecordedElement(n, "x", "") for n in range(10**9)), pace_of(100, False), time)
    play(server, player, 5.0, lambda progress: shown.append(progress.elements), time.now)  # type: ignore[arg-type]  # it has what is asked
    assert 5 <= time.seconds < 5.3
    assert len(shown) >= 5


# ---- recordings


def record(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("\n".join(lines).encode()))


def test_a_recording_is_read_in_the_order_of_times_from_all_its_files(tmp_path: Path) -> None:
    record(tmp_path / "AarhusWeatherData0.tnt.gz", "5\t<a:s> <a:p> 1 .", "5\t<a:s> <a:p> 2 .", "9\t<a:s> <a:p> 3 .")
    record(tmp_path / "UserLocationService.tnt.gz", "7\t<a:s> <a:p> 4 .")
    (tmp_path / "dataset").mkdir()
    (tmp_path / "dataset" / "SensorRepository.n3").write_text("@prefix : <a:> . :s a :C .")
    recording = CITYBENCH.read(tmp_path)
    assert [(each.time, each.stream, each.data) for each in recording.elements] == [
        (5, "weather", "<a:s> <a:p> 1 .\n<a:s> <a:p> 2 ."),
        (7, "user", "<a:s> <a:p> 4 ."),
        (9, "weather", "<a:s> <a:p> 3 ."),
    ]
    (graph,) = recording.stored
    assert (graph.graph.rpartition("/")[2], graph.media_type) == ("SensorRepository.rdf", "text/turtle")


def test_a_folder_without_a_recording_and_a_damaged_line_are_errors(tmp_path: Path) -> None:
    for benchmark in BENCHMARKS:
        with pytest.raises(BadArgument, match="has no recording of this benchmark"):
            benchmark.read(tmp_path)
    record(tmp_path / "lsd9h_observations.tnt.gz", "5\t<a:s> <a:p> 1 .", "soon\t<a:s> <a:p> 2 .")
    with pytest.raises(BadData, match=r"line 2, column 1: .*TIME TAB TRIPLE"):
        list(SRBENCH.read(tmp_path).elements)


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda each: each.name)
def test_a_seed_gives_the_same_data_again(benchmark: Benchmark) -> None:
    one, again, other = (benchmark.generate(seed) for seed in (5, 5, 6))
    assert one.stored == again.stored != other.stored
    some = list(islice(one.elements, 200))
    assert some == list(islice(again.elements, 200)) != list(islice(other.elements, 200))
    assert [each.time for each in some] == sorted(each.time for each in some)
    assert {each.stream for each in islice(one.elements, 2_000)} <= benchmark.streams.keys()


# ---- the command


def rillet(*argv: object) -> int:
    return main([str(each) for each in argv])


def test_the_command_starts_a_server_plays_and_removes_it(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "endpoint",
        "demo",
        "lsbench",
        "--for",
        "5m",
        "--rate",
        "20x",
        "--dialect",
        "rsp-ql",
    ]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "RILLET_STORE": "lmdb:/nowhere"}  # of the user's own server
    with started(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment) as played:
        assert played.stdout is not None
        assert played.stdout.readline().startswith("LSBench")
        assert "/console/" in played.stdout.readline()
        assert played.stdout.readline() == "7 queries are registered\n"
        columns = ["query", "dialect", "emissions", "rows", "lag", "last row", "asks for"]
        assert played.stdout.readline().rstrip("\n").split("\t") == columns
        assert any(line.startswith("L3\tRSP-QL\t") for line in played.stdout)  # reads until there is one
        played.send_signal(signal.SIGINT)
        assert played.stdout.read().splitlines()[-1].startswith("ended: ")
        assert played.wait(PATIENCE_S) == 0
    assert not list(tmp_path.glob("rillet-demo-*"))


def test_the_pages_to_open_stay_on_the_screen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "is_live", lambda out: True)
    for benchmark, has_tour in ((CITY, True), (LSBENCH, False)):
        screen = Screen(benchmark, "http://127.0.0.1:8000", [])
        screen.show(PlayProgress([]))
        drawn = capsys.readouterr().out.rpartition("\x1b[2J")[2]
        assert ("http://127.0.0.1:8000/console/queries/city_bikes" in drawn) == has_tour


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_demonstration_that_is_killed_leaves_no_server(number: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "endpoint", "demo", "--for", "5m"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with started(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as played:
        assert played.stdout is not None
        url = next(line for line in played.stdout if b"http://" in line).split()[-1].decode()
        assert httpx.get(url, follow_redirects=True).status_code == 200
        played.send_signal(number)
        until(lambda: not answers(url), "the end of the server")
        assert played.wait(60) != 0 or number is signal.SIGTERM
    if number is signal.SIGTERM:
        assert [path.name for path in tmp_path.iterdir() if path.name.startswith("rillet-demo-")] == []


def answers(url: str) -> bool:
    try:
        return httpx.get(url).is_success
    except httpx.TransportError:
        return False


def test_a_demonstration_on_a_server_replaces_the_one_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "is_live", lambda out: out is sys.stdout)
    with live(tmp_path / "store") as running, Client(running.url) as client:
        client.create_stream("mine")
        for _ in range(2):
            assert rillet("demo", "srbench", "--for", "1s", "--server", running.url + "/", "--dialect", "c-sparql") == 0
            out = capsys.readouterr().out
            assert "\x1b[H\x1b[2J" in out
            assert "last row" in out
        assert "late" not in out.rpartition("ended: ")[2]
        assert {each["stream"] for each in client.streams()} == {"mine", "srbench_observations"}
        assert len(client.queries()) == len(SRBENCH.questions)


def test_without_a_name_a_city_is_played_and_says_where_to_look(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with live(tmp_path / "store") as running, Client(running.url) as client:
        assert rillet("demo", "--for", "2s", "--server", running.url) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[2] == "6 queries are registered"
        pages = [line.split()[0] for line in lines if line.startswith("  http")]
        assert len(pages) == 4
        for page in pages:
            assert running.http.get(page).status_code == 200, page
        texts = [each["text"] for each in client.queries()]
        assert all(text.startswith("# ") and "?" in text.splitlines()[0] for text in texts), "each says what it asks"


def test_texts_can_be_printed_without_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert rillet("demo", "citybench", "--texts", "--dialect", "rsp-ql", "--dialect", "cqels-ql") == 0
    out = capsys.readouterr().out
    assert out.count("REGISTER") == 2 * len(CITYBENCH.questions)
    assert "FROM STREAM" not in out
    assert rillet("demo", "citybench", "--data", "nowhere") == 2
    assert "this folder does not exist" in capsys.readouterr().err
