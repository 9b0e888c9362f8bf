"""The benchmark of continuous questions itself: its data have answers, a wrong answer has no time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from endpoint.bench import skew, standing, stream_service, streams
from endpoint.bench.line import Arrived
from endpoint.bench.replay import Replay, told
from endpoint.bench.stream_questions import MINUTE, NARROW, QUESTIONS, SECOND
from endpoint.bench.tape import Source, Tape, source


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
    stepped = replay.run([asked.text(name, MINUTE if wide else SECOND)], kept=range(12))
    rows = [replay.check(asked, each, 60_000 if wide else 1_000) for each in stepped]
    assert max(rows) > 0
    assert told(stepped, batches)["evaluations"] == 6  # of the second half
    replay.close()


def test_a_wrong_answer_has_no_time(data: Source, tmp_path: Path) -> None:
    asked = QUESTIONS["Q10"]
    tape = Tape(data, asked.streams)
    replay = Replay(tmp_path / "store", data, tape, tape.dense(100, 3, 1_000))
    stepped = replay.run([asked.text("q", MINUTE)], kept=range(3))[-1]
    part = stepped.said[-1]
    less = replace(stepped, said=[msgspec.structs.replace(part, columns=[column[1:] for column in part.columns])])
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


def test_the_last_line_names_each_figure(data: Source, tmp_path: Path) -> None:
    few = {"Q1": QUESTIONS["Q1"]}
    figures = {
        "anchors": {"w1": {"melements_per_s": 1.5}},
        "windows": {"join": {"ratio_1000": 1.1}},
        "skew": skew.measure(40, 200),
        "questions": streams.questions(data, few, MINUTE, True, tmp_path),
        "narrow": {},
        "served": {"throughput": {"triples_per_s": 1}, "latency": {"push_ms_p50": 2.0}, "beside": {"more_cpu": 0.01}},
    }
    assert streams.summary(figures).startswith("w1_melements_per_s=1.5 window_1000_over_10=1.1 fixed_order_over_live=")


def test_what_a_subscriber_hears_is_counted_before_it_is_timed(data: Source, tmp_path: Path) -> None:
    told = stream_service.throughput(tmp_path / "store", data, "inline", 200, 8)
    assert told["triples"] > 5 * 150
    feed = stream_service.Feed(data, 200, 8).pushes
    assert any(push.posts for push in feed)
    arrived = Arrived()
    for push in feed:
        arrived.note(push.time, 99)
    with pytest.raises(AssertionError, match="99 rows were said"):
        stream_service.check(arrived, feed)


def test_memory_of_a_server_is_watched(data: Source, tmp_path: Path) -> None:
    watched = stream_service.memory(tmp_path / "store", data, "inline", 100, 0.1)
    assert watched["pushes"] > 10
    assert all(mb > 10 for mb in watched["mb_every_5_s"])
    _, middle, last = watched["mb_of_thirds"]
    assert watched["last_over_middle"] == pytest.approx(last / middle, abs=0.01)
