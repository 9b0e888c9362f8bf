"""Small work: what the engine costs when hardly anything happens, or many different queries are registered.

    steps       ten triples a close for Q1, Q2, Q10; L1-L4
    templates   many different queries: all of them touched by each close; or those over 2 of 20 predicates
    watchers    Q1 asked by 1,000, over Q1 asked by one
    one_shot    a look-up again and again; texts that are new each time
    push        500 triples pushed and told, in one process

Figures are CPU time, medians. Answers are compared with pyoxigraph's before a time is told."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

import hbase_store
from stream_ext.clock import SystemClock
from stream_ext.oneshot.answers import answer_once, rows_of
from stream_ext.oneshot.evaluate import Asking
from stream_ext.oneshot.question import Questions
from stream_ext.service.service import Service
from tests.benchmarks.replay import Replay, Stepped
from tests.benchmarks.stream_questions import MINUTE, NARROW, QUESTIONS, SECOND, Asked
from tests.benchmarks.tape import Batch, Source, Tape, source

Figures = dict[str, Any]

_QUIET = ("Q1", "Q2", "Q10")
_WIDE = ("L1", "L2", "L3", "L4")
PREDICATES = 20
_STEP_MS = 100
#: So many queries are compared, at so many of the last closes.
_SOME, _CHECKED = 40, 2
_BASE = "http://ex/"
#: R2S, what is selected, and the pattern over the predicates `:p{i}` and `:p{j}`.
_JOINS = (
    ("ISTREAM", "?s ?x ?y", "?s :p{i} ?x . ?s :p{j} ?y"),
    ("RSTREAM", "?s ?x ?y", "?s :p{i} ?x . ?s :p{j} ?y"),
    ("ISTREAM", "?s ?y", "?s :p{i} ?x . ?s :p{j} ?y FILTER(?x > ?y)"),
    ("RSTREAM", "?s", "?s :p{i} ?x . ?s :p{i} ?y"),
    ("ISTREAM", "?s ?x", "?s :p{i} ?x FILTER(?x > 90)"),
)
KINDS = (
    *_JOINS,
    ("RSTREAM", "DISTINCT ?s", "?s :p{i} ?x . ?s :p{j} ?y"),
    ("RSTREAM", "(COUNT(?s) AS ?n)", "?s :p{i} ?x"),
    ("RSTREAM", "?y (SUM(?x) AS ?n)", "?s :p{i} ?x . ?s :p{j} ?y"),
    ("ISTREAM", "?s ?x", "?s :p{i} ?x OPTIONAL { ?s :p{j} ?y }"),
    ("RSTREAM", "?s ?x", "?s :p{i} ?x MINUS { ?s :p{j} ?y }"),
)


def run(quick: bool) -> Figures:
    data = source(500 if quick else 5_000, shared=False if quick else None)
    many = 400 if quick else 10_000
    parts: dict[str, Callable[[Path], Figures]] = {
        "steps": partial(steps, data, quick),
        "all_touched": partial(templates, 20 if quick else 200, KINDS, PREDICATES, quick),
        "some_touched": partial(templates, 40 if quick else 200, _JOINS, 2, quick),
        "many_some_touched": partial(templates, many, _JOINS, 2, quick),
        "watchers": partial(watchers, data, quick),
        "one_shot": partial(one_shot, quick),
        "push": partial(pushes, quick),
    }
    figures: Figures = {}
    for part, measure in parts.items():
        with tempfile.TemporaryDirectory(prefix="rillet-bench-") as folder:
            figures[part] = measure(Path(folder))
        print(part, json.dumps(figures[part]), file=sys.stderr, flush=True)
    return {"source": data.name, **figures}


def summary(figures: Figures) -> str:
    """The last line: name=figure name=figure."""
    told = {
        **{f"{name}_step_ms": each["step_ms"] for name, each in figures["steps"].items()},
        **{f"{name}_ms": figures[name]["step_ms"] for name in ("all_touched", "some_touched", "many_some_touched")},
        "watchers_1000_over_1": figures["watchers"]["ratio"],
        **{f"{name}_us": each for name, each in figures["one_shot"].items()},
        "push_ms": figures["push"]["cpu_ms"],
    }
    return " ".join(f"{name}={figure}" for name, figure in told.items())


def _times(stepped: Sequence[Stepped]) -> Figures:
    """Of the second half: the windows are full by then."""
    steady = stepped[len(stepped) // 2 :]
    return {
        "step_ms": round(statistics.median(each.cpu for each in steady) * 1e3, 3),
        "step_and_merge_ms": round(statistics.median(each.stored_cpu for each in steady) * 1e3, 3),
    }


# ---- registered queries ------------------------------------------------------------------------------------------


def steps(data: Source, quick: bool, folder: Path) -> Figures:
    figures = {}
    for name in (*_QUIET, *_WIDE):
        is_quiet = name in _QUIET
        asked, window = (QUESTIONS[name], MINUTE) if is_quiet else (NARROW[name], SECOND)
        range_ms, step_ms, triples = (60_000, 1_000, 10) if is_quiet else (1_000, 100, 1_330 if quick else 13_300)
        tape = Tape(data, asked.streams)
        batches = tape.dense(triples, (100 if quick else 400) if is_quiet else (20 if quick else 60), step_ms)
        replay = Replay(folder / name, data, tape, batches)
        stepped = replay.run([asked.text(name, window)], retained=(len(batches) - 1,))
        replay.check(asked, stepped[-1], range_ms)
        figures[name] = _times(stepped)
        replay.close()
    return figures


def templates(count: int, kinds: Sequence[tuple[str, str, str]], touched: int, quick: bool, folder: Path) -> Figures:
    """`touched`: so many predicates have an element in each batch, of twenty."""
    texts, asked, ranges = zip(*_templates(count, kinds), strict=True)
    a_batch, closes = (4 * touched if touched > 2 else 10), 40 if quick else 120 if count <= 200 else 56
    data = Source("made", [b"<http://e/x> <http://e/y> <http://e/z>"], {"a": list(_touching(touched, a_batch, closes))})
    tape = Tape(data, ("a",))
    batches: list[Batch] = tape.dense(a_batch, closes, _STEP_MS)
    replay = Replay(folder / "store", data, tape, batches)
    checked = range(len(batches) - _CHECKED, len(batches))
    stepped = replay.run(texts, retained=checked)
    some = np.random.default_rng(2).choice(count, min(count, _SOME), replace=False).tolist()
    rows = [
        replay.check(asked[n], stepped[at], ranges[n], n + 1, _STEP_MS if _is_new(n, kinds) else 0).rows
        for at in checked
        for n in some
    ]
    if not any(rows):
        raise AssertionError("no query that was compared had a row")
    replay.close()
    return {"templates": count, **_times(stepped), "checked": len(rows), "checked_rows": sum(rows)}


def _is_new(number: int, kinds: Sequence[tuple[str, str, str]]) -> bool:
    return kinds[number % len(kinds)][0] == "ISTREAM"


def _templates(count: int, kinds: Sequence[tuple[str, str, str]]) -> Iterator[tuple[str, Asked, int]]:
    """Different kinds, predicates, and lengths of windows, of one STEP."""
    for number in range(count):
        r2s, select, pattern = kinds[number % len(kinds)]
        turn = number // len(kinds)
        i, j = turn % PREDICATES, (turn + 1 + turn // PREDICATES % (PREDICATES - 1)) % PREDICATES
        range_ms = 1_000 + _STEP_MS * (turn // PREDICATES)
        where = pattern.replace("{i}", str(i)).replace("{j}", str(j))
        window = f"FROM NAMED WINDOW :w ON STREAM <http://deri.org/a> [RANGE {range_ms}ms STEP {_STEP_MS}ms]"
        end = "GROUP BY ?y" if "SUM" in select else ""
        register = f"PREFIX : <http://e/> REGISTER {r2s} q{number} AS SELECT {select} {window}"
        asked = Asked(f"PREFIX : <http://e/> SELECT {select}", where, ("a",), stored=False, end=end)
        yield f"{register} WHERE {{ WINDOW :w {{ {where} }} }} {end}", asked, range_ms


def _touching(touched: int, a_batch: int, closes: int) -> Iterator[tuple[int, bytes]]:
    """So many of twenty predicates in a batch, others in each; whole numbers of few subjects."""
    chance = np.random.default_rng(1)
    for number in range(a_batch * closes):
        batch, place = divmod(number, a_batch)
        predicate = (batch * 7 + place % touched * (3 if touched == 2 else 1)) % PREDICATES
        subject, value = chance.integers(0, 50), chance.integers(0, 100)
        integer = "<http://www.w3.org/2001/XMLSchema#integer>"
        yield number, f'<http://e/n{subject}> <http://e/p{predicate}> "{value}"^^{integer}'.encode()


def watchers(data: Source, quick: bool, folder: Path) -> Figures:
    """The same template for 1 and for 1,000 users, 13,000 triples a step."""
    figures: Figures = {}
    for number in (1, 1_000):
        tape = Tape(data, QUESTIONS["Q1"].streams)
        batches = tape.dense(1_300 if quick else 13_000, 24, 1_000)
        replay = Replay(folder / str(number), data, tape, batches)
        asked = [QUESTIONS["Q1"].about(f"sibu:u{user}") for user in range(number)]
        texts = [each.text(f"q{user}", "RANGE 1s STEP 1s") for user, each in enumerate(asked)]
        stepped = replay.run(texts, retained=(len(batches) - 1,))
        for query in range(1, number + 1, max(1, number // 5)):
            replay.check(asked[query - 1], stepped[-1], 1_000, query)
        figures[str(number)] = _times(stepped)
        replay.close()
    ratio = figures["1000"]["step_and_merge_ms"] / figures["1"]["step_and_merge_ms"]
    return {**figures, "ratio": round(ratio, 2)}


# ---- one-shot questions ------------------------------------------------------------------------------------------


def one_shot(quick: bool, folder: Path) -> Figures:
    """Microseconds in process, rows decoded: the same text again; and texts with another person each."""
    store, people, asking, questions = hbase_store.open(f"lmdb:{folder / 's'}"), 20_000, Asking(), Questions()
    batch = store.begin()
    names = batch.encode([b'"name %d"' % n for n in range(people)])
    persons, types = batch.encode([b"<http://e/p%d>" % n for n in range(people)]), batch.encode([b"<http://e/P>"])
    for predicate, objects in ((b"name", names), (b"type", np.repeat(types, people)), (b"knows", np.roll(persons, 7))):
        batch.insert(persons, int(batch.encode([b"<http://e/%s>" % predicate])[0]), objects, 0)
    store.commit(batch)
    store.fold()
    sn, each = store.head(), count()
    texts = {
        "q0": "SELECT ?n { <http://e/p%d> <http://e/name> ?n }",
        "q1": "SELECT ?p ?o { <http://e/p%d> ?p ?o }",
        "star": "SELECT ?n { <http://e/p%d> <http://e/knows> ?f . ?f <http://e/name> ?n . ?f <http://e/type> ?t }",
    }

    def rows(text: str) -> list[tuple[bytes | None, ...]]:
        return rows_of(answer_once(store, questions.read(text, _BASE), sn, None, None, asking))

    figures = {}
    for name, text in texts.items():
        for person in (5, 17):
            found, expected = len(rows(text % person)), {"q0": 1, "q1": 3, "star": 1}[name]
            if found != expected:
                raise AssertionError(f"{name} of person {person}: {found} rows, not {expected}")
        repeats = 1_000 if quick else 5_000
        figures[name] = _best_us(lambda text=text: rows(text % 5), repeats)  # type: ignore[misc]  # mypy sees no default of a lambda
        figures[f"{name}_new"] = _best_us(lambda text=text: rows(text % (next(each) % people)), repeats)  # type: ignore[misc]  # as above
    store.close()
    return figures


def _best_us(call: Callable[[], Any], repeats: int) -> float:
    """The median of `repeats` calls."""
    took = []
    for _ in range(repeats):
        began = time.thread_time_ns()
        call()
        took.append(time.thread_time_ns() - began)
    return round(statistics.median(took[repeats // 10 :]) / 1e3, 1)


# ---- from push to emission ---------------------------------------------------------------------------------------


def pushes(quick: bool, folder: Path) -> Figures:
    """500 triples a push, a close each, whose answer is as large: CPU of the whole process until it is told."""
    closes, triples = 40 if quick else 160, 500
    with Service.open(f"lmdb:{folder / 's'}", base=_BASE, clock=SystemClock(), engine="inline", batch_ms=0) as service:
        service.create_stream("a", {})
        service.register(
            "PREFIX : <http://e/> REGISTER RSTREAM q AS SELECT ?s ?x FROM NAMED WINDOW :w ON STREAM a "
            "[RANGE 1s STEP 1s] WHERE { WINDOW :w { ?s :p ?x } }"
        )
        took = []
        for close in range(closes):
            lines = (f"<http://e/n{close * triples + n}> <http://e/p> <http://e/v{n}> .\n" for n in range(triples))
            body = "".join(lines).encode()
            began = time.process_time()
            service.push("a", body, "application/n-triples", timestamp=close * 1_000, wait="evaluated")
            told = service.emissions("q", close - 2) if close > 1 else ()
            took.append(time.process_time() - began)
            if told and told[-1].json.count(b'"s":') != triples:
                raise AssertionError(f"close {close}: {told[-1].json[:200]!r}")
    return {"triples": triples, "cpu_ms": round(statistics.median(took[closes // 4 :]) * 1e3, 2)}
