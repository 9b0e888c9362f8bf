"""The network: the operators of a query, connected; the same for a one-shot query and for a registered one.

A network knows no clock, no process, and of the store only the snapshot of the moment that it is stepped with. A
one-shot query is a network that is stepped once, with the whole store as the change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hbase_store import Snapshot
from stream_ext.language.algebra.algebra import R2S, Form, Query
from stream_ext.language.algebra.walk import template_of
from stream_ext.network.ahead import fetch_for_joins
from stream_ext.network.change_bytes import LOOKS, MANY, count_alive, with_room
from stream_ext.network.early_stop import driver_of, piece_by_piece
from stream_ext.network.inputs import NetworkInputs
from stream_ext.network.measuring import bytes_of
from stream_ext.network.one_pattern import columns_of, places_of_answer
from stream_ext.network.operator_meter import OperatorMeter
from stream_ext.network.operators.answers.construct import Construct
from stream_ext.network.operators.answers.cut import Cut
from stream_ext.network.operators.answers.r2s import ResultState
from stream_ext.network.operators.answers.range_answer import RangeAnswer
from stream_ext.network.operators.answers.ranking import Orders, own_order
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.parameters import Parameters
from stream_ext.network.operators.core.pattern import IdPattern
from stream_ext.network.operators.core.reevaluated import Reevaluated
from stream_ext.network.operators.core.shareable import Shareable
from stream_ext.network.operators.core.shared_stage import (
    COLUMN_BYTES,
    ROW_BYTES,
    SharedReader,
    SharedStage,
    read_only_by,
)
from stream_ext.network.operators.joins.store_join import StoreJoin
from stream_ext.network.operators.remote.source_evaluation import SourceEvaluation
from stream_ext.network.operators.scans.ends import NO_TIME
from stream_ext.network.operators.scans.numbered_scan import NumberedCountedScan
from stream_ext.network.operators.scans.occurrence_scan import OccurrenceScan, arrived, occurrences
from stream_ext.network.operators.scans.window_scan import WindowScan
from stream_ext.network.sharing import NetworkSharing
from stream_ext.network.tracing import Traced, traced_stages
from stream_ext.network.unread_removals import omit_unread_removals
from stream_ext.network.wires import Plan, Scan, Stage, Wire, in_steps
from stream_ext.plan.logic import Select
from stream_ext.plan.properties.partial_groups import in_range
from stream_ext.plan.templates.parameters import QueryTemplate
from stream_ext.rows.zset import Columns, Ids, Weights, ZSet, in_order
from stream_ext.windows.arrivals import Arrival


def _only_expires(stage: Stage) -> bool:
    """Whether time alone brings no row; a scan says itself when it does."""
    operator = stage.operator
    return isinstance(operator, Shareable) and operator.is_monotone and not operator.shows_again


def salt_of(number: int) -> bytes:
    """Each registered query makes blank nodes of its own."""
    return b"%d" % number


class Network:
    """Stages in an order in which each comes after its inputs; the last one's rows are the answer."""

    def __init__(
        self,
        plan: Plan,
        last: Wire,
        cut: Cut,
        answer: ResultState,
        orders: Orders,
        unknown: Sequence[bytes],
        construct_at_end: Construct | None = None,
    ) -> None:
        """Use `of_query`, `registered` or `shared`. `unknown`: constants that the store does not know."""
        self.stages = plan.stages
        self.scans, self.counted, self.displacing = plan.scans, plan.counted, plan.displacing
        self.cut, self.answer, self.unknown = cut, answer, unknown
        self.construct_at_end = construct_at_end
        self._orders, self.last_stage = orders, last.stage
        if not answer.reads_removals:
            omit_unread_removals(self.stages, self.last_stage)
        self._driver = driver_of(self.stages, self.last_stage)
        self._steps = in_steps(self.stages, self.last_stage, self.scans)
        self._meter: OperatorMeter | None = None  # while somebody looks
        self._reevaluated = [each for stage in self.stages if isinstance(each := stage.operator, Reevaluated)]
        self._retained = self._added = 0  # bytes of the state at the last measurement, and bytes added since
        self.sharing: NetworkSharing | None = None  # what it shares with other networks
        self._enough = cut.enough
        self._only_expires = all(map(_only_expires, self.stages))
        self._read_only: list[SharedStage] | None = None  # if no rows can come but from these
        self._passed: int | None = None  # up to this evaluation it was passed by
        self._only_pattern = places_of_answer(self.stages, self.last_stage, cut, answer, orders)

    @classmethod
    def of_query(
        cls,
        select: Select,
        inputs: NetworkInputs,
        r2s: R2S = R2S.RSTREAM,
        orders: Orders | None = None,
        held: bool = False,
    ) -> Network:
        """For a query that is evaluated once, or again and again without anything that is stored of it. `orders`: the
        orders of first appearance, if it was evaluated before. `held`: an evaluation of a registered query is
        repeated."""
        orders = orders or Orders()
        builder, unknown = inputs.builder(select, orders, held)
        wire, cut = builder.query(select)
        answer = ResultState(cut, r2s, ranking=own_order(orders, cut))
        return cls(builder.plan, wire, cut, answer, orders, unknown)

    @classmethod
    def registered(
        cls,
        query: Query,
        select: Select,
        number: int,
        inputs: NetworkInputs,
        orders: Orders,
        bags: bool = False,
        returns: bool = False,
    ) -> Network:
        """For a registered query, of this number. It returns its answers after R2S; `bags`: whole answers, before they
        are ordered and cut. `returns`: not every step is an evaluation. `orders` survive the network."""
        select = in_range(select) if inputs.has_partial_groups else select
        builder, unknown = inputs.builder(select, orders, True)
        at_end = None
        if query.form is Form.CONSTRUCT and not inputs.has_partial_groups:
            quads, salt = template_of(query), salt_of(number)
            wire, cut = builder.graph(select, quads, salt)
            # If the solutions are cut, the triples are made at the end, of those that are left.
            at_end = Construct(cut.names, quads, salt) if cut.is_limited else None
        else:
            wire, cut = builder.query(select)
        if bags:
            answer = ResultState(Cut(cut.variables, cut.variables), R2S.RSTREAM)
        elif inputs.is_summed:
            is_set = select.distinct or query.form is not Form.SELECT or inputs.has_partial_groups
            answer = RangeAnswer(cut, query.emits, is_set)
        else:
            answer = ResultState(cut, query.emits, at_end, returns, own_order(orders, cut))
        return cls(builder.plan, wire, cut, answer, orders, unknown, at_end)

    @classmethod
    def shared(cls, template: QueryTemplate, relation: Parameters, inputs: NetworkInputs) -> Network:
        """For all queries of a template; the first column of its rows is the query's row in the relation."""
        orders, select = Orders(), template.select
        select = in_range(select) if inputs.has_partial_groups else select
        builder, unknown = inputs.builder(select, orders, True)
        wire, cut = builder.shared(select, relation)
        answer = ResultState(cut, template.r2s, ranking=own_order(orders, cut))
        if inputs.is_summed:
            answer = RangeAnswer(cut, template.r2s, select.distinct or inputs.has_partial_groups)
        return cls(builder.plan, wire, cut, answer, orders, unknown)

    def with_patterns(self, patterns: Sequence[tuple[int, IdPattern]], unknown: Sequence[bytes]) -> Network:
        """The same network with other constants in the patterns of these stages, which join with the store. Both are
        for queries that are evaluated once. `unknown`: those that the store does not know."""
        other = Network.__new__(Network)
        other.__dict__.update(self.__dict__)
        stages = list(self.stages)
        for number, pattern in patterns:
            stage = stages[number]
            assert isinstance(stage.operator, StoreJoin), "a constant is in a pattern of the store"
            stages[number] = msgspec.structs.replace(stage, operator=stage.operator.with_pattern(pattern))
        other.stages, other.unknown = stages, unknown
        other._steps = [(at, stages[at], done) for at, _, done in self._steps]
        return other

    def reconnect(self, scans: Sequence[Scan]) -> None:
        """Some of its stages were replaced; `scans`: those that it has alone."""
        self.scans = list(scans)
        self._steps = in_steps(self.stages, self.last_stage, self.scans)
        stepped = [stage.operator for stage in self.stepped_stages]
        self._read_only = None if self.scans or self.counted else read_only_by(stepped)

    @property
    def stepped_stages(self) -> list[Stage]:
        return [stage for _, stage, _ in self._steps]

    def arrive(self, arrival: Arrival) -> None:
        """Adds triples of a stream; they count from the first evaluation whose windows contain them."""
        if self.sharing is not None:
            self.sharing.arrive(arrival)
        if not self.scans and not self.counted:
            return
        numbers = {
            name: counted.arrive(arrival.element_times, arrival.times, arrival.element)
            for name, counted in self.counted.items()
            if counted.stream == arrival.stream and not arrival.is_saved
        }
        for scan in self.scans:
            if not arrival.reaches(scan.window):
                continue
            self._added += ROW_BYTES * len(arrival.s)
            if isinstance(scan, NumberedCountedScan):
                raise TypeError("elements for numbered evaluations arrive with their numbers")
            if isinstance(scan, WindowScan):
                extra = arrived(arrival) if isinstance(scan, OccurrenceScan) else ()
                scan.arrive(arrival.s, arrival.p, arrival.o, arrival.graphs, arrival.of_times, extra, arrival.copies)
            else:
                triples = (arrival.s, arrival.p, arrival.o, arrival.g)
                extra = occurrences(arrival) if scan.has_occurrences else ()
                scan.arrive(triples, arrival.times, numbers[scan.window.name], extra)

    @property
    def answer_variables(self) -> tuple[str, ...]:
        """The columns of its rows, before they are ordered and cut."""
        return self.stages[self.last_stage].operator.variables

    @property
    def source_as_of(self) -> tuple[int, int] | None:
        """If a source evaluates the query: of which time its data are."""
        found = (stage.operator.as_of for stage in self.stages if isinstance(stage.operator, SourceEvaluation))
        return next(found, None)

    def settle(self, time: int | None = None) -> None:
        """What has arrived is not new any more (`Moment.without_new`); where windows close, what was before the end of
        their instances at `time`."""
        for scan in self.scans:
            scan.settle(time)

    def retained_bytes(self, most: int) -> int:
        """The bytes of the operators' state. They are measured again when so much was added that it may matter for the
        limit `most`."""
        if self.sharing is not None and (come := self.sharing.come()):
            self._added += come
        if self._added > most // LOOKS:
            self._retained, self._added = self.state_bytes, 0
        return self._retained + self._added

    def next_change(self, time: int) -> int | None:
        """Before this time the result is the one at `time`, or empty, if nothing arrives; None: that is not known.

        What leaves a window matters if an operator notices it, or if the answer has it. Otherwise the network is to be
        stepped once all has left, to forget it."""
        scans = [] if self.sharing is None else self.sharing.next_changes(time)
        for scan in self.scans:
            if not isinstance(scan, WindowScan):
                return None
            scans.append(scan.next_changes(time))
        if self.may_turn():
            return None
        own = self.answer.next_change() if self._only_expires else None
        found, gone = NO_TIME if own is None else own, 0
        for comes, leaves, left, shows_again in scans:
            found = min(found, comes) if own is not None and not shows_again else min(found, comes, leaves)
            gone = max(gone, left if left < NO_TIME else 0)
        return min(found, gone) if gone > time else found

    def is_unchanged(self, sn: int, time: int) -> bool:
        """Whether it is known, as others have stepped all that it reads, that nothing changes at this evaluation: then
        it may be passed by."""
        if not self._read_only or self._meter is not None:
            return False
        for stage in self._read_only:
            change = stage.change_at(sn, time)
            if change is None or change.count or change.omitted:
                return False
        return self.answer.stays_at(sn, time)

    def pass_by(self, time: int) -> None:
        """It was not stepped at the evaluation at this time, since nothing changed up to there."""
        self._passed = time

    def catch_up(self) -> None:
        """Its answer is that of the last evaluation, also if it was passed by."""
        if self._passed is not None:
            self.answer.pass_by(self._passed)
            self._passed = None

    def meter(self) -> OperatorMeter:
        """The meter of its operators, which begins now if nobody looked lately. Any thread may call."""
        meter = self._meter
        if meter is None:
            self._meter = meter = OperatorMeter(self.stages, self._steps)
        return meter

    @property
    def state_bytes(self) -> int:
        """Measured now."""
        own: list[object] = [each for stage in self.stages if not isinstance(each := stage.operator, SharedReader)]
        own.append(self.answer)
        return bytes_of(own) if self.sharing is None else self.sharing.state_bytes(own)

    def may_turn(self) -> bool:
        """Whether time alone may change the answer: stored rows are tested by a function of the moment, such as
        NOW()."""
        return bool(self._reevaluated) and any(operator.has_rows() for operator in self._reevaluated)

    def step(self, moment: Moment) -> tuple[Columns, Weights]:
        """One evaluation: the rows that it emits; in no order, unless the query has ORDER BY."""
        return self._answered(moment, self._renewed(moment))

    def _renewed(self, moment: Moment) -> ZSet:
        if moment.changes is not None:
            moment.vocabulary.renew()
        return self._changed(moment)

    def _answered(self, moment: Moment, change: ZSet) -> tuple[Columns, Weights]:
        if self._passed is not None:
            self.catch_up()
        return self.answer.step(moment, with_room(moment.control, change))

    def emitted(self, moment: Moment) -> tuple[Columns, Weights]:
        """As `step`, in an order that does not depend on how the input was cut into steps."""
        return self._in_order(self._answered(moment, self._renewed(moment)))

    def emitted_if_changed(self, moment: Moment) -> tuple[Columns, Weights] | None:
        """As `emitted`; None: nothing has changed, so it may be passed by."""
        change = self._renewed(moment)
        if not change.count and not change.omitted and self.answer.stays_at(int(moment.snapshot.sn), moment.time):
            return None
        return self._in_order(self._answered(moment, change))

    def _in_order(self, emitted: tuple[Columns, Weights]) -> tuple[Columns, Weights]:
        return emitted if self.answer.is_in_order else in_order(*emitted)

    def once(self, moment: Moment, enough: int | None = None) -> ZSet:
        """The answer of a one-shot query, in order; only `enough` rows of it, if that is given."""
        enough = self._enough if enough is None else enough
        fetch_for_joins(moment.snapshot, self.stages)
        if enough is None or self._driver is None or self._orders.are_resumed:
            change = self._changed(moment)
        else:
            change = piece_by_piece(self.stages, self.last_stage, moment, self._driver, enough)
        return self.answer.once(moment, with_room(moment.control, change))

    def of_one_pattern(self, snapshot: Snapshot) -> list[Ids] | None:
        """The columns of the answer, if the query is one pattern about one vertex; None: it is more."""
        places = self._only_pattern
        return None if places is None else columns_of(self.stages[self.last_stage], places, snapshot)

    def expected(self, enough: int | None = None) -> float:
        """The number of rows that the operators are expected to produce together; `enough` as for `once`."""
        if self._driver is not None and (self._enough if enough is None else enough) is not None:
            return 0.0  # the first pieces will mostly do
        return sum(stage.estimate for stage in self.stages)

    def _changed(self, moment: Moment) -> ZSet:
        """Steps all stages; releases each change when the last stage has read it."""
        steps = self._steps
        if (meter := self._meter) is not None:
            if meter.steps is steps and meter.stepped():
                steps = meter.metered_steps
            else:  # nobody looks any more, or some operators are others now
                self._meter = None
        control, is_registered = moment.control, not moment.last
        if len(steps) == 1 and is_registered:  # as of a query that shares all that it does
            ((_, stage, _),) = steps
            control.check()
            change: ZSet = stage.operator.step(moment)
            if change.count:
                self._count(change)
            if change.count > MANY:
                count_alive(control, [change])
            return change
        changes: list[Any] = [None] * len(self.stages)
        many = False  # whether any change has many rows
        for at, stage, done in steps:
            control.check()
            inputs = [changes[i] for i in stage.inputs]
            if many:
                for each in inputs:
                    with_room(control, each)
            change = changes[at] = stage.operator.step(moment, *inputs)
            for i in done:
                changes[i] = None
            if (count := change.count) and is_registered:
                self._count(change)
            if count > MANY:
                many = True
                count_alive(control, [each for each in changes if each is not None])
        found: ZSet = changes[self.last_stage]
        return found

    def _count(self, change: ZSet) -> None:
        """What an operator has put out may be remembered."""
        self._added += change.count * (change.width * COLUMN_BYTES + ROW_BYTES)

    def traced(self, moment: Moment) -> tuple[ZSet, list[Traced]]:
        """As `once`, but always of all rows; and the rows and the time of each stage."""
        fetch_for_joins(moment.snapshot, self.stages)
        changes, traces = traced_stages(self.stages, moment)
        return self.answer.once(moment, changes[self.last_stage]), traces
