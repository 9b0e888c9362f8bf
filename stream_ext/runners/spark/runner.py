"""SparkRunner: what the service holds of Spark. It keeps a driver alive, and says how that goes.

A Spark that cannot be had is no error of the service: the queries run inline, and `why` says what is the
matter. A driver that dies is started again, later each time while it keeps dying."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from statistics import quantiles
from typing import Any, Literal

from stream_ext.clock import Clock, MonotonicClock
from stream_ext.continuous.faults import QueryFault
from stream_ext.continuous.query_budget import USUAL, Budget
from stream_ext.emissions.merge import Merge
from stream_ext.errors import RilletError
from stream_ext.remote.allowed_urls import NOTHING, AllowedUrls
from stream_ext.runners.quarantine import Quarantine
from stream_ext.runners.slowing import NO_LAG, PushLag
from stream_ext.runners.spark.bell import Bell
from stream_ext.runners.spark.child import DriverProcess
from stream_ext.runners.spark.java import Java, find_java
from stream_ext.runners.spark.settings import SparkSettings, spark_master
from stream_ext.runners.spark.shard_on_spark import worker_in
from stream_ext.runners.spark.tasks import SparkTasks

State = Literal["starting", "up", "down"]

log = logging.getLogger("rillet.spark")

#: A sign of life of the driver is looked for so often; a silence that is told of.
_LOOK_S = 0.4
_SILENCE_MS = 1_250
_RETRY_S_MIN = 1.0
_RETRY_S_MAX = 60.0


class SparkRunner:
    def __init__(
        self,
        settings: SparkSettings,
        merge: Merge,
        store_url: str,
        base: str,
        clock: Clock,
        *,
        quarantine: Quarantine,
        allowed_urls: AllowedUrls = NOTHING,
        budget: Budget = USUAL,
        on_fault: Callable[[int, str, int], None] = lambda query, why, since: None,
        environ: Mapping[str, str] = os.environ,
        on_state: Callable[[State, str], None] | None = None,
        on_silence: Callable[[str], None] = lambda _: None,
        on_step: Callable[[float], None] = lambda took_ms: None,
        has_room: Callable[[], bool] = lambda: True,
        subscribed: Callable[[], Collection[int]] = tuple,
        push_lag: PushLag = NO_LAG,
    ) -> None:
        """`on_silence` is told what of Spark does not answer though something waits for it; empty: nothing.
        `subscribed`: the queries that have a subscriber; `push_lag`: how long pushes wait."""
        clock = MonotonicClock(clock)
        self._settings, self._clock, self._environ = settings, clock, dict(environ)
        self._on_state, self._on_silence, self._quarantine = on_state, on_silence, quarantine
        self._changed = threading.Condition()
        self._state: State = "starting"
        self._why = "Spark is starting"
        self._java: Java | None = None
        self._driver: DriverProcess | None = None
        self._ui: str | None = None  # the address of Spark's own web pages
        self._given_up = ""
        self._starts = 0
        self._deaths = 0  # in a row
        self._up_ms: int | None = None
        self._silences: dict[str, str] = {}  # of the worker, of the driver
        self._closing = False
        self._bell = Bell(
            settings,
            merge,
            _absolute(store_url),
            base,
            clock,
            allowed_urls,
            quarantine,
            on_up=self._is_up,
            on_lost=lambda why: self._becomes("starting", why),
            on_give_up=self._give_up,
            on_silence=lambda what: self._is_silent("worker", what),
            on_fault=on_fault,
            budget=budget,
            on_step=on_step,
            has_room=has_room,
            subscribed=subscribed,
            push_lag=push_lag,
        )
        self.tasks = SparkTasks(settings.lanes(), lambda: self.why if self._state == "down" else "")
        self._supervisor = threading.Thread(target=self._supervise, name="rillet-spark", daemon=True)

    # ---- what the service says and asks -----------------------------------------------------------------------

    def start(self) -> None:
        """Returns at once. The service then says the head (`head_moved`) once, and after each publish."""
        self._bell.start()
        self._supervisor.start()

    def head_moved(self, sn: int) -> None:
        self._bell.head_moved(sn)

    def merged(self) -> None:
        """Somebody else's parts were merged."""
        self._bell.merged()

    def under_way_ms(self) -> int:
        """For how long its worker has been stepping a snapshot; 0: it is not."""
        return self._bell.under_way_ms()

    def suspended_changed(self) -> None:
        """Other queries than before are in quarantine."""
        self._bell.suspended_changed()

    def subscription_changed(self, query: int, has_some: bool) -> None:
        """The query has its first subscriber, or has lost its last one."""
        self._bell.subscription_changed(query, has_some)

    def close(self) -> None:
        """Idempotent; when it returns neither driver nor JVM runs any more."""
        with self._changed:
            self._closing = True
            driver = self._driver
            self._changed.notify_all()
        if driver is not None:
            driver.kill()
        if self._supervisor.is_alive():
            self._supervisor.join(5)
        self._bell.close()
        self.tasks.end("it was closed", forever=True)
        with self._changed:
            self._state, self._why = "down", "it was closed"
            self._changed.notify_all()

    @property
    def state(self) -> State:
        return self._state

    @property
    def why(self) -> str:
        """Empty when all is well."""
        return "; ".join(filter(None, (self._why, *self._silences.values())))

    @property
    def faults(self) -> dict[int, QueryFault]:
        """Queries that cannot be stepped, and why."""
        return self._bell.faults

    def why_of(self, shard: int, on_spark: bool) -> str:
        """Why the queries of this shard run on Spark, or not."""
        if on_spark:
            return "; ".join(filter(None, self._silences.values())) or "Spark is up"
        several = any(each.on_spark for each in self._bell.shards)
        return (self._bell.why_of(shard) if several else self.why) or "Spark builds the state of its queries"

    def why_of_all(self, on_spark: bool) -> str:
        """The same of queries that all shards evaluate together."""
        lacking = next((each.number for each in self._bell.shards if not each.on_spark), 0)
        return self.why_of(lacking, on_spark)

    def worker_of(self, shard: int) -> dict[str, Any] | None:
        """The process that evaluates the queries of this shard; None: there is none now."""
        shards = self._bell.status()
        return worker_in(shards[shard]) if shard < len(shards) else None

    def wait_for(self, state: State, deadline_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._state == state, deadline_s)

    def status(self) -> dict[str, Any]:
        bell = self._bell
        figures = [shard.figures for shard in bell.shards]
        return {
            "state": self._state,
            "why": self.why,
            "master": spark_master(self._settings),
            "java": self._java.describe() if self._java else None,
            "ui": self._ui,
            "driver_pid": self._driver.pid if self._driver else None,
            "starts": self._starts,
            "epoch_s": self._settings.epoch_s,
            "epochs": bell.epochs.count,
            "builds": sum(each.builds for each in figures),
            "lost": sum(each.lost for each in figures),
            "refused": bell.refused,
            "killed": bell.killed,
            "steps": sum(each.steps for each in figures),
            # Lists: another thread adds to them meanwhile.
            "round_trip_ms": _summary(time for each in figures for time in list(each.round_trip_ms)),
            "boundary_ms": _summary(time for each in figures for time in list(each.boundary_ms)),
            "plan": bell.plan_number,
            "shards": bell.status(),
            "tasks": self.tasks.status(),
        }

    # ---- the supervisor's thread: a driver that outlives it sees its input close, and ends Spark -----------

    def _supervise(self) -> None:
        try:
            self._java = find_java(self._environ)
        except RilletError as error:
            self._becomes("down", str(error))
            self.tasks.end(str(error), forever=True)
            return
        why = ""
        while not self._closing:
            if why:
                self._becomes("starting", f"Spark is starting again, because it ended: {why}")
            try:
                why = self._run(self._java)
            except OSError as error:
                why = f"the driver's process cannot be started: {error}"
            self._died(why)

    def _run(self, java: Java) -> str:
        """Runs one driver; returns why it ended."""
        with self._changed:
            if self._closing:
                return ""
            self._given_up = ""
            self._driver = driver = DriverProcess(self._settings, self._bell.admit, java, self._environ)
            self._starts += 1
        why = self._followed(driver)
        with self._changed:
            self._driver = self._ui = None
        ended = driver.bury()
        why = self._given_up or why or ended
        self.tasks.end(why)
        self._bell.cut(why)
        return why

    def _followed(self, driver: DriverProcess) -> str:
        """The reason that a driver gives for its end. A driver that hangs, or whose JVM hangs, is silent, and is
        killed."""
        why, runs, reported_ms = "", False, self._clock.now_ms()
        limit_ms = int(self._settings.step_timeout_s * 1000)
        for report in driver.reports(min(_LOOK_S, self._settings.step_timeout_s / 4)):
            if report is not None:
                self._ui = report.ui or self._ui
                why, runs, reported_ms = report.why or why, runs or report.state == "running", self._clock.now_ms()
                self._is_silent("driver", "")
                if report.state == "running":
                    self.tasks.begin(driver)
                if report.task is not None:
                    self.tasks.reported(report.task)
                continue
            silent_ms = self._clock.now_ms() - reported_ms if runs else 0
            if silent_ms >= limit_ms and not self._given_up:
                self._give_up(f"neither the driver nor its JVM has answered for {silent_ms / 1000:g} s")
            elif silent_ms >= min(_SILENCE_MS, limit_ms // 2):
                limit_s = self._settings.step_timeout_s
                self._is_silent("driver", f"Spark's driver does not answer, and is killed after {limit_s:g} s")
        self._is_silent("driver", "")
        return why

    def _is_silent(self, who: str, what: str) -> None:
        """Reports a silence: `what` says what does not answer; empty: it answers, or has ended."""
        with self._changed:
            if self._silences.get(who, "") == what:
                return
            self._silences[who] = what
            silence = "; ".join(filter(None, self._silences.values()))
        if silence:
            log.warning("Spark does not answer", extra={"fields": {"what": silence}})
        self._on_silence(silence)

    def _died(self, why: str) -> None:
        self._deaths = 1 if self._was_up_long() else self._deaths + 1
        retry_s = min(_RETRY_S_MAX, _RETRY_S_MIN * 2 ** (self._deaths - 1))
        until_ms = self._clock.now_ms() + int(retry_s * 1000)
        self._becomes("down", f"Spark ended ({why}); it is started again in {retry_s:g} s")
        with self._changed:
            while not self._closing and self._clock.now_ms() < until_ms:
                self._clock.wait(self._changed, until_ms)

    def _was_up_long(self) -> bool:
        up_ms, self._up_ms = self._up_ms, None
        return up_ms is not None and self._clock.now_ms() - up_ms > _RETRY_S_MAX * 1000

    def _give_up(self, why: str) -> None:
        """Called by the bell's threads: this driver leads nowhere."""
        with self._changed:
            self._given_up = why
            driver = self._driver
        log.warning("Spark is stopped and started again", extra={"fields": {"why": why}})
        if driver is not None:
            driver.kill()

    def _is_up(self) -> None:
        if self._up_ms is None:
            self._up_ms = self._clock.now_ms()
        self._quarantine.prepare()
        self._becomes("up", "")

    def _becomes(self, state: State, why: str) -> None:
        with self._changed:
            if self._closing:
                return
            changed = state != self._state
            self._state, self._why = state, why
            self._changed.notify_all()
        if changed and self._on_state is not None:
            self._on_state(state, why)


def _absolute(store_url: str) -> str:
    """Spark's processes have another working folder."""
    kind, _, path = store_url.partition(":")
    return f"lmdb:{os.path.abspath(path)}" if kind == "lmdb" else store_url


def _summary(times: Iterable[float]) -> dict[str, float]:
    measured = sorted(times)
    if len(measured) < 2:
        return {"p50": measured[0], "p99": measured[0]} if measured else {}
    cuts = quantiles(measured, n=100, method="inclusive")
    return {"p50": round(cuts[49], 3), "p99": round(cuts[98], 3)}
