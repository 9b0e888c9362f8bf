"""The model of arrivals against examples that were worked out by hand from the sentences of the language."""

from __future__ import annotations

from tests.stream_ext.arrival_model import ArrivalModel, Element, Evaluation, Window

T = ("<s>", "<p>", "<o>")


def elements(*times: int, stream: int = 1, triples: int = 1) -> list[Element]:
    return [Element(stream, time, (T,) * triples) for time in times]


def held(evaluation: Evaluation, window: int = 0) -> list[int]:
    """The numbers of the elements in a window, each once for each of its triples."""
    return [number for number, _ in evaluation.contents[window]]


def new(evaluation: Evaluation, window: int = 0) -> list[int]:
    return [number for number, _ in evaluation.contents[window] if (number, 0) not in evaluation.before[window]]


def test_a_range_slides_on_arrival_and_holds_all_of_one_timestamp_at_once() -> None:
    model = ArrivalModel([Window(1, "RANGE", 10)])
    assert [(e.time, held(e)) for e in model.push(1, elements(5, 5, 9))[1]] == [(5, [0, 1]), (9, [0, 1, 2])]
    (at,) = model.push(1, elements(15))[1]
    assert (at.time, held(at), new(at)) == (15, [2, 3], [3]), "(5, 15]"


def test_timestamps_of_one_push_that_come_to_the_same_t_are_one_evaluation() -> None:
    model = ArrivalModel([Window(1, "RANGE", 10)])
    model.push(1, elements(20))
    assert [(e.time, held(e)) for e in model.push(1, elements(15, 13, 20, 22))[1]] == [
        (20, [1, 2, 0, 3]),
        (22, [1, 2, 0, 3, 4]),
    ]


def test_now_holds_what_has_arrived_of_one_timestamp_element_by_element() -> None:
    model = ArrivalModel([Window(1, "NOW")])
    late, found = model.push(1, elements(5, 5, 3, 6))
    assert [(e.time, held(e), new(e)) for e in found] == [(5, [0], [0]), (5, [0, 1], [1]), (6, [3], [3])]
    assert late == [False] * 4, "elements of one push are never late for one another"
    assert model.push(1, elements(5)) == ([True], [])


def test_a_count_window_goes_by_time_and_then_arrival_and_may_split_an_element() -> None:
    model = ArrivalModel([Window(1, "TRIPLES", count=3)])
    assert [held(e) for e in model.push(1, elements(5, 7, triples=2))[1]] == [[0, 0], [0, 1, 1]]
    (between,) = model.push(1, elements(6))[1]
    assert (between.time, held(between)) == (7, [2, 1, 1])
    assert model.push(1, elements(5)) == ([True], []), "three triples are later"
    (elements_,) = ArrivalModel([Window(1, "ELEMENTS", count=1)]).push(1, elements(5, triples=2))[1]
    assert held(elements_) == [0, 0]


def test_a_step_counts_late_ones_and_the_evaluation_comes_with_the_next_arrival() -> None:
    model = ArrivalModel([Window(1, "ELEMENTS", count=2, count_step=3)])
    assert [held(e) for e in model.push(1, elements(5, 6, 7, 8))[1]] == [[1, 2]]
    late, found = model.push(1, elements(9, 1, 10))
    assert (late, [(e.time, held(e), new(e)) for e in found]) == ([False, True, False], [(10, [4, 6], [4, 6])])


def test_a_grid_is_cut_at_the_arrival_and_what_no_instance_can_hold_makes_no_evaluation() -> None:
    model = ArrivalModel([Window(1, "RANGE", 10, 25, t0=0)])
    assert model.push(1, elements(12, 14)) == ([False, False], []), "before the first instance opens, at 15"
    assert [(e.time, held(e)) for e in model.push(1, elements(16, 20, 25, 26))[1]] == [
        (16, [2]),
        (20, [2, 3]),
        (25, [2, 3, 4]),
    ]


def test_what_came_before_the_registration_is_held_and_is_not_new() -> None:
    model = ArrivalModel([Window(1, "ALL"), Window(2, "RANGE", 4)])
    model.comes_before(elements(5, 8))
    (found,) = model.push(1, elements(7))[1]
    assert (found.time, held(found), new(found)) == (7, [0, 2], [2]), "8 is later than the evaluation"
