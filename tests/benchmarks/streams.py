"""Continuous questions: how fast the engine takes streams in, and how soon what is said of them is there.

Every answer that is timed is compared before, with plain arithmetic or with pyoxigraph. LSBench's streams are replayed
where a copy of them is at hand (RILLET_SHARED), else streams of our own making."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks import arrivals, arrivals_memory, beside_cqels, skew, standing, stream_service
from tests.benchmarks.replay import Checked, Replay, observed
from tests.benchmarks.standing_peers import missing, present
from tests.benchmarks.stream_questions import MINUTE, NARROW, QUESTIONS, SECOND, Asked
from tests.benchmarks.tape import Batch, Source, Tape, source
from tests.benchmarks.watchers import at_once, registering

Figures = dict[str, Any]

_A_BATCH = 13_000
_A_SECOND = 133_000
_TUMBLING = "RANGE 1s STEP 1s"
_STORED = (1_000_000, 10_000_000)
#: The batches after which what is said is compared; and after the last.
_CHECKED = (2, 11)
#: The pattern of one window; with what is stored; groups.
_SMALL = ("Q1", "Q2", "Q10")
#: Two posts of one author with one tag: the answer grows with the square of what a window holds.
_SPARSE = {"Q4": 1_000}


def run(quick: bool, minutes: float = 0, large: bool = False) -> Figures:
    """`minutes`: for how long the memory of a server is watched; 0: not at all. `large`: beside a large store, too."""
    figures: Figures = {}
    for name, why in missing().items():
        print(f"{name} does not take part: {why}", file=sys.stderr)
    data = source(500 if quick else 5_000, shared=False if quick else None)
    parts: dict[str, Callable[[Path], Figures]] = {
        "anchors": partial(anchors, quick),
        "windows": lambda _: windows(quick),
        "skew": lambda _: skew.measure(40 if quick else 200, 1_000 if quick else 10_000),
        "questions": partial(questions, data, QUESTIONS, MINUTE, quick),
        "narrow": partial(questions, data, NARROW, SECOND, quick),
        "small": partial(small, data, quick),
        "many": partial(many, data, quick),
        "watchers": partial(_apart, partial(registering, quick)),
        "watchers_at_once": partial(_apart, partial(at_once, quick)),
        "served": partial(served, data, quick),
        "arrivals": partial(arrivals.lsbench, data, quick),
        "arrivals_of_others": partial(arrivals.texts_of_others, quick),
        "arrivals_counted": partial(arrivals.counted_joins, quick),
        "arrivals_memory": partial(arrivals_memory.lsbench, quick),
        "arrivals_beside_cqels": partial(beside_cqels.measure, data, quick),
        "arrivals_watched": partial(arrivals.watchers, data, quick),
    }
    if large:
        parts["large"] = partial(beside_much, data)
    if minutes:
        parts["memory"] = lambda folder: stream_service.memory(folder / "memory", data, "inline", 2_000, minutes)
    for part, measure in parts.items():
        with tempfile.TemporaryDirectory(prefix="rillet-bench-") as folder:
            figures[part] = measure(Path(folder))
        print(part, json.dumps(figures[part]), file=sys.stderr, flush=True)
    return {"source": data.name, "peers": present(), "missing": missing(), **figures}


def _apart(measure: Callable[[Path], Figures], folder: Path) -> Figures:
    """In a process of its own: what memory grows by is not what others have freed before."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(measure, folder).result()


def summary(figures: Figures) -> str:
    """The last line: name=figure name=figure."""
    anchors, windows = figures["anchors"], figures["windows"]
    answered = {
        **{f"{name}_melements_per_s": each["melements_per_s"] for name, each in anchors.items()},
        **{
            f"{name}_over_ours": min(peers.values())
            for name, each in anchors.items()
            if (peers := each["peers_over_ours"])
        },
        "window_1000_over_10": windows["join"]["ratio_1000"],
        "fixed_order_over_live": figures["skew"]["best_fixed_over_live"],
        **{f"{name}_mtriples_per_s": each["mtriples_per_s"] for name, each in figures["questions"].items()},
        **{f"{name}_pyoxigraph_over_ours": each["pyoxigraph_over_ours"] for name, each in figures["questions"].items()},
        **{f"{name}_ms": each["batch_ms_p50"] for name, each in figures["narrow"].items()},
        "served_triples_per_s": figures["served"]["throughput"]["triples_per_s"],
        "served_push_ms_p50": figures["served"]["latency"]["push_ms_p50"],
        **{f"arrivals_{name}_mtriples_per_s": each["mtriples_per_s"] for name, each in figures["arrivals"].items()},
        **{
            f"arrivals_{name}_over_cqels": each["ours_over_cqels"]["triples_per_cpu_s"]
            for name, each in figures["arrivals_beside_cqels"].items()
            if name != "missing"
        },
        "arrivals_1000_watchers_over_1": figures["arrivals_watched"]["ratio_1000_to_1"],
        "more_cpu_beside_one_shots": figures["served"]["beside"]["more_cpu"],
    }
    return " ".join(f"{name}={figure}" for name, figure in answered.items())


# ---- W1, W2, W3 and windows of many batches ---------------------------------------------------------------------


def anchors(quick: bool, folder: Path) -> Figures:
    """With the data of another generator and what it expects, where that is at hand."""
    script, batches = Path(os.environ.get("RILLET_SHARED", "../shared"), "bench", "w123_gen.py"), 60 if quick else 400
    if script.is_file():
        figures = standing.generated(script, folder, batches)
    else:
        print(f"{script} is not there: W1-W3 are made here", file=sys.stderr)
        figures = standing.own(batches)
    large = standing.made(batches // 4, 130_000, 13_000, 6)
    return {**figures, "w3_large": standing.filtered_by(large, np.arange(10_000))}


def windows(quick: bool) -> Figures:
    """A join and a count over windows of 10, 100 and 1,000 batches, whose batches are of the same size and find as
    many partners: what a batch costs, and how many times what it costs in a window of ten."""
    count, steady = (200, 30) if quick else (1_000, 200)
    spans = (10, 100, 1_000)
    join, group = {}, {}
    for span in spans:
        batches, keys = span + 1 + steady, count * span
        left, right = (standing.made(batches, count, keys, seed) for seed in (1, 2))
        join[span] = standing.w1(left, right, span).measure()
        group[span] = standing.w2(left, span).measure()
    return {"elements_a_batch": count, "join": _compared(join), "group": _compared(group)}


def _compared(by_span: dict[int, Figures]) -> Figures:
    least = by_span[10]["batch_ms_p50"]
    ratios = {f"ratio_{span}": round(each["batch_ms_p50"] / least, 2) for span, each in by_span.items() if span > 10}
    return {**{str(span): each for span, each in by_span.items()}, **ratios}


# ---- LSBench ----------------------------------------------------------------------------------------------------


def questions(
    data: Source, asked: dict[str, Asked], window: str, quick: bool, folder: Path, stored: int = 0
) -> Figures:
    """Each alone, a batch a step: 13,000 triples a second of the streams' time, or ten times as many; beside so many
    stored triples at least."""
    figures = {}
    for name, each in asked.items():
        range_ms, step_ms, triples = (60_000, 1_000, _A_BATCH) if window == MINUTE else (1_000, 100, _A_SECOND // 10)
        triples = _SPARSE.get(name, triples) // (10 if quick else 1)
        tape = Tape(data, each.streams)
        batches = tape.dense(triples, 40 if quick else 140, step_ms)
        replay = Replay(folder / name, data, tape, batches, stored)
        figures[name] = _replayed(replay, each, each.text(name, window), batches, range_ms)
    return figures


def _replayed(replay: Replay, asked: Asked, text: str, batches: Sequence[Batch], range_ms: int) -> Figures:
    """Of a question alone, whose answers are compared."""
    stepped = replay.run([text], retained=(*_CHECKED, len(batches) - 1))
    checked = [replay.check(asked, stepped[at], range_ms) for at in (*_CHECKED, -1)]
    replay.close()
    return _beside(observed(stepped, batches), checked)


def _beside(figures: Figures, checked: Sequence[Checked]) -> Figures:
    """With what pyoxigraph takes to take in the last batch, to answer, and to let a batch go, over what a batch takes
    us."""
    asked = checked[-1].pyoxigraph_ms
    ratio = round(asked / figures["batch_ms_p50"], 2)
    rows = [each.rows for each in checked]
    return {**figures, "checked_rows": rows, "pyoxigraph_ms": asked, "pyoxigraph_over_ours": ratio}


def small(data: Source, quick: bool, folder: Path) -> Figures:
    """Ten triples a step, as most steps are: what each of the registered questions costs, whatever comes."""
    figures = {}
    for name in _SMALL:
        each, tape = QUESTIONS[name], Tape(data, QUESTIONS[name].streams)
        batches = tape.dense(10, 100 if quick else 400, 1_000)
        replay = Replay(folder / name, data, tape, batches)
        figures[name] = _replayed(replay, each, each.text(name, MINUTE), batches, 60_000)
    return figures


def beside_much(data: Source, folder: Path) -> Figures:
    """The narrow questions beside a million stored triples and beside ten: nothing of what is asked for is more."""
    figures: Figures = {}
    for name, each in NARROW.items():
        sizes = {
            stored: questions(data, {name: each}, SECOND, False, folder / str(stored), stored)[name]
            for stored in _STORED
        }
        few, much = sizes.values()
        ratios = {key: round(much[key] / few[key], 2) for key in ("batch_ms_p50", "batch_cpu_ms_p50")}
        figures[name] = {**{str(stored): each for stored, each in sizes.items()}, "ratio": ratios}
        print(name, json.dumps(ratios), file=sys.stderr, flush=True)
    return figures


def many(data: Source, quick: bool, folder: Path) -> Figures:
    """Q1 asked by 1, 50, 1,000 and 100,000, each of a user of their own."""
    figures: Figures = {}
    for count in (1, 20) if quick else (1, 50, 1_000, 100_000):
        tape = Tape(data, QUESTIONS["Q1"].streams)
        batches = tape.dense(_A_BATCH // (10 if quick else 1), 24, 1_000)
        replay = Replay(folder / str(count), data, tape, batches)
        asked = [QUESTIONS["Q1"].about(f"sibu:u{number}") for number in range(count)]
        texts = [each.text(f"q{number}", _TUMBLING) for number, each in enumerate(asked)]
        stepped = replay.run(texts, retained=(len(batches) - 1,))
        some = range(1, count + 1, max(1, count // 5))
        rows = sum(replay.check(asked[number - 1], stepped[-1], 1_000, number).rows for number in some)
        figures[str(count)] = {**observed(stepped, batches), "checked_rows": rows}
        replay.close()
    return figures


# ---- over HTTP --------------------------------------------------------------------------------------------------


def served(data: Source, quick: bool, folder: Path) -> Figures:
    triples, pushes = (2_000, 12) if quick else (_A_BATCH, 60)
    seconds = 2 if quick else 10
    return {
        "throughput": stream_service.throughput(folder / "throughput", data, "inline", triples, pushes),
        "latency": stream_service.latency(folder / "latency", data, "inline", 500, 20 * seconds, 20),
        "beside": stream_service.beside(folder / "beside", data, "inline", 500, seconds),
    }
