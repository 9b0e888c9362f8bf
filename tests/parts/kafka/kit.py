"""What runs the Kafka of the tests: jars that Maven fetches once into a cache folder, those of Spark's source too."""

from __future__ import annotations

import shutil
from pathlib import Path

from endpoint.trial_hbase import jdk
from endpoint.trial_hbase.cache_folder import folder, locked

_POM = Path(__file__).parent / "pom.xml"
WHAT = "Kafka"
#: What Spark needs to read from Kafka.
_SPARK = ("spark-sql-kafka-*.jar", "spark-token-provider-kafka-*.jar", "kafka-clients-*.jar", "commons-pool2-*.jar")


def jars() -> Path:
    """The folder of all jars, made on first use. Test processes that start together wait for one another."""
    jdk.java(WHAT)  # a clear word about a missing JDK before a long download
    cache = folder("kafka-kit", "RILLET_KAFKA_KIT")
    found, stamp = cache / "jars", cache / "made-from"
    with locked(cache / "lock"):
        if not stamp.exists() or stamp.read_text() != _POM.read_text():
            stamp.unlink(missing_ok=True)
            shutil.rmtree(found, ignore_errors=True)
            jdk.maven(WHAT, ["-f", str(_POM), "dependency:copy-dependencies", f"-Djars={found}"])
            stamp.write_text(_POM.read_text())
    return found


def jars_for_spark() -> list[Path]:
    there = jars()
    return [jar for pattern in _SPARK for jar in there.glob(pattern)]
