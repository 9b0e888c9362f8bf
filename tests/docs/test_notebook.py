"""The notebooks run in a real Jupyter kernel, cell by cell, beside a real server; one with a real Kafka, too."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from endpoint.trial_hbase.jdk import SHORT_LIVED, MissingTool
from stream_ext.runners.spark.java import find_java
from tests.docs.pages import DOCS
from tests.docs.test_docs import address, at
from tests.parts.kafka import kit
from tests.parts.kafka.server import Kafka
from tests.parts.missing import missing

__all__ = ["address"]

NOTEBOOK = DOCS / "tutorial" / "notebook.ipynb"
WITH_KAFKA = DOCS / "how_to" / "kafka.ipynb"
_DOWNLOADED = '.config("spark.jars.packages", f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}")'
_RUN = """
import sys
import nbformat
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[1])
"""


@pytest.mark.timeout(400)  # as long as its child has, and some more
def test_the_notebook_runs(address: str, tmp_path: Path) -> None:
    ran = run(at(NOTEBOOK.read_text(), address), tmp_path, {})
    for shown in ("cellar", "12.0"):
        assert shown in ran, "its tables are not shown"


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[Kafka]:
    broker = Kafka(tmp_path / "kafka", short_lived=True)
    try:
        broker.start()
    except MissingTool as error:
        missing("KAFKA", error)
    yield broker
    broker.stop()


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(400)
def test_the_notebook_with_kafka_runs(address: str, kafka: Kafka, tmp_path: Path) -> None:
    text = at(WITH_KAFKA.read_text(), address).replace("localhost:9092", kafka.address)
    fetched = ",".join(map(str, kit.jars_for_spark()))  # what the notebook would download
    downloaded = json.dumps(_DOWNLOADED)[1:-1]
    assert downloaded in text
    text = text.replace(downloaded, json.dumps(f'.config("spark.jars", "{fetched}")')[1:-1])
    environ = {
        "JAVA_HOME": str(find_java(os.environ).home),
        "JAVA_TOOL_OPTIONS": " ".join(SHORT_LIVED),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    assert "29.5" in run(text, tmp_path, environ), "its tables are not shown"


def run(notebook: str, folder: Path, environ: Mapping[str, str]) -> str:
    """The notebook with what its cells print."""
    if importlib.util.find_spec("nbclient") is None or importlib.util.find_spec("ipykernel") is None:
        missing("NBCLIENT OR IPYKERNEL", "make setup installs both")
    copy = folder / "notebook.ipynb"
    copy.write_text(notebook)
    path = os.pathsep.join(filter(None, (str(DOCS.parent), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-c", _RUN, str(copy)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "JUPYTER_PLATFORM_DIRS": "1", "HOME": str(folder), **environ},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-5_000:]
    return copy.read_text()


@pytest.mark.parametrize("notebook", [NOTEBOOK, WITH_KAFKA], ids=lambda notebook: notebook.stem)
def test_a_notebook_is_stored_without_what_a_run_leaves_in_it(notebook: Path) -> None:
    assert '"execution_count": null' in notebook.read_text()
    assert '"output_type"' not in notebook.read_text()
