"""Assistants: agents with settings of a tenant, and versions of the settings."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args
from uuid import NAMESPACE_URL, uuid4, uuid5

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from agent_factory.service.arguments import check_choice
from agent_factory.service.backend import Backend
from agent_factory.service.errors import AlreadyExists, NotFound, ReadOnly
from agent_factory.service.messages import as_config
from agent_factory.service.rows import having, must_exist, read_row
from agent_factory.service.tables import assistant_versions as versions
from agent_factory.service.tables import assistants

AssistantSort = Literal["assistant_id", "agent", "name", "created_at", "updated_at"]
"""What assistants are sorted by."""

_SETTINGS = ("agent", "name", "description", "config", "context", "metadata")
# Agents of the code have no time of creation.
_START_TIME = time.time()


@dataclass(frozen=True, slots=True)
class Assistant:
    """An agent with settings of runs.

    Args:
        id: The id.
        agent: The name of the agent.
        name: The name, for people.
        description: The purpose.
        config: `tags`, `recursion_limit` and `configurable` of its runs.
        context: The runtime context of its runs.
        metadata: Notes; the runs have them, too.
        version: The number of these settings.
        created_at: The time of creation, in seconds since 1970; of a version in a list, its own.
        updated_at: The time of the last change.
        is_agent: Whether this is the agent of the code itself, which cannot be changed.
    """

    id: str
    agent: str
    name: str
    description: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    context: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    version: int = 1
    created_at: float = 0.0
    updated_at: float = 0.0
    is_agent: bool = False

    def settings_of(self, run: Mapping[str, Any]) -> dict[str, Any]:
        """The `config`, the `context` and the `metadata` of a run with this assistant.

        Settings of the run come first. Keys of `configurable`, `context` and `metadata` are added
        to the keys of the assistant, and tags follow its tags.

        Args:
            run: The settings of the run.

        >>> assistant = Assistant("a-1", "desk", "Gold", context={"tier": "gold"})
        >>> assistant.settings_of({"context": {"user": "ann"}})["context"]
        {'tier': 'gold', 'user': 'ann'}
        """
        context, metadata = run.get("context"), run.get("metadata") or {}
        if self.is_agent:
            return {"config": run.get("config"), "context": context, "metadata": metadata}
        parts = (run.get("config") or {}).items()
        theirs = {name: part for name, part in parts if part is not None}
        config = {**self.config, **theirs}
        ours, own = self.config.get("configurable"), theirs.get("configurable")
        # A value that is not an object is refused later, by name.
        if ours and isinstance(own, Mapping):
            config["configurable"] = {**ours, **own}
        if self.config.get("tags") and isinstance(theirs.get("tags"), list):
            config["tags"] = [*self.config["tags"], *theirs["tags"]]
        ids = {"graph_id": self.agent, "assistant_id": self.id}
        return {
            "config": config,
            "context": {**self.context, **(context or {})} or None,
            "metadata": {**self.metadata, **metadata, **ids},
        }


def assistant_id(agent: str) -> str:
    """The id of an agent among the assistants; the same on all machines.

    >>> assistant_id("desk")
    'f3483fb6-30fe-5e62-9334-11b4fc43e458'
    """
    return str(uuid5(NAMESPACE_URL, f"agent_factory:{agent}"))


class Assistants:
    """Assistants of a tenant. Each agent of the service is an assistant of every tenant, too.

    Made by `Service.assistants`.

    Args:
        backend: The parts of the service.
        tenant: The tenant. Other tenants cannot see its assistants.
    """

    def __init__(self, backend: Backend, tenant: str) -> None:
        self._backend, self._database, self._tenant = backend, backend.database, tenant

    def create(
        self,
        agent: str,
        *,
        assistant: str | None = None,
        name: str = "Untitled",
        description: str | None = None,
        config: Mapping[str, object] | None = None,
        context: Mapping[str, object] | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> Assistant:
        """Create an assistant.

        Args:
            agent: The name of the agent.
            assistant: The id; None for a new id.
            name: The name.
            description: The purpose.
            config: The config of its runs, as in `Service.client_config`.
            context: The context of its runs, as JSON.
            metadata: Notes, as JSON.

        Raises:
            NotFound: There is no such agent.
            AlreadyExists: The tenant has an assistant of this id.
            ConfigNotAllowed: As in `Service.client_config`.
        """
        settings: dict[str, Any] = {"agent": agent, "name": name, "description": description}
        parts = {"config": config, "context": context, "metadata": metadata}
        settings |= {key: dict(part or {}) for key, part in parts.items()}
        # A run with this config would raise the errors later.
        as_config(settings["config"], self._backend.agent(agent))
        id, now = assistant or str(uuid4()), self._database.now
        if any(id in (own.id, own.agent) for own in self._agents()):
            raise AlreadyExists(f"assistant {id!r}", "exists already.")
        place = {"tenant": self._tenant, "assistant_id": id, "version": 1, "created_at": now}
        try:
            with self._database.begin() as connection:
                connection.execute(insert(assistants).values(**place, updated_at=now))
                connection.execute(insert(versions).values(**place, **settings))
        # The primary key refuses the second of two requests at once.
        except IntegrityError:
            raise AlreadyExists(f"assistant {id!r}", "exists already.") from None
        return self.get(id)

    def get(self, assistant: str) -> Assistant:
        """One assistant.

        Args:
            assistant: The id, or the name of an agent.

        Raises:
            NotFound: The tenant has no such assistant.
        """
        for own in self._agents():
            if assistant in (own.id, own.agent):
                return own
        row = self._database.row(self._current().where(assistants.c.assistant_id == assistant))
        if row is None:
            names = ", ".join(self._backend.agents)
            raise NotFound(f"assistant {assistant!r}", f"does not exist. Agents: {names}.")
        return _assistant_of(row)

    def search(
        self,
        *,
        agent: str | None = None,
        name: str | None = None,
        metadata: Mapping[str, object] | None = None,
        sort_by: AssistantSort = "created_at",
        descending: bool = True,
        limit: int = 50,
        offset: int = 0,
    ) -> list[Assistant]:
        """Assistants, the newest first; a filter of None takes all.

        Args:
            agent: The agent.
            name: Part of the name, in capitals or not.
            metadata: Values of the metadata.
            sort_by: The value that orders the assistants.
            descending: Whether the highest value comes first.
            limit: The most to return.
            offset: Assistants to skip before the first.
        """
        check_choice("sort_by", sort_by, get_args(AssistantSort))
        # All rows of a tenant are read: agents are in no table, and are sorted among the rows.
        matches = self._matching(agent, name, metadata or {})
        key = {"assistant_id": "id"}.get(sort_by, sort_by)
        matches.sort(key=lambda match: getattr(match, key), reverse=descending)
        return matches[offset:][:limit]

    def count(
        self,
        *,
        agent: str | None = None,
        name: str | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> int:
        """Count the assistants of `search` without a limit."""
        return len(self._matching(agent, name, metadata or {}))

    def change(self, assistant: str, **settings: Any) -> Assistant:
        """Write a new version of an assistant, which its next runs take.

        Args:
            assistant: The id.
            **settings: Changed arguments of `create`. Keys of `metadata` are added to the present
                keys; `config` and `context` are replaced.

        Raises:
            NotFound: There is no such assistant or agent.
            ReadOnly: The assistant is an agent of the code.
            ConfigNotAllowed: As in `create`.
        """
        current = self._own(assistant)
        if "metadata" in settings:
            settings["metadata"] = {**current.metadata, **settings["metadata"]}
        values = {name: settings.get(name, getattr(current, name)) for name in _SETTINGS}
        as_config(values["config"], self._backend.agent(values["agent"]))
        with self._database.begin() as connection:
            self._lock(connection, assistant)
            # After `set_latest`, runs do not take the newest version.
            newest = select(func.max(versions.c.version)).where(*self._of(versions, assistant))
            number = (connection.execute(newest).scalar() or 0) + 1
            place = {"tenant": self._tenant, "assistant_id": assistant, "version": number}
            row = insert(versions).values(**place, created_at=self._database.now, **values)
            connection.execute(row)
            self._take(connection, assistant, number)
        return self.get(assistant)

    def versions(
        self,
        assistant: str,
        *,
        metadata: Mapping[str, object] | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> list[Assistant]:
        """The versions of an assistant, the newest first.

        Raises:
            NotFound: There is no such assistant.
        """
        # An agent of the code has one version.
        current = self.get(assistant)
        if current.is_agent:
            return [current][offset:][:limit]
        query = select(versions, versions.c.created_at.label("updated_at"))
        query = query.where(*self._of(versions, assistant)).order_by(versions.c.version.desc())
        every, wanted = map(_assistant_of, self._database.rows(query)), (metadata or {}).items()
        matches = [match for match in every if wanted <= match.metadata.items()]
        return matches[offset:][:limit]

    def set_latest(self, assistant: str, version: int) -> Assistant:
        """Let the next runs of an assistant take one of its versions.

        Raises:
            NotFound: There is no such assistant or version.
            ReadOnly: The assistant is an agent of the code.
        """
        self._own(assistant)
        of_version = select(versions.c.version).where(*self._of(versions, assistant))
        with self._database.begin() as connection:
            self._lock(connection, assistant)
            if connection.execute(of_version.filter_by(version=version)).first() is None:
                raise NotFound(f"assistant {assistant!r}", f"has no version {version}.")
            self._take(connection, assistant, version)
        return self.get(assistant)

    def delete(self, assistant: str) -> None:
        """Delete an assistant and its versions. Its runs go on.

        Raises:
            NotFound: There is no such assistant.
            ReadOnly: The assistant is an agent of the code.
        """
        self._own(assistant)
        with self._database.begin() as connection:
            for table in (assistants, versions):
                connection.execute(delete(table).where(*self._of(table, assistant)))

    def _agents(self) -> list[Assistant]:
        """The agents of the service, as assistants."""
        facts: dict[str, Any] = {"metadata": {"created_by": "system"}, "is_agent": True}
        facts |= dict.fromkeys(("created_at", "updated_at"), _START_TIME)
        return [Assistant(assistant_id(name), name, name, **facts) for name in self._backend.agents]

    def _own(self, assistant: str) -> Assistant:
        """An assistant of the tenant, not of the code."""
        current = self.get(assistant)
        if current.is_agent:
            reason = f"is agent {current.agent!r} itself, and cannot be changed or deleted."
            raise ReadOnly(f"assistant {assistant!r}", reason, "Create an assistant for it.")
        return current

    def _matching(
        self, agent: str | None, name: str | None, metadata: Mapping[str, object]
    ) -> list[Assistant]:
        query = self._current().where(*having(versions, agent=agent))
        if name is not None:
            query = query.where(versions.c.name.icontains(name, autoescape=True))
        rows = self._database.rows(query.order_by(assistants.c.created_at))
        agents = [
            own
            for own in self._agents()
            if agent in (None, own.agent) and (name or "").casefold() in own.name.casefold()
        ]
        matches = [*agents, *map(_assistant_of, rows)]
        # Compared here: databases compare numbers and texts in JSON differently.
        return [match for match in matches if metadata.items() <= match.metadata.items()]

    def _current(self) -> Select[Any]:
        """A query for the assistants of the tenant, with the version for runs."""
        names = ("tenant", "assistant_id", "version")
        on = and_(*(versions.c[name] == assistants.c[name] for name in names))
        columns = [column for column in versions.c if column.name != "created_at"]
        query = select(*columns, assistants.c.created_at, assistants.c.updated_at)
        return query.join(assistants, on).where(assistants.c.tenant == self._tenant)

    def _of(self, table: Any, assistant: str) -> tuple[ColumnElement[bool], ...]:
        return table.c.tenant == self._tenant, table.c.assistant_id == assistant

    def _lock(self, connection: Connection, assistant: str) -> None:
        """Keep others from writing versions until the transaction ends; NotFound if it is gone."""
        query = select(assistants).where(*self._of(assistants, assistant)).with_for_update()
        must_exist(connection.execute(query).first(), f"assistant {assistant!r}")

    def _take(self, connection: Connection, assistant: str, version: int) -> None:
        changed = update(assistants).where(*self._of(assistants, assistant))
        connection.execute(changed.values(version=version, updated_at=self._database.now))


def _assistant_of(row: Row[Any]) -> Assistant:
    return read_row(Assistant, row, id=row.assistant_id, is_agent=False)
