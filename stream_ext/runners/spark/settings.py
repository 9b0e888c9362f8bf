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
#: What keeps Spark's ports where they are meant to be and makes its processes ours.
_OURS = frozenset({
    "spark.master", "spark.driver.host", "spark.driver.bindAddress", "spark.local.dir", "spark.python.daemon.module",
    "spark.python.worker.module",
})  # fmt: skip
#: Spark makes these itself in local mode; a cluster has its own.
_OURS_IF_LOCAL = frozenset({"spark.authenticate", "spark.authenticate.secret"})
_CLUSTER = re.compile(r"spark://[^\s/,]+:\d+(,[^\s/,]+:\d+)*|yarn|k8s://\S+")
_LOOPBACK = re.compile(r"127(\.\d{1,3}){3}|localhost|\[?::1\]?")
_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:\[\]]+)(:(?P<port>\d{1,5}))?")
_PORT_MAX = (1 << 16) - 1
#: Where Spark unpacks the package, in the working folder of each of its processes.
PACKAGE_FOLDER = "rillet_package"
_LOCAL_SLOTS = re.compile(r"local\[(\d+)")
_LOCAL = re.compile(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?")
#: In local mode `spark.task.maxFailures` is ignored and 1 would end the query with the first dead worker.
_TASK_FAILURES_MAX = 100

#: The JVM plans an epoch every half minute: one collector thread, and only the quick compiler. It is up in two
#: thirds of the time that way, and an epoch's boundary is no longer (measured: 60 ms on two busy cores). Its heap grows
#: from little: it would fill a 64th of the machine's memory first, before it collects anything (80 MB on 24 GB).
_JVM_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Xms16m"


class SparkSettings(msgspec.Struct, frozen=True, kw_only=True):
    master: str = "local[*]"  #: `--spark-master`
    #: `--spark-address`: HOST or HOST:PORT, where the tasks reach the server's process; empty: on loopback
    address: str = ""
    package: str = ""  #: `--spark-package`: the packed environment that tasks run in; empty: the one at this path
    epoch_s: float = 30.0  #: `--spark-epoch`; 0 is a plain micro-batch
    #: `--spark-shards`: how many tasks share the queries; 0: one for each core, at most SHARDS_MAX
    shards: int = 1
    warmup_epochs: int = 20  #: short epochs before the first long one, until the JVM is warm
    #: how long a seat may be empty before its queries run inline again; None: 3 s, or 1 s if there are several shards
    grace_s: float | None = None
    start_s: float = 120.0  #: a driver whose first task takes longer is started anew
    step_timeout_s: float = (
        10.0  #: `--step-timeout`: a worker or driver that shows no sign of life for longer is killed
    )
    #: of the processes that evaluate tasks of one-shot queries: the registered queries go first
    tasks_niceness: int = 19
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
        spark_master(self)  # here, so that whoever shows it later cannot fail
        for name in sorted((_OURS if self.is_cluster else _OURS | _OURS_IF_LOCAL).intersection(self.conf)):
            raise BadArgument(f"--spark-conf {name}: Rillet sets this itself")
        self._check_address()
        if self.package and not (self.is_cluster and Path(self.package).is_file()):
            why = "there is no such file" if self.is_cluster else "it is for a --spark-master that is a cluster"
            raise BadArgument(f"--spark-package {self.package}: {why}")
        if self.package:  # Spark's processes have another working folder
            msgspec.structs.force_setattr(self, "package", os.path.abspath(self.package))

    def _check_address(self) -> None:
        elsewhere = self.is_cluster and not self._master_is_here
        if elsewhere and not self.is_reached_from_other_machines:
            raise BadArgument(
                f"--spark-master {self.master}: tasks on other machines must reach this process. Give the address of "
                "this machine that they can connect to: --spark-address HOST"
            )
        if self.address and not self.is_cluster:
            raise BadArgument(f"--spark-address {self.address}: it is for a --spark-master that is a cluster")

    @property
    def is_cluster(self) -> bool:
        return not _LOCAL.fullmatch(self.master)

    @property
    def _master_is_here(self) -> bool:
        """Whether Spark's master, and so all of it, is on this machine."""
        hosts = [each.rpartition(":")[0] for each in self.master.removeprefix("spark://").split(",")]
        return self.master.startswith("spark://") and all(_LOOPBACK.fullmatch(host) for host in hosts)

    @property
    def listens_on(self) -> tuple[str, int]:
        """The host and the port (0: any) of the line between the server's process and the tasks."""
        found = _ADDRESS.fullmatch(self.address or "127.0.0.1")
        if found is None or int(found["port"] or 0) > _PORT_MAX:
            raise BadArgument(f"--spark-address {self.address}: give a host or an IP address, and perhaps :PORT behind")
        host = found["host"].strip("[]")
        if host in ("0.0.0.0", "::"):
            raise BadArgument(f"--spark-address {self.address}: give the one address that the tasks connect to")
        return host, int(found["port"] or 0)

    @property
    def is_reached_from_other_machines(self) -> bool:
        """Whether other machines can connect; then the line is encrypted."""
        return not _LOOPBACK.fullmatch(self.listens_on[0])

    @property
    def grace(self) -> float:
        """Seconds. One shard is awaited longer: meanwhile nothing else could be evaluated for the lost time."""
        if self.grace_s is not None:
            return self.grace_s
        return 3.0 if self.shard_count() == 1 else 1.0

    def shard_count(self, cores: int | None = None) -> int:
        """How many seats an epoch has: as given, else one for each core; there are more slots than that."""
        if self.shards:
            return self.shards
        slots = _LOCAL.fullmatch(self.master)
        if not slots:
            return 1  # a cluster's slots are known only when Spark has started
        requested = slots.group(1) or "1"
        count = (cores or os.cpu_count() or 1) if requested == "*" else int(requested)
        return max(1, min(count, SHARDS_MAX))

    def lanes(self, cores: int | None = None) -> int:
        """How many tasks of one-shot queries run at a time: as many as there are slots beside those of the seats."""
        slots = _LOCAL_SLOTS.match(spark_master(self, cores))
        return _SPARE_SLOTS if slots is None else int(slots.group(1)) - self.shard_count(cores)


def spark_master(settings: SparkSettings, cores: int | None = None) -> str:
    """The master as Spark is told it: `local[*]` with enough slots, and with retries."""
    slots = _LOCAL.fullmatch(settings.master)
    if slots:
        requested = slots.group(1) or "1"
        count = (cores or os.cpu_count() or 1) if requested == "*" else int(requested)
        return f"local[{max(count, settings.shard_count(cores) + _SPARE_SLOTS)}, {_TASK_FAILURES_MAX}]"
    if _CLUSTER.fullmatch(settings.master):
        return settings.master
    raise BadArgument(
        f"--spark-master {settings.master}: give local, local[N], local[*], spark://HOST:PORT, yarn or k8s://HOST:PORT"
    )


def spark_conf(
    settings: SparkSettings, folder: Path, cores: int | None = None, java_options: str = ""
) -> dict[str, str]:
    """Everything that Spark is told; `folder` is its own, and thrown away when it ends."""
    count = cores or os.cpu_count() or 1
    host, _ = settings.listens_on
    return {
        "spark.app.name": "rillet",
        "spark.ui.enabled": "false",
        "spark.ui.port": "0",
        "spark.log.level": "OFF",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": host,
        "spark.driver.bindAddress": host,
        # Its port for tasks and the one for blocks open anyway, on loopback, where other users of this machine are.
        # Spark makes the secret itself in local mode; a standalone cluster has its own, which we do not know.
        "spark.authenticate": str(not settings.is_cluster).lower(),
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.extraJavaOptions": f"{_JVM_OPTIONS} -Djava.io.tmpdir={folder} {java_options}".rstrip(),
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
        "spark.scheduler.minRegisteredResourcesRatio": "0" if settings.is_cluster else "1.0",
        "spark.python.unix.domain.socket.enabled": str(not settings.is_cluster).lower(),
        "spark.python.unix.domain.socket.dir": str(folder),
        "spark.python.daemon.module": "stream_ext.runners.spark.worker_daemon",
        "spark.python.worker.module": "stream_ext.runners.spark.worker_module",
        **(_conf_of_executors(settings) if settings.is_cluster else {}),
        **settings.conf,
    }


def _conf_of_executors(settings: SparkSettings) -> dict[str, str]:
    """As many slots as tasks, and some to spare: the rest of the cluster is for others."""
    environ = {f"spark.executorEnv.{name}": value for name, value in executor_environ(settings).items()}
    return environ | {
        "spark.cores.max": str(settings.shard_count() + _SPARE_SLOTS),
        "spark.executor.instances": str(settings.shard_count()),
        "spark.executor.memory": settings.driver_memory,
        "spark.executor.extraJavaOptions": _JVM_OPTIONS,
        **({"spark.archives": f"{settings.package}#{PACKAGE_FOLDER}"} if settings.package else {}),
    }


def is_secret(name: str) -> bool:
    """Whether this setting of Spark is one that a command line must not show."""
    return re.search("secret|password|token", name, re.IGNORECASE) is not None


def executor_environ(settings: SparkSettings) -> dict[str, str]:
    """What the Python processes of Spark need in their environment, on whatever machine."""
    return {
        "RILLET_SHARD_MODULE": settings.shard_factory.partition(":")[0],
        # Threads of a linear algebra library that nobody uses do not survive the worker daemon's fork.
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
