"""Clock of SQLite before 3.42, whose `unixepoch('subsec')` is NULL.

On Python 3.12 and newer, DBOS 3.4 asks every SQLite for it: in its queries, and in defaults of its
columns. The defaults stay in the file, so they also concern an older Python that opens it.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing

from sqlalchemy import URL, Engine, event
from sqlalchemy.dialects import plugins
from sqlalchemy.engine import CreateEnginePlugin

_PLUGIN = "agent_factory_clock"


def set_clock(connection: sqlite3.Connection, _: object) -> None:
    """Give a connection of the driver the `unixepoch` of newer versions."""
    if sqlite3.sqlite_version_info < (3, 42):
        connection.create_function("unixepoch", 1, _unixepoch)


def with_clock(url: URL) -> URL:
    """The URL, whose engines set the clock of their connections, also if a library creates it."""
    return url.update_query_dict({"plugin": _PLUGIN}, append=True)


def _unixepoch(moment: str) -> float | int | None:
    """Seconds since 1970."""
    if moment == "subsec":
        return round(time.time(), 3)
    with closing(sqlite3.connect(":memory:")) as plain:
        seconds: int | None = plain.execute(
            "select cast(strftime('%s', ?) as integer)", (moment,)
        ).fetchone()[0]
    return seconds


class _Clock(CreateEnginePlugin):
    """Plugin of SQLAlchemy: `DBOS.migrate` takes a URL, and creates an engine itself."""

    def update_url(self, url: URL) -> URL:
        return url  # SQLAlchemy itself removes the name of the plugin

    def engine_created(self, engine: Engine) -> None:
        event.listen(engine, "connect", set_clock)


# As an entry point would, which a package that runs from its source does not have.
plugins.register(_PLUGIN, __name__, _Clock.__name__)
