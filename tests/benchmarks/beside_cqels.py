"""CQELS 2.0 beside us: the same questions over the same elements, evaluated at each of them; answers first, then speed.

RILLET_CQELS names a folder with its jars, and those that it needs. Elements have one triple each. What it says of a
text is not always what the text means with us, so each question has a text for either:

    Q1, Q2          [NOW]: both emit what each element brings
    Q6              posts of a minute and likes of a second, without the part over the store: it looks up stored triples
                    by their subject only, and refuses the whole question
    Q1 of the last  TRIPLES 100, one pattern with a constant: it emits the whole answer again at each element (RSTREAM)
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.replay import Replay, Stepped
from tests.benchmarks.stream_questions import PREFIXES
from tests.benchmarks.tape import Batch, Source, Tape

Figures = dict[str, Any]
Bag = Counter[tuple[str, ...]]

_POSTS, _LIKES = "poststream", "likedpoststream"
_PROGRAM = Path(__file__).with_name("CqelsReplay.java")
_A_BATCH, _SECOND = 13_000, 1_000
#: How long it may take for a question.
_TIMEOUT_S = 900


@dataclass(frozen=True, slots=True)
class Question:
    """`whole`: each evaluation emits the whole answer."""

    select: str
    windows: tuple[tuple[str, str, str], ...]  # of each: stream, window, pattern
    stored: str = ""
    whole: bool = False

    def ours(self) -> str:
        parts = " ".join(f"STREAM <http://deri.org/{name}> [{window}] {{ {p} }}" for name, window, p in self.windows)
        kind = "RSTREAM " * self.whole
        return f"{PREFIXES}REGISTER QUERY q AS SELECT {kind}{self.select} WHERE {{ {parts} {self.stored} }}"

    def theirs(self) -> str:
        froms = " ".join(f"FROM STREAM {name} [{window}]" for name, window, _ in self.windows)
        parts = " ".join(f"STREAM {name} {{ {pattern} . }}" for name, _, pattern in self.windows)
        stored = f"{self.stored} ." if self.stored else ""
        return f"{PREFIXES}REGISTER QUERY q AS SELECT {self.select} {froms} WHERE {{ {parts} {stored} }}"


_MINE, _A_POST = "sibu:u984 ?p ?o", "?user sioc:creator_of ?post"
QUESTIONS = {
    "Q1": Question("?p ?o", ((_POSTS, "NOW", _MINE),)),
    "Q2": Question("?post", ((_POSTS, "NOW", _A_POST),), "?user sioc:account_of sibp:p984"),
    "Q6": Question(
        "?channel ?friend ?post",
        ((_POSTS, "RANGE 1m", "?channel sioc:container_of ?post"), (_LIKES, "RANGE 1s", "?friend sib:like ?post")),
    ),
    "Q1_of_the_last": Question("?p ?o", ((_POSTS, "TRIPLES 100", _MINE),), whole=True),
}


def missing() -> str:
    """Why it does not take part; empty: it does."""
    if not (folder := os.environ.get("RILLET_CQELS")):
        return "RILLET_CQELS names no folder with its jars"
    if not list(Path(folder).glob("cqels-engine-*.jar")):
        return f"{folder} has no cqels-engine jar"
    return "" if shutil.which("java") else "there is no java"


def measure(data: Source, quick: bool, folder: Path) -> Figures:
    if why := missing():
        return {"missing": why}
    figures: Figures = {}
    for name, asked in QUESTIONS.items():
        tape = Tape(data, tuple(dict.fromkeys(stream for stream, *_ in asked.windows)))
        size = _A_BATCH // (10 if quick else 1)
        batches = [_of_one_triple(each) for each in tape.dense(size, 10 if quick else 20, _SECOND)]
        figures[name] = _compared(asked, data, tape, batches, folder / name)
    return figures


def _of_one_triple(batch: Batch) -> Batch:
    return replace(batch, element=np.arange(len(batch.time)))


def _compared(asked: Question, data: Source, tape: Tape, batches: Sequence[Batch], folder: Path) -> Figures:
    folder.mkdir()
    replay = Replay(folder / "store", data, tape, batches, interleaved=True)
    stepped = replay.run([asked.ours()], retained=range(len(batches)))
    rows = Counter[tuple[str, ...]]()
    for each in stepped:
        for part in each.answered:
            rows += replay.bag(part, part.columns)
    replay.close()
    ours = _second_half(stepped, batches)
    theirs, their_rows = _theirs(asked, data, tape, batches, folder)
    more, fewer = rows - their_rows, their_rows - rows
    return {
        "rows": rows.total(),
        "rows_of_cqels": their_rows.total(),
        "only_ours": more.total(),
        "only_of_cqels": fewer.total(),
        "differing": [list(map(repr, side.items()))[:3] for side in (more, fewer)],
        "ours": ours,
        "cqels": theirs,
        "ours_over_cqels": {
            key: round(ours[key] / theirs[key], 1) for key in ("triples_per_s", "triples_per_cpu_s") if theirs[key]
        },
    }


def _second_half(stepped: Sequence[Stepped], batches: Sequence[Batch]) -> Figures:
    half = len(stepped) // 2
    triples = sum(len(batch.time) for batch in batches[half:])
    seconds, cpu = (sum(getattr(each, key) for each in stepped[half:]) for key in ("seconds", "cpu"))
    return {"triples_per_s": round(triples / seconds), "triples_per_cpu_s": round(triples / cpu)}


def _theirs(asked: Question, data: Source, tape: Tape, batches: Sequence[Batch], folder: Path) -> tuple[Figures, Bag]:
    (folder / "query").write_text(asked.theirs())
    (folder / "stored").write_bytes(b"\n".join(data.stored))
    with (folder / "tape").open("wb") as out:
        for batch in batches:
            columns = batch.stream.tolist(), batch.time.tolist(), *batch.triples.tolist()
            for stream, time, *triple in zip(*columns, strict=True):
                texts = (tape.streams[stream].encode(), b"%d" % time, *(tape.texts[place] for place in triple))
                out.write(b"\t".join(texts) + b"\n")
    jars = os.pathsep.join(map(str, sorted(Path(os.environ["RILLET_CQELS"]).rglob("*.jar"))))
    files = [str(folder / name) for name in ("query", "stored", "tape", "rows")]
    command = ["java", "-Xmx2g", "-cp", jars, str(_PROGRAM), *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if done.returncode:
        raise RuntimeError(f"CQELS failed: {done.stderr[-2000:]}")
    told = json.loads(done.stdout.splitlines()[-1])
    rows: Bag = Counter()
    for line in (folder / "rows").read_text().splitlines():
        named = dict(each.split("=", 1) for each in line.split("\t"))
        rows[tuple(_as_term(named[name[1:]]) for name in asked.select.split())] += 1
    speeds = {
        "triples_per_s": told["triples"] / told["seconds"],
        "triples_per_cpu_s": told["triples"] / told["cpu_seconds"],
    }
    return {name: round(value) for name, value in speeds.items()}, rows


def _as_term(text: str) -> str:
    """It writes IRIs without brackets."""
    return f"<{text}>" if text.startswith("http://") else text
