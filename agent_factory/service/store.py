"""TenantStore: LangGraph's store in the database of the service, for one tenant."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchOp,
)
from sqlalchemy import make_url

from agent_factory.errors import ArgumentError
from agent_factory.service.database import Database, driver_connection, explained, set_up_sqlite
from agent_factory.service.leases import aborting
from agent_factory.state import check_json

_KEY = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_OPERATORS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")
_MOST_CONDITIONS = 100


class TenantStore(BaseStore):
    """Store of a tenant, across threads, for agents and clients.

    Each batch is one transaction. The namespaces of a tenant begin with a label of the tenant,
    which callers do not see. Items have no index for semantic search and no time to live. A run
    aborts if the database is not available.
    """

    def __init__(self, database: Database, tenant: str, *, in_run: bool = False) -> None:
        self._database, self._in_run = database, in_run
        # In hexadecimal: SqliteStore searches by patterns, and no namespace may contain a dot.
        self._label = f"tenant-{tenant.encode().hex()}"

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations in one transaction; ArgumentError for impossible values."""
        operations = [self._placed(op) for op in ops]
        with aborting() if self._in_run else nullcontext(), self._opened() as store:
            return [self._bare(result) for result in store.batch(operations)]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Async variant of `batch`."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._database.threads, partial(self.batch, [*ops]))

    @contextmanager
    def _opened(self) -> Iterator[BaseStore]:
        if self._database.is_sqlite:
            from langgraph.store.sqlite import SqliteStore

            self._database.set_up()
            path = make_url(self._database.url).database
            assert path is not None
            # SqliteStore begins and commits transactions, so it cannot share one.
            with explained(), closing(sqlite3.connect(path, timeout=30)) as connection:
                set_up_sqlite(connection, None)
                connection.isolation_level = None
                store = SqliteStore(connection)
                store.is_setup = True  # `set_up` has created its tables
                yield store
            return
        from langgraph.store.postgres import PostgresStore

        with self._database.begin() as transaction:
            yield PostgresStore(driver_connection(transaction))

    def _placed(self, op: Op) -> Op:
        """An operation on the namespaces of the tenant."""
        _check(op)
        if isinstance(op, GetOp | PutOp):
            return op._replace(namespace=(self._label, *op.namespace))
        if isinstance(op, SearchOp):
            return op._replace(namespace_prefix=(self._label, *op.namespace_prefix))
        assert isinstance(op, ListNamespacesOp)
        conditions = [
            condition._replace(path=(self._label, *condition.path))
            if condition.match_type == "prefix"
            else condition
            for condition in op.match_conditions or ()
        ]
        # Otherwise the namespaces of all tenants would be listed.
        if all(condition.match_type != "prefix" for condition in conditions):
            conditions.append(MatchCondition("prefix", (self._label,)))
        depth = None if op.max_depth is None else op.max_depth + 1
        return op._replace(match_conditions=tuple(conditions), max_depth=depth)

    def _bare(self, result: object) -> Any:
        """A result without the label of the tenant."""
        if isinstance(result, list):
            return [self._bare(item) for item in result]
        # A namespace, as ListNamespacesOp returns it.
        if isinstance(result, tuple):
            return result[1:]
        if isinstance(result, Item):
            result.namespace = tuple(result.namespace)[1:]
        return result


def _check(op: Op) -> None:
    """Raise ArgumentError for values that a database would refuse, or would change.

    LangGraph's stores raise different errors for the same filter, and check little.
    """
    for name, value in op._asdict().items():
        if name in ("namespace", "namespace_prefix", "key", "value", "filter"):
            check_json(name, value)
    if not isinstance(op, SearchOp) or not op.filter:
        return
    conditions = 0
    for key, value in op.filter.items():
        if not _KEY.fullmatch(key):
            expected = "must have keys of letters, digits, '_', '-' and '.'"
            raise ArgumentError("filter", f"{expected}, got {key!r:.60}.")
        operators = value if isinstance(value, dict) else ("$eq",)
        for operator in operators:
            if operator not in _OPERATORS:
                expected = f"must be one of {', '.join(_OPERATORS)}"
                raise ArgumentError(f"filter.{key}", f"{expected}, got {operator!r:.60}.")
        conditions += len(operators)
    if conditions > _MOST_CONDITIONS:
        reason = f"must have at most {_MOST_CONDITIONS} conditions, got {conditions}."
        raise ArgumentError("filter", reason)
