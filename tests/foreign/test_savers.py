"""Savers: the service's one in LangGraph's conformance suite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate

from agent_factory.service.database import Database
from agent_factory.service.saver import FencedSaver


class AnyThread:
    """A lease of each thread."""

    thread_id = ""

    def check(self, connection: object) -> None:
        """Lose no thread."""


@pytest.mark.night
async def test_the_saver_of_a_service_passes_the_conformance_suite(tmp_path: Path) -> None:
    lease: Any = AnyThread()

    async def saver() -> AsyncIterator[FencedSaver]:
        with closing(Database(f"sqlite:///{tmp_path}/threads.db")) as database:
            database.create()
            yield FencedSaver(database, lease)

    report = await validate(checkpointer_test(name="FencedSaver")(saver))
    results = {name: result.failures for name, result in report.results.items() if result.detected}
    assert not any(results.values()), results
    base = {"put", "put_writes", "get_tuple", "list", "delete_thread"}
    assert {*results} == base | {"copy_thread"}
