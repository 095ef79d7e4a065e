"""Migrations of the tables of a service: numbered steps from one version to the next.

An empty database gets all tables at once. An older database is refused until `agent-factory
upgrade` has taken the missing steps. A newer database is used if its newest step allows it: most
steps only add tables and columns, so that workers of two versions can work at the same time.

A released version never changes. The next change of a table is a module `version_N.py` with a
function `migrate`, a line in `MIGRATIONS`, and a file in `tests/service/schemas/`.
"""

from agent_factory.service.migrations.schema import (
    Migration,
    Report,
    Version,
    add_column,
    version_of,
)
from agent_factory.service.migrations.steps import MIGRATIONS
from agent_factory.service.migrations.upgrade import Upgrade, create_tables, take_step, upgrade_of

__all__ = [
    "MIGRATIONS",
    "Migration",
    "Report",
    "Upgrade",
    "Version",
    "add_column",
    "create_tables",
    "take_step",
    "upgrade_of",
    "version_of",
]
