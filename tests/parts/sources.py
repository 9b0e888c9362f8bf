"""Source distributions of other projects, whose own tests are run on stores and endpoints of ours.

Nothing of them lies in this tree: pip fetches them once, from where it gets all packages, into a cache folder."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

from endpoint.trial_hbase.cache_folder import folder, locked
from tests.parts.missing import missing


def source_of(project: str, version: str) -> Path:
    """The unpacked source distribution. Example: source_of("rdflib", "7.6.0") / "test"."""
    cache = folder("sources", "RILLET_SOURCES")
    found = cache / f"{project}-{version}"
    with locked(cache / "lock"):
        if not found.exists():
            _fetch(project, version, cache, found)
    return found


def _fetch(project: str, version: str, cache: Path, into: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", project]
    run = subprocess.run(
        [*command, "--dest", str(cache), f"{project}=={version}"], capture_output=True, text=True, check=False
    )
    archives = sorted(cache.glob(f"{project.replace('-', '_')}-{version}.tar.gz"))
    if run.returncode or not archives:
        missing(f"SOURCE DISTRIBUTION OF {project} {version}", f"pip could not fetch it:\n{run.stderr[-2000:]}")
    with tarfile.open(archives[0]) as archive:
        (top,) = {name.partition("/")[0] for name in archive.getnames()}
        archive.extractall(cache / "unpacking", filter="data")
    (cache / "unpacking" / top).rename(into)
