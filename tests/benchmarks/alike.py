"""Queries that are alike: many users ask of the same posts, each for something else.

    alike       five patterns over LSBench's posts and who knows whom, a dozen questions of each, all over ten seconds
    copies      LSBench's Q5 and Q6 (photos and posts that friends like), asked by 100, over the same window
    lengths     the same over 20 windows of different length
    mixed       CQELS+, section 4.2: four kinds of queries, 400 of them
    unchanged   16 queries whose answers of 1,500 rows do not change, under RSTREAM
    orders      those of `alike`, each with its triple patterns in another order
    copied      the whole answers of Q2 to Q6 and Q10, each asked by ten, with the patterns in any order

Medians of CPU milliseconds of a close. Answers are compared with pyoxigraph's before a time is reported.

    lengths_N   Q5 by N queries over 20 windows of different length
    one         one query by itself

python -m tests.benchmarks.alike [--turns | --lengths | --orders] [--rounds 3] [--json FILE] [PART ...]

With --turns also where only scans and joins of two are shared, and nothing is decoded once for several emissions, by
turns. With --lengths also where windows of different length share nothing, and where no queries do. With --orders also
where each query joins in the order of its text, and where no queries share anything."""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stream_ext.continuous.shared_stages import SharedStages
from stream_ext.emissions.known_texts import KnownTexts, Texts
from stream_ext.network.building import conjunctions, sizes
from stream_ext.network.operators.answers.r2s import ResultState
from stream_ext.network.operators.core.shared_stage import SharedStage, StageKey
from stream_ext.network.operators.joins.join import JoinOperator
from stream_ext.network.operators.scans.window_scan import WindowScan
from stream_ext.network.sharing import NetworkSharing
from stream_ext.network.window_lengths import WindowLengths
from stream_ext.windows.part import Ids
from tests.benchmarks.papers_replay import varied
from tests.benchmarks.replay import Replay
from tests.benchmarks.stream_questions import QUESTIONS, Asked
from tests.benchmarks.tape import Source, Tape, source

Figures = dict[str, Any]

PATTERNS = (
    "?user sioc:creator_of ?post . ?user foaf:knows ?friend",
    "?post sib:hashtag ?tag . ?user sioc:creator_of ?post",
    "?user sioc:creator_of ?post . ?user foaf:knows ?friend . ?post sib:hashtag ?tag FILTER(?friend != ?user)",
    "?post1 sib:hashtag ?tag . ?user sioc:creator_of ?post1 . ?post2 sib:hashtag ?tag . ?user sioc:creator_of ?post2 "
    "FILTER(?post1 != ?post2)",
    "?user sioc:creator_of ?post OPTIONAL { ?post sib:hashtag ?tag }",
)
#: R2S, what is selected, and the end.
QUESTIONED = (
    ("RSTREAM", "?user", ""),
    ("ISTREAM", "DISTINCT ?user", ""),
    ("ISTREAM", "?user (COUNT(*) AS ?n)", "GROUP BY ?user"),
    ("RSTREAM", "(COUNT(*) AS ?n)", ""),
    ("RSTREAM", "(COUNT(DISTINCT ?user) AS ?n)", ""),
    ("ISTREAM", "?user (COUNT(*) AS ?n)", "GROUP BY ?user HAVING(COUNT(*) > 2)"),
    ("RSTREAM", "?user (COUNT(*) AS ?n)", "GROUP BY ?user ORDER BY DESC(?n) ?user LIMIT 5"),
    ("DSTREAM", "?user", ""),
    ("RSTREAM", "?user", "ORDER BY ?user LIMIT 10"),
    ("ISTREAM", "*", ""),
    ("ISTREAM", "(STR(?user) AS ?u)", ""),
    ("RSTREAM", "(MIN(?user) AS ?m)", ""),
)
_SECOND_MS = 1_000
#: Triple patterns, and what comes after them.
_PARTS = re.compile(r"(.*?)((?:FILTER|OPTIONAL).*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Registered:
    asked: Asked
    r2s: str
    range_ms: int

    def text(self, name: str) -> str:
        text = self.asked.text(name, f"RANGE {self.range_ms}ms STEP 1s")
        return text.replace("REGISTER QUERY", f"REGISTER {self.r2s}", 1)


def alike() -> Iterator[Registered]:
    for number in range(len(PATTERNS) * len(QUESTIONED)):
        r2s, select, end = QUESTIONED[number // len(PATTERNS)]
        pattern = PATTERNS[number % len(PATTERNS)]
        yield Registered(Asked(f"SELECT {select}", pattern, ("poststream",), end=end), r2s, 10 * _SECOND_MS)


def copies(name: str) -> Iterator[Registered]:
    for _ in range(100):
        yield Registered(QUESTIONS[name], "RSTREAM", 10 * _SECOND_MS)


def lengths(name: str, queries: int = 100) -> Iterator[Registered]:
    for number in range(queries):
        yield Registered(QUESTIONS[name], "RSTREAM", (5 + number % 20) * _SECOND_MS)


def mixed() -> Iterator[Registered]:
    for number in range(400):
        name = ("Q1", "Q2", "Q3", "Q10")[number % 4]
        more_ms = 100 * (number // 4) if name == "Q10" else 0
        yield Registered(varied(name, number + 1)[number], "RSTREAM", 10 * _SECOND_MS + more_ms)


def unchanged() -> Iterator[Registered]:
    for select in ("?s ?o", "?o ?s", "?s", "?o", "(?s AS ?x) ?o", "?s (?o AS ?y)", "DISTINCT ?s", "DISTINCT ?o ?s"):
        for pattern in ("?s <http://e/p> ?o", "?s <http://e/p> ?o FILTER(?s != ?o)"):
            yield Registered(Asked(f"SELECT {select}", pattern, ("a",), stored=False), "RSTREAM", 3_600 * _SECOND_MS)


def in_any_order(queries: Iterator[Registered]) -> Iterator[Registered]:
    """These, each with its triple patterns in an order of its own."""
    chance = random.Random(1)
    for each in queries:
        pattern, rest = _PARTS.fullmatch(each.asked.pattern).groups("")  # type: ignore[union-attr]  # all are so
        triples = [" ".join(triple.split()) for triple in pattern.split(" . ")]
        written = " . ".join(chance.sample(triples, len(triples)))
        yield replace(each, asked=replace(each.asked, pattern=f"{written} {rest}"))


def copied() -> Iterator[Registered]:
    for _ in range(10):
        for name in ("Q2", "Q3", "Q4", "Q5", "Q6", "Q10"):
            yield Registered(QUESTIONS[name], "RSTREAM", 10 * _SECOND_MS)


def _soon_over() -> Source:
    """1,500 triples that queries ask for, and then others."""
    lines = [f"<http://e/n{n}> <http://e/{'p' if n < 1_500 else 'q'}> <http://e/v{n % 300}>" for n in range(6_000)]
    return Source(
        "made", [b"<http://e/x> <http://e/y> <http://e/z>"], {"a": [(n, each.encode()) for n, each in enumerate(lines)]}
    )


PARTS = {
    "unchanged": (unchanged, 100),
    "alike": (alike, 650),
    "copies_Q5": (lambda: copies("Q5"), 1_300),
    "copies_Q6": (lambda: copies("Q6"), 1_300),
    "lengths_Q5": (lambda: lengths("Q5"), 1_300),
    "lengths_Q6": (lambda: lengths("Q6"), 1_300),
    "lengths_Q4": (lambda: lengths("Q4"), 1_300),
    "lengths_Q10": (lambda: lengths("Q10"), 1_300),
    "lengths_2": (lambda: lengths("Q5", 2), 1_300),
    "lengths_10": (lambda: lengths("Q5", 10), 1_300),
    "one": (lambda: lengths("Q5", 1), 1_300),
    "mixed": (mixed, 1_300),
    "orders": (lambda: in_any_order(alike()), 650),
    "copied": (lambda: in_any_order(copied()), 650),
}


def measured(part: str, folder: Path) -> Figures:
    made, triples = PARTS[part]
    queries, data = list(made()), _soon_over() if part == "unchanged" else source(2_000, shared=False)
    tape = Tape(data, tuple(dict.fromkeys(stream for each in queries for stream in each.asked.streams)))
    batches = tape.dense(triples, 40, _SECOND_MS)
    replay = Replay(folder, data, tape, batches)
    stepped = replay.run([each.text(f"q{n}") for n, each in enumerate(queries)], retained=(len(batches) - 1,))
    checked = [
        replay.check(each.asked, stepped[-1], each.range_ms, n + 1).rows
        for n, each in list(enumerate(queries))[:: max(1, len(queries) // 20)]
        if each.r2s == "RSTREAM" and "LIMIT" not in each.asked.end
    ]
    replay.close()
    if not any(checked):
        raise AssertionError("no query that was compared had a row")
    steady = stepped[len(stepped) // 2 :]
    return {
        "queries": len(queries),
        "step_ms": round(statistics.median(each.cpu for each in steady) * 1e3, 2),
        "step_and_merge_ms": round(statistics.median(each.stored_cpu for each in steady) * 1e3, 2),
        "rows": sum(sum(each.rows) for each in steady), "checked": len(checked), "checked_rows": sum(checked),
    }  # fmt: skip


def _share_scans_and_joins_only() -> None:
    key_at = NetworkSharing.key_at

    def key_of_some(sharing: NetworkSharing, place: int) -> StageKey | None:
        kind = type(sharing._stages[place].operator)
        return key_at(sharing, place) if kind in (WindowScan, JoinOperator) else None

    def shares_none(answer: ResultState, stage: SharedStage) -> None:
        return

    def knows_none(known: KnownTexts, columns: Sequence[Ids], make: Callable[[], Texts]) -> Texts:
        return make()

    NetworkSharing.key_at = key_of_some  # type: ignore[method-assign, assignment]  # to compare with
    ResultState.share_rows = shares_none  # type: ignore[method-assign, assignment]  # as above
    KnownTexts.of = knows_none  # type: ignore[method-assign, assignment]  # as above


def _share_no_lengths() -> None:
    def no_pairs(lengths: WindowLengths, *_: object) -> Iterator[tuple[StageKey, StageKey, int]]:
        return iter(())

    WindowLengths.pairs = no_pairs  # type: ignore[method-assign, assignment]  # to compare with


def _in_order_of_text() -> None:
    conjunctions.in_common_order = lambda items, tests: list(items)  # type: ignore[attr-defined]  # as above
    sizes.NEAR = 1.0


def _share_nothing() -> None:
    SharedStages.gather = lambda stages, awake: None  # type: ignore[method-assign, assignment]  # to compare with


#: What is measured by turns: the flag of each, and what it leaves out.
LESS: dict[str, Callable[[], None]] = {
    "--less": _share_scans_and_joins_only, "--equal": _share_no_lengths, "--apart": _share_nothing,
    "--as-written": _in_order_of_text,
}  # fmt: skip
TURNS = {"scans and joins": ["--less"], "all": []}
OF_LENGTHS = {"nothing": ["--apart"], "equal windows": ["--equal"], "all": []}
OF_ORDERS = {"nothing": ["--apart"], "order of the text": ["--as-written"], "all": []}
FLAGS = {"--turns": TURNS, "--lengths": OF_LENGTHS, "--orders": OF_ORDERS}


def _in_process(part: str, *flags: str) -> Figures:
    command = [sys.executable, "-m", "tests.benchmarks.alike", part, *flags]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: Figures = json.loads(done.stdout.splitlines()[-1])
    return found


def by_turns(parts: Sequence[str], rounds: int, sides: Mapping[str, Sequence[str]]) -> Figures:
    figures: Figures = {}
    for part in parts:
        runs: dict[str, list[Figures]] = {side: [] for side in sides}
        for _ in range(rounds):
            for side, flags in sides.items():
                runs[side].append(_in_process(part, *flags))
        if len({each["rows"] for side in runs.values() for each in side}) > 1:
            raise AssertionError(f"{part}: the numbers of rows differ: {runs}")
        figures[part] = {
            side: {
                **each[0],
                **{ms: statistics.median(run[ms] for run in each) for ms in ("step_ms", "step_and_merge_ms")},
                "runs_ms": [run["step_ms"] for run in each],
            }
            for side, each in runs.items()
        }
        print(part, json.dumps(figures[part]), file=sys.stderr, flush=True)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    for flag in FLAGS:
        parser.add_argument(flag, dest="sides", action="store_const", const=flag)
    for flag in LESS:
        parser.add_argument(flag, dest="less", action="append_const", const=LESS[flag], help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    for leave_out in given.less or ():
        leave_out()
    if given.sides is None:
        for part in given.parts:
            with tempfile.TemporaryDirectory(prefix="rillet-bench-") as folder:
                print(json.dumps(measured(part, Path(folder) / "store")), flush=True)
        return
    command = f"python -m tests.benchmarks.alike {given.sides} --rounds {given.rounds} {' '.join(given.parts)}"
    figures = {"command": command, "load": os.getloadavg(), **by_turns(given.parts, given.rounds, FLAGS[given.sides])}
    if given.json is not None:
        given.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
