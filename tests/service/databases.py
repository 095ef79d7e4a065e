"""New databases in a server of Postgres."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from sqlalchemy import create_engine, text


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
