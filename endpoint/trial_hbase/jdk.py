"""Java and Maven, for servers that are started to try them out: a JDK that is new enough, and what Maven fetches."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence

from stream_ext.child_environment import environment

VERSION_MIN = 17
#: For a server that lives for a few tests: without the compiler that pays off later, it starts with half the CPU time.
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_MAVEN_TRIES = 3


class MissingTool(RuntimeError):
    """A program is not on this machine."""


def java(what: str) -> str:
    """The `java` of a JDK that is new enough for `what`, a server."""
    compiler = tool("javac", what)
    version = subprocess.run(
        [compiler, "-version"], capture_output=True, text=True, check=True, env=environment(os.environ)
    )
    found = re.search(r"javac (\d+)", version.stdout + version.stderr)
    if found is None or int(found[1]) < VERSION_MIN:
        raise MissingTool(f"{what} needs JDK {VERSION_MIN}; {compiler} is {version.stdout.strip()}: set JAVA_HOME")
    return tool("java", what)


def tool(name: str, what: str) -> str:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(name, path=os.path.join(home, "bin") if home else None)
    if found is None:
        where = f"JAVA_HOME={home}" if home else "the PATH"
        raise MissingTool(
            f"{what} needs JDK {VERSION_MIN} and there is no {name} in {where}: install it or set JAVA_HOME"
        )
    return found


def maven(what: str, arguments: Sequence[str]) -> None:
    """Has Maven fetch the jars of `what`."""
    program = shutil.which("mvn")
    if program is None:
        raise MissingTool(f"the jars of {what} are fetched with Maven, and there is no mvn on the PATH: install Maven")
    command = [program, "-B", "-q", *arguments]
    for _ in range(_MAVEN_TRIES):  # an interrupted download goes on where it stopped
        run = subprocess.run(command, capture_output=True, text=True, env=environment(os.environ))
        if run.returncode == 0:
            return
    raise RuntimeError(f"Maven could not fetch the jars of {what} ({' '.join(command)}):\n{run.stdout[-4000:]}")
