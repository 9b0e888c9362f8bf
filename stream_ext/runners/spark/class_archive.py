"""The class archive: what a JVM of Spark has loaded and checked once, in a file that later JVMs map.

With it a JVM takes half of the CPU time until Spark's first batch has ended. `rillet warm` makes it (`archive_making`).
A JVM uses an archive only with the class path that it was made with, so Spark's home is in a fixed place then. If Java
or a jar is another one than when it was made, the JVM notices, and starts as if there were none."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path

from stream_ext.runners.spark.java import Java, cache_folder

_PREFIX = "spark-"
#: A JVM that cannot use the archive says nothing on its standard output, and starts without it.
_QUIET = "-Xlog:disable -Xlog:all=error:stderr"
#: From this version on, Java makes an archive of a program (its cache ahead of time) that needs no archive of Java's
#: own classes below it, which a trimmed Java lacks.
_AHEAD_OF_TIME = 25


@dataclass(frozen=True, slots=True)
class SparkHome:
    """A folder with links to an installed Spark, and perhaps an archive of its classes. `ahead`: of the newer kind."""

    path: Path
    ahead: bool = False

    @property
    def archive(self) -> Path:
        return self.path / ("classes.aot" if self.ahead else "classes.jsa")

    @property
    def java_options(self) -> str:
        """For a JVM that is to use the archive."""
        use = f"-XX:AOTCache={self.archive}" if self.ahead else f"-XX:SharedArchiveFile={self.archive} -Xshare:auto"
        return f"{use} {_QUIET}"

    def making_options(self, archive: Path) -> str:
        """For a JVM that is to make one when it ends."""
        return f"-XX:AOTCacheOutput={archive}" if self.ahead else f"-XX:ArchiveClassesAtExit={archive}"

    def link(self) -> None:
        """Makes the links that are not there. Without the zip of pyspark: Spark puts that before all else on the path
        of its Python processes, which then compile every module that they import; without it they import the installed
        one, and the first result comes three seconds sooner."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in ("bin", "jars"):
            if not (self.path / name).exists():
                (self.path / name).symlink_to(installed_spark() / name)


def home_for(java: Java, environ: Mapping[str, str] = os.environ) -> SparkHome:
    """Where the archive of this Java and the installed Spark is, or would be."""
    what = "\0".join((str(java.home), java.version, str(installed_spark()), version("pyspark")))
    digest = blake2b(what.encode(), digest_size=8).hexdigest()
    installed = (installed_spark() / "jars").stat().st_mtime_ns  # one that is installed again has other files
    path = cache_folder(environ) / f"{_PREFIX}{version('pyspark')}-{digest}-{installed:x}"
    return SparkHome(path, java.major >= _AHEAD_OF_TIME)


def find(java: Java, environ: Mapping[str, str] = os.environ) -> SparkHome | None:
    """None: there is no archive, or it may have been written by somebody else, and would be run."""
    home = home_for(java, environ)
    try:
        owners = {folder.stat().st_uid for folder in (home.path.parent, home.path, home.archive)}
    except OSError:
        return None
    return home if owners <= {os.getuid(), 0} else None


def outdated(home: SparkHome) -> list[Path]:
    """Other homes: of a Spark that is not there any more, or of the one of this home as it was installed before."""
    same, _, _ = home.path.name.rpartition("-")
    others = [each for each in home.path.parent.glob(f"{_PREFIX}*") if each != home.path]
    return [each for each in others if each.name.startswith(f"{same}-") or not (each / "jars").exists()]


def installed_spark() -> Path:
    """The folder of pyspark; it is not imported."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None and found.submodule_search_locations
    return Path(found.submodule_search_locations[0])
