"""`rillet demo`: a city, or a benchmark of stream processing, played live."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from endpoint.cli import terminal
from endpoint.cli.flags import Commands, UsageError, add_command, seconds
from endpoint.cli.pushing import rate
from endpoint.cli.server_commands import client_of

if TYPE_CHECKING:
    from endpoint.demo.benchmark import Benchmark
    from endpoint.demo.player import PlayedQuery, PlayProgress

_CITY = "city"
_NAMES = (_CITY, "lsbench", "citybench", "srbench")
_EXAMPLES = """\
  rillet demo                                        a city: bikes, buses, air, weather; Ctrl-C ends it
  rillet demo lsbench                                a social network, generated; Ctrl-C ends it
  rillet demo citybench --rate 10x                   ten times as fast
  rillet demo srbench --data srbench/ --for 1m       a recording in a folder, for a minute
  rillet demo lsbench --server http://127.0.0.1:8000 into a running server"""
_EVERY_S = 1.0


def add(commands: Commands) -> None:
    what = "play a city, or a benchmark of stream processing, with its queries and live results"
    parser = add_command(commands, "demo", demo, what, _EXAMPLES)
    parser.add_argument("benchmark", choices=_NAMES, nargs="?", default=_CITY, help="what is played (default: city)")
    parser.add_argument("--data", metavar="FOLDER", help="play the recording in this folder; default: generate data")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="the seed of the generator (default: 1)")
    parser.add_argument(
        "--rate", type=rate, metavar="N", help="N: elements a second; Nx: so many times as fast as their timestamps"
    )
    parser.add_argument(
        "--for", type=seconds, dest="duration", metavar="TIME", help="end after this time, as 30s or 5m; default: never"
    )
    parser.add_argument(
        "--dialect",
        action="append",
        choices=["c-sparql", "rsp-ql", "cqels-ql"],
        help="only queries in this dialect (may be given several times)",
    )
    parser.add_argument("--texts", action="store_true", help="print the texts of the queries, and play nothing")
    parser.add_argument(
        "--server", metavar="URL", help="play into this server; default: start one over a temporary store"
    )
    parser.add_argument("--token", metavar="TOKEN", help="the token of that server")


def demo(arguments: argparse.Namespace) -> None:
    from endpoint.demo.benchmark import DIALECTS
    from endpoint.demo.player import Player, PlayProgress, pace_of, play, prepare

    benchmark = _benchmark(arguments.benchmark)
    wanted = tuple(each for each in DIALECTS if arguments.dialect is None or each.lower() in arguments.dialect)
    if arguments.texts:
        for question in benchmark.questions:
            for dialect in (each for each in question.dialects if each in wanted):
                print(f"# {question.name}, {dialect}: {question.about}\n{benchmark.text(question, dialect)}")
        return
    if arguments.data is not None and not Path(arguments.data).is_dir():
        raise UsageError(f"{arguments.data}: this folder does not exist")
    recording = benchmark.generate(arguments.seed) if arguments.data is None else benchmark.read(Path(arguments.data))
    usual = benchmark.speed if arguments.data is None else benchmark.read_speed
    with _interrupted_by_sigterm(), _server(arguments.server) as url:
        arguments.server = url
        with client_of(arguments) as client:
            queries = prepare(client, benchmark, recording, wanted)
            screen = Screen(benchmark, url, queries)
            pace = pace_of(*(arguments.rate or (usual, True)))
            progress = PlayProgress(queries)
            player = Player(client, benchmark, recording.elements, pace, progress, time.monotonic, time.sleep)
            try:
                play(client, player, arguments.duration, screen.show, time.monotonic, _EVERY_S)
            except KeyboardInterrupt:
                print(file=sys.stderr)  # the terminal has written ^C into our line
            screen.end(progress)


@contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """SIGTERM ends the demonstration as Ctrl-C does: its server is stopped, and the store removed."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _benchmark(name: str) -> Benchmark:
    from endpoint.demo.city import CITY
    from endpoint.demo.citybench import CITYBENCH
    from endpoint.demo.lsbench import LSBENCH
    from endpoint.demo.srbench import SRBENCH

    return {each.name: each for each in (CITY, LSBENCH, CITYBENCH, SRBENCH)}[name]


@contextmanager
def _server(url: str | None) -> Iterator[str]:
    from endpoint.demo.own_server import own_server

    if url is not None:
        yield url.rstrip("/")
        return
    print("starting a server over a temporary store ...", file=sys.stderr, flush=True)
    with own_server() as started:
        yield started


class Screen:
    """On a terminal a table that is drawn again and again; otherwise lines."""

    def __init__(self, benchmark: Benchmark, url: str, queries: list[PlayedQuery]) -> None:
        self._benchmark, self._url = benchmark, url
        self._live = terminal.is_live(sys.stdout)
        self._prefixes = {iri: name for name, iri in benchmark.prefixes.items()}
        self._shown: dict[str, int] = {}  # the last emission of each query that was printed
        _print(f"{benchmark.source}\nthe console shows the queries and their results: {url}/console/")
        refused = [played for played in queries if played.refused]
        _print(f"{len(queries) - len(refused)} queries are registered")
        if benchmark.name == _CITY:
            _print(_TOUR.format(url=url))
        for played in refused:
            _print(f"not registered: {played.question.name} in {played.dialect}: {played.refused}")
        if not self._live:
            _print("\t".join(_COLUMNS))

    def show(self, progress: PlayProgress) -> None:
        if self._live:
            lines = terminal.table(_COLUMNS, [self._cells(played) for played in progress.queries if not played.refused])
            head = [self._benchmark.source, f"console: {self._url}/console/", _summary(progress), ""]
            below = _TOUR.format(url=self._url).splitlines() if self._benchmark.name == _CITY else []
            sys.stdout.write("\x1b[H\x1b[2J" + "\n".join([*head, *lines, *below]) + "\n")
            sys.stdout.flush()
            return
        _print(_summary(progress))
        for played in progress.queries:
            if played.latest is not None and played.latest["emission"] != self._shown.get(played.name):
                self._shown[played.name] = played.latest["emission"]
                _print("\t".join(self._cells(played)))

    def end(self, progress: PlayProgress) -> None:
        _print(f"ended: {_summary(progress)}")
        for played in progress.queries:
            if played.state == "failed":
                _print(f"{played.name} has failed: {played.refused}")

    def _cells(self, played: PlayedQuery) -> list[str]:
        numbers = [str(each) for each in (played.emissions, played.rows)]
        return [
            played.question.name,
            played.dialect,
            *numbers,
            f"{played.lag_ms} ms",
            self._last(played),
            played.question.about,
        ]

    def _last(self, played: PlayedQuery) -> str:
        """The first row of the last emission that has rows."""
        if played.latest is None:
            return ""
        row = played.latest["results"]["bindings"][0]
        names = played.latest["head"]["vars"]
        return " ".join(terminal.shown(row[name], self._prefixes) for name in names if name in row)


_TOUR = """
Open these pages in a browser:
  {url}/console/queries/city_bikes        bikes move to the centre: a line for each district
  {url}/console/queries/city_dust         the air of each district; type 40 as the limit
  {url}/console/queries/city_latest_buses a table that changes every second
  {url}/console/queries                   all six queries; click on one to read its text
"""
_COLUMNS = ("query", "dialect", "emissions", "rows", "lag", "last row", "asks for")


def _summary(progress: PlayProgress) -> str:
    lag_ms = max((played.lag_ms for played in progress.queries), default=0)
    rates = {"elements": 0.0, "emissions": 0.0} | progress.rates
    late = f", {progress.late} late" if progress.late else ""
    busy = f", waited {progress.waited_s:g} s for the server" if progress.waited_s else ""
    return (
        f"{progress.elements} elements ({rates['elements']:.0f}/s), {progress.triples} triples, "
        f"{rates['emissions']:.0f} emissions/s, lag {lag_ms} ms, time {terminal.moment(progress.time)}{late}{busy}"
    )


def _print(text: str) -> None:
    print(text, flush=True)
