"""Versions of packages that a service needs, checked before it opens a database."""

from __future__ import annotations

import sqlite3
from importlib.metadata import PackageNotFoundError, version

from packaging.version import Version

from agent_factory.errors import install
from agent_factory.service.errors import ServiceError

STORES_SINCE = Version("3.1.1")
"""Release of LangGraph's stores from which on a prefix of a namespace matches whole labels.

Older stores compare texts: a search for the items of tenant "a" also returns items of "aa".
pyproject.toml has the same bound, which an installation with `--no-deps` does not keep.
"""

SQLITE_SINCE = (3, 35, 0)
"""Release of SQLite that has RETURNING."""


def check_versions(*, sqlite: bool) -> None:
    """Raise ServiceError for versions that would mix the items of tenants, or lack RETURNING."""
    package = f"langgraph-checkpoint-{'sqlite' if sqlite else 'postgres'}"
    extra = "service" if sqlite else "postgres"
    try:
        installed = version(package)
    except PackageNotFoundError:
        reason = f"needs {package} {STORES_SINCE} or newer, which is not installed."
        raise ServiceError("the store", reason, f"Run {install(extra)}.") from None
    if Version(installed) < STORES_SINCE:
        mixes = f"got {installed}, which returns items of one tenant to others."
        hint = f"Run pip install '{package}>={STORES_SINCE}'."
        raise ServiceError("the store", f"needs {package} {STORES_SINCE} or newer, {mixes}", hint)
    if sqlite and sqlite3.sqlite_version_info < SQLITE_SINCE:
        needed = ".".join(map(str, SQLITE_SINCE))
        found = f"got {sqlite3.sqlite_version}, to which this Python is linked."
        hint = "Use a Python with a newer SQLite, or Postgres."
        raise ServiceError("SQLite", f"must be {needed} or newer, {found}", hint)
