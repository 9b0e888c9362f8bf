"""`rillet top`: what it computes of two readings, in which order, and what it prints of a real server."""

from __future__ import annotations

from pathlib import Path

import pytest

from endpoint.cli import terminal
from endpoint.cli.command_line import main
from endpoint.cli.top import Rates
from tests.endpoint.live import NEAR, live


def status(name: str, rows: int, lag_ms: int = 0, late: int = 0) -> dict[str, object]:
    return {
        "query": name, "state": "running", "runner": "inline", "rows": rows, "emissions": rows // 2,
        "evaluations": rows, "core_ms": rows / 10, "lag_ms": lag_ms, "late": late,
    }  # fmt: skip


def test_rates_are_what_changed_between_two_readings() -> None:
    rates = Rates()
    rates.take([status("a", 10), status("b", 100, lag_ms=5), status("c", 50, late=9)], 1.0)
    rates.take([status("a", 30), status("b", 110, lag_ms=5), status("c", 10, late=9), status("d", 7)], 3.0)
    found = {each.status["query"]: each.rates.get("rows") for each in rates.ordered("rows")}
    assert found == {"a": 10.0, "b": 5.0, "c": 0.0, "d": None}, "c began anew, d is new"
    assert list(found) == ["a", "b", "c", "d"]
    assert [each.rates.get("cpu") for each in rates.ordered("cpu")] == [1.0, 0.5, 0.0, None], "ms of a core in a second"
    assert [each.status["query"] for each in rates.ordered("lag")] == ["b", "a", "c", "d"]
    assert [each.status["query"] for each in rates.ordered("late")] == ["c", "a", "b", "d"]


def test_bars_show_the_last_values() -> None:
    assert terminal.sparkline([1, 2, 3, 4, 8], 3) == "▄▅█"
    assert terminal.sparkline([0, 0], 9) == "▁▁"
    assert terminal.sparkline([], 9) == ""
    assert terminal.sparkline([-4, 0, 4], 9) == "▁▅█"


def test_what_does_not_fit_on_the_screen_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINES", "10")
    monkeypatch.setenv("COLUMNS", "80")
    lines = [str(number) for number in range(20)]
    assert terminal.fitting(lines[:7], 3) == lines[:7]
    assert terminal.fitting(lines, 3) == [*lines[:6], "... 14 more"]


def test_the_queries_of_a_server_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with live(tmp_path) as server:
        for name in ("near", "far"):
            server.register(NEAR.replace("near", name)).raise_for_status()
        assert main(["top", "--times", "2", "--every", "0.01s", "--server", server.url]) == 0
        listed = server.http.get("/queries?status=true").json()["queries"]
        assert sorted(each["query"] for each in listed) == ["far", "near"]
        one = server.http.get("/queries/near").json()
        assert {*listed[0]} == {*listed[1]} == {*one} - {"age_ms", "dialect", "past", "plan"}
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert lines[0][:4] == ["query", "state", "runner", "rows/s"]
    assert [line[0] for line in lines[1:]] == ["far", "near", "far", "near"]
    assert all(line[1:4] == ["running", "inline", "0.0"] for line in lines[1:])


def test_the_operators_of_a_query_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with live(tmp_path) as server:
        server.http.put("/streams/taxis").raise_for_status()
        server.update("INSERT DATA { <http://ex/z1> <http://ex/partOf> <http://ex/c1> }")
        server.register().raise_for_status()
        for time in (1000, 1500, 2600):
            server.push(time).raise_for_status()
        top = ("top", "near", "--times", "1", "--every", "0.01s", "--server", server.url)
        assert main(list(top)) == 0
        server.push(3000).raise_for_status()
        capsys.readouterr()
        assert main(list(top)) == 0
        lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
        assert lines[0] == ["operator", "rows", "rows each", "ms each", "time %", "state"]
        assert ["partOf" in lines[1][0], " in http://ex/w" in lines[2][0]] == [True, True]
        assert int(lines[2][1]) > 0 and sum(int(line[4]) for line in lines[1:]) in (99, 100, 101)
        assert main(["top", "nowhere", "--server", server.url]) == 1
        assert "there is no registered query 'nowhere'" in capsys.readouterr().err


@pytest.mark.parametrize(("of", "named"), [("streams", "taxis"), ("classes", "taxis [")])
def test_streams_and_classes_are_listed_with_what_their_queries_take(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], of: str, named: str
) -> None:
    with live(tmp_path) as server:
        for name in ("near", "far"):
            server.register(NEAR.replace("near", name)).raise_for_status()
        arguments = ["top", "--of", of, "--times", "1", "--every", "0.01s", "--server", server.url]
        assert main(arguments) == 0
        assert main([*arguments, "--by", "lag"]) == 2
    out = capsys.readouterr()
    lines = [line.split("\t") for line in out.out.splitlines()]
    assert lines[0] == ["stream or windows", "queries", "rows/s", "cpu %", "memory"]
    assert lines[1][0].startswith(named)
    assert lines[1][1] == "2"
    assert "not by lag" in out.err
