"""The one-shot benchmark itself: its data is what it says, its digests are the study's, a wrong answer has no time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks import oneshot, shop, social
from tests.benchmarks.contest import digest
from tests.benchmarks.contestants import CONTESTANTS, PyoxigraphMemory, missing, value_of


def loaded(file: Path) -> PyoxigraphMemory:
    peer = PyoxigraphMemory()
    peer.load(file, file.parent / "unused")
    return peer


def test_the_social_graph_has_exactly_the_lines_that_are_asked_for_and_answers_all_questions(tmp_path: Path) -> None:
    social.write(tmp_path / "social.nt", 60_000)
    lines = (tmp_path / "social.nt").read_text().splitlines()
    assert (len(lines), len(set(lines))) == (60_000, 60_000)
    peer = loaded(tmp_path / "social.nt")
    assert len(peer.store) == 60_000
    for name, text in social.QUERIES.items():
        assert peer.rows(text), name


def test_every_question_to_the_shop_has_an_answer(tmp_path: Path) -> None:
    shop.write(tmp_path / "shop.nt", 50_000)
    peer = loaded(tmp_path / "shop.nt")
    assert 45_000 < len(peer.store) < 55_000
    for name, text in shop.QUERIES.items():
        assert peer.rows(text), name


def test_digests_are_those_of_the_study(tmp_path: Path) -> None:
    shared = Path(os.environ.get("RILLET_SHARED", "../shared"), "bench")
    if not shared.is_dir():
        if "RILLET_SHARED" in os.environ:
            pytest.fail(f"RILLET_SHARED is set, and {shared} is not there")
        pytest.skip(f"THE STUDY'S DIGESTS WERE NOT COMPARED: no {shared}")
    subprocess.run([sys.executable, shared / "gen_social.py", "100000", tmp_path / "social.nt"], check=True)
    peer = loaded(tmp_path / "social.nt")
    expected = json.loads((shared / "expect_100k.json").read_text())
    assert {n: list(digest(peer.plain(peer.rows(text)))) for n, text in social.QUERIES.items()} == expected


def test_a_digest_knows_numbers_by_value_and_rows_in_any_order() -> None:
    rows = [{"n": value_of('"2"^^<http://www.w3.org/2001/XMLSchema#integer>'), "a": value_of("<http://ex/a>")}]
    same = [{"a": "http://ex/a", "n": value_of('"2.0"^^<http://www.w3.org/2001/XMLSchema#decimal>')}]
    assert digest(rows) == digest(same)
    assert digest(rows)[:2] == (1, 2)
    assert digest([*rows, {"n": 1.0}]) == digest([{"n": 1.0}, *same])
    assert digest(rows) != digest([{"a": "http://ex/a", "n": 2.5}])
    assert digest(rows) != digest([*rows, *rows])


def test_who_answers_otherwise_than_most_has_no_time_and_no_ratio() -> None:
    answers = {"rillet": {"digest": [1, 0, "a"]}, "one": {"digest": [1, 0, "b"]}, "two": {"error": "it cannot"}}
    found = oneshot.judged(answers, (1, 0, "b"), {"one": [2.0, 4.0, 6.0]})
    assert found["ms_p50"] == {"one": 4.0}
    assert found["other_answers"] == {"rillet": [1, 0, "a"], "two": "it cannot"}
    assert "ratio" not in found
    both = oneshot.judged({"rillet": {"digest": [0, 0, ""]}}, (0, 0, ""), {"rillet": [2.0], "one": [9.0], "two": [3.0]})
    assert both["ratio"] == 1.5


def test_who_is_not_installed_is_named_with_what_to_do() -> None:
    assert set(missing()) <= {name for name in CONTESTANTS if name not in ("rillet", "pyoxigraph_memory", "rdflib")}
    for name, why in missing().items():
        assert why == f"{CONTESTANTS[name].package} is not installed (pip install {CONTESTANTS[name].package})"
