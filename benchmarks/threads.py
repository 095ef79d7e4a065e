"""Long threads in memory, and what it takes to read them and to go on with them."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from enum import StrEnum
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver

from benchmarks.harness import Contender
from benchmarks.runs import QUESTION, Entry, until_done
from benchmarks.savers import CONFIG, Mode
from benchmarks.scripted import FreeModel, history


class Read(StrEnum):
    """What is done with a thread."""

    STATE = "get_state"
    TURN = "one more turn"


@contextmanager
def readings(agents: Mapping[str, Entry], read: Read) -> Iterator[dict[str, Contender]]:
    """Contenders that each read a thread which their own agent has written."""
    with asyncio.Runner() as runner:
        contenders = {name: _reading(entry, read, runner) for name, entry in agents.items()}
        # To read so many messages makes so many objects that the garbage collector looks at all
        # there are, modules included: a third of the time, for whoever happens to be next.
        gc.collect()
        gc.freeze()
        try:
            yield contenders
        finally:
            gc.unfreeze()


def _reading(entry: Entry, read: Read, runner: asyncio.Runner) -> Contender:
    (factory, how), saver = entry, InMemorySaver()

    def agent(model: FreeModel) -> Any:
        members = factory.middleware(how.kind, how.number)
        return factory.create_agent(model, [how.tool], middleware=members, checkpointer=saver)

    def run(agent: Any, messages: list[Any]) -> Any:
        asked = {"messages": messages}
        if how.mode is Mode.SYNC:
            return agent.invoke(asked, CONFIG)
        return until_done(runner, agent.ainvoke(asked, CONFIG))

    # The first run adds a question, two messages a turn, and an answer.
    earlier = how.before - 2 * how.turns - 2
    run(agent(FreeModel(turns=how.turns, before=earlier)), [*history(earlier), QUESTION])
    reader = agent(FreeModel(turns=1, before=how.before))
    if read is Read.STATE:
        if how.mode is Mode.SYNC:
            return Contender(lambda: reader.get_state(CONFIG))
        return Contender(lambda: until_done(runner, reader.aget_state(CONFIG)))
    kept = deepcopy((saver.storage, saver.writes, saver.blobs))

    def restore() -> None:
        saver.storage, saver.writes, saver.blobs = deepcopy(kept)

    return Contender(lambda: run(reader, [QUESTION]), tidy=restore)
