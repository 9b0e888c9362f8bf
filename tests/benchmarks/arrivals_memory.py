"""What questions in CQELS-QL take of memory: by how much a process grows that loads the stored triples, and takes in
LSBench's streams over the last 1,000 triples of each window, evaluated at every arrival.

Before, the process has asked it of a few triples of our own making, so what is counted is neither Python nor the
compiled kernels. Pages of the store's file that are mapped count, too."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tests.benchmarks.arrivals import QUESTIONS, text_of
from tests.benchmarks.own_memory import forget_peak, memory_mb
from tests.benchmarks.replay import Replay
from tests.benchmarks.tape import Source, Tape, source

_A_BATCH = 13_000


def lsbench(quick: bool, folder: Path) -> dict[str, Any]:
    """MB. Each question has a process of its own; `quick`: the first one only."""
    figures = {}
    for name in list(QUESTIONS)[: 1 if quick else None]:
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            figures[name] = pool.submit(_grown, name, quick, folder / name).result()
    return figures


def _grown(name: str, quick: bool, folder: Path) -> dict[str, float]:
    folder.mkdir()
    _taken_in(name, source(120, shared=False), 2, 130, folder / "few")
    data = source(500 if quick else 5_000, shared=False if quick else None)
    return _taken_in(name, data, 10 if quick else 20, _A_BATCH // (10 if quick else 1), folder / "all")


def _taken_in(name: str, data: Source, count: int, length: int, folder: Path) -> dict[str, float]:
    """So many batches of so many triples."""
    tape = Tape(data, tuple(dict.fromkeys(stream for stream, *_ in QUESTIONS[name][1])))
    batches = tape.dense(length, count, 1_000)
    forget_peak()
    before = memory_mb("VmRSS")
    replay = Replay(folder, data, tape, batches, interleaved=True)
    replay.run([text_of(name, "TRIPLES 1000")], retained=())
    grown, state = memory_mb("VmHWM") - before, replay.state_bytes() / 1e6
    replay.close()
    return {"grown_mb": round(grown, 1), "state_mb": round(state, 2)}
