"""The benchmark of continuous questions itself: its data have answers, a wrong answer has no time."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from tests.benchmarks import arrivals, beside_cqels, skew, standing, stream_service, streams
from tests.benchmarks.line import Arrived
from tests.benchmarks.replay import Replay, observed
from tests.benchmarks.standing_peers import PEERS, Longs, batch_ms
from tests.benchmarks.stream_questions import MINUTE, NARROW, QUESTIONS, SECOND
from tests.benchmarks.tape import Source, Tape, source


@pytest.fixture(scope="module")
def data() -> Source:
    return source(120, shared=False)


@pytest.mark.parametrize("name", [*QUESTIONS, *NARROW])
def test_every_question_has_the_answers_that_pyoxigraph_has(name: str, data: Source, tmp_path: Path) -> None:
    wide = name in QUESTIONS
    asked = QUESTIONS[name] if wide else NARROW[name]
    tape = Tape(data, asked.streams)
    batches = tape.dense(100, 12, 1_000 if wide else 100)
    replay = Replay(tmp_path / "store", data, tape, batches)
    stepped = replay.run([asked.text(name, MINUTE if wide else SECOND)], retained=range(12))
    rows = [replay.check(asked, each, 60_000 if wide else 1_000).rows for each in stepped]
    assert max(rows) > 0
    assert replay.check(asked, stepped[-1], 60_000 if wide else 1_000).pyoxigraph_ms > 0
    assert observed(stepped, batches)["evaluations"] == 6  # of the second half
    replay.close()


def test_a_wrong_answer_has_no_time(data: Source, tmp_path: Path) -> None:
    asked = QUESTIONS["Q10"]
    tape = Tape(data, asked.streams)
    replay = Replay(tmp_path / "store", data, tape, tape.dense(100, 3, 1_000))
    stepped = replay.run([asked.text("q", MINUTE)], retained=range(3))[-1]
    part = stepped.answered[-1]
    less = replace(stepped, answered=[msgspec.structs.replace(part, columns=[column[1:] for column in part.columns])])
    with pytest.raises(AssertionError, match="pyoxigraph has"):
        replay.check(asked, less, 60_000)
    replay.close()


def test_a_round_has_posts_of_its_own_by_the_same_users(data: Source) -> None:
    tape = Tape(data, ("poststream",))
    batches = tape.dense(len(tape), 2, 1_000)
    first, second = ({tape.texts[place] for place in batch.triples.ravel()} for batch in batches)
    assert b"<http://www.ins.cwi.nl/sib/post/po7>" in first - second
    assert b"<http://www.ins.cwi.nl/sib/post/po7r1>" in second - first
    assert {text for text in first if b"/user/" in text} == {text for text in second if b"/user/" in text}
    assert all((np.diff(batch.time) >= 0).all() for batch in batches)


def test_as_recorded_every_triple_has_the_time_it_came_with(data: Source) -> None:
    tape = Tape(data, ("poststream", "likedpoststream"))
    batches = tape.as_recorded(300)
    played = sorted(
        (int(time), b" ".join(tape.texts[place] for place in row))
        for batch in batches
        for time, row in zip(batch.time, batch.triples.T, strict=True)
    )
    assert played == sorted(line for name in tape.streams for line in data.streams[name])


def test_workloads_are_compared_batch_by_batch() -> None:
    left, right = (standing.made(14, 50, 100, seed) for seed in (1, 2))
    wrong = [(0, 0)] * 14
    with pytest.raises(AssertionError, match="batch 0"):
        standing.w1(left, right, 3, wrong).measure()
    assert standing.w1(left, right, 3).measure()["batches"] == 10
    assert standing.filtered_by(left, np.arange(40))["bare_ms_p50"] > 0


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_that_is_installed_does_the_same_work(name: str) -> None:
    pytest.importorskip(name, reason=f"{name} is not installed: pip install {name}")
    left, right = (standing.made(14, 50, 100, seed) for seed in (1, 2))
    counted = standing.made(14, 80, 20, 3, again=True)
    for work in (standing.w1(left, right, 3), standing.w2(counted, 3), standing.w3(left, np.arange(40))):
        figures = work.beside_peers()
        assert figures["peers_batch_ms_p50"][name] > 0
        assert name in figures["peers_over_ours"]


def test_a_peer_whose_answer_is_wrong_has_no_time() -> None:
    elements = standing.made(14, 50, 100, 1)
    work = standing.w3(elements, np.arange(40))
    batches = [[(keys, values)] for keys, values in zip(elements.keys, elements.values, strict=True)]

    def right(came: Sequence[tuple[Longs, Longs]]) -> tuple[Longs, ...]:
        ((keys, values),) = came
        return keys[keys < 40], values[keys < 40]

    assert batch_ms(right, batches, work.expected, 2, work.sum) > 0
    with pytest.raises(AssertionError, match=r"batch 0: \(rows, checksum\)"):
        batch_ms(lambda came: tuple(column[1:] for column in right(came)), batches, work.expected, 2, work.sum)


def test_the_last_line_names_each_figure(data: Source, tmp_path: Path) -> None:
    few = {"Q1": QUESTIONS["Q1"]}
    figures = {
        "anchors": {
            "w1": {"melements_per_s": 1.5, "peers_over_ours": {"polars": 7.5, "duckdb": 60.0}},
            "w2": {"melements_per_s": 2.5, "peers_over_ours": {}},
        },
        "windows": {"join": {"ratio_1000": 1.1}},
        "skew": skew.measure(40, 200),
        "questions": streams.questions(data, few, MINUTE, True, tmp_path),
        "narrow": {},
        "arrivals": {"Q1_time": {"mtriples_per_s": 3.5}},
        "arrivals_beside_cqels": {"Q1": {"ours_over_cqels": {"triples_per_cpu_s": 60.5}}},
        "arrivals_watched": {"ratio_1000_to_1": 1.5},
        "served": {"throughput": {"triples_per_s": 1}, "latency": {"push_ms_p50": 2.0}, "beside": {"more_cpu": 0.01}},
    }
    line = streams.summary(figures)
    assert line.startswith("w1_melements_per_s=1.5 w2_melements_per_s=2.5 w1_over_ours=7.5 window_1000_over_10=1.1 ")
    assert "Q1_pyoxigraph_over_ours=" in line
    assert "arrivals_Q1_time_mtriples_per_s=3.5 arrivals_Q1_over_cqels=60.5 arrivals_1000_watchers_over_1=1.5" in line


def test_what_is_emitted_at_arrivals_is_counted_by_plain_loops_too(
    data: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "QUESTIONS", {name: arrivals.QUESTIONS[name] for name in ("Q1", "Q2", "Q6")})
    figures = arrivals.lsbench(data, True, tmp_path)
    assert all(figures[f"{name}_time"]["checked_rows"] > 0 for name in ("Q1", "Q2", "Q6"))
    counted = arrivals._expected
    monkeypatch.setattr(arrivals, "_expected", lambda *given: counted(*given) + 1)
    with pytest.raises(AssertionError, match="Q1 emitted"):
        arrivals.lsbench(data, True, tmp_path / "again")


#: Stands in for Java: the triples of the one who is asked about, and a row that nobody asked for.
_ANSWERS = """#!{python}
import json, pathlib, sys
query, stored, tape, out = map(pathlib.Path, sys.argv[-4:])
assert "FROM STREAM poststream [NOW]" in query.read_text() and stored.read_text()
lines = [line.split("\\t") for line in tape.read_text().splitlines()]
mine = [line for line in lines if line[2].endswith("/u984>")]
rows = ["o={{}}\\tp={{}}".format(o.strip("<>"), p.strip("<>")) for _, _, _, p, o in mine]
out.write_text("\\n".join([*rows, "o=1\\tp=2"]))
print(json.dumps({{"triples": 10, "seconds": 2, "cpu_seconds": 4}}))
"""


def test_answers_beside_cqels_are_compared_row_by_row(
    data: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RILLET_CQELS", raising=False)
    assert "missing" in beside_cqels.measure(data, True, tmp_path)
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(_ANSWERS.format(python=sys.executable))
    java.chmod(0o755)
    (tmp_path / "cqels-engine-2.jar").touch()
    monkeypatch.setenv("RILLET_CQELS", str(tmp_path))
    monkeypatch.setenv("PATH", str(java.parent), prepend=os.pathsep)
    monkeypatch.setattr(beside_cqels, "QUESTIONS", {"Q1": beside_cqels.QUESTIONS["Q1"]})
    figures = beside_cqels.measure(data, True, tmp_path)["Q1"]
    assert figures["rows"] > 0
    assert (figures["only_ours"], figures["only_of_cqels"]) == (0, 1)
    assert figures["cqels"] == {"triples_per_s": 5, "triples_per_cpu_s": 2}


def test_what_a_subscriber_gets_is_counted_before_it_is_timed(data: Source, tmp_path: Path) -> None:
    observed = stream_service.throughput(tmp_path / "store", data, "inline", 200, 8)
    assert observed["triples"] > 5 * 150
    feed = stream_service.Feed(data, 200, 8).pushes
    assert any(push.posts for push in feed)
    arrived = Arrived()
    for push in feed:
        arrived.note(push.time, 99)
    with pytest.raises(AssertionError, match="99 rows were said"):
        stream_service.check(arrived, feed)


def test_memory_of_a_server_is_watched(data: Source, tmp_path: Path) -> None:
    watched = stream_service.memory(tmp_path / "store", data, "inline", 100, 0.1)
    assert watched["pushes"] > 0
    assert watched["mb_every_5_s"] and all(mb > 10 for mb in watched["mb_every_5_s"])
    _, middle, last = watched["mb_of_thirds"]
    assert watched["last_over_middle"] == pytest.approx(last / middle, abs=0.01)
