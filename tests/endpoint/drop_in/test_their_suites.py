"""rdflib-endpoint's own tests and its example, from its source distribution, with our SparqlEndpoint in place of
theirs.

They run word by word, in a process of their own. Only the import of the class is ours, and, of the tests of federation,
the port (theirs is fixed) and the containers, for which this machine may have no Docker."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.parts.missing import missing
from tests.parts.sources import source_of
from tests.plugin.test_rdflib_suites import outcomes

VERSION = "0.6.3"
FILES = {
    "test_rdflib_endpoint": 24,
    "test_oxrdflib": 8,
    "test_dataset_ext": 10,
    "test_example_app": 4,
    "test_federation": 1,
}
ROOT = Path(__file__).parents[3]
_IMPORT = re.compile(r"^from rdflib_endpoint import (DatasetExt, )?SparqlEndpoint$", re.MULTILINE)
_OURS = "from rdflib_endpoint import DatasetExt\n\nfrom endpoint import SparqlEndpoint"
_CONTAINERS = """class DockerContainer:
    pass


class LogMessageWaitStrategy:
    pass
"""


def stage(folder: Path, port: int) -> None:
    source = source_of("rdflib-endpoint", VERSION)
    shutil.copytree(source / "example", folder / "example")
    (folder / "testcontainers" / "core").mkdir(parents=True)
    for name in ("container", "wait_strategies"):
        (folder / "testcontainers" / "core" / f"{name}.py").write_text(_CONTAINERS)
    for name in FILES:
        shutil.copy(source / "tests" / f"{name}.py", folder)
    for file in [*folder.glob("*.py"), *folder.glob("example/*.py")]:
        text = _IMPORT.sub(_OURS, file.read_text())
        file.write_text(
            text.replace("port = 8000\n", f"port = {port}\n").replace("localhost:8000", f"localhost:{port}")
        )
    (folder / "pytest.ini").write_text("[pytest]\n")


def free_port() -> int:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.mark.timeout(300)
def test_their_own_tests_pass(tmp_path: Path) -> None:
    if find_spec("bioregistry") is None:
        missing("bioregistry", "what their tests ask; make setup installs it")
    folder, report = tmp_path / "suite", tmp_path / "report.xml"
    folder.mkdir()
    stage(folder, free_port())
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", f"--junitxml={report}"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)])}
    environment.pop("DOCKER_HOST", None)
    done = subprocess.run(
        [*command, "."], cwd=folder, env=environment, capture_output=True, text=True, timeout=280, check=False
    )
    assert report.exists(), done.stdout + done.stderr
    found = outcomes(report)
    assert [name for name, outcome in found.items() if outcome == "failed"] == [], done.stdout[-10_000:]
    for file, least in FILES.items():
        passed = sum(outcome == "passed" for name, outcome in found.items() if name.startswith(f"{file}."))
        assert passed >= least, (file, passed, done.stdout[-5_000:])
    skipped = {name for name, outcome in found.items() if outcome == "skipped"}
    assert all(name.startswith("test_federation.") for name in skipped), skipped  # those want Docker
