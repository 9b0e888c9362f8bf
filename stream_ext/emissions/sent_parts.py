"""The parts that were sent and are not merged yet: of each shard of Spark, and of the inline runner.

A snapshot is complete when everybody has sent it who has queries in it:

    each shard that Spark has                    its own parts
    shards that Spark does not have,
    and queries that stay inline                 the parts of the inline runner

Of a divided query each shard sends a range; the parts of all ranges are united when the snapshot is complete."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from stream_ext.emissions.range_rows import CannotUnite
from stream_ext.emissions.runner_split import Homes
from stream_ext.emissions.uniting import SumsRanges, must_not_be_ranges, sums_none, united
from stream_ext.windows.part import Part

#: By snapshot: its parts, then those of queries that caught up after it, piece by piece.
Waiting = dict[int, list[list[Part]]]


class ShardParts:
    """Of one shard of Spark. `attempt`: the number of its latest attempt; 0: there is none. `on_spark`: its parts
    count. `reached`, `behind`: what the attempt said when it had caught up."""

    def __init__(self, on_spark: bool = False) -> None:
        self.on_spark, self.attempt = on_spark, 0
        self.waiting: Waiting = {}
        self.reached: int | None = None
        self.behind: Mapping[int, int] = {}

    def begin(self, attempt: int, position: int) -> None:
        """A new attempt, after what was sent up to `position`."""
        self.attempt, self.reached, self.behind = attempt, None, {}
        self.waiting = {sn: parts for sn, parts in self.waiting.items() if sn <= position}

    def has_all(self, position: int, until: int) -> bool:
        return all(sn in self.waiting for sn in range(position + 1, until + 1))


class SentParts:
    """Not thread-safe: the merge has the lock. `inline`: the parts of the inline runner while Spark has some queries;
    None: it has not begun since the last change."""

    def __init__(self, shards: int, on_spark: bool = False, sum_ranges: SumsRanges = sums_none) -> None:
        self._sum_ranges = sum_ranges
        self.shards = [ShardParts(on_spark) for _ in range(shards)]
        self.any_on_spark = on_spark and shards > 0
        self.inline: Waiting | None = None
        #: Why the next snapshot, though it is complete, cannot be merged.
        self.cannot_unite: CannotUnite | None = None

    @property
    def all_on_spark(self) -> bool:
        return all(shard.on_spark for shard in self.shards)

    @property
    def inline_shards(self) -> frozenset[int]:
        """The shards that Spark does not have."""
        return frozenset(number for number, shard in enumerate(self.shards) if not shard.on_spark)

    def of(self, on_spark: bool, shard: int) -> Waiting:
        if on_spark:
            return self.shards[shard].waiting
        assert self.inline is not None
        return self.inline

    def go_to_spark(self, shards: Iterable[ShardParts]) -> None:
        for shard in shards:
            shard.on_spark = self.any_on_spark = True
        self.inline = None  # its parts may contain those of these shards

    def lose(self, number: int) -> bool:
        """Whether Spark had the shard."""
        had, self.shards[number] = self.shards[number].on_spark, ShardParts()
        self.any_on_spark = any(shard.on_spark for shard in self.shards)
        if had:
            self.inline = None
        return had

    def following(self, sn: int, homes: Homes, queries: Container[int]) -> list[tuple[int, list[Part]]]:
        """What is complete of the snapshots right after `sn`, in order; it does not wait any more. Nothing while Spark
        has no shard: a query that the inline runner has set aside may be further on there. Ends before the first that
        cannot be united (`cannot_unite`). `queries`: those that exist."""
        found: list[tuple[int, list[Part]]] = []
        counted = [shard.waiting for shard in self.shards if shard.on_spark]
        needs_inline = len(counted) < len(self.shards)
        while counted and all((sn + 1) in waiting for waiting in counted):
            sn += 1
            senders, others = list(counted), list[Waiting]()
            if needs_inline or homes.are_two(sn):
                if self.inline is None or sn not in self.inline:
                    break
                (senders if needs_inline else others).append(self.inline)
            try:
                ranges, whole = [each[sn] for each in senders], [each[sn] for each in others]
                found += list(_complete(ranges, whole, sn, queries, self._sum_ranges))
            except CannotUnite as error:
                self.cannot_unite = error
                break
            for waiting in [*senders, *others]:
                del waiting[sn]
        return found

    def has_ranges(self, piece: list[Part]) -> bool:
        """Whether a piece is of a divided query, which cannot be united."""
        try:
            must_not_be_ranges([piece])
        except CannotUnite as error:
            self.cannot_unite = error
        return self.cannot_unite is not None

    def forget(self, position: int) -> None:
        """What is merged by now does not wait any more."""
        for waiting in [*(shard.waiting for shard in self.shards), *([] if self.inline is None else [self.inline])]:
            for sn in [sn for sn in waiting if sn <= position] if waiting else ():
                del waiting[sn]


def _complete(
    ranges: Sequence[list[list[Part]]],
    others: Sequence[list[list[Part]]],
    sn: int,
    queries: Container[int],
    sum_ranges: SumsRanges,
) -> Iterator[tuple[int, list[Part]]]:
    """All parts of a snapshot, and the pieces after it. `ranges`: what those have sent who have a range of each divided
    query; `others`: the others."""
    sent = [*ranges, *others]
    pieces = [piece for _, *after in sent for piece in after]
    must_not_be_ranges([*pieces, *(parts for parts, *_ in others)])
    in_one = united([parts for parts, *_ in ranges], queries, sum_ranges)
    yield sn, [*in_one, *(part for parts, *_ in others for part in parts)]
    for piece in pieces:
        yield sn, piece
