"""One-shot questions, measured beside other engines: the social graph, LSBench's S1-S6, and a shop.

Answers are compared before times: a query's times count where the contestant's digest is the one that most give. All
contestants of a workload are loaded and alive at once, each in a process, and take turns, so that they meet the same
machine. Times are in process, warm, medians in milliseconds, with all rows decoded; ratios are the best peer's time
over ours: above one, we are faster."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks import lsbench, shop, social
from tests.benchmarks.contest import Player
from tests.benchmarks.contestants import CONTESTANTS, missing

Figures = dict[str, Any]
_ROUNDS = 3
_ALL = "SELECT ?s ?p ?o { ?s ?p ?o } LIMIT 1000000"


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    lines: int
    write: Callable[[Path], None]
    texts: Mapping[str, Mapping[str, str]]  # query: its text in each language


def run(quick: bool) -> Figures:
    absent = missing()
    for name, why in absent.items():
        print(f"{name} does not take part: {why}", file=sys.stderr)
    figures: Figures = {"missing": absent, "workloads": {}}
    for workload in workloads(quick):
        with tempfile.TemporaryDirectory(prefix="rillet-bench-") as folder:
            names = [name for name in CONTESTANTS if name not in absent and _takes_part(name, workload, quick)]
            measured = contest(workload, Path(folder), names, 0.12 if quick else 1.0)
        figures["workloads"][workload.name] = measured
        for line in table(workload.name, measured):
            print(line, file=sys.stderr, flush=True)
    return figures


def summary(figures: Figures) -> str:
    """The last line: for each query the best peer's time over ours."""
    return " ".join(
        f"{workload}_{query}={each['ratio']}"
        for workload, measured in figures["workloads"].items()
        for query, each in measured["queries"].items()
        if "ratio" in each
    )


# ---- workloads -------------------------------------------------------------------------------------------------


def workloads(quick: bool) -> Iterator[Workload]:
    for lines in (100_000,) if quick else (1_000_000, 10_000_000):
        texts = {name: {"sparql": text, "sql": social.SQL[name]} for name, text in social.QUERIES.items()}
        yield Workload(f"social_{_short(lines)}", lines, lambda path, lines=lines: _social(path, lines), texts)  # type: ignore[misc]  # mypy sees no default of a lambda
    if not quick and lsbench.folder().is_dir():
        yield Workload("lsbench", 830_000, lsbench.write, _sparql(lsbench.QUERIES))
    elif not quick:
        print(f"{lsbench.folder()} is not there: LSBench is left out", file=sys.stderr)
    lines = 50_000 if quick else 1_000_000
    yield Workload(f"shop_{_short(lines)}", lines, lambda path: shop.write(path, lines), _sparql(shop.QUERIES))


def _short(lines: int) -> str:
    return f"{lines // 1_000_000}m" if lines >= 1_000_000 else f"{lines // 1000}k"


def _sparql(texts: Mapping[str, str]) -> dict[str, dict[str, str]]:
    return {name: {"sparql": text} for name, text in texts.items()}


def _social(path: Path, lines: int) -> None:
    """The study's own generator where it is at hand, else ours."""
    shared = Path(os.environ.get("RILLET_SHARED", "../shared"), "bench", "gen_social.py")
    if shared.is_file():
        subprocess.run([sys.executable, str(shared), str(lines), str(path)], check=True)
    else:
        social.write(path, lines)


def _takes_part(name: str, workload: Workload, quick: bool) -> bool:
    contestant = CONTESTANTS[name]
    asked = any(set(contestant.languages) & set(texts) for texts in workload.texts.values())
    return asked and workload.lines <= contestant.lines_max


# ---- one contest -----------------------------------------------------------------------------------------------


def contest(workload: Workload, folder: Path, names: list[str], budget_s: float) -> Figures:
    file = folder / "data.nt"
    workload.write(file)
    with ExitStack() as stack:
        players = []
        loads = {}
        for name in names:
            player = Player(name)
            stack.callback(player.end)
            loads[name] = player.ask("load", file=str(file), folder=str(folder / name))
            if "error" not in loads[name]:
                players.append(player)
        many = streamed(players)
        queries = {query: question(players, texts, budget_s) for query, texts in workload.texts.items()}
    versions = {name: CONTESTANTS[name].version() for name in names}
    return {"lines": workload.lines, "versions": versions, "load": loads, "queries": queries, "all_rows": many}


def streamed(players: list[Player]) -> Figures:
    """All triples, at most a million, written as JSON by us; the second time, for the first one also reads them."""
    for player in players:
        if player.name == "rillet":
            player.ask("stream", text=_ALL)
            return player.ask("stream", text=_ALL)
    return {}


def question(players: list[Player], texts: Mapping[str, str], budget_s: float) -> Figures:
    """Answers first, then times in turns; a contestant whose answer is another one has no time."""
    asked = {
        player.name: text
        for player in players
        for text in [next((texts[each] for each in CONTESTANTS[player.name].languages if each in texts), None)]
        if text is not None
    }
    answers = {player.name: player.ask("answer", text=asked[player.name]) for player in players if player.name in asked}
    digests = Counter(tuple(answer["digest"]) for answer in answers.values() if "digest" in answer)
    agreed = digests.most_common(1)[0][0] if digests else None
    right = [name for name, answer in answers.items() if "digest" in answer and tuple(answer["digest"]) == agreed]
    times: dict[str, list[float]] = {name: [] for name in right}
    for _ in range(_ROUNDS):
        for player in players:
            if sum(times.get(player.name, [budget_s * 1e3])) < budget_s * 1e3:
                times[player.name] += player.ask("time", text=asked[player.name], budget_s=budget_s / _ROUNDS)["ms"]
    return judged(answers, agreed, times)


def judged(answers: Mapping[str, Figures], agreed: tuple[Any, ...] | None, times: Mapping[str, list[float]]) -> Figures:
    medians = {name: round(statistics.median(took), 4) for name, took in times.items()}
    found: Figures = {
        "digest": agreed,
        "ms_p50": medians,
        "runs": {name: len(took) for name, took in times.items()},
        "peak_mb": {name: answer["rss_mb"] for name, answer in answers.items() if "rss_mb" in answer},
        "other_answers": {
            name: answer.get("error") or answer["digest"] for name, answer in answers.items() if name not in times
        },
    }
    peers = [took for name, took in medians.items() if name != "rillet"]
    if "rillet" in medians and peers:
        found["ratio"] = round(min(peers) / medians["rillet"], 2)
    return found


# ---- telling ---------------------------------------------------------------------------------------------------


def table(workload: str, measured: Figures) -> Iterator[str]:
    """A line a query, a column a contestant, in ms; what has no time says why below."""
    names = list(measured["versions"])
    yield "  ".join([workload.ljust(14), *(name[:12].rjust(12) for name in names)])
    loads = [measured["load"][name].get("seconds", "failed") for name in names]
    yield "  ".join(["load, s".ljust(14), *(str(each).rjust(12) for each in loads)])
    for query, each in measured["queries"].items():
        cells = [_cell(each, name).rjust(12) for name in names]
        yield "  ".join([query.ljust(14), *cells, f"x{each['ratio']}" if "ratio" in each else ""])
    yield f"all rows as JSON: {json.dumps(measured['all_rows'])}"
    for query, each in measured["queries"].items():
        for name, other in each["other_answers"].items():
            yield f"{query}: {name} answers {json.dumps(other)}, most {json.dumps(each['digest'])}"


def _cell(each: Figures, name: str) -> str:
    if name in each["ms_p50"]:
        return f"{each['ms_p50'][name]:.3f}"
    return "other" if name in each["other_answers"] else "-"
