"""What a user may choose about Spark, and the settings that Spark is then started with."""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec

from stream_ext.errors import BadArgument

#: More slots than shards: a task that is retried must find a slot while the one it replaces still ends.
_SPARE_SLOTS = 2
#: The most shards that are chosen automatically: each reads every snapshot, and is a Python process.
SHARDS_MAX = 8
#: The most shards that may be asked for.
SHARDS_MOST = 256
#: What keeps Spark's ports on this machine and makes its processes ours.
_OURS = frozenset({
    "spark.master", "spark.driver.host", "spark.driver.bindAddress", "spark.authenticate", "spark.authenticate.secret",
    "spark.local.dir", "spark.python.daemon.module", "spark.python.worker.module",
})  # fmt: skip
_LOCAL = re.compile(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?")
#: In local mode `spark.task.maxFailures` is ignored and 1 would end the query with the first dead worker.
_TASK_FAILURES_MAX = 100

#: The JVM plans an epoch every half minute: one collector thread, and only the quick compiler. It is up in two
#: thirds of the time that way, and an epoch's boundary is no longer (measured: 60 ms on two busy cores).
_JVM_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"


class SparkSettings(msgspec.Struct, frozen=True, kw_only=True):
    master: str = "local[*]"  #: `--spark-master`
    epoch_s: float = 30.0  #: `--spark-epoch`; 0 is a plain micro-batch
    #: `--spark-shards`: how many tasks share the queries; 0: one less than there are slots, at most SHARDS_MAX
    shards: int = 0
    warmup_epochs: int = 20  #: short epochs before the first long one, until the JVM is warm
    #: how long a seat may be empty before its queries run inline again; None: 3 s, or 1 s if there are several shards
    grace_s: float | None = None
    start_s: float = 120.0  #: a driver whose first task takes longer is started anew
    step_timeout_s: float = (
        10.0  #: `--step-timeout`: a worker or driver that shows no sign of life for longer is killed
    )
    driver_memory: str = "512m"
    #: module:function; its module also has Told and QueryState
    shard_factory: str = "stream_ext.continuous.shard:open_shard"
    driver_module: str = "stream_ext.runners.spark.driver"
    #: `--spark-conf`, `--spark-memory`, `--spark-ui`, `--spark-log-level`: more settings of Spark, over ours
    conf: dict[str, str] = {}

    def __post_init__(self) -> None:
        if self.epoch_s < 0 or self.grace <= 0:
            raise BadArgument(
                f"a Spark epoch of {self.epoch_s} s with {self.grace} s of grace is not possible: the epoch "
                "must be at least 0 s, the grace longer than 0 s"
            )
        if self.step_timeout_s <= 0:
            raise BadArgument(f"--step-timeout {self.step_timeout_s:g}s: give a time longer than 0")
        if not 0 <= self.shards <= SHARDS_MOST:
            raise BadArgument(
                f"--spark-shards {self.shards}: give a number from 1 to {SHARDS_MOST}, or 0 for automatic"
            )
        for name in sorted(_OURS.intersection(self.conf)):
            raise BadArgument(f"--spark-conf {name}: Rillet sets this itself")
        spark_master(self)  # here, so that whoever shows it later cannot fail

    @property
    def grace(self) -> float:
        """Seconds. One shard is awaited longer: meanwhile nothing else could be evaluated for the lost time."""
        if self.grace_s is not None:
            return self.grace_s
        return 3.0 if self.shard_count() == 1 else 1.0

    def shard_count(self, cores: int | None = None) -> int:
        """How many seats an epoch has: as given, else one less than there are slots, so that one stays free for other
        jobs."""
        if self.shards:
            return self.shards
        slots = _LOCAL.fullmatch(self.master)
        if not slots:
            return 1  # a cluster's slots are known only when Spark has started
        requested = slots.group(1) or "1"
        count = (cores or os.cpu_count() or 1) if requested == "*" else int(requested)
        return max(1, min(count - 1, SHARDS_MAX))


def spark_master(settings: SparkSettings, cores: int | None = None) -> str:
    """The master as Spark is told it: `local[*]` with enough slots, and with retries."""
    slots = _LOCAL.fullmatch(settings.master)
    if slots:
        requested = slots.group(1) or "1"
        count = (cores or os.cpu_count() or 1) if requested == "*" else int(requested)
        return f"local[{max(count, settings.shard_count(cores) + _SPARE_SLOTS)}, {_TASK_FAILURES_MAX}]"
    if re.fullmatch(r"spark://(127\.0\.0\.1|localhost):\d+", settings.master):
        return settings.master
    raise BadArgument(
        f"--spark-master {settings.master}: this version runs Spark on this machine only: local, local[N], local[*] "
        "or spark://127.0.0.1:PORT"
    )


def spark_conf(settings: SparkSettings, folder: Path, cores: int | None = None) -> dict[str, str]:
    """Everything that Spark is told; `folder` is its own, and thrown away when it ends."""
    count = cores or os.cpu_count() or 1
    return {
        "spark.app.name": "rillet",
        "spark.ui.enabled": "false",
        "spark.ui.port": "0",
        "spark.log.level": "OFF",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # Its port for tasks and the one for blocks open anyway, on loopback, where other users of this machine are.
        # Spark makes the secret itself in local mode; a standalone cluster has its own, which we do not know.
        "spark.authenticate": str(settings.master.startswith("local")).lower(),
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.extraJavaOptions": f"{_JVM_OPTIONS} -Djava.io.tmpdir={folder}",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": str(count),
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.streaming.pollingDelay": "1ms",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.streaming.numRecentProgressUpdates": "2",
        # The checkpoint holds an epoch number that nobody needs again: no checksums, no copies, plain files.
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        "spark.sql.streaming.checkpoint.renamedFileCheck.enabled": "false",
        "spark.sql.streaming.stateStore.commitValidation.enabled": "false",
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        "spark.locality.wait": "0",
        "spark.speculation": "false",
        "spark.task.maxFailures": str(_TASK_FAILURES_MAX),
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": str(folder),
        "spark.python.daemon.module": "stream_ext.runners.spark.worker_daemon",
        "spark.python.worker.module": "stream_ext.runners.spark.worker_module",
        **settings.conf,
    }
