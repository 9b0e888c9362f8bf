"""A contest: one process for each contestant, told over pipes what to do, one line of JSON at a time.

    {"do": "load", "file": ..., "folder": ...}    ->  {"seconds": ..., "rss_mb": ...}
    {"do": "answer", "text": ...}                 ->  {"digest": [rows, sum of ?n, hash], "rss_mb": ...}
    {"do": "time", "text": ..., "budget_s": ...}  ->  {"ms": [...]}
    {"do": "stream", "text": ...}                 ->  {"bytes": ..., "mb_more": ...}

What goes wrong in there is told as {"error": ...}, and is a result as well."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.benchmarks.contestants import CONTESTANTS, Contestant, Plain
from tests.benchmarks.own_memory import forget_peak, memory_mb

Digest = tuple[int, int, str]


class Player:
    """The parent's end."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.contest", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, do: str, **more: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended: the missing answer says so
            self._process.stdin.write(json.dumps({"do": do, **more}) + "\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            return {"error": f"the process ended with {self._process.wait()}"}
        return dict(json.loads(line))

    def end(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()


def digest(rows: Plain) -> Digest:
    """Number of rows, sum of ?n, and a hash of the sorted rows: the same for the same answer in any order."""
    lines = sorted("\t".join(f"{name}={_shown(row[name])}" for name in sorted(row)) for row in rows)
    total = sum(int(row["n"]) for row in rows if isinstance(row.get("n"), float))
    return len(rows), total, hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def _shown(value: str | float) -> str:
    return f"{value:.6f}" if isinstance(value, float) else value


# ---- the child's end -----------------------------------------------------------------------------------------


def main(name: str) -> None:
    contestant = CONTESTANTS[name]()
    answered = os.fdopen(os.dup(1), "w")  # for us alone: an engine may write to standard output
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            answer = done(contestant, **json.loads(line))
        except Exception as error:  # noqa: BLE001  what it cannot do is told in the table
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        answered.write(json.dumps(answer) + "\n")
        answered.flush()


def done(contestant: Contestant, do: str, **more: Any) -> dict[str, Any]:
    if do == "load":
        began = time.perf_counter()
        contestant.load(Path(more["file"]), Path(more["folder"]))
        return {"seconds": round(time.perf_counter() - began, 2), "rss_mb": round(memory_mb("VmRSS"))}
    if do == "answer":
        return {"digest": digest(contestant.plain(contestant.rows(more["text"]))), "rss_mb": round(memory_mb("VmHWM"))}
    if do == "stream":
        return streamed(contestant, more["text"])
    return {"ms": timed(contestant, more["text"], more["budget_s"])}


def streamed(contestant: Contestant, text: str) -> dict[str, Any]:
    """How much memory it takes, at most, to write an answer as JSON, beyond what the process has already."""
    before = memory_mb("VmRSS")
    forget_peak()
    began = time.perf_counter()
    size = contestant.stream(text)
    took_s = round(time.perf_counter() - began, 2)
    return {"bytes": size, "seconds": took_s, "mb_more": round(memory_mb("VmHWM") - before)}


def timed(contestant: Contestant, text: str, budget_s: float) -> list[float]:
    """At least once, at most a thousand times, as the budget allows."""
    took: list[float] = []
    end = time.perf_counter() + budget_s
    while not took or (time.perf_counter() < end and len(took) < 1000):
        began = time.perf_counter()
        rows = contestant.rows(text)
        took.append((time.perf_counter() - began) * 1e3)
        del rows  # who gives a large answer pays for taking it away between the runs, not in them
    return took


if __name__ == "__main__":
    main(sys.argv[1])
