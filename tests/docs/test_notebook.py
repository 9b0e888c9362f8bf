"""The notebook of the tutorial runs in a real Jupyter kernel, cell by cell, beside a real server."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import DOCS
from tests.docs.test_docs import address, at
from tests.parts.missing import missing

__all__ = ["address"]

NOTEBOOK = DOCS / "tutorial" / "notebook.ipynb"
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
    if importlib.util.find_spec("nbclient") is None or importlib.util.find_spec("ipykernel") is None:
        missing("NBCLIENT OR IPYKERNEL", "make setup installs both")
    copy = tmp_path / "notebook.ipynb"
    copy.write_text(at(NOTEBOOK.read_text(), address))
    path = os.pathsep.join(filter(None, (str(DOCS.parent), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-c", _RUN, str(copy)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "JUPYTER_PLATFORM_DIRS": "1", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-5_000:]
    for shown in ("cellar", "12.0"):
        assert shown in copy.read_text(), "its tables are not shown"


def test_the_notebook_is_stored_without_what_a_run_leaves_in_it() -> None:
    assert '"execution_count": null' in NOTEBOOK.read_text()
    assert '"output_type"' not in NOTEBOOK.read_text()
