"""ThreadAgent: compiled agent that says what to write if the name of the thread is missing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, merge_configs
from langgraph.graph.state import CompiledStateGraph


class ThreadAgent(CompiledStateGraph[Any, Any, Any, Any]):
    """Compiled agent with a checkpointer; LangGraph's error about a missing thread gets a note.

    LangGraph's `invoke` and `ainvoke` call `stream` and `astream`.
    """

    def stream(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> Iterator[Any]:
        """Run and yield events."""
        events = super().stream(input, config, **options)
        return events if self.has_thread(config) else _explained(events)

    def astream(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> AsyncIterator[Any]:
        """Run and yield events, asynchronously."""
        events = super().astream(input, config, **options)
        return events if self.has_thread(config) else _aexplained(events)

    def has_thread(self, config: RunnableConfig | None) -> bool:
        """Whether a run needs no `thread_id`, or has one in its config or in the context."""
        if not self.checkpointer or "thread_id" in (config or {}).get("configurable", ()):
            return True
        return "thread_id" in ensure_config(merge_configs(self.config, config))["configurable"]


def _explained(events: Iterator[Any]) -> Iterator[Any]:
    with _thread_note():
        yield from events


async def _aexplained(events: Any) -> AsyncIterator[Any]:
    with _thread_note():
        async with aclosing(events):
            async for event in events:
                yield event


@contextmanager
def _thread_note() -> Iterator[None]:
    """Add a note to an error that a missing `thread_id` causes, in LangGraph or in a saver."""
    try:
        yield
    except (KeyError, ValueError) as error:
        if "thread_id" in str(error):
            error.add_note(
                "The agent has a checkpointer, so each run needs the name of its thread. Write "
                'agent.invoke(..., {"configurable": {"thread_id": "1"}}).'
            )
        raise
