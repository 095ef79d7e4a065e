"""Pace: times of a service that cannot be waited for, and who keeps to them."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import insert

from agent_factory import create_agent
from agent_factory.errors import ArgumentError
from agent_factory.service import NoWorker, Pace, Service
from agent_factory.service.tables import workers
from agent_factory.testing import ScriptedChatModel
from service.stored import Tables
from tables import each


@each(
    "times, text",
    [
        ({"beat": -1}, "pace.beat: must be seconds, 0 or more, got -1"),
        ({"look": float("inf")}, "pace.look: must be seconds, 0 or more, got inf"),
        ({"wake": "1s"}, "pace.wake: must be seconds, 0 or more, got '1s'"),
        ({"retries": [1.0]}, r"pace.retries: must be a tuple of seconds, 0 or more, got \[1.0\]"),
        ({"retries": (1.0, -1.0)}, r"pace.retries: must be a tuple of seconds, 0 or more"),
    ],
)
def test_a_time_that_cannot_be_waited_for_is_refused(times: dict[str, Any], text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        Pace(**times)


@pytest.mark.parametrize(("dead_after", "is_dead"), [(10.0, True), (100.0, False)])
def test_callers_take_a_worker_for_dead_when_workers_do(
    url: str, tables: Tables, dead_after: float, is_dead: bool
) -> None:
    detail = '{"agents": ["desk"]}'
    row = {"id": "w", "beat": tables.now - 50, "draining": False, "detail": detail}
    tables.write(insert(workers).values(row))
    with closing(Service(url, pace=Pace(dead_after=dead_after))) as service:
        service.add("desk", create_agent(ScriptedChatModel(["Hi."])))
        with pytest.raises(TimeoutError) as error:
            service.submit("desk", message="Hi").result(0)
    assert isinstance(error.value, NoWorker) == is_dead
