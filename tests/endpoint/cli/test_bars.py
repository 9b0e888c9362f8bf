"""The line of bars of `rillet watch`."""

from __future__ import annotations

from typing import Any

from endpoint.cli.bars import Bars


def emission(*rows: dict[str, str]) -> dict[str, Any]:
    """With these rows; a value of digits is a number."""
    datatype = "http://www.w3.org/2001/XMLSchema#decimal"
    bindings = [
        {
            name: {"type": "literal", "value": value, **({"datatype": datatype} if value[0].isdigit() else {})}
            for name, value in row.items()
        }
        for row in rows
    ]
    return {"head": {"vars": list(rows[0]) if rows else []}, "results": {"bindings": bindings}}


def test_the_mean_of_a_column_that_changes_is_drawn() -> None:
    bars = Bars()
    assert bars.line(emission({"room": "a", "limit": "40", "mean": "0"})) == "?limit █"  # nothing has changed yet
    assert bars.line(emission({"room": "a", "limit": "40", "mean": "14"})) == "?mean ▁█"
    two = ({"room": "a", "limit": "40", "mean": "6"}, {"room": "b", "limit": "40", "mean": "10"})
    assert bars.line(emission(*two)) == "?mean ▁█▅"


def test_without_numbers_it_is_how_many_rows_there_are() -> None:
    bars = Bars()
    assert bars.line(emission())[:5] == "rows "
    assert bars.line(emission({"room": "a"}, {"room": "b"})) == "rows ▁█"
