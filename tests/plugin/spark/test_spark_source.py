"""The data source on a real Spark: what a DataFrame has is what the server has, also if the program is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from endpoint.trial_hbase.jdk import SHORT_LIVED
from plugin.spark.server import RilletServer, ServerRefused
from plugin.spark.values import RowReader, ntriples
from plugin.spark.writing import ElementsWriter, source_of
from stream_ext.runners.spark.java import find_java
from tests.docs.pages import pages
from tests.endpoint.live import Live, live
from tests.parts.waiting import until
from tests.plugin.spark.program import committed

ROOT = Path(__file__).parents[3]
_FILES, _ELEMENTS = 10, 3
INTEGER = "http://www.w3.org/2001/XMLSchema#integer"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path / "store") as running:
        yield running


def begun(name: str, server: Live, folder: Path) -> subprocess.Popen[str]:
    folder.mkdir(exist_ok=True)
    quickly = {"JAVA_TOOL_OPTIONS": " ".join(SHORT_LIVED)}
    environ = os.environ | {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable} | quickly
    return subprocess.Popen(
        [sys.executable, "-m", "tests.plugin.spark.program", name, server.url, str(folder)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ, start_new_session=True,
    )  # fmt: skip


def run(name: str, server: Live, folder: Path) -> dict[str, Any]:
    with begun(name, server, folder) as process:
        try:
            output, errors = process.communicate(timeout=350)
        finally:
            kill(process)
    assert process.returncode == 0, errors[-3_000:]
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    return found


def kill(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(400)
def test_a_frame_has_the_rows_that_the_server_has(server: Live, tmp_path: Path) -> None:
    server.update(
        "INSERT DATA { <http://ex/a> <http://ex/n> 1 . <http://ex/b> <http://ex/n> 2 . <http://ex/c> <http://ex/n> 3 . "
        '<http://ex/a> <http://ex/name> "A\\n\\"a\\""@en . GRAPH <http://ex/g> { <http://ex/a> <http://ex/name> "x" } }'
    )
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "store").write_text(f"lmdb:{tmp_path / 'store'}")
    found = run("read", server, tmp_path / "program")
    n, name = "<http://ex/n>", "<http://ex/name>"
    assert found["store"] == sorted(
        [
            *([f"<http://ex/{x}>", n, f'"{i}"^^<{INTEGER}>', None] for i, x in enumerate("abc", 1)),
            ["<http://ex/a>", name, '"A\\n\\"a\\""@en', None],
            ["<http://ex/a>", name, '"x"', "<http://ex/g>"],
        ],
        key=str,
    )
    assert found["partitions"] == 2, "one for each predicate"
    assert found["strings"] == [[f"http://ex/{x}", str(i)] for i, x in enumerate("abc", 1)]
    assert found["typed"] == [["http://ex/b", 2], ["http://ex/c", 3]]
    assert found["terms"][0] == ["<http://ex/a>", f'"1"^^<{INTEGER}>']
    assert found["groups"] == sorted([[n, None, 3], [name, None, 1], [name, "<http://ex/g>", 1]], key=str)
    assert "snapshot gone" in found["gone"] and "--retain-snapshots" in found["gone"]


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(400)
def test_emissions_come_in_batches_and_go_on_where_the_program_was(server: Live, tmp_path: Path) -> None:
    server.update("INSERT DATA { <http://ex/z1> <http://ex/partOf> <http://ex/city> }")
    server.http.put("/streams/taxis", json={})
    assert server.register().status_code == 201
    folder = tmp_path / "program"
    folder.mkdir()
    for time in (50, 150, 250, 2_000):  # empty emissions in between
        server.push(time)
    for _ in range(2):
        (folder / "until").write_text(str(emitted(server)))
        assert run("emissions", server, folder) == {"fault": ""}
        server.push(4_000)
    lines = [json.loads(line) for file in committed(folder / "out") for line in file.read_text().splitlines()]
    rows = sorted((row["emission"], row["time"], row.get("taxi"), row.get("city")) for row in lines)
    true = []
    for emission in RilletServer(server.url).emissions("near", 0, int((folder / "until").read_text())):
        for row in emission["results"]["bindings"] or [{}]:
            values = (row[name]["value"] if name in row else None for name in ("taxi", "city"))
            true.append((emission["emission"], emission["time"], *values))
    assert rows == sorted(true, key=lambda row: row[:2]) and len({row[0] for row in rows}) > 10

    server.http.delete("/queries/near")
    assert server.register().status_code == 201
    (folder / "until").write_text("1000000")
    assert "dropped and registered again" in run("emissions", server, folder)["fault"]


def emitted(server: Live) -> int:
    return int(server.http.get("/queries/near", headers={"accept": "application/json"}).json()["emissions"])


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(400)
def test_elements_that_are_written_count_once_though_the_program_is_killed(server: Live, tmp_path: Path) -> None:
    server.http.put("/streams/s", json={})
    folder = tmp_path / "program"
    (folder / "data").mkdir(parents=True)
    for number in range(_FILES):
        lines = [
            {"timestamp": number * 10 + i, "data": f"<http://ex/{number}> <http://ex/p> <http://ex/{i}> ."}
            for i in range(_ELEMENTS)
        ]
        (folder / "data" / f"{number}.json").write_text("\n".join(map(json.dumps, lines)))

    with begun("write", server, folder) as process:  # it dies at some batch, at whatever place in it
        until(lambda: batches(server) >= 2 or process.poll() is not None, "something is pushed")
        kill(process)
    run("write", server, folder)
    (number,) = (each.number for each in server.service.streams())
    assert server.service._engine.elements.count(number) == _FILES * _ELEMENTS
    assert batches(server) == _FILES


def batches(server: Live) -> int:
    return int(server.http.get("/streams/s").json()["batches"])


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(400)
def test_the_page_about_dataframes_goes_as_it_is_written(server: Live, tmp_path: Path) -> None:
    (page,) = (page for page in pages() if page.name.endswith("spark_dataframes.md"))
    program = ""
    for block in page.blocks():
        code = block.code.replace("localhost:8000", f"127.0.0.1:{server.port}")
        code = code.replace("lmdb:rillet-data", f"lmdb:{tmp_path / 'store'}")
        if block.language == "sh":
            subprocess.run(["bash", "-euo", "pipefail", "-c", code], cwd=tmp_path, check=True, timeout=60)
        elif block.language == "py":
            program += code
    environ = os.environ | {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    environ["JAVA_HOME"] = str(find_java(os.environ).home)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    assert "1 meter in http://ex/kitchen" in done.stdout, done.stdout
    assert "|10000|http://ex/kitchen|" in done.stdout, done.stdout
    assert "<http://ex/kitchen>" in done.stdout, done.stdout
    assert "|<http://ex/room>|1       |" in done.stdout, done.stdout


def test_values_are_plain_or_typed_or_terms() -> None:
    term = {"type": "literal", "value": "5", "datatype": INTEGER}
    assert RowReader([("n", "long"), ("m", "string")], False).row({"n": term}) == (5, None)
    assert RowReader([("n", "string")], True).row({"n": term}) == (f'"5"^^<{INTEGER}>',)
    assert ntriples({"type": "literal", "value": 'a"\n', "xml:lang": "en"}) == '"a\\"\\n"@en'
    with pytest.raises(ValueError, match=r"\?n is \"x\", which is no long"):
        RowReader([("n", "long")], False).row({"n": {"type": "literal", "value": "x"}})


def test_what_cannot_be_an_element_is_refused_before_anything_is_written() -> None:
    with pytest.raises(ValueError, match="data is needed"):
        ElementsWriter(RilletServer("http://127.0.0.1:1"), "s", "mine", ["subject"])
    assert source_of("/a") != source_of("/b") and source_of("/a") == source_of("/a")


def test_an_error_of_the_server_is_told(server: Live) -> None:
    with pytest.raises(ServerRefused, match="answered 404"):
        RilletServer(server.url).status("nobody")
