"""Where threads are kept: nowhere, in memory, in a file; and a saver that only weighs."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import WRITES_IDX_MAP, get_checkpoint_metadata
from langgraph.checkpoint.memory import InMemorySaver


class Mode(StrEnum):
    """How an agent is run."""

    SYNC = "sync"
    ASYNC = "async"


class Saver(StrEnum):
    """Where the thread of a run is kept."""

    NONE = "no saver"
    MEMORY = "memory"
    SQLITE = "SQLite"


THREAD = "one"
CONFIG: Any = {"configurable": {"thread_id": THREAD}}
"""The thread that every run here has."""


@dataclass(frozen=True, slots=True)
class Kept:
    """An open saver.

    Args:
        saver: What an agent gets, or None.
        forget: Deletes the thread.
    """

    saver: Any
    forget: Callable[[], object]


@contextmanager
def opened(saver: Saver, mode: Mode, runner: asyncio.Runner) -> Iterator[Kept]:
    """A saver for runs in this mode, with its file if it has one."""
    if saver is Saver.NONE:
        yield Kept(None, lambda: None)
    elif saver is Saver.MEMORY:
        memory = InMemorySaver()
        yield Kept(memory, lambda: memory.delete_thread(THREAD))
    else:
        with tempfile.TemporaryDirectory() as folder:
            file = str(Path(folder, "threads.db"))
            kept = _sqlite(file) if mode is Mode.SYNC else _async_sqlite(file, runner)
            with kept as found:
                yield found


@contextmanager
def _sqlite(file: str) -> Iterator[Kept]:
    from langgraph.checkpoint.sqlite import SqliteSaver

    with closing(sqlite3.connect(file, check_same_thread=False)) as connection:
        saver = SqliteSaver(connection)
        yield Kept(saver, lambda: saver.delete_thread(THREAD))


@contextmanager
def _async_sqlite(file: str, runner: asyncio.Runner) -> Iterator[Kept]:
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    manager = AsyncSqliteSaver.from_conn_string(file)
    saver = runner.run(_entered(manager))
    try:
        yield Kept(saver, lambda: runner.run(saver.adelete_thread(THREAD)))
    finally:
        runner.run(_left(manager))


async def _entered(manager: Any) -> Any:
    return await manager.__aenter__()


async def _left(manager: Any) -> None:
    await manager.__aexit__(None, None, None)


class Scales(InMemorySaver):
    """Weighs what it is given as LangGraph's SQLite saver stores it, and keeps none of it.

    It is good for one run of a new thread: there is nothing that could be read back. The versions
    of channels are those of LangGraph's own savers, whose length is in the figure.
    """

    def __init__(self) -> None:
        super().__init__()
        self.checkpoints = 0
        self.bytes = 0
        self._rows: set[tuple[str, str, int]] = set()

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Weigh a checkpoint with all its channels, and its metadata."""
        self.checkpoints += 1
        self._weigh(checkpoint)
        written = get_checkpoint_metadata(config, metadata)
        self.bytes += len(json.dumps(written, ensure_ascii=False).encode())
        return {"configurable": {**config["configurable"], "checkpoint_id": checkpoint["id"]}}

    def put_writes(
        self, config: Any, writes: Sequence[Any], task_id: str, task_path: str = ""
    ) -> None:
        """Weigh the updates of one task: those that are given again are stored already."""
        for index, (channel, value) in enumerate(writes):
            place = WRITES_IDX_MAP.get(channel, index)
            row = config["configurable"]["checkpoint_id"], task_id, place
            if row not in self._rows:
                self._rows.add(row)
                self._weigh(value)

    def _weigh(self, value: Any) -> None:
        self.bytes += len(self.serde.dumps_typed(value)[1])
