"""What runs the HBase of the tests: a JDK, Maven, and the jars that Maven fetches once into a cache folder."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

from tests.parts.cache import folder, locked

SOURCES = Path(__file__).parent
JAVA_VERSION_MIN = 17
MAVEN_TRIES = 3


class MissingTool(RuntimeError):
    """The JDK or Maven is not on this machine."""


def java() -> str:
    """The `java` of a JDK that is new enough."""
    compiler = _jdk_tool("javac")
    version = subprocess.run([compiler, "-version"], capture_output=True, text=True, check=True)
    found = re.search(r"javac (\d+)", version.stdout + version.stderr)
    if found is None or int(found[1]) < JAVA_VERSION_MIN:
        raise MissingTool(f"HBase needs JDK {JAVA_VERSION_MIN}; {compiler} is {version.stdout.strip()}: set JAVA_HOME")
    return _jdk_tool("java")


def _jdk_tool(name: str) -> str:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(name, path=os.path.join(home, "bin") if home else None)
    if found is None:
        where = f"JAVA_HOME={home}" if home else "the PATH"
        raise MissingTool(
            f"HBase needs JDK {JAVA_VERSION_MIN} and there is no {name} in {where}: install it or set JAVA_HOME"
        )
    return found


def class_path() -> str:
    """The jars and our compiled class, made on first use. Test processes that start together wait for one another."""
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
    maven = shutil.which("mvn")
    if maven is None:
        raise MissingTool("HBase's jars are fetched with Maven, and there is no mvn on the PATH: install Maven")
    shutil.rmtree(jars, ignore_errors=True)
    command = [maven, "-B", "-q", "-f", str(SOURCES / "pom.xml"), "dependency:copy-dependencies", f"-Djars={jars}"]
    for _ in range(MAVEN_TRIES):  # an interrupted download goes on where it stopped
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode == 0:
            return
    raise RuntimeError(f"Maven could not fetch HBase's jars ({' '.join(command)}):\n{run.stdout[-4000:]}")


def _compile(jars: Path, classes: Path) -> None:
    classes.mkdir(exist_ok=True)
    source = str(SOURCES / "Standalone.java")
    subprocess.run(
        [_jdk_tool("javac"), "-nowarn", "-proc:none", "-d", str(classes), "-cp", str(jars / "*"), source], check=True
    )
