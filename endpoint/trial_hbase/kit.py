"""What a trial HBase runs on: a JDK, and the jars that Maven fetches once into a cache folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from endpoint.trial_hbase import jdk
from endpoint.trial_hbase.cache_folder import folder, locked
from endpoint.trial_hbase.jdk import MissingTool
from stream_ext.child_environment import environment

__all__ = ["SOURCES", "MissingTool", "class_path", "java"]

SOURCES = Path(__file__).parent
_WHAT = "HBase"


def java() -> str:
    return jdk.java(_WHAT)


def class_path() -> str:
    """The jars and our compiled class, made on first use. Processes that start together wait for one another."""
    java()  # a clear word about a missing JDK before a long download
    cache = folder("hbase-kit", "RILLET_HBASE_KIT")
    jars, classes, stamp = cache / "jars", cache / "classes", cache / "made-from"
    sources = _digest("pom.xml", "Standalone.java")
    with locked(cache / "lock"):
        if not stamp.exists() or stamp.read_text() != sources:
            stamp.unlink(missing_ok=True)
            _fetch(jars)
            _compile(jars, classes)
            stamp.write_text(sources)
    return os.pathsep.join([str(classes), str(jars / "*")])


def _digest(*names: str) -> str:
    return hashlib.sha256(b"".join((SOURCES / name).read_bytes() for name in names)).hexdigest()


def _fetch(jars: Path) -> None:
    shutil.rmtree(jars, ignore_errors=True)
    jdk.maven(_WHAT, ["-f", str(SOURCES / "pom.xml"), "dependency:copy-dependencies", f"-Djars={jars}"])


def _compile(jars: Path, classes: Path) -> None:
    classes.mkdir(exist_ok=True)
    source = str(SOURCES / "Standalone.java")
    subprocess.run(
        [jdk.tool("javac", _WHAT), "-nowarn", "-proc:none", "-d", str(classes), "-cp", str(jars / "*"), source],
        check=True,
        env=environment(os.environ),
    )
