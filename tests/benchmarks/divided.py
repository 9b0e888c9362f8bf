"""Long queries with groups, by one process, and by one and two tasks of Spark at a time; the answers are compared.

And a registered query on the same Spark while two of them are evaluated: from each push until it is evaluated.

    python -m tests.benchmarks.divided [--lines N] [--rounds N] [--beside SECONDS] [--in-turn] [--folder F]
        [--json FILE] [QUESTION ...]

With `--folder` the store is made there, unless it is there already: making one takes longer than all else.

By the clock, after one run that is not counted (each process of Spark starts, and reads the store for the first time),
in turns, the median of the runs. The CPU of Spark is that of all of its processes. Starting Spark is not counted.

A machine that does other work says little by the clock. So there is a second time, `free_s`: what it would take if each
process had a core: the CPU of the process that asks, and of the task process that has used most."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import hbase_store
from endpoint.serve import _SWITCH_S
from hbase_store import Store
from stream_ext.clock import SystemClock
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.algebra import Query
from stream_ext.oneshot.answers import answer_once, rows_of
from stream_ext.oneshot.divided.division import divided_plan
from stream_ext.oneshot.divided.merging import Jobs, answer_divided
from stream_ext.oneshot.divided.open_stores import close_opened, opened_to_read
from stream_ext.oneshot.divided.task import QueryTask, evaluated
from stream_ext.oneshot.evaluate import Asking
from stream_ext.oneshot.question import Question
from stream_ext.runners.spark.settings import SparkSettings
from stream_ext.runners.spark.standalone_tasks import spark_for_tasks
from stream_ext.service.service import Service
from tests.benchmarks import social
from tests.benchmarks.spark_served import cpu_of_family, since

Figures = dict[str, Any]
Rows = list[tuple[bytes | None, ...]]

_PREFIXES = f"PREFIX : <{social.BASE}>\nPREFIX foaf: <{social.FOAF}>\n"
_REGISTERED = """PREFIX : <http://ex/> REGISTER RSTREAM near AS SELECT ?x (COUNT(*) AS ?n)
FROM NAMED WINDOW :w ON s [RANGE PT10S STEP PT1S] WHERE { WINDOW :w { ?x :p ?y } } GROUP BY ?x"""
_STARTS_S, _PAUSE_S = 120.0, 0.02
QUERIES = {
    "older": "SELECT ?c (COUNT(*) AS ?n) (AVG(?b - ?a) AS ?years) { ?p :city ?c ; foaf:age ?a ; foaf:knows ?f . "
    "?f foaf:knows ?g . ?g foaf:age ?b FILTER(?b > ?a) } GROUP BY ?c ORDER BY ?c",
    "names": "SELECT ?c (COUNT(*) AS ?n) (SUM(STRLEN(REPLACE(?name, '[aeiou0-4]+', ''))) AS ?letters) "
    "{ ?p foaf:name ?name ; :city ?c FILTER(REGEX(?name, '[0-9]*[1-8][0-9]* of')) } GROUP BY ?c ORDER BY ?c",
    "reached": "SELECT ?c (COUNT(DISTINCT ?g) AS ?n) { ?p :city ?c ; foaf:knows ?f . ?f foaf:knows ?g } "
    "GROUP BY ?c ORDER BY ?c",
}


def run(lines: int, rounds: int, beside_s: float, folder: Path | None, queries: Sequence[str]) -> Figures:
    with tempfile.TemporaryDirectory(prefix="rillet-bench-") as name, ExitStack() as stack:
        url = _loaded(folder or Path(name), lines)
        figures: Figures = {
            "lines": lines,
            "load": os.getloadavg()[0],
        }
        if beside_s:
            figures["beside"] = beside(url, beside_s)
            print(json.dumps(figures["beside"]), file=sys.stderr)
        store = stack.enter_context(closing(hbase_store.open(url, read_only=True)))
        sn = int(store.refresh())
        spark = {lanes: stack.enter_context(_spark(lanes)) for lanes in (1, 2)}
        for query, text in ((query, QUERIES[query]) for query in queries):
            print(query, file=sys.stderr)
            ways: dict[str, Callable[[], Rows]] = {"one_process": lambda text=text: _inline(store, text, sn)}  # type: ignore[misc]
            for lanes, jobs in spark.items():
                ways[f"tasks_{lanes}"] = lambda text=text, jobs=jobs: _divided(store, text, sn, jobs)  # type: ignore[misc]
            figures[query] = _measured(ways, rounds)
            print(json.dumps(figures[query]), file=sys.stderr)
    return figures


class InTurn:
    """Runs tasks one after the other in this process, and counts the CPU of each."""

    def __init__(self, lanes: int) -> None:
        self.lanes, self.used = lanes, list[float]()

    def run(self, tasks: Sequence[QueryTask], control: Control) -> Generator[bytes, None, None]:
        for task in tasks:
            before = time.process_time()
            result = evaluated(task)
            self.used.append(time.process_time() - before)
            yield result

    def busiest(self) -> float:
        """If each lane takes the next task when it is free."""
        lanes = [0.0] * self.lanes
        for used in self.used:
            lanes[lanes.index(min(lanes))] += used
        return max(lanes)


def in_turn(lines: int, rounds: int) -> Figures:
    """Without Spark: the CPU of one process, and of two that would share the tasks of each query. What is left for two
    is the CPU of the process that asks, and that of the lane which has more."""
    with tempfile.TemporaryDirectory(prefix="rillet-bench-") as name:
        url = _loaded(Path(name), lines)
        store = opened_to_read(url)
        sn = int(store.refresh())
        figures: Figures = {"lines": lines, "load": round(os.getloadavg()[0], 1)}
        for query, text in QUERIES.items():
            runs = [_shared(store, text, sn) for _ in range(rounds + 1)][1:]
            found = {key: round(statistics.median(run[key] for run in runs), 3) for key in runs[0]}
            figures[query] = found | {"speed_up": round(found["one_s"] / found["two_s"], 2)}
            print(query, json.dumps(figures[query]), file=sys.stderr)
        close_opened(url)
    return figures


def _shared(store: Store, text: str, sn: int) -> dict[str, float]:
    before = time.process_time()
    expected = _inline(store, text, sn)
    found = {"inline_s": time.process_time() - before}
    for lanes, name in ((1, "one"), (2, "two")):
        jobs, before = InTurn(lanes), time.process_time()
        assert _divided(store, text, sn, jobs) == expected, f"{name}: another answer"
        own = time.process_time() - before - sum(jobs.used)
        found |= {f"{name}_s": own + jobs.busiest(), f"{name}_merging_s": own, f"{name}_tasks": float(len(jobs.used))}
    return found


def beside(url: str, seconds: float) -> Figures:
    """The times of pushes in milliseconds, without long queries and with two of them all the time."""
    sys.setswitchinterval(_SWITCH_S)  # as a server does
    settings = {"engine": "spark", "spark": SparkSettings(shards=1), "batch_ms": 0}
    with closing(Service.open(url, base="http://ex/", clock=SystemClock(), **settings)) as service:  # type: ignore[arg-type]
        service.create_stream("s", {})
        service.register(_REGISTERED)
        spark = service._engine.spark
        assert spark is not None and spark.wait_for("up", _STARTS_S)
        alone = _pushed(service, seconds)
        stop, done = threading.Event(), list[int]()

        def ask(text: str) -> None:
            while not stop.is_set():
                assert service.query(_PREFIXES + text, by_spark=True).by_spark
                done.append(1)

        threads = [threading.Thread(target=ask, args=(QUERIES[name],)) for name in ("older", "names")]
        for thread in threads:
            thread.start()
        with_queries = _pushed(service, seconds)
        stop.set()
        for thread in threads:
            thread.join()
        service.drop_query("near")
        service.drop_stream("s")
    return {"alone_ms": alone, "with_two_queries_ms": with_queries, "queries": len(done)}


def _pushed(service: Service, seconds: float) -> Figures:
    times, until = list[float](), time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.perf_counter()
        element = f'<http://ex/a{len(times) % 50}> <http://ex/p> "{len(times) % 9}" .'.encode()
        service.push("s", element, "application/n-triples", wait="evaluated")
        times.append((time.perf_counter() - began) * 1000)
        time.sleep(_PAUSE_S)
    cuts = statistics.quantiles(times, n=100)
    return {"pushes": len(times), "p50": round(cuts[49], 1), "p99": round(cuts[98], 1)}


def _loaded(folder: Path, lines: int) -> str:
    file, url = folder / "social.nt", f"lmdb:{folder / 'store'}"
    if (folder / "store").exists():
        return url
    folder.mkdir(parents=True, exist_ok=True)
    social.write(file, lines)
    subprocess.run([sys.executable, "-m", "endpoint", "load", str(file), "--store", url], check=True, stdout=2)
    file.unlink()
    return url


@contextmanager
def _spark(lanes: int) -> Iterator[Jobs]:
    with spark_for_tasks(SparkSettings(master=f"local[{lanes}]", shards=1)) as tasks:
        yield tasks


def _inline(store: Store, text: str, sn: int) -> Rows:
    return rows_of(answer_once(store, Question.read(_PREFIXES + text, ""), sn, None))


def _divided(store: Store, text: str, sn: int, jobs: Jobs) -> Rows:
    query = Question.read(_PREFIXES + text, "").unit
    assert isinstance(query, Query)
    return rows_of(answer_divided(store, query, divided_plan(query, store, sn), sn, Asking(), jobs))


def _measured(ways: dict[str, Callable[[], Rows]], rounds: int) -> Figures:
    runs: dict[str, list[Figures]] = {way: [] for way in ways}
    answers = {way: evaluate() for way, evaluate in ways.items()}
    expected = answers["one_process"]
    for way, answer in answers.items():
        assert answer == expected, f"{way} answers otherwise"
    for _ in range(rounds):
        for way, evaluate in ways.items():
            before, began = cpu_of_family(os.getpid()), time.perf_counter()
            assert evaluate() == expected, f"{way} answers otherwise"
            took_s, used = time.perf_counter() - began, since(before, cpu_of_family(os.getpid()))
            own = used.pop(os.getpid(), 0.0)
            busiest = max((spent for pid, spent in used.items() if _evaluates(pid)), default=0.0)
            runs[way].append({"s": took_s, "cpu_s": own + sum(used.values()), "free_s": own + busiest})
    figures: Figures = {
        way: {name: round(statistics.median(run[name] for run in each), 2) for name in ("s", "cpu_s", "free_s")}
        for way, each in runs.items()
    }
    ratios = {
        name: round(figures["tasks_1"][name] / max(0.01, figures["tasks_2"][name]), 2) for name in ("s", "free_s")
    }
    return figures | {"rows": len(expected), "speed_up": ratios}


def _evaluates(pid: int) -> bool:
    """Whether it is a Python process of Spark."""
    try:
        return b"worker_daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("queries", nargs="*", default=list(QUERIES), metavar="QUESTION", help="one of QUERIES")
    parser.add_argument("--lines", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--in-turn", action="store_true", help="without Spark: CPU of tasks, one after the other")
    parser.add_argument("--beside", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--folder", type=Path, help="of the store, which stays there")
    parser.add_argument("--only-make", action="store_true", help="make the store in this folder, and end")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.only_make:
        _loaded(arguments.folder, arguments.lines)
        return
    figures = (
        in_turn(arguments.lines, arguments.rounds)
        if arguments.in_turn
        else run(arguments.lines, arguments.rounds, arguments.beside, arguments.folder, arguments.queries)
    )
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
