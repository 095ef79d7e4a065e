"""Pauses of a run outside of any other run: LangGraph reports them to callback handlers."""

from __future__ import annotations

from langchain_core.callbacks import BaseCallbackManager, CallbackManager
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, merge_configs
from langgraph.callbacks import GraphCallbackHandler, GraphInterruptEvent
from langgraph.types import Interrupt


class PauseHandler(GraphCallbackHandler):
    """Notes the interrupts of a run. `interrupts` is None as long as the run is not paused."""

    run_inline = True  # an async run would call the handler in a thread

    def __init__(self) -> None:
        self.interrupts: tuple[Interrupt, ...] | None = None

    def on_interrupt(self, event: GraphInterruptEvent) -> None:
        """Note the interrupts of the run."""
        self.interrupts = event.interrupts


def with_handler(
    agent_config: RunnableConfig | None, config: RunnableConfig | None, handler: PauseHandler
) -> RunnableConfig:
    """Return the config of a run with a handler that the calls of the run do not inherit."""
    callbacks = ensure_config(merge_configs(agent_config, config)).get("callbacks")
    manager: BaseCallbackManager
    if isinstance(callbacks, BaseCallbackManager):
        manager = callbacks.copy()
    else:
        # Once as its handlers, once as the handlers of its children, as LangChain does.
        manager = CallbackManager([*(callbacks or ())], [*(callbacks or ())])
    manager.add_handler(handler, inherit=False)
    return {**(config or {}), "callbacks": manager}
