"""`rillet dump`, and the commands that copy a store: what is written out comes in again as it was."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pyoxigraph as ox
import pytest

from endpoint.cli.command_line import main
from endpoint.files import dumping
from tests.endpoint.live import live
from tests.sources.scripted import scripted

QUADS = """\
<http://ex/a> <http://ex/p> "a .\\n <x> \\"b\\"" .
<http://ex/a> <http://ex/p> "01"^^<http://www.w3.org/2001/XMLSchema#integer> .
<http://ex/a> <http://ex/q> _:x .
_:x <http://ex/p> "x"@en-GB <http://ex/g> .
_:x <http://ex/p> <http://ex/a> <http://ex/h> .
"""


def rillet(*argv: object) -> int:
    return main([str(each) for each in argv])


def dataset(quads: bytes | str) -> ox.Dataset:
    found = ox.Dataset(ox.parse(quads, ox.RdfFormat.N_QUADS))
    found.canonicalize(ox.CanonicalizationAlgorithm.RDFC_1_0)
    return found


@pytest.fixture
def store(tmp_path: Path) -> str:
    (tmp_path / "in.nq").write_text(QUADS)
    url = f"lmdb:{tmp_path / 'store'}"
    assert rillet("load", tmp_path / "in.nq", "--store", url) == 0
    return url


@pytest.mark.parametrize("name", ["all.nq", "all.nq.gz"])
def test_a_dump_loaded_into_an_empty_store_is_the_same_dataset(store: str, tmp_path: Path, name: str) -> None:
    assert rillet("dump", tmp_path / name, "--store", store) == 0
    again = f"lmdb:{tmp_path / 'again'}"
    assert rillet("load", tmp_path / name, "--store", again) == 0
    assert rillet("dump", tmp_path / "again.nq", "--store", again) == 0
    assert dataset((tmp_path / "again.nq").read_bytes()) == dataset(QUADS)
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".part") == []


def test_a_sorted_dump_is_in_the_order_of_its_bytes_however_many_parts_it_takes(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dumping, "_SORTED_LINES", 2)
    files = [tmp_path / "one.nq.gz", tmp_path / "two.nq.gz"]
    for file in files:
        assert rillet("dump", "--sorted", file, "--store", store) == 0
    assert files[0].read_bytes() == files[1].read_bytes()
    lines = gzip.decompress(files[0].read_bytes()).splitlines()
    assert len(lines) == 5 and lines == sorted(lines)


def test_one_graph_or_an_earlier_snapshot(store: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    insert = "INSERT DATA { GRAPH <http://ex/g> { <http://ex/a> <http://ex/p> 2 } }"
    assert rillet("query", insert, "--store", store) == 0
    capsysbinary.readouterr()

    def printed(*more: object) -> bytes:
        assert rillet("dump", *more, "--store", store) == 0
        return capsysbinary.readouterr().out

    assert printed("--graph", "http://ex/h").endswith(b" <http://ex/p> <http://ex/a> <http://ex/h> .\n")
    assert printed("--graph", "default").count(b"\n") == 3
    assert printed("--graph", "http://ex/g").count(b" <http://ex/g> .\n") == 2
    assert printed("--graph", "http://ex/g", "--snapshot", 1).count(b"\n") == 1
    assert dataset(printed("--snapshot", 1, "-")) == dataset(QUADS)
    assert rillet("dump", "--graph", "http://ex/none", "--store", store) == 1
    assert rillet("dump", "--snapshot", 99, "--store", store) == 1
    assert b"there is no snapshot 99" in capsysbinary.readouterr().err


def test_of_a_server_the_same_comes_as_of_the_store(
    store: str, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    def printed(*more: object) -> bytes:
        capsysbinary.readouterr()
        assert rillet("dump", "--sorted", *more) == 0
        return capsysbinary.readouterr().out

    flags = ((), ("--graph", "http://ex/h"), ("--graph", "default"), ("--snapshot", "1"))
    here = [printed("--store", store, *more) for more in flags]
    assert all(here)
    with live(tmp_path / "store", read_token="r", token="w") as server:
        assert [printed("--server", server.url, "--token", "r", *more) for more in flags] == here
        assert rillet("dump", "--server", server.url) == 1
        assert rillet("dump", "--server", server.url, "--token", "r", "--graph", "http://ex/none") == 1
    assert b"no graph" in capsysbinary.readouterr().err
    assert rillet("dump", "--server", server.url, tmp_path / "none.nq") == 1
    assert not (tmp_path / "none.nq").exists() and not (tmp_path / "none.nq.part").exists()


@pytest.mark.parametrize("announced", [1000, None], ids=["a connection that breaks off", "half a line"])
def test_half_of_what_a_server_has_is_no_dump(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], announced: int | None
) -> None:
    with scripted() as server:
        server.spoil = lambda request, text: request.respond_and_break_off(
            "application/n-quads", b"<a:a> <a:", announced
        )
        address = server.url.removesuffix("/sparql")
        assert rillet("dump", "--server", address, tmp_path / "half.nq") == 1
    assert "the dump is incomplete" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_who_reads_no_further_is_not_complained_about(store: str) -> None:
    command = f"{sys.executable} -m endpoint dump --store {store} | head -1 | wc -l"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (done.stdout.strip(), "Traceback" in done.stderr) == ("1", False)


def test_a_store_of_others_is_copied_by_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = f"lmdb:{tmp_path / 'copied'}"
    with scripted() as source:
        source.add('<http://ex/a> <http://ex/p> "1" .\n<http://ex/a> <http://ex/p> "2" <http://ex/g> .\n')
        (tmp_path / "secret").write_text("Bearer abc\n")
        auth = ("--from-auth", tmp_path / "secret")
        copy = ("load", "--from", source.url, "--store", target)
        assert rillet(*copy, "--from-graph", "http://ex/g", *auth) == 0
        assert {each["authorization"] for each in source.headers} == {"Bearer abc"}
        source.headers.clear()
        monkeypatch.setenv("RILLET_FROM_AUTH", "anna:b")
        assert rillet(*copy) == 0
        assert {each["authorization"] for each in source.headers} == {"Basic YW5uYTpi"}
    printed = capsys.readouterr().out
    assert "<http://ex/g>: 1 triples were loaded before, snapshot 1 of" in printed
    assert f"{source.url} has been copied: 2 triples" in printed
    assert rillet("load", "--store", target) == 2
    assert rillet("load", "a.nt", "--from", source.url, "--store", target) == 2
    assert rillet("load", "--from", "ftp://ex.org/", "--store", target) == 1
    errors = capsys.readouterr().err
    for words in (
        "name the files to load, or give --from URL",
        "--from copies a store: give no files",
        "begins with http:// or https",
    ):
        assert words in errors
