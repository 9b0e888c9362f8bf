"""A registered query as JSON: its status and its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stream_ext.service.service import Service


def shown_query(service: Service, name: tuple[str, int]) -> dict[str, Any]:
    found = service.query_status(name[0])
    plan = service.explain(found["text"])
    return {**found, "dialect": plan["dialect"], "plan": plan, "past": service.query_past(name[0])}
