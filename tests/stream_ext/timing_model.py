"""When a query is evaluated and over what: the sentences of the language, executed by brute force on small integers.

Every integer time is asked whether it is an evaluation time, every element whether it is in the window. Nothing here is
shared with the engine; the sentence that a function executes stands above it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Window:
    stream: int
    range_ms: int
    step_ms: int
    t0: int | None = 0  # None: by the first push after registration
    until_ms: int = 0
    bounds: str = "[)"
    lateness: int = 0
    kind: str = "RANGE"  # or ALL, ELEMENTS, TRIPLES: beside windows that close
    count: int = 0

    @property
    def closes(self) -> bool:
        return self.kind == "RANGE"


@dataclass(frozen=True)
class Element:
    stream: int
    time: int
    number: int
    triples: int = 1


@dataclass(frozen=True)
class EmittedAt:
    """One evaluation: its time, whether an arrival made it, and what each window held. `skipped`: how many triples of
    its oldest element a window of TRIPLES left out."""

    time: int
    by_arrival: bool
    contents: tuple[frozenset[int], ...]
    skipped: tuple[int, ...] = ()


@dataclass
class Model:
    windows: list[Window]
    closes: bool = True
    every: tuple[int, ...] = ()
    arrivals: bool = False
    registered: int | None = None
    latest: dict[int, int] = field(default_factory=dict)
    beats: dict[int, int] = field(default_factory=dict)
    begins: dict[int, int] = field(default_factory=dict)  # of each window, the element from which it counts
    idle: set[int] = field(default_factory=set)
    elements: list[Element] = field(default_factory=list)
    coming: list[Element] = field(default_factory=list)  # of the push that is arriving: closes contain them already
    t0: int | None = None
    after: int | None = None
    last: int | None = None
    evaluated: list[tuple[int, bool]] = field(default_factory=list)  # times, and whether for an arrival

    # "T0 + k*STEP, k >= 1"; "T0 is the origin of the closes, and is not itself a close"
    def is_close(self, window: Window, time: int) -> bool:
        t0 = self.t0 if window.t0 is None else window.t0
        if not window.closes:
            return False
        return t0 is not None and time > t0 and (time - t0) % window.step_ms == 0

    # "the earliest close >= t", "CONTENT_CHANGE takes the instance with the earliest close > t (>= t if the end is ])"
    def close_at(self, window: Window, time: int, by_arrival: bool) -> int:
        close = time + 1 if by_arrival and window.bounds == "[)" else time
        while not self.is_close(window, close):
            close += 1
        return close

    # "its instance is [c-RANGE, c), or as BOUNDS says", "[c-d, c-e)", "cut at t (and including t)"
    def holds(self, window: Window, element: int, time: int, by_arrival: bool) -> bool:
        if not window.closes:
            return element < time + (by_arrival or self.includes_end(window))
        close = self.close_at(window, time, by_arrival)
        start, end = close - window.range_ms, min(close, time) - window.until_ms
        begins = element >= start if window.bounds[0] == "[" else element > start
        ends = element <= end if window.bounds[1] == "]" or by_arrival else element < end
        return begins and ends

    # "they contribute their elements before t (at t too where the time windows end with ])"
    def includes_end(self, window: Window) -> bool:
        if window.closes:
            return window.bounds[1] == "]"
        return all(each.bounds[1] == "]" for each in self.windows if each.closes)

    def emitted(self, time: int, by_arrival: bool) -> EmittedAt:
        known = self.elements if by_arrival else self.elements + self.coming
        contents, skipped = [], []
        for window in self.windows:
            held = [e for e in known if e.stream == window.stream and self.holds(window, e.time, time, by_arrival)]
            held, left_out = self.last_of(window, held)
            contents.append(frozenset(e.number for e in held))
            skipped.append(left_out)
        return EmittedAt(time, by_arrival, tuple(contents), tuple(skipped) if any(skipped) else ())

    # "TRIPLES n counts triples in document order and may split an element; ELEMENTS n counts elements; order is
    # timestamp, then arrival"
    @staticmethod
    def last_of(window: Window, held: list[Element]) -> tuple[list[Element], int]:
        held = sorted(held, key=lambda e: (e.time, e.number))
        if window.kind == "ELEMENTS":
            return held[-window.count :], 0
        if window.kind != "TRIPLES":
            return held, 0
        left_out = max(0, sum(e.triples for e in held) - window.count)
        while held and left_out >= held[0].triples:
            left_out -= held.pop(0).triples
        return held, left_out

    # "A stream's time is the greater of (greatest timestamp - lateness) and the greatest heartbeat"; "with ] it closes
    # when time passes c, or on a heartbeat >= c"
    def has_come(self, window: Window, time: int) -> bool:
        beat = self.beats.get(window.stream)
        latest = self.latest.get(window.stream)
        if beat is not None and beat >= time:
            return True
        if latest is None:
            return False
        now = latest - window.lateness
        return now > time if self.includes_end(window) else now >= time

    # "evaluated when each of its streams has come to t"; "its idle option lets time pass without it"
    def all_have_come(self, time: int) -> bool:
        awake = [window for window in self.windows if window.stream not in self.idle]
        if awake:
            return all(self.has_come(window, time) for window in awake)
        return any(self.has_come(window, time) for window in self.windows)

    # "The first report is at the first close whose window can hold the first element (with gaps: the first close after
    # it), each window counting from the first element of its own streams"
    def counts(self, window: Window, close: int) -> bool:
        first = self.begins.get(self.windows.index(window))
        if first is None:
            return False
        end = close - window.until_ms
        return first <= end if window.bounds[1] == "]" else first < end

    # "Evaluation times are the union of the windows' closes"; "PERIODIC d: evaluated at the multiples of d, from the
    # first after the first element"; "the first close that not all of its streams had reached at registration"
    def is_due(self, time: int) -> bool:
        if self.registered is not None and time <= self.registered:
            return False
        if self.closes and any(self.is_close(w, time) and self.counts(w, time) for w in self.windows):
            return True
        return self.is_period(time)

    def due_up_to(self, limit: int | None) -> list[EmittedAt]:
        known = [*self.latest.values(), *self.beats.values()]
        if not known or (self.t0 is None and any(w.t0 is None for w in self.windows)):
            return []
        out = []
        for time in range(min(known + list(self.begins.values())) - 100, max(known) + 1):
            if limit is not None and time > limit:
                break
            if (self.after is None or time > self.after) and self.is_due(time) and self.all_have_come(time):
                self.after = time
                self.last = time if self.last is None else max(self.last, time)
                self.evaluated.append((time, False))
                out.append(self.emitted(time, False))
        return out

    # "An element is late for a query when a window that it belongs to has been reported"; "For per-arrival queries late
    # is what can be in no window any more"
    def is_late(self, stream: int, time: int) -> bool:
        mine = [window for window in self.windows if window.stream == stream]
        if self.arrivals and not self.closes and not self.every:
            return (
                self.last is not None
                and any(self.is_ever_in(w, time) and not self.can_be_in(w, time, self.last) for w in mine)
                and not any(self.can_be_in(w, time, self.last) for w in mine)
            )
        # "once an evaluation has covered the element's time, cut at t or not, whichever trigger caused it"
        # Of what arrivals caused beside closes, the last is remembered (decision 24).
        known = [
            (at, by_arrival)
            for at, by_arrival in self.evaluated
            if not by_arrival or (at == self.last and (self.after is None or at > self.after))
        ]
        if any(self.holds(w, time, at, by_arrival) for w in mine for at, by_arrival in known):
            return True
        # "when it belongs to windows and none of them is still to be reported"
        later = [at for at in self.near(time) if self.after is None or at > self.after]
        return any(self.belongs(w, time) for w in mine) and not any(
            not w.closes  # a window without an end is always still to be reported
            or any(self.is_due(at) and self.holds(w, time, at, False) for at in later)
            or (self.arrivals and self.can_be_in(w, time, time if self.last is None else self.last))
            for w in mine
        )

    def near(self, time: int) -> range:
        reach = max(w.range_ms + w.step_ms + w.until_ms for w in self.windows)
        return range(time, time + reach + 2)

    def belongs(self, window: Window, time: int) -> bool:
        """To an instance of an evaluation, be it one that is never made."""
        if self.arrivals and self.is_ever_in(window, time):
            return True
        return any(self.is_beat(at) and self.holds(window, time, at, False) for at in self.near(time))

    def is_beat(self, time: int) -> bool:
        closes = self.closes and any(self.is_close(window, time) for window in self.windows)
        return closes or any(time % every == 0 for every in self.every)

    def is_period(self, time: int) -> bool:
        firsts = self.begins.values()
        return any(time % every == 0 and bool(firsts) and time > min(firsts) for every in self.every)

    def is_ever_in(self, window: Window, time: int) -> bool:
        return self.can_be_in(window, time, None)

    def can_be_in(self, window: Window, time: int, last: int | None) -> bool:
        start = time if last is None else max(time, last)
        if window.count:  # as many as it counts may be later
            later = [e for e in self.elements if e.stream == window.stream and time < e.time <= start]
            return (sum(e.triples for e in later) if window.kind == "TRIPLES" else len(later)) < window.count
        reach = window.range_ms + window.step_ms + 2
        return window.kind == "ALL" or any(self.holds(window, time, at, True) for at in range(start, time + reach))

    # "its windows hold what came before registration too"
    def comes_before(self, stream: int, elements: list[Element], heartbeat: int | None = None) -> None:
        self._moves(stream, elements)
        self.elements += elements
        if heartbeat is not None:
            self.beats[stream] = max(heartbeat, self.beats.get(stream, heartbeat))

    # "The first evaluation is at the first close that not all of its streams had reached at registration"
    def register(self) -> None:
        known = [*self.latest.values(), *self.beats.values()]
        times = range(min(known, default=0) - 50, max(known, default=0) + 1)
        self.registered = max((time for time in times if self.all_have_come(time)), default=None)

    def _moves(self, stream: int, elements: list[Element]) -> None:
        times = [e.time for e in elements]
        if times:
            # "the first close is fixed by the first push, and moved back only by elements at or above the stream's
            # time"
            for place, window in enumerate(self.windows):
                if window.stream == stream:
                    begin = self.begins.get(place)
                    older = [time for time in times if begin is None or not self.is_below(window, time)]
                    self.begins[place] = min([*older, *([] if begin is None else [begin])])
            self.latest[stream] = max([*times, *([self.latest[stream]] if stream in self.latest else [])])

    def is_below(self, window: Window, time: int) -> bool:
        """The stream's time."""
        beat, latest = self.beats.get(window.stream), self.latest.get(window.stream)
        return (beat is not None and time < beat) or (latest is not None and time < latest - window.lateness)

    # "an arrival is evaluated at once, waiting for no other stream, at t = max(its timestamp, the query's last t); time
    # windows once per timestamp of a push, in time order (timestamps of one push that come to the same t are one
    # evaluation, over all of them)"; "An arrival that can be in no window of the query causes no evaluation"
    def push(self, stream: int, elements: list[Element]) -> tuple[list[bool], list[EmittedAt]]:
        if elements and self.t0 is None:
            self.t0 = min(e.time for e in elements) // 1000 * 1000
        self.idle.discard(stream)
        times = [e.time for e in elements]
        # "It moves at the end of each push": for closes the whole push counts.
        self._moves(stream, elements)
        late = [self.is_late(stream, e.time) for e in elements]
        out: list[EmittedAt] = []
        if self.arrivals:
            waiting, self.coming = sorted(set(times)), list(elements)
            # "NOW and count windows per element, in document order"
            if any(w.count and w.stream == stream for w in self.windows):
                out += self._one_by_one(stream, elements)
                waiting = []
            while waiting:
                # in order of time; with ] "elements of one timestamp stay together": the close comes behind them
                out += self.due_up_to(waiting[0] - any(map(self.includes_end, self.windows)))
                at = waiting[0] if self.last is None else max(waiting[0], self.last)
                same = [time for time in waiting if time <= at]
                waiting = [time for time in waiting if time > at]
                out += self.due_up_to(same[-1] - any(map(self.includes_end, self.windows)))
                self.elements += [e for e in elements if e.time in same]
                self.coming = [e for e in elements if e.time in waiting]
                if any(w.stream == stream and self.can_be_in(w, time, at) for w in self.windows for time in same):
                    self.last = at
                    self.evaluated.append((at, True))
                    out.append(self.emitted(at, True))
        else:
            self.elements += elements
        return late, out + self.due_up_to(None)

    def _one_by_one(self, stream: int, elements: list[Element]) -> list[EmittedAt]:
        out: list[EmittedAt] = []
        for element in elements:
            out += self.due_up_to(element.time - any(map(self.includes_end, self.windows)))
            at = element.time if self.last is None else max(element.time, self.last)
            self.elements.append(element)
            self.coming.remove(element)
            if any(w.stream == stream and self.can_be_in(w, element.time, at) for w in self.windows):
                self.last = at
                self.evaluated.append((at, True))
                out.append(self.emitted(at, True))
        return out

    def heartbeat(self, stream: int, time: int) -> list[EmittedAt]:
        self.idle.discard(stream)
        self.beats[stream] = max([time, *([self.beats[stream]] if stream in self.beats else [])])
        return self.due_up_to(None)

    def fall_idle(self, stream: int) -> list[EmittedAt]:
        self.idle.add(stream)
        return self.due_up_to(None)
