"""The version after this one, for tests of rolling updates: `python -m service.next_version`."""

from __future__ import annotations

import json
import sys
from typing import Any

from sqlalchemy import Column, Connection, MetaData, String, Table

from agent_factory.service.database import Database
from agent_factory.service.migrations import MIGRATIONS, Migration, Report, add_column
from agent_factory.service.tables import threads

_NOTE = Table(threads.name, MetaData(), Column("note", String)).c.note


def migration(oldest: int) -> Migration:
    """A step that adds a column which older code does not know."""

    def migrate(connection: Connection, report: Report) -> None:
        add_column(connection, _NOTE)
        report(1, 1)

    return Migration(MIGRATIONS[-1].version + 1, oldest, "Add notes to threads", migrate)


def main(command: str, url: str, *arguments: Any) -> None:
    """Upgrade a database as the next version does, or run its worker."""
    MIGRATIONS.append(migration(oldest=MIGRATIONS[-1].version))
    threads.append_column(Column("note", String))
    if command == "upgrade":
        Database(url).upgrade()
        return
    from service import worker_process

    worker_process.main(url, arguments[0], **json.loads(arguments[1]))


if __name__ == "__main__":
    main(*sys.argv[1:])
