"""Epochs: which Spark epoch runs, when it ends, and the plan of the next. Under the bell's lock."""

from __future__ import annotations

from stream_ext.emissions.placement import ShardPlan
from stream_ext.runners.spark.settings import SparkSettings

#: A seat that nobody has taken so long after the others cuts the epoch; the next one waits longer.
_SEATS_WITHIN_MS = 1_000
_SHORT_EPOCHS_MAX = 6


class Epochs:
    """Of one driver. `count`: of all drivers so far."""

    def __init__(self, settings: SparkSettings, count: int = 0) -> None:
        self._settings = settings
        self.count = count
        self._of_driver = 0
        self._number: int | None = None
        self._began_ms = 0
        self.seen: set[int] = set()  # the seats that were taken in this epoch
        self._short = 0  # epochs in a row that were cut
        self.end_ms: int | None = None
        self.is_over = False
        self.next_plan: ShardPlan | None = None
        self.end_sn = 0  # the snapshot after which the next plan begins

    @property
    def is_warming_up(self) -> bool:
        """Whether this epoch, which may be about to begin, is one to warm up."""
        return self._of_driver <= self._settings.warmup_epochs

    @property
    def is_first(self) -> bool:
        """Whether this epoch is the driver's first."""
        return self._of_driver == 1

    def is_new(self, number: int) -> bool:
        return number != self._number

    def begin(self, number: int, now_ms: int) -> tuple[ShardPlan | None, int]:
        """The first task of an epoch has started. Returns the plan that begins with it, and after which snapshot."""
        self._number, self._began_ms = number, now_ms
        self.count += 1
        self._of_driver += 1
        self.end_ms, self.is_over, self.seen = None, False, set()
        plan, self.next_plan = self.next_plan, None
        return plan, self.end_sn

    def first_is_ready(self, now_ms: int) -> None:
        if self.end_ms is None:
            self.end_ms = now_ms + int(self._settings.epoch_s * 1000)

    def ends(self) -> None:
        self.end_ms, self.is_over = None, True

    def seats_by_ms(self, shards: int) -> int | None:
        """By when all seats should be taken; None: they are."""
        if self.is_over or self.end_ms is None or len(self.seen) >= shards:
            return None
        return self._began_ms + _SEATS_WITHIN_MS * (1 << min(self._short, _SHORT_EPOCHS_MAX))

    def is_short_of_seats(self, is_short: bool) -> None:
        self._short = self._short + 1 if is_short else 0
