"""Steps: the migrations, in their order."""

from __future__ import annotations

from agent_factory.service.migrations import version_1
from agent_factory.service.migrations.schema import Migration

MIGRATIONS: list[Migration] = [Migration(1, 1, "Create the first tables", version_1.migrate)]
"""The migrations. A database of the last one's version needs none."""
