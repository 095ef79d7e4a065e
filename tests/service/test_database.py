"""What transactions cost: who waits for whom, and what is committed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import event, insert

from agent_factory.service import database as module
from agent_factory.service.database import Database
from agent_factory.service.errors import LeaseLost
from agent_factory.service.leases import Fence, Lease, take_lease
from agent_factory.service.tables import threads


def test_threads_of_a_process_take_turns_to_write_to_sqlite(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOCK_SECONDS", 0)  # SQLite refuses a second writer at once
    database = Database(sqlite_url)
    database.create()

    def write(number: int) -> None:
        with database.begin() as connection:
            values = {"tenant": "", "agent": "", "status": "idle", "epoch": 0, "jobs": 0}
            row = insert(threads).values(thread_id=str(number), updated_at=0, **values)
            connection.execute(row)

    with ThreadPoolExecutor(8) as pool:
        assert len([*pool.map(write, range(40))]) == 40
    database.close()


def test_the_check_before_a_tool_call_commits_nothing(database: Database) -> None:
    values = {"tenant": "", "agent": "", "status": "idle", "epoch": 0, "jobs": 0, "updated_at": 0}
    with database.begin() as connection:
        connection.execute(insert(threads).values(thread_id="t", **values))
        lease = take_lease(connection, "t")
    commits: list[object] = []
    event.listen(database.engine, "commit", commits.append)
    Fence(database, lease).on_tool_start({}, "")
    assert commits == []
    with pytest.raises(LeaseLost):
        Fence(database, Lease("t", lease.epoch - 1)).on_tool_start({}, "")
