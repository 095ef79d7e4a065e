"""Migrations of the tables of a service: numbered steps from one version to the next.

A database knows its version. An empty one gets all tables at once. An older one is refused until
`agent-factory upgrade` has taken the steps that it lacks. A newer one is used as long as the newest
step says so: steps add what older code does not miss, so that workers of two versions work at the
same time.
"""

from agent_factory.service.migrations.schema import Migration, Report, Version, version_of
from agent_factory.service.migrations.steps import MIGRATIONS
from agent_factory.service.migrations.upgrade import Upgrade, create_tables, take_step, upgrade_of

__all__ = [
    "MIGRATIONS",
    "Migration",
    "Report",
    "Upgrade",
    "Version",
    "create_tables",
    "take_step",
    "upgrade_of",
    "version_of",
]
