"""A network whose rows have the numbers of evaluations, in hidden columns: many evaluations are one step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_ext.language.algebra.algebra import R2S, Form, Query
from stream_ext.language.algebra.walk import template_of
from stream_ext.network.building.builder import Builder
from stream_ext.network.change_bytes import with_room
from stream_ext.network.inputs import NetworkInputs
from stream_ext.network.network import Network, salt_of
from stream_ext.network.operators.answers.cut import Cut
from stream_ext.network.operators.answers.r2s import ResultState
from stream_ext.network.operators.answers.ranking import Orders
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.parameters import Parameters
from stream_ext.network.operators.core.shared_stage import ROW_BYTES
from stream_ext.network.operators.scans.window_scan import WindowScan
from stream_ext.network.wires import Wire
from stream_ext.plan.logic import Select
from stream_ext.rows.zset import ZSet
from stream_ext.windows.arrivals import Arrival
from stream_ext.windows.scheduled_window import Times


class NumberedRowsNetwork(Network):
    @classmethod
    def over(cls, query: Query, select: Select, number: int, inputs: NetworkInputs) -> NumberedRowsNetwork:
        """For a query of this number: many evaluations at arrivals are one step. It is stepped by `changed`; the rows
        have hidden columns behind their own."""
        builder, unknown = inputs.builder(select, Orders(), True, numbered=True)
        if query.form is Form.CONSTRUCT:
            return cls._network_of(builder, *builder.graph(select, template_of(query), salt_of(number)), unknown)
        return cls._network_of(builder, *builder.query(select), unknown)

    @classmethod
    def over_many(cls, select: Select, relation: Parameters, inputs: NetworkInputs) -> NumberedRowsNetwork:
        """As `over`, for all queries of a template: `select` is its own, and they are rows of the `relation`."""
        builder, unknown = inputs.builder(select, Orders(), True, numbered=True)
        return cls._network_of(builder, *builder.shared(select, relation), unknown)

    @classmethod
    def _network_of(cls, builder: Builder, wire: Wire, cut: Cut, unknown: Sequence[bytes]) -> NumberedRowsNetwork:
        answer = ResultState(Cut((), ()), R2S.RSTREAM)  # nothing is retained of what was emitted
        return cls(builder.plan, wire, cut, answer, Orders(), unknown)

    def arrive_with(self, arrival: Arrival, came: Times) -> None:
        """As `arrive`, for numbered evaluations: `came` has for each element the number that its rows get."""
        numbers = {
            name: displacing.arrive(arrival.element_times, arrival.times, arrival.element, came)
            for name, displacing in self.displacing.items()
            if displacing.stream == arrival.stream and not arrival.is_saved
        }
        triples, of_triples = (arrival.s, arrival.p, arrival.o, arrival.g), (came[arrival.element].view(np.uint64),)
        for scan in self.scans:
            if not arrival.reaches(scan.window):
                continue
            self._added += ROW_BYTES * len(arrival.s)
            if isinstance(scan, WindowScan):
                scan.arrive(*triples, arrival.times, of_triples, arrival.copies)
            else:
                scan.arrive(triples, arrival.times, numbers[scan.window.name], ())

    def changed(self, moment: Moment) -> ZSet:
        """The rows of numbered evaluations (`Moment.evaluations`), with their hidden columns."""
        assert moment.evaluations is not None, "its evaluations are numbered"
        if moment.changes is not None:
            moment.vocabulary.renew()
        for displacing in self.displacing.values():
            displacing.displace(moment.evaluations)
        return with_room(moment.control, self._changed(moment))
