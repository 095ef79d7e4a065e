"""Migrations of the tables of a service: numbered steps from one version to the next.

An empty database gets all tables at once. An older database is refused until `agent-factory
upgrade` has taken the missing steps. A newer database is used if its newest step allows it: most
steps only add tables and columns, so that workers of two versions can work at the same time.

A released version never changes. The next change of a table is a module `version_N.py` with a
function `migrate`, a line in `MIGRATIONS`, and a file in `tests/service/schemas/`.
"""
