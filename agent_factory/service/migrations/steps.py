"""Steps: the migrations, in their order."""

from __future__ import annotations

from agent_factory.service.migrations import (
    version_1,
    version_2,
    version_3,
    version_4,
    version_5,
    version_6,
    version_7,
)
from agent_factory.service.migrations.schema import Migration

MIGRATIONS: list[Migration] = [
    Migration(
        1, 1, "Bring tables from before there was a version into their form", version_1.migrate
    ),
    Migration(2, 2, "Take jobs and schedules from the tables of DBOS", version_2.migrate),
    Migration(3, 2, "Let a message name the run that has read it", version_3.migrate),
    Migration(4, 2, "Let background jobs of dead workers begin again", version_4.migrate),
    Migration(5, 2, "Keep the times of a run's steps, and notices of waits", version_5.migrate),
    Migration(6, 2, "Let background jobs outlive workers that are stopped", version_6.migrate),
    Migration(7, 2, "Let runs be found by what they were asked", version_7.migrate),
]
"""The migrations. A database of the last one's version needs none."""
